//! When a device that was slow is tried again: durations follow what is measured, and where nothing would be in time by
//! them nothing runs, so nothing would be measured any more.

use crate::time::{Span, Timestamp};

/// Since when somebody was let go because he would not make it, and nothing ran.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Vain(Option<Timestamp>);

impl Vain {
    /// So long that is believed.
    const MOST: Span = Span::from_secs(2);

    /// Somebody was let go because he would not make it; says whether what was measured is to be forgotten.
    pub(crate) fn gave_up(&mut self, now: Timestamp) -> bool {
        let since = *self.0.get_or_insert(now);
        let enough = now.since(since) >= Self::MOST;
        if enough {
            self.0 = None;
        }
        enough
    }

    /// Something runs: it will be measured.
    pub(crate) fn ran(&mut self) {
        self.0 = None;
    }
}
