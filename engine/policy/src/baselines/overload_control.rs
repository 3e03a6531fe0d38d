//! Overload control after DAGOR (PARD's ablation `oc`): while a module or one downstream queues longer than a threshold,
//! a share of its input is shed on arrival; what was admitted is dropped only when it has timed out.

use serde::{Deserialize, Serialize};
use weir_types::{DropReason, Span};

use crate::admission::{AdmissionRule, BatchView, Candidate};

/// When and how much is shed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OverloadControl {
    /// Mean queueing delay above which a module is overloaded (the paper's T).
    pub threshold: Span,
    /// Share of the input that is shed while it is, at least 0 and below 1 (the paper's alpha).
    pub alpha: f64,
}

impl Default for OverloadControl {
    fn default() -> Self {
        Self {
            threshold: Span::from_millis(25),
            alpha: 0.4,
        }
    }
}

/// Drops what has timed out before its batch starts.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimedOut {}

impl AdmissionRule for TimedOut {
    fn verdict(&self, request: &Candidate, batch: &BatchView) -> Option<DropReason> {
        (batch.start.since(request.sent_at) > batch.slo).then_some(DropReason::Infeasible)
    }

    fn looks_ahead(&self) -> bool {
        false
    }
}
