//! Overload control after DAGOR (PARD's ablation `oc`): while a module or one downstream has a queueing delay
//! above a threshold, a share of its input is shed on arrival. Admitted requests are dropped only when they
//! have timed out.

use serde::{Deserialize, Serialize};
use weir_types::{DropReason, Span};

use crate::admission::{AdmissionRule, BatchView, Candidate};

/// Threshold and share of load shedding.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OverloadControl {
    /// Mean queueing delay above which a module is overloaded (the paper's T).
    pub threshold: Span,
    /// Share of the input that is shed during overload, at least 0 and below 1 (the paper's alpha).
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

/// Rule `timed-out`: drops requests that have timed out before their batch starts.
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
