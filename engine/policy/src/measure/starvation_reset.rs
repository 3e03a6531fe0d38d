//! When a device that was slow is tried again: durations follow what is measured, and where nothing would be in time by
//! them nothing runs, so nothing would be measured any more.

use weir_types::{Span, Timestamp};

/// Since when somebody was let go because he would not make it, and nothing ran.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StarvationReset(Option<Timestamp>);

impl StarvationReset {
    /// So long that is believed.
    const TIMEOUT: Span = Span::from_secs(2);

    /// Somebody was let go because he would not make it; says whether what was measured is to be forgotten.
    pub(crate) fn on_drop(&mut self, now: Timestamp) -> bool {
        let since = *self.0.get_or_insert(now);
        let enough = now.since(since) >= Self::TIMEOUT;
        if enough {
            self.0 = None;
        }
        enough
    }

    /// Something runs: it will be measured.
    pub(crate) fn on_run(&mut self) {
        self.0 = None;
    }
}
