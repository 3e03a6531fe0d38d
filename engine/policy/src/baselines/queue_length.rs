//! A fixed queue length: the admission control of a server without deadlines or durations.
//!
//! `items > max_items`, over the items that wait in the request's mailbox, its own included. The rule is
//! checked when a request's turn comes, so the queue is cut at the end that is served first: with `fcfs` the
//! oldest requests are dropped. It bounds the wait behind a request; comparing it shows the gain from
//! estimating latency.

use serde::{Deserialize, Serialize};
use weir_types::DropReason;

use crate::admission::{AdmissionRule, BatchView, Candidate};

/// Drops while more items wait than are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueLength {
    /// Items that may wait in a mailbox; 0 drops every request that has any.
    pub max_items: u64,
}

impl Default for QueueLength {
    fn default() -> Self {
        Self { max_items: 64 }
    }
}

impl AdmissionRule for QueueLength {
    fn verdict(&self, _: &Candidate, batch: &BatchView) -> Option<DropReason> {
        (batch.waiting_items > self.max_items).then_some(DropReason::Shed)
    }
}

#[cfg(test)]
mod tests {
    use weir_types::{Span, StreamId, Timestamp};

    use super::*;
    use crate::strategy::{BatchAdmission, Policy};

    #[test]
    fn requests_are_shed_while_the_queue_is_too_long() {
        let check = |max_items: u64, waiting_items: u64, expected: Option<DropReason>| {
            let request = Candidate {
                sent_at: Timestamp::ZERO,
                arrived_at: Timestamp::ZERO,
                stream: StreamId(0),
            };
            // Far too late: only the queue counts.
            let batch = BatchView {
                slo: Span::from_millis(100),
                start: Timestamp::ZERO + Span::from_secs(10),
                duration: Span::from_millis(40),
                downstream: Span::ZERO,
                own_share: Span::from_millis(100),
                share_up_to_here: Span::from_millis(100),
                waiting_items,
            };
            let verdict = QueueLength { max_items }.verdict(&request, &batch);
            assert_eq!(verdict, expected, "{waiting_items} of {max_items}");
        };
        check(64, 1, None);
        check(64, 64, None);
        check(64, 65, Some(DropReason::Shed));
        check(1, 1, None);
        check(1, 2, Some(DropReason::Shed));
        check(0, 1, Some(DropReason::Shed));
    }

    #[test]
    fn the_length_is_read_from_a_policy() {
        let check = |text: &str, expected: Option<u64>| {
            let admission = toml::from_str::<Policy>(text).map(|policy| policy.admission);
            let rule = expected.map(|max_items| BatchAdmission::QueueLength(QueueLength { max_items }));
            assert_eq!(admission.ok(), rule.map(Some), "{text}");
        };
        check("admission = \"queue-length\"", Some(64));
        check("admission = { rule = \"queue-length\", max_items = 8 }", Some(8));
        check("admission = { rule = \"queue-length\", max_items = -1 }", None);
        check("admission = { rule = \"queue-length\", items = 8 }", None);
    }
}
