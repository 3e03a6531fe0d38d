//! Retry of what was slow. Estimates follow measurements; if by them every request is infeasible, nothing runs and nothing is
//! measured again. So where nothing has run for a while and something is dropped as infeasible, what was measured is forgotten,
//! and until the next batch the rest is on trial: it is judged by what is known without measurements.

use weir_types::{Span, Timestamp};

/// Since when nothing ran, and whether what comes is on trial.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StarvationReset {
    /// The last batch, or the first drop where there was none.
    since: Option<Timestamp>,
    on_trial: bool,
}

impl StarvationReset {
    /// The most time without a batch after which measurements are reset.
    pub(crate) const MAX_PATIENCE: Span = Span::from_secs(2);
    /// The least.
    const MIN_PATIENCE: Span = Span::from_millis(500);
    /// Batches are tried so seldom that slots that are as slow as they seem are taken up for a tenth of their time.
    const BATCHES: u64 = 10;

    /// How long to wait with batches that seem to take `expected`.
    pub(crate) fn patience(expected: Span) -> Span {
        (expected * Self::BATCHES).clamp(Self::MIN_PATIENCE, Self::MAX_PATIENCE)
    }

    /// A request was dropped as infeasible while nothing ran; returns whether measurements are to be reset.
    pub(crate) fn on_drop(&mut self, now: Timestamp, patience: Span) -> bool {
        let since = *self.since.get_or_insert(now);
        let enough = now.since(since) >= patience;
        if enough {
            (self.since, self.on_trial) = (Some(now), true);
        }
        enough
    }

    /// A batch runs, and will be measured.
    pub(crate) fn on_run(&mut self, now: Timestamp) {
        (self.since, self.on_trial) = (Some(now), false);
    }

    /// Whether the next batch is judged without measurements.
    pub(crate) fn is_on_trial(&self) -> bool {
        self.on_trial
    }
}
