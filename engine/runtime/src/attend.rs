//! Waiting for what may not come back: work that cannot be interrupted (opening a FIFO, building a session) runs on a
//! thread of its own, and who waits for it goes on when the run is to stop or a limit is over. The thread is left behind
//! then and ends with the program.

use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, bounded};
use weir_flow::StopFlag;

use crate::clock::{Clock, duration};

/// How often it is looked whether the run is to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How long a wait may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// After the run was asked to stop.
    pub(crate) stopping: Duration,
    /// In all; `None`: as long as it takes.
    pub(crate) total: Option<Duration>,
}

/// What became of the work.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Attended<T> {
    Done(T),
    /// The run was asked to stop, and the work did not end.
    Stopped,
    /// It took too long.
    TimedOut,
}

/// Runs `work` on a thread called `name` and waits for it within `limits`. A panic of the work goes on here.
///
/// # Errors
/// Where the machine gives no thread.
pub(crate) fn attend<T: Send + 'static>(
    name: &str,
    clock: Clock,
    stop: &StopFlag,
    limits: Limits,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<Attended<T>> {
    let (sender, receiver) = bounded(1);
    let builder = std::thread::Builder::new().name(name.to_owned());
    let thread = builder.spawn(move || {
        // Nobody listens any more where it took too long.
        let _ = sender.send(work());
    })?;
    let began = clock.now();
    let mut stopped_at = None;
    loop {
        match receiver.recv_timeout(POLL_INTERVAL) {
            Ok(result) => return Ok(Attended::Done(result)),
            Err(RecvTimeoutError::Disconnected) => match thread.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => return Ok(Attended::Stopped),
            },
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = clock.now();
        if stop.is_raised() {
            let since = *stopped_at.get_or_insert(now);
            if duration(now.since(since)) >= limits.stopping {
                tracing::error!("the thread {name} does not end and is left behind");
                return Ok(Attended::Stopped);
            }
        }
        if limits
            .total
            .is_some_and(|total| duration(now.since(began)) >= total)
        {
            tracing::error!("the thread {name} does not end and is left behind");
            return Ok(Attended::TimedOut);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: Limits = Limits {
        stopping: Duration::ZERO,
        total: None,
    };

    #[test]
    fn work_that_ends_gives_its_result_and_work_that_hangs_is_left_behind() {
        let (clock, stop) = (Clock::start(), StopFlag::default());
        let done = attend("done", clock, &stop, NEVER, || 7).unwrap();
        assert_eq!(done, Attended::Done(7));
        let (release, until) = bounded::<()>(0);
        let hang = move || {
            let _ = until.recv();
        };
        let limits = Limits {
            total: Some(Duration::ZERO),
            ..NEVER
        };
        assert_eq!(
            attend("hangs", clock, &stop, limits, hang.clone()).unwrap(),
            Attended::TimedOut
        );
        stop.raise();
        assert_eq!(
            attend("hangs", clock, &stop, NEVER, hang).unwrap(),
            Attended::Stopped
        );
        drop(release);
    }
}
