//! Admission to a batch: whether a request that is about to join one is dropped instead (PARD 4.2, the request broker).
//!
//! Each rule is a value in a file of its own ([`crate::pard::predictive`], [`crate::baselines`]). A new one is a file with a
//! type that is an [`AdmissionRule`] and a line in the list of `strategy/admissions.rs`.

use weir_types::{DropReason, Span, StreamId, Timestamp};

/// What is known of a request that may join a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// When it was sent, `t_s`.
    pub sent_at: Timestamp,
    /// When it reached this module, `t_r`.
    pub arrived_at: Timestamp,
    /// The stream that it belongs to.
    pub stream: StreamId,
}

/// What is known of the batch that it may join, and of the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchView {
    /// The latency objective of the request.
    pub slo: Span,
    /// When the batch is expected to start, `t_e`.
    pub start: Timestamp,
    /// How long it is expected to take, `d_k`.
    pub duration: Span,
    /// Estimated latency of the request downstream of this module.
    pub downstream: Span,
    /// This module's own share of that objective.
    pub own_share: Span,
    /// The shares of all modules up to this one, along its longest path.
    pub share_up_to_here: Span,
    /// Items that wait in the request's mailbox, its own included.
    pub waiting_items: u64,
}

/// Decides on one request at a time.
pub trait AdmissionRule {
    /// Why the request is dropped instead of joining; `None` where it joins.
    fn verdict(&self, request: &Candidate, batch: &BatchView) -> Option<DropReason>;

    /// Whether it looks at when a batch will start; else at what has passed alone.
    fn looks_ahead(&self) -> bool {
        true
    }

    /// Whether what cannot meet its deadline any more may be dropped before its turn comes.
    fn is_predictive(&self) -> bool {
        false
    }

    /// Whether a batch counts with the duration of the planned size, however few items join it.
    fn assumes_planned_batch(&self) -> bool {
        false
    }

    /// How many requests at the head of the queue a rule that looks at a window drops before a batch of `size` is filled;
    /// `deadlines` are those of the queue in order.
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
