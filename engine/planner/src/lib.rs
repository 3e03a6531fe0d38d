//! The planner: which blocks of which model run on which pools of devices, and in which batch sizes (PPipe 3, 5.2, 5.3,
//! A.1, A.2). A problem and its solution are plain values; [`place`] assigns device shares to a solution. README.md has the
//! mathematics. [`gears`] plans cascades of models by load (KEN).

mod blocks;
mod check;
mod column;
mod device_bundle;
mod duals;
mod error;
mod explain;
pub mod gears;
mod leftover;
mod mip;
mod partition_times;
mod pipeline_slots;
mod placement;
mod plan_file;
mod pool_options;
mod pools;
mod problem;
mod replan;
mod search;
mod solution;
mod solve;

pub use blocks::group_layers;
pub use error::PlanError;
pub use explain::{Resource, Sensitivity, describe, gap, sensitivity};
pub use leftover::assign_leftover;
pub use pipeline_slots::{MAX_PIPELINE_SLOTS, PipelineSlots};
pub use placement::{PlacementError, place};
pub use plan_file::Plan;
pub use problem::{BlockTimes, Blocks, Class, Objective, Problem, Scheme, ServedModel};
pub use replan::{Replanned, corrected, replan, total_throughput};
pub use solution::{ModelPlan, PipelinePlan, Solution, StagePlan};
pub use solve::solve;
