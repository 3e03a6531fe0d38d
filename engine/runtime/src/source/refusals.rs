//! A bound on frames that were refused at the gate and are not in the books yet. Requests in flight bound all other
//! messages to the control thread; without this one a decoder that is faster than control would fill the memory with
//! refusals, and control would do nothing but count them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use weir_flow::StopFlag;

/// Refusals of all streams that may wait for the control thread: a moment's work for it.
const MAX_WAITING: usize = 1_024;

/// How long a source waits until it looks again.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Counts refusals on their way.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refusals(Arc<AtomicUsize>);

/// A refusal on its way; it has arrived when this is dropped.
#[derive(Debug)]
pub(crate) struct Refusal(Arc<AtomicUsize>);

impl Refusals {
    /// Waits while too many are on their way; `None` when the run stops meanwhile.
    pub(crate) fn take(&self, stop: &StopFlag) -> Option<Refusal> {
        while self.0.load(Ordering::Relaxed) >= MAX_WAITING {
            if stop.is_raised() {
                return None;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        self.0.fetch_add(1, Ordering::Relaxed);
        Some(Refusal(Arc::clone(&self.0)))
    }
}

impl Drop for Refusal {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_waits_for_the_books_and_stops_when_asked() {
        let (refusals, stop) = (Refusals::default(), StopFlag::default());
        let mut waiting: Vec<Refusal> = (0..MAX_WAITING).filter_map(|_| refusals.take(&stop)).collect();
        assert_eq!(waiting.len(), MAX_WAITING);
        stop.raise();
        assert!(refusals.take(&stop).is_none());
        waiting.pop();
        assert!(refusals.take(&stop).is_some());
    }
}
