//! Bounded waits for work that may hang: work that cannot be interrupted (opening a FIFO, building a session) runs on a
//! thread of its own, and the wait ends when the run stops or a limit is over. The thread is left behind then and ends
//! with the program.

use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, bounded};
use weir_flow::StopFlag;

use crate::clock::{Clock, duration};

/// Time between two looks whether the run stops.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Limits of a wait; the wait ends at the first that is reached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitLimits {
    /// After the run was asked to stop.
    pub(crate) after_stop: Duration,
    /// In all; `None`: without a limit.
    pub(crate) total: Option<Duration>,
}

/// Outcome of a bounded wait.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BoundedOutcome<T> {
    Done(T),
    /// The run was asked to stop, and the work did not end.
    Stopped,
    /// It took longer than the limit in all.
    TimedOut,
}

/// Runs `work` on a thread called `name` and waits for it within `limits`. A panic of the work is resumed here.
///
/// # Errors
/// Where the machine gives no thread.
pub(crate) fn run_bounded<T: Send + 'static>(
    name: &str,
    clock: Clock,
    stop: &StopFlag,
    limits: WaitLimits,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<BoundedOutcome<T>> {
    let (sender, receiver) = bounded(1);
    let builder = std::thread::Builder::new().name(name.to_owned());
    let thread = builder.spawn(move || {
        // There is no receiver any more where it took too long.
        let _ = sender.send(work());
    })?;
    let began = clock.now();
    let mut stopped_at = None;
    loop {
        match receiver.recv_timeout(POLL_INTERVAL) {
            Ok(result) => return Ok(BoundedOutcome::Done(result)),
            Err(RecvTimeoutError::Disconnected) => match thread.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => return Ok(BoundedOutcome::Stopped),
            },
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = clock.now();
        if stop.is_raised() {
            let since = *stopped_at.get_or_insert(now);
            if duration(now.since(since)) >= limits.after_stop {
                tracing::error!("the thread {name} does not end and is left behind");
                return Ok(BoundedOutcome::Stopped);
            }
        }
        if limits
            .total
            .is_some_and(|total| duration(now.since(began)) >= total)
        {
            tracing::error!("the thread {name} does not end and is left behind");
            return Ok(BoundedOutcome::TimedOut);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: WaitLimits = WaitLimits {
        after_stop: Duration::ZERO,
        total: None,
    };

    #[test]
    fn work_that_ends_gives_its_result_and_work_that_hangs_is_left_behind() {
        let (clock, stop) = (Clock::start(), StopFlag::default());
        let done = run_bounded("done", clock, &stop, NEVER, || 7).unwrap();
        assert_eq!(done, BoundedOutcome::Done(7));
        let (release, until) = bounded::<()>(0);
        let hang = move || {
            let _ = until.recv();
        };
        let limits = WaitLimits {
            total: Some(Duration::ZERO),
            ..NEVER
        };
        assert_eq!(
            run_bounded("hangs", clock, &stop, limits, hang.clone()).unwrap(),
            BoundedOutcome::TimedOut
        );
        stop.raise();
        assert_eq!(
            run_bounded("hangs", clock, &stop, NEVER, hang).unwrap(),
            BoundedOutcome::Stopped
        );
        drop(release);
    }
}
