//! PARD: proactive dropping by the latency behind, here and ahead of a request, and its adaptive order.

pub(crate) mod batch_wait;
pub(crate) mod broker;
pub(crate) mod priority;
pub(crate) mod state_planner;
