//! Ctrl-C, being asked to terminate, and a terminal that is closed: once to stop cleanly (files are finished, requests
//! accounted for), twice to leave at once. The limits of a process (`ulimit`) count as well: one on the time of processors
//! as being asked once, one on the size of files as an error of the file that is too large.

use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};
use weir_flow::StopFlag;
use weir_runtime::Clock;
use weir_types::Span;

use crate::output;

/// What a shell expects of a program that was interrupted.
const INTERRUPTED: i32 = 130;

/// Signals within this time are one request: a terminal or `timeout` may tell the program and its group, and so tell it
/// twice.
const SAME: Span = Span::from_millis(500);

/// Watches for Ctrl-C (SIGINT), for being asked to terminate (SIGTERM) and for the end of the terminal (SIGHUP), on a
/// thread of its own.
///
/// # Errors
/// Where the machine gives no thread.
pub(crate) fn watch(stop: &StopFlag) -> anyhow::Result<()> {
    watch_saying(
        stop,
        "stopping: what is in flight comes out; once more to leave at once",
    )
}

/// As [`watch`], with what is said at the first.
///
/// # Errors
/// Where the machine gives no thread.
pub(crate) fn watch_saying(stop: &StopFlag, words: &'static str) -> anyhow::Result<()> {
    let stop = stop.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (ready, registered) = std::sync::mpsc::channel::<()>();
    std::thread::Builder::new()
        .name("weir-signals".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                let (Ok(mut interrupt), Ok(mut terminate)) =
                    (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
                else {
                    return;
                };
                // A limit that is reached would end the program on the spot; with a handler, writing fails instead.
                let _too_large = signal(SignalKind::from_raw(Number::XFSZ.as_raw()));
                let mut spent = signal(SignalKind::from_raw(Number::XCPU.as_raw())).ok();
                let mut hangup = if outlives_terminal() {
                    None
                } else {
                    signal(SignalKind::hangup()).ok()
                };
                drop(ready);
                // The flag itself is also raised when the time of a run is up.
                let clock = Clock::start();
                let mut asked = None;
                loop {
                    tokio::select! {
                        _ = interrupt.recv() => {}
                        _ = terminate.recv() => {}
                        () = received(&mut hangup) => {}
                        // It comes again each second.
                        () = received(&mut spent) => if asked.is_some() { continue },
                    }
                    let now = clock.now();
                    match asked {
                        Some(first) if now.since(first) >= SAME => std::process::exit(INTERRUPTED),
                        Some(_) => continue,
                        None => asked = Some(now),
                    }
                    stop.raise();
                    output::remark(words);
                }
            });
        })?;
    // A signal from now on is seen: the other end is dropped once they are watched for, or cannot be.
    let _ = registered.recv();
    Ok(())
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
