//! Conditions under which a plan of partitioned models runs, as measured: the mix of arrivals, durations and links against those
//! of its profiles.

use serde::{Deserialize, Serialize};

use crate::id::ModuleId;

/// A quantity that is as planned: ratios are thousandths of the planned value.
pub const AS_PLANNED: u32 = 1_000;

/// Measured conditions. What was not measured is absent, and is taken to be as planned.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conditions {
    /// Part of the arriving items that each module has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mix: Vec<MixShare>,
    /// Durations of batches over those of the profile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub durations: Vec<DurationRatio>,
    /// Speeds of links between classes of devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkSpeed>,
}

/// Part of the items that arrive at a module, of those at all modules of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MixShare {
    /// Module that the items arrive at.
    pub module: ModuleId,
    /// Thousandths of all items.
    pub per_mille: u32,
}

/// Durations of a module's batches on a class of devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DurationRatio {
    /// Module whose model runs.
    pub module: ModuleId,
    /// Name of the device class.
    pub class: String,
    /// Thousandths of the profiled duration.
    pub per_mille: u32,
}

/// Speed of transfers from devices of one class to devices of another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSpeed {
    /// Name of the sending class.
    pub from: String,
    /// Name of the receiving class.
    pub to: String,
    /// Bits a second of a transfer, with what it takes beside sending.
    pub bandwidth_bps: u64,
}

/// Predicted throughput of two plans under the same conditions: the largest total of all models at the measured mix, in
/// thousandths of an item a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanGain {
    /// Throughput of the plan in force.
    pub current: u64,
    /// Throughput of the plan that is offered.
    pub next: u64,
}
