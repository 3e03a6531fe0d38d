//! Nexus (SOSP 2019), early drop: only the present module counts, by batches as they are planned.
//!
//! As PARD describes it (5.1), a window of a batch slides over the queue in arrival order. It stops at the
//! first position at which every request in it can be done by its deadline; all requests before that position
//! are dropped. In its published code, the queue is ordered by deadline, and a request is dropped if it
//! cannot be done by the end of a batch of the planned size.

use serde::{Deserialize, Serialize};
use weir_types::{DropReason, Span, Timestamp};

use crate::admission::{AdmissionRule, BatchView, Candidate};

/// Parameters of rule `nexus`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NexusScan {
    /// Order in which the queue is scanned.
    pub scan: ScanBy,
}

/// Order in which Nexus scans its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScanBy {
    /// A window of a batch slides over it in arrival order (as PARD describes it).
    #[default]
    Window,
    /// Requests by deadline; each is dropped that cannot be done by the end of a batch of the planned size
    /// (as in the published code).
    Deadline,
}

impl AdmissionRule for NexusScan {
    fn verdict(&self, request: &Candidate, batch: &BatchView) -> Option<DropReason> {
        let finish = batch.start.since(request.sent_at) + batch.duration;
        match self.scan {
            // The window has dropped all infeasible requests before.
            ScanBy::Window => None,
            ScanBy::Deadline => (finish > batch.slo).then_some(DropReason::Infeasible),
        }
    }

    fn assumes_planned_batch(&self) -> bool {
        true
    }

    fn drops_at_head(
        &self,
        deadlines: &mut dyn Iterator<Item = Timestamp>,
        size: usize,
        start: Timestamp,
        duration: Span,
    ) -> Option<usize> {
        (self.scan == ScanBy::Window).then(|| passed_by_window(deadlines, size, start, duration))
    }
}

/// Number of requests that a window of `size` passes before all in it can be done by their deadlines.
fn passed_by_window(
    deadlines: impl IntoIterator<Item = Timestamp>,
    size: usize,
    start: Timestamp,
    duration: Span,
) -> usize {
    let done = start + duration;
    // A request that is too late moves the window behind itself.
    let mut first = 0;
    for (place, deadline) in deadlines.into_iter().enumerate() {
        if place >= first + size.max(1) {
            break;
        }
        if deadline < done {
            first = place + 1;
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_stops_where_all_in_it_can_be_done() {
        let check = |deadlines_ms: &[u64], window, passed| {
            let deadlines = deadlines_ms
                .iter()
                .map(|&ms| Timestamp::ZERO + Span::from_millis(ms));
            let found = passed_by_window(deadlines, window, Timestamp::ZERO, Span::from_millis(50));
            assert_eq!(found, passed, "{deadlines_ms:?} by {window}");
        };
        check(&[], 4, 0);
        check(&[60, 70, 80], 2, 0);
        check(&[10, 60, 70], 2, 1);
        check(&[60, 10, 70, 80], 2, 2);
        check(&[60, 60, 10, 80], 2, 0);
        check(&[10, 20, 30], 2, 3);
    }
}
