//! What the shares and links of a cluster did in a run.

use std::collections::BTreeMap;

use weir_policy::reservations::{BookingId, ResourceUse};
use weir_types::{ShareId, Timestamp};

/// One use of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceUsage {
    /// By which batch.
    pub booking: BookingId,
    /// In which stage.
    pub stage: u32,
    /// Where the stage runs.
    pub share: ShareId,
    /// For what.
    pub used: ResourceUse,
    /// How many items.
    pub size: u32,
    /// Start.
    pub from: Timestamp,
    /// End.
    pub to: Timestamp,
}

/// The uses of one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClusterUsage {
    /// Time that shares of each class were running, in device seconds: a half counts for half.
    pub busy_s: BTreeMap<String, f64>,
    /// When the last batch left its last stage.
    pub last_output: Timestamp,
    /// Probes over all dispatches.
    pub probes: u64,
    /// Every use in the order in which they ended, if the world asks for it.
    pub uses: Vec<ResourceUsage>,
}
