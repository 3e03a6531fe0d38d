//! Plans: which blocks of which model run on which pools of devices, in batches of what size (PPipe 3, 5.2, 5.3, A.1,
//! A.2). A problem and its solution are plain values.

mod blocks;
mod check;
mod column;
mod error;
mod explain;
mod holding;
mod menu;
mod pools;
mod price;
mod problem;
mod program;
mod rest;
mod search;
mod solution;
mod solve;
mod written;

pub use blocks::divide;
pub use error::PlanError;
pub use explain::{Bound, Resource, describe, gap, what_binds};
pub use problem::{BlockTimes, Blocks, Class, Objective, Problem, Scheme, Served};
pub use rest::use_up;
pub use solution::{ModelPlan, PipelinePlan, Solution, StagePlan};
pub use solve::solve;
pub use written::Plan;
