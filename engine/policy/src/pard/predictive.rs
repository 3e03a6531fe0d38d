//! Predictive admission (PARD 4.2, Eq. 3): a request is dropped when its estimated end-to-end latency exceeds the SLO.
//!
//! `L = (t_e - t_s) + d_k + max over downstream paths of [sum q_i + sum d_i + F^-1(lambda)]`; dropped if
//! `L > SLO`. The first term is past time, the second is expected in this module, and the
//! [`Estimator`](super::estimator::Estimator) provides the term downstream. The rule minimises device time
//! spent on requests that miss their deadlines later.

use serde::{Deserialize, Serialize};
use weir_types::DropReason;

use crate::admission::{AdmissionRule, BatchView, Candidate};

/// Rule `predictive`: drops requests that are estimated to miss their deadline. Its parameters are those of
/// the estimator.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Predictive {}

impl AdmissionRule for Predictive {
    fn verdict(&self, request: &Candidate, batch: &BatchView) -> Option<DropReason> {
        let latency = batch.start.since(request.sent_at) + batch.duration + batch.downstream;
        (latency > batch.slo).then_some(DropReason::Infeasible)
    }

    fn is_predictive(&self) -> bool {
        true
    }
}
