//! More models than memory: requests in groups, an order of groups for each instance, and a plan that is made when an
//! objective is about to be missed (QLM). The mathematics, and what was tried: `README.md` beside this file.
//!
//! [`Queues`] is the state machine: requests arrive, instances have room, models open; it says who starts where, who goes
//! back, and which model is opened. [`QueueRule`] is how: virtual queues, or one of the baselines `fcfs`, `edf`, `shepherd`
//! and `sticky`.

mod api;
mod dispatch;
mod estimator;
mod exact;
mod group;
mod instance;
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
