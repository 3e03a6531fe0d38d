//! Values of reservations that a user picks.

use serde::{Deserialize, Serialize};
use weir_types::ClusterSpec;

/// What is remembered of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BookingTable {
    /// All spans that are booked: gaps between them can be had (PPipe A.3).
    #[default]
    Intervals,
    /// When the last one ends, as the published results have it.
    #[serde(rename = "until")]
    BusyUntil,
}

/// Everything that reservations need to know, for as long as the run lasts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReserveSpec {
    /// What can be booked.
    pub cluster: ClusterSpec,
    /// How it is remembered.
    pub tables: BookingTable,
    /// Whether uses are reported. Where they are, what is not reported as over is held to go on; where they are not,
    /// everything is held to go as booked.
    pub feedback: bool,
    /// Whether durations follow what is reported, by a smoothed ratio to the profile for each stage.
    #[serde(default)]
    pub corrected: bool,
    /// An item that comes to the head of the queue is given up unless a batch of at least this part of the planned size
    /// meets its deadline; once it has passed, the batch may shrink to one. 0: it may shrink at once (PPipe 5.4); the
    /// published results used 0.95.
    pub head_min_fraction: f64,
}
