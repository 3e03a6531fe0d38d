//! Ctrl-C, being asked to terminate, and a terminal that is closed: once to stop cleanly (files are finished, requests
//! accounted for), twice to leave at once. The limits of a process (`ulimit`) count as well: one on the time of processors
//! as being asked once, one on the size of files as an error of the file that is too large.

use std::time::Duration;

use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};
use weir_flow::StopFlag;

use crate::output;

/// What a shell expects of a program that was interrupted.
const INTERRUPTED: i32 = 130;

/// Signals within this time are one request: a terminal or `timeout` may signal the program and its group, and so the
/// program twice.
const SAME_REQUEST: Duration = Duration::from_millis(500);

/// Watches for Ctrl-C (SIGINT), for being asked to terminate (SIGTERM) and for the end of the terminal (SIGHUP), on a
/// thread of its own. The first raises `stop` and is answered with `words`; a second one ends the process with exit code
/// 130.
///
/// # Errors
/// Where the machine gives no thread.
pub fn watch(stop: &StopFlag, words: &'static str) -> anyhow::Result<()> {
    watch_with(stop, words, None)
}

/// As [`watch`], but SIGHUP asks for something else, each time: a service reloads on it.
///
/// # Errors
/// As [`watch`].
pub fn watch_serving(
    stop: &StopFlag,
    words: &'static str,
    on_hangup: impl Fn() + Send + 'static,
) -> anyhow::Result<()> {
    watch_with(stop, words, Some(Box::new(on_hangup)))
}

/// What SIGHUP asks for.
type OnHangup = Box<dyn Fn() + Send>;

fn watch_with(stop: &StopFlag, words: &'static str, on_hangup: Option<OnHangup>) -> anyhow::Result<()> {
    let stop = stop.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (ready, registered) = std::sync::mpsc::channel::<()>();
    std::thread::Builder::new()
        .name("weir-signals".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                let Ok(mut signals) = Signals::register(on_hangup.is_some()) else {
                    return;
                };
                drop(ready);
                match on_hangup {
                    None => signals.any().await,
                    Some(on_hangup) => signals.any_but_hangup(on_hangup).await,
                }
                stop.raise();
                output::remark(words);
                let repeated = async {
                    loop {
                        signals.any().await;
                    }
                };
                // It ends by the time-out alone.
                let _: Result<(), _> = tokio::time::timeout(SAME_REQUEST, repeated).await;
                signals.by_hand().await;
                std::process::exit(INTERRUPTED);
            });
        })?;
    // A signal from now on is seen: the other end is dropped once they are watched for, or cannot be.
    let _ = registered.recv();
    Ok(())
}

/// The signals that ask a program to stop.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// None where the program outlives its terminal, and where it asks for something else.
    hangup: Option<Signal>,
    /// Where it does.
    reload: Option<Signal>,
    /// The limit on the time of processors; the kernel repeats it each second.
    spent: Option<Signal>,
    /// A limit that is reached would end the program on the spot; with a handler, writing fails instead.
    _too_large: Option<Signal>,
}

impl Signals {
    fn register(reloads: bool) -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            reload: if reloads {
                Some(signal(SignalKind::hangup())?)
            } else {
                None
            },
            hangup: if reloads || outlives_terminal() {
                None
            } else {
                signal(SignalKind::hangup()).ok()
            },
            spent: signal(SignalKind::from_raw(Number::XCPU.as_raw())).ok(),
            _too_large: signal(SignalKind::from_raw(Number::XFSZ.as_raw())).ok(),
        })
    }

    /// Comes back at the next signal.
    async fn any(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = received(&mut self.hangup) => {}
            () = received(&mut self.spent) => {}
        }
    }

    /// Comes back at the next signal but SIGHUP, which is answered by `on_hangup` meanwhile.
    async fn any_but_hangup(&mut self, on_hangup: OnHangup) {
        let mut reload = self.reload.take();
        loop {
            tokio::select! {
                () = self.any() => break,
                () = received(&mut reload) => on_hangup(),
            }
        }
        self.reload = reload;
    }

    /// Comes back at the next signal that is no limit.
    async fn by_hand(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = received(&mut self.hangup) => {}
        }
    }
}

/// Comes back when the signal came; never where it is not watched for.
async fn received(watched: &mut Option<Signal>) {
    match watched {
        Some(watched) => {
            watched.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Whether the program was started so that the end of its terminal leaves it alone, as `nohup` does: watching for the
/// signal would undo that.
fn outlives_terminal() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores(&status, 1))
}

/// Whether the `SigIgn` of `/proc/PID/status` has the signal of that number.
fn ignores(status: &str, signal: u32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_bits_counted_from_one() {
        let status = "Name:\tweir\nSigIgn:\t0000000000001001\n";
        assert!(ignores(status, 1) && ignores(status, 13));
        assert!(!ignores(status, 2) && !ignores("", 1));
    }
}
