//! Number of items that a stage waits for before it runs a batch (KEN 4.3.3, `bs`). Larger batches take less
//! time an item; if the load needs that, a batch that runs at once with the items present wastes capacity.
//!
//! ```text
//! ready = as soon as `items` wait, or
//!         min(since + wait, since + (latest start - since) / 2)
//! ```
//!
//! `since` is the arrival of the most urgent item. The paper has no time limit, so the last items before a
//! pause would wait forever. Here every request has a deadline, and at most half of the remaining time is
//! spent waiting.

use serde::{Deserialize, Serialize};
use weir_types::{Span, Timestamp};

/// Number of items to wait for, with a time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvocationSize {
    /// Number of items, at least 1; a batch that is full runs anyway.
    pub items: u32,
    /// Maximum time to wait after the arrival of the most urgent item.
    pub wait: Span,
}

impl Default for InvocationSize {
    /// No waiting: a batch runs with its first item.
    fn default() -> Self {
        Self {
            items: 1,
            wait: Span::ZERO,
        }
    }
}

impl InvocationSize {
    /// Time at which a batch may run if no further items arrive. `waiting` items wait, and a batch holds at
    /// most `batch`. The most urgent item arrived at `since`, and must run by `latest_start`.
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
