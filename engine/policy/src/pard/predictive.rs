//! Predictive admission (PARD 4.2, Eq. 3): a request is dropped when its estimated end-to-end latency exceeds the SLO.
//!
//! `L = (t_e - t_s) + d_k + max over downstream paths of [sum q_i + sum d_i + F^-1(lambda)]`; dropped if `L > SLO`. What is
//! behind the request is known, the present module is expected, the term downstream is the
//! [`Estimator`](super::estimator::Estimator)'s. It minimises device time spent on requests that miss their deadlines later.

use serde::{Deserialize, Serialize};
use weir_types::DropReason;

use crate::admission::{AdmissionRule, BatchView, Candidate};

/// Drops what is estimated to miss its deadline. It has no parameters: the estimator has them.
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
