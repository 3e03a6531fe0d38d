//! Signals that stop a program: Ctrl-C, SIGTERM, and the end of its terminal. The first one asks for a clean
//! end (files are finished, requests accounted for), the second one ends the process at once. Resource limits
//! (`ulimit`) count as well: the limit on processor time as the first signal, the limit on file size as a
//! write error of the file.

use std::time::Duration;

use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};
use weir_flow::StopFlag;

use crate::output;

/// Exit code of an interrupted program, by the convention of shells: 128 + SIGINT (2).
const INTERRUPTED: i32 = 130;

/// Signals within this time count as one: a terminal or `timeout` may signal the program and its process
/// group, so that the program receives two.
const SAME_REQUEST: Duration = Duration::from_millis(500);

/// Watches for SIGINT (Ctrl-C), SIGTERM and SIGHUP (end of the terminal) on a thread of its own. The first
/// one raises `stop` and prints `words`; a second one ends the process with exit code 130.
///
/// # Errors
/// The thread cannot be started.
pub fn watch(stop: &StopFlag, words: &'static str) -> anyhow::Result<()> {
    watch_with(stop, words, None)
}

/// As [`watch`], but each SIGHUP calls `on_hangup` instead: a service reloads on it.
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

/// Callback for SIGHUP, in programs that reload on it instead of stopping.
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
    /// SIGHUP as a request to stop; `None` if the program outlives its terminal (`nohup`) or reloads on
    /// SIGHUP.
    hangup: Option<Signal>,
    /// SIGHUP as a request to reload; `None` in programs that do not reload.
    reload: Option<Signal>,
    /// SIGXCPU: the limit on processor time is reached; the kernel repeats it each second.
    spent: Option<Signal>,
    /// SIGXFSZ: it would end the program when a file reaches the limit; with a handler the write fails
    /// instead.
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

    /// Returns at the next signal.
    async fn any(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = received(&mut self.hangup) => {}
            () = received(&mut self.spent) => {}
        }
    }

    /// Returns at the next signal but SIGHUP; until then, each SIGHUP calls `on_hangup`.
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

    /// Returns at the next signal that does not come from a resource limit.
    async fn by_hand(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = received(&mut self.hangup) => {}
        }
    }
}

/// Returns when the signal arrives; never returns for a signal that is not watched.
async fn received(watched: &mut Option<Signal>) {
    match watched {
        Some(watched) => {
            watched.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// True if the program was started so that it ignores the end of its terminal, as with `nohup`; watching for
/// SIGHUP would undo that.
fn outlives_terminal() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores(&status, 1))
}

/// True if the mask `SigIgn` of `/proc/PID/status` contains the signal with this number.
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
