//! A planning problem: device classes, models as chains of blocks, objective and scheme.

use serde::{Deserialize, Serialize};
use weir_types::Span;

/// A device class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// The name used in profiles.
    pub name: String,
    /// Number of devices.
    pub count: u32,
    /// Devices per server; they share its links.
    pub per_server: u32,
    /// Achievable bandwidth of a server's uplink, and of its downlink, in bits a second.
    pub bandwidth_bps: u64,
    /// Cost of a device in any unit, for the objective `cost`.
    pub cost: f64,
}

/// Durations of a model's blocks on one share of a device of one class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockTimes {
    /// Name of the class.
    pub class: String,
    /// Number of equal shares of a device; 1 is the whole device.
    pub shares: u32,
    /// Batch sizes, ascending.
    pub batch: Vec<u32>,
    /// `us[block][k]`: microseconds of the block for a batch of `batch[k]`.
    pub us: Vec<Vec<u64>>,
    /// `whole_us[k]`: microseconds of all blocks in one partition for a batch of `batch[k]`. Less than the
    /// sum of the blocks, since nothing is copied between them. Empty: as long as the sum.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub whole_us: Vec<u64>,
}

/// A model as a chain of blocks, between any two of which it can be cut (PPipe 5.2); the content of a block profile file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blocks {
    /// Name of the model.
    pub model: String,
    /// The first layer of each block, from 0, if the model can be cut by this profile. Empty if only the times are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<u32>,
    /// `boundary_bytes[i]`: bytes an item that cross from block `i` to block `i + 1`, as they are sent (fp16 halves
    /// them). One fewer than there are blocks.
    pub boundary_bytes: Vec<u64>,
    /// Durations by class and share.
    pub times: Vec<BlockTimes>,
}

/// A model to serve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServedModel {
    /// The name within the problem.
    pub name: String,
    /// Latency objective of an item, end to end.
    pub slo: Span,
    /// Relative load: throughputs are divided by it before they are compared.
    pub weight: f64,
    /// Blocks and their durations.
    pub blocks: Blocks,
}

/// Objective of the optimisation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "goal", rename_all = "kebab-case")]
pub enum Objective {
    /// Maximise the least throughput over weight (PPipe 3).
    Throughput,
    /// Minimise the cost of devices at a required throughput over weight.
    Cost {
        /// Required throughput over weight of every model, in items a second.
        rate: f64,
    },
}

/// Rules for partitioning models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "scheme", rename_all = "kebab-case")]
pub enum Scheme {
    /// Pooled pipelines (PPipe).
    Pooled {
        /// Partitions of a pipeline at most, 1 to 3.
        partitions: u32,
    },
    /// Whole models on whole devices (the paper's NP).
    Np,
    /// Chains of one device of two classes, the remaining devices alone (the paper's DART-r).
    DartR,
}

/// A planning problem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// Device classes of the cluster.
    pub classes: Vec<Class>,
    /// Models to serve.
    pub models: Vec<ServedModel>,
    /// Objective of the optimisation.
    pub objective: Objective,
    /// Rules for partitioning models.
    pub scheme: Scheme,
    /// Fraction of the SLO reserved for queueing and jitter (PPipe 5.4), at least 0 and below 1.
    pub margin: f64,
    /// Charge for gathering a batch against the SLO: `building * (batch - 1) / throughput` seconds, with the throughput of
    /// the plan without partitions. 0 charges nothing; the published results used 1.3.
    pub building: f64,
    /// Relative optimality gap at which the search stops.
    pub gap: f64,
}

impl Problem {
    /// The model of that name.
    #[must_use]
    pub fn model(&self, name: &str) -> Option<&ServedModel> {
        self.models.iter().find(|model| model.name == name)
    }
}
