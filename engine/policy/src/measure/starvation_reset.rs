//! Reset of measurements after starvation. Estimates follow measurements; if they make every request
//! infeasible, no batch runs and nothing is measured again. So if a request is dropped as infeasible and no
//! batch has run for a while, all measurements are dropped. Until the next batch, requests are on trial: they
//! are judged by profiles alone.

use weir_types::{Span, Timestamp};

/// Time without a batch, and whether requests are on trial.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StarvationReset {
    /// Time of the last batch, or of the first drop if there was none.
    since: Option<Timestamp>,
    on_trial: bool,
}

impl StarvationReset {
    /// Maximum time without a batch after which measurements are reset.
    pub(crate) const MAX_PATIENCE: Span = Span::from_secs(2);
    /// Minimum of that time, for short batches.
    const MIN_PATIENCE: Span = Span::from_millis(500);
    /// Patience in batches: slots that really are as slow as measured spend at most a tenth of their time on
    /// trial batches.
    const BATCHES: u64 = 10;

    /// Time without a batch after which measurements are reset, for batches with an expected duration of
    /// `expected`.
    pub(crate) fn patience(expected: Span) -> Span {
        (expected * Self::BATCHES).clamp(Self::MIN_PATIENCE, Self::MAX_PATIENCE)
    }

    /// A request was dropped as infeasible while no batch ran; returns whether measurements must be reset.
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

    /// Whether the next batch is judged without measurements, by profiles alone.
    pub(crate) fn is_on_trial(&self) -> bool {
        self.on_trial
    }
}
