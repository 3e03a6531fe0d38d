//! Parameters of reservations.

use serde::{Deserialize, Serialize};
use weir_types::ClusterSpec;

/// Information that is stored for each resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BookingTable {
    /// All booked spans, so that gaps between them can be used (PPipe A.3).
    #[default]
    Intervals,
    /// The end of the last booking, as in the published results.
    #[serde(rename = "until")]
    BusyUntil,
}

/// Parameters of reservations for one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReserveSpec {
    /// Servers, shares, links and pipelines.
    pub cluster: ClusterSpec,
    /// Information that is stored for each resource.
    pub tables: BookingTable,
    /// Whether uses are reported. If so, a use lasts until it is reported; if not, every use is assumed to
    /// run as booked.
    pub feedback: bool,
    /// Whether durations and transfer times are corrected by reported ones: by a smoothed ratio to the profile per stage, and to
    /// the bandwidth per stage and pair of servers.
    #[serde(default)]
    pub corrected: bool,
    /// Head rule: an item at the head of the queue is infeasible unless a batch of at least this fraction of the planned size
    /// meets its deadline; once it has passed, the batch may shrink to one. 0: it may shrink at once (PPipe 5.4); the
    /// published results used 0.95.
    pub head_min_fraction: f64,
}
