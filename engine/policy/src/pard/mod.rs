//! PARD: proactive dropping by the latency behind, here and ahead of a request, and its adaptive order.

pub(crate) mod batch_wait;
pub(crate) mod estimator;
pub(crate) mod predictive;
pub(crate) mod priority;
pub(crate) mod state_planner;
