//! PARD: proactive dropping by the backward, local and forward latency of a request, and its adaptive priority. README.md
//! has the formulas.

pub(crate) mod batch_wait;
pub(crate) mod estimator;
pub(crate) mod predictive;
pub(crate) mod priority;
pub(crate) mod state;
pub(crate) mod state_planner;
