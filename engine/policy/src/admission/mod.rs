//! Admission to a batch: whether a request that is about to join one is dropped instead (PARD 4.2, the request broker).
//!
//! Each rule is a value in its own file ([`crate::pard::predictive`], [`crate::baselines`]). To add a rule,
//! add a file with a type that implements [`AdmissionRule`], and a line in the list of
//! `strategy/admissions.rs`.

use weir_types::{DropReason, Span, StreamId, Timestamp};

/// Facts about a request that may join a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Time at which it was sent, `t_s`.
    pub sent_at: Timestamp,
    /// Time at which it reached this module, `t_r`.
    pub arrived_at: Timestamp,
    /// Stream that the request belongs to.
    pub stream: StreamId,
}

/// Facts about the batch that a request may join, and about the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchView {
    /// Latency objective of the request.
    pub slo: Span,
    /// Expected start of the batch, `t_e`.
    pub start: Timestamp,
    /// Expected duration of the batch, `d_k`.
    pub duration: Span,
    /// Estimated latency of the request downstream of this module.
    pub downstream: Span,
    /// This module's own share of the objective.
    pub own_share: Span,
    /// Sum of the shares of all modules up to this one, along its longest path.
    pub share_up_to_here: Span,
    /// Number of items that wait in the request's mailbox, its own included.
    pub waiting_items: u64,
}

/// Decides on one request at a time.
pub trait AdmissionRule {
    /// Reason for dropping the request instead of letting it join; `None` if it joins.
    fn verdict(&self, request: &Candidate, batch: &BatchView) -> Option<DropReason>;

    /// Whether the rule uses the expected start of the batch; otherwise it uses past time alone.
    fn looks_ahead(&self) -> bool {
        true
    }

    /// Whether requests that cannot meet their deadlines any more may be dropped before their turn.
    fn is_predictive(&self) -> bool {
        false
    }

    /// Whether a batch counts with the duration of the planned size, even if fewer items join.
    fn assumes_planned_batch(&self) -> bool {
        false
    }

    /// For a rule that considers a window of the queue: the number of requests at its head to drop before a
    /// batch of `size` is filled. `deadlines` are those of the queue, in order.
    fn drops_at_head(
        &self,
        _deadlines: &mut dyn Iterator<Item = Timestamp>,
        _size: usize,
        _start: Timestamp,
        _duration: Span,
    ) -> Option<usize> {
        None
    }
}
