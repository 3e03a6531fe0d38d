//! More models than memory (QLM): requests are put into groups, each instance has an order of groups, and a
//! plan is made when an objective is about to be missed. `README.md` beside this file has the mathematics,
//! and ideas that were rejected.
//!
//! [`Queues`] is the state machine: requests arrive, instances have room, models open; it decides which
//! request starts on which instance, which returns to the queue, and which model is opened. [`QueueRule`] is
//! the rule: virtual queues, or one of the baselines `fcfs`, `edf`, `shepherd` and `sticky`.

mod api;
mod dispatch;
mod estimator;
mod exact;
mod group;
mod instance;
#[cfg(test)]
mod joining_tests;
mod orders;
mod plan;
mod queues;
mod rule;
mod search;
mod sorted;
#[cfg(test)]
mod tests;
mod virtual_queue;

pub use api::{ModelPrior, Operations, QueueEffect, QueueEvent, QueueInstance, QueuesSpec, ServedModel};
pub use estimator::{Inefficiency, OutputLengths, ServiceRates};
pub use exact::solve_exactly;
pub use group::tier;
pub use plan::{
    Completion, GroupCost, PlanCost, PlanGroup, PlanInstance, PlanObjective, PlanProblem, Progress,
};
pub use queues::{QueueStats, Queues};
pub use rule::{Planning, QueueRule};
pub(crate) use search::{complete, plan};
