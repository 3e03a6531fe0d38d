//! What is to be planned: devices, models as blocks of layers, and what counts.

use serde::{Deserialize, Serialize};
use weir_types::Span;

/// Devices of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Its name, as profiles have it.
    pub name: String,
    /// How many devices there are.
    pub count: u32,
    /// How many of them share a server, and with it its links.
    pub per_server: u32,
    /// What a server's uplink carries, and what its downlink carries, in bits a second that can be had in practice.
    pub bandwidth_bps: u64,
    /// What one device costs, in any unit; for the objective `cost`.
    pub cost: f64,
}

/// Durations of a model's blocks on one share of a device of one class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockTimes {
    /// The class.
    pub class: String,
    /// The device is split evenly into so many shares; 1 is the whole.
    pub shares: u32,
    /// Batch sizes, ascending.
    pub batch: Vec<u32>,
    /// `us[block][k]`: microseconds of the block for a batch of `batch[k]`.
    pub us: Vec<Vec<u64>>,
}

/// A model as a chain of blocks, between any two of which it can be cut (PPipe 5.2). This is what a profile file of
/// blocks holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blocks {
    /// Name of the model.
    pub model: String,
    /// The first layer of each block, from 0, where the model is to be cut by this profile. Empty where only the
    /// times are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<u32>,
    /// `boundary_bytes[i]`: bytes an item that cross from block `i` to block `i + 1`, as they are sent (fp16 halves
    /// them). One fewer than there are blocks.
    pub boundary_bytes: Vec<u64>,
    /// How long they take, by class and share.
    pub times: Vec<BlockTimes>,
}

/// A model that is to be served.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServedModel {
    /// Its name within the problem.
    pub name: String,
    /// Its latency objective.
    pub slo: Span,
    /// Its part of the load: throughputs are divided by it before they are compared.
    pub weight: f64,
    /// Its blocks.
    pub blocks: Blocks,
}

/// What counts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "goal", rename_all = "kebab-case")]
pub enum Objective {
    /// The least throughput over weight is as great as can be (PPipe 3).
    Throughput,
    /// As little cost as can be for this throughput over weight, in items a second.
    Cost {
        /// The throughput over weight that every model must reach.
        rate: f64,
    },
}

/// In what ways models may be spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "scheme", rename_all = "kebab-case")]
pub enum Scheme {
    /// Pooled pipelines (PPipe).
    Pooled {
        /// The most partitions of a pipeline.
        partitions: u32,
    },
    /// Whole models on either class (the paper's NP).
    Np,
    /// Chains of one device of each class, the rest alone (the paper's DART-r).
    DartR,
}

/// A planning problem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// The cluster.
    pub classes: Vec<Class>,
    /// The models.
    pub models: Vec<ServedModel>,
    /// What counts.
    pub objective: Objective,
    /// In what ways.
    pub scheme: Scheme,
    /// Part of the SLO that is kept back for what a plan cannot foresee (PPipe 5.4), from 0 to 1.
    pub margin: f64,
    /// What gathering a batch is charged against the SLO: `building * (batch - 1) / throughput` seconds, where the
    /// throughput is that of the plan without partitions. 0 charges nothing; the published results used 1.3.
    pub building: f64,
    /// Stop when the solution is proved to be within this part of the optimum.
    pub gap: f64,
}
