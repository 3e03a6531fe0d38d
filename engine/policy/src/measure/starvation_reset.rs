//! Retry of a device that was slow. Durations follow measurements; if by them every request is infeasible, nothing runs and
//! nothing is measured again, so the measurements are reset after a while.

use weir_types::{Span, Timestamp};

/// The first infeasible drop since the last batch that ran.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StarvationReset(Option<Timestamp>);

impl StarvationReset {
    /// Time without a batch after which measurements are reset.
    const TIMEOUT: Span = Span::from_secs(2);

    /// A request was dropped as infeasible; returns whether measurements are to be reset.
    pub(crate) fn on_drop(&mut self, now: Timestamp) -> bool {
        let since = *self.0.get_or_insert(now);
        let enough = now.since(since) >= Self::TIMEOUT;
        if enough {
            self.0 = None;
        }
        enough
    }

    /// A batch runs, and will be measured.
    pub(crate) fn on_run(&mut self) {
        self.0 = None;
    }
}
