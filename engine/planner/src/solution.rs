//! The solution of a planning problem.

use serde::{Deserialize, Serialize};
use weir_types::Span;

/// Partition of a pipeline, and its pool of device shares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagePlan {
    /// First block, from 0.
    pub from: u32,
    /// The block after the last.
    pub to: u32,
    /// Device class of the pool.
    pub class: String,
    /// Number of equal shares of a device.
    pub shares: u32,
    /// Shares in the pool.
    pub pool: u32,
    /// Duration of a batch on one share.
    pub duration: Span,
    /// Transfer time of a batch to this stage over an idle link; zero for the first.
    pub transfer: Span,
}

/// A pooled pipeline: a batch runs on one share of each stage's pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PipelinePlan {
    /// Batch size in items, the same in all stages (PPipe 5.3).
    pub batch: u32,
    /// Stages in order; together they cover the model.
    pub stages: Vec<StagePlan>,
    /// Items a second: the minimum over its stages.
    pub throughput: f64,
    /// Time from the start of the first stage to the end of the last, without queueing.
    pub latency: Span,
}

/// The pipelines of one model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelPlan {
    /// Name of the model.
    pub model: String,
    /// Pipelines that serve it.
    pub pipelines: Vec<PipelinePlan>,
    /// Items a second over all of them.
    pub throughput: f64,
}

/// The pipelines of all models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Solution {
    /// Plans by model, in the order of the problem.
    pub models: Vec<ModelPlan>,
    /// Value of the objective: least throughput over weight in items a second, or cost.
    pub objective: f64,
    /// Proved bound of the objective.
    pub bound: f64,
    /// Devices used by class, in the order of the problem.
    pub devices: Vec<u32>,
}
