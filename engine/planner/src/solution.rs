//! What comes out of planning.

use serde::{Deserialize, Serialize};
use weir_types::Span;

/// One partition and its pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagePlan {
    /// First block.
    pub from: u32,
    /// The block after the last.
    pub to: u32,
    /// The class of its devices.
    pub class: String,
    /// Each device is split into so many shares.
    pub shares: u32,
    /// How many shares are in the pool.
    pub pool: u32,
    /// How long a batch takes on one.
    pub duration: Span,
    /// How long a batch's tensors take to get here over an idle link; zero for the first.
    pub transfer: Span,
}

/// A pooled pipeline: a batch passes one share of each stage's pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PipelinePlan {
    /// The batch size, the same in all stages (PPipe 5.3).
    pub batch: u32,
    /// Its stages in order; together they are the whole model.
    pub stages: Vec<StagePlan>,
    /// Items a second: the least of its stages.
    pub throughput: f64,
    /// From the first stage's beginning to the last one's end, with nothing to wait for.
    pub latency: Span,
}

/// What serves one model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelPlan {
    /// The model.
    pub model: String,
    /// Its pipelines.
    pub pipelines: Vec<PipelinePlan>,
    /// Items a second over all of them.
    pub throughput: f64,
}

/// A plan for the whole cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Solution {
    /// By model, in the order of the problem.
    pub models: Vec<ModelPlan>,
    /// The objective's value: least throughput over weight, or cost.
    pub objective: f64,
    /// What no plan can beat.
    pub bound: f64,
    /// Devices in use, by class in the order of the problem.
    pub devices: Vec<u32>,
}
