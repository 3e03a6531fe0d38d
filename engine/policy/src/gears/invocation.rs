//! For how many items a stage waits before it runs a batch (KEN 4.3.3, `bs`): larger batches take less time an item, and where the
//! load needs that, a batch that runs at once with what is there wastes it.
//!
//! ```text
//! ready = as soon as `items` wait, or
//!         min(since + wait, since + (latest start - since) / 2)
//! ```
//!
//! `since` is when the most urgent of them arrived. The paper has no bound in time: the last items before a lull would wait for
//! ever, and here every request has a deadline, of which half of what is left for waiting stays.

use serde::{Deserialize, Serialize};
use weir_types::{Span, Timestamp};

/// What a stage waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvocationSize {
    /// Items, at least 1.
    pub items: u32,
    /// No longer than this.
    pub wait: Span,
}

impl Default for InvocationSize {
    /// It waits for nothing.
    fn default() -> Self {
        Self {
            items: 1,
            wait: Span::ZERO,
        }
    }
}

impl InvocationSize {
    /// When a batch may run if nothing more comes, where `waiting` items wait, and a batch holds no more than `batch`. The most
    /// urgent of them arrived at `since`, and must run by `latest_start`.
    #[must_use]
    pub fn ready_at(self, waiting: u64, batch: u32, since: Timestamp, latest_start: Timestamp) -> Timestamp {
        if waiting >= u64::from(self.items.min(batch)) {
            return since;
        }
        since + self.wait.min(latest_start.since(since) / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs_with_enough_items_or_in_time() {
        let at = |ms: u64| Timestamp::from_micros(ms * 1_000);
        let size = InvocationSize {
            items: 4,
            wait: Span::from_millis(20),
        };
        let ready = |waiting, batch, latest_start| size.ready_at(waiting, batch, at(100), at(latest_start));
        assert_eq!(ready(1, 8, 1_000), at(120), "no longer than it is to wait");
        assert_eq!(ready(4, 8, 1_000), at(100));
        assert_eq!(ready(2, 2, 1_000), at(100), "a batch holds no more");
        assert_eq!(ready(1, 8, 110), at(105), "half of its time is left");
        assert_eq!(ready(1, 8, 90), at(100), "there is none");
        assert_eq!(
            InvocationSize::default().ready_at(1, 8, at(100), at(1_000)),
            at(100)
        );
    }
}
