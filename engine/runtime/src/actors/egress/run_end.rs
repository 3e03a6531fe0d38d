//! The end of a run: first it is idle, then all modules report their counts, and with these it ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::sinks::SinkRoute;
use crate::actors::stream_table::EgressCounts;

/// Final counts and the sinks of a run, sent once all modules have reported their counts.
pub(crate) struct RunEnded {
    pub(crate) counts: EgressCounts,
    /// All sinks; those that no graph has any more show nothing.
    pub(crate) sinks: Vec<SinkRoute>,
    /// Numbers of the streams by name.
    pub(crate) streams: BTreeMap<Arc<str>, u32>,
}

/// Signals each of the two steps once.
pub(super) struct RunEnd {
    /// Whether the run goes on while it has no stream.
    until_stopped: bool,
    idle: Option<oneshot::Sender<()>>,
    ended: Option<oneshot::Sender<RunEnded>>,
}

impl RunEnd {
    pub(super) fn new(
        until_stopped: bool,
        idle: oneshot::Sender<()>,
        ended: oneshot::Sender<RunEnded>,
    ) -> Self {
        Self {
            until_stopped,
            idle: Some(idle),
            ended: Some(ended),
        }
    }

    /// The run ends once all streams have ended, if it did not do so before.
    pub(super) fn end_when_idle(&mut self) {
        self.until_stopped = false;
    }

    /// Whether the run ends as soon as it is idle, and was not idle yet.
    pub(super) fn awaits_idle(&self) -> bool {
        !self.until_stopped && !self.was_idle()
    }

    /// Whether it was signalled that the run is idle.
    pub(super) fn was_idle(&self) -> bool {
        self.idle.is_none()
    }

    /// All streams have ended, and nothing is in flight.
    pub(super) fn on_idle(&mut self) {
        if let Some(idle) = self.idle.take() {
            // There is no receiver where the run failed meanwhile.
            let _ = idle.send(());
        }
    }

    /// Takes the receiver of the counts; `None` if they were sent.
    pub(super) fn take_ended(&mut self) -> Option<oneshot::Sender<RunEnded>> {
        self.ended.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_until_stopped_awaits_idle_only_after_the_stop() {
        let ((idle, mut idle_signal), (ended, _ended_signal)) = (oneshot::channel(), oneshot::channel());
        let mut run_end = RunEnd::new(true, idle, ended);
        assert!(!run_end.awaits_idle() && !run_end.was_idle());
        run_end.end_when_idle();
        assert!(run_end.awaits_idle() && idle_signal.try_recv().is_err());
        run_end.on_idle();
        assert_eq!(idle_signal.try_recv(), Ok(()));
        assert!(run_end.was_idle() && !run_end.awaits_idle());
        assert!(run_end.take_ended().is_some() && run_end.take_ended().is_none());
    }
}
