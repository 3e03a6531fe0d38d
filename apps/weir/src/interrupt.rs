//! Ctrl-C: once to stop cleanly (files are finished, requests accounted for), twice to leave at once.

use tokio::signal::unix::{SignalKind, signal};
use weir_flow::StopFlag;
use weir_policy::Span;
use weir_runtime::Clock;

use crate::output;

/// What a shell expects of a program that was interrupted.
const INTERRUPTED: i32 = 130;

/// Signals within this time are one request: a terminal or `timeout` may tell the program and its group, and so tell it
/// twice.
const SAME: Span = Span::from_millis(500);

/// Watches for Ctrl-C and for being asked to terminate, on a thread of its own.
///
/// # Errors
/// Where the machine gives no thread.
pub(crate) fn watch(stop: &StopFlag) -> anyhow::Result<()> {
    watch_saying(
        stop,
        "stopping: what is under way comes out; once more to leave at once",
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
                drop(ready);
                // The flag itself is also raised when the time of a run is up.
                let clock = Clock::start();
                let mut asked = None;
                loop {
                    tokio::select! {
                        _ = interrupt.recv() => {}
                        _ = terminate.recv() => {}
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
