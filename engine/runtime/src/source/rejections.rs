//! A bound on frames that were not admitted and are not in the ledger yet. Requests in flight bound all other messages to
//! the control thread; without this one a decoder that is faster than control would fill the memory with rejections, and
//! control would do nothing but count them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use weir_flow::StopFlag;

/// Rejections of all streams that may wait for the control thread: a short backlog for it.
const MAX_WAITING: usize = 1_024;

/// Time between two tries of a source that waits.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Counts the rejections that the ledger does not have yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct RejectionLimit(Arc<AtomicUsize>);

/// One such rejection; it is in the ledger when this is dropped.
#[derive(Debug)]
pub(crate) struct RejectionPermit(Arc<AtomicUsize>);

impl RejectionLimit {
    /// Waits while there are too many; `None` when the run stops meanwhile.
    pub(crate) fn acquire(&self, stop: &StopFlag) -> Option<RejectionPermit> {
        while self.0.load(Ordering::Relaxed) >= MAX_WAITING {
            if stop.is_raised() {
                return None;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        self.0.fetch_add(1, Ordering::Relaxed);
        Some(RejectionPermit(Arc::clone(&self.0)))
    }
}

impl Drop for RejectionPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_waits_for_the_ledger_and_stops_when_asked() {
        let (rejections, stop) = (RejectionLimit::default(), StopFlag::default());
        let mut waiting: Vec<RejectionPermit> = (0..MAX_WAITING)
            .filter_map(|_| rejections.acquire(&stop))
            .collect();
        assert_eq!(waiting.len(), MAX_WAITING);
        stop.raise();
        assert!(rejections.acquire(&stop).is_none());
        waiting.pop();
        assert!(rejections.acquire(&stop).is_some());
    }
}
