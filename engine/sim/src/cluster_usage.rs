//! Log of the use of device shares and links of a cluster in a run.

use std::collections::BTreeMap;

use weir_policy::reservations::{BookingId, ResourceUse};
use weir_types::{ShareId, Timestamp};

/// Use of a resource by a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceUsage {
    /// Booking of the batch that used it.
    pub booking: BookingId,
    /// Stage of the pipeline, from 0.
    pub stage: u32,
    /// Device share on which the stage runs.
    pub share: ShareId,
    /// Kind of use: transfer of the stage's input, or execution of the batch.
    pub used: ResourceUse,
    /// Number of items of the batch.
    pub size: u32,
    /// Time at which the use began.
    pub from: Timestamp,
    /// Time at which the use ended.
    pub to: Timestamp,
}

/// The uses of one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClusterUsage {
    /// Time that shares of each class were running, in device seconds: a half counts for half.
    pub busy_s: BTreeMap<String, f64>,
    /// Time at which the last batch left its last stage.
    pub last_output: Timestamp,
    /// Probes over all dispatches.
    pub probes: u64,
    /// Every use in the order in which they ended, if the world asks for it.
    pub uses: Vec<ResourceUsage>,
}
