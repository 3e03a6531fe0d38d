//! What is simulated, and what comes out.

use std::collections::BTreeMap;

use weir_policy::reservations::{BookingId, ReserveSpec, ResourceUse};
use weir_types::ShareId;
use weir_types::{ModuleId, Span, Timestamp};

/// The items of one model.
#[derive(Debug, Clone, PartialEq)]
pub struct PooledStream {
    /// The module that asks for them.
    pub module: ModuleId,
    /// Within what time of its arrival each must be out.
    pub slo: Span,
}

/// How batches come about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dispatch {
    /// By reservation (PPipe 5.4).
    #[default]
    Reserved,
    /// Pool by pool, with no view of links (PPipe 7.4).
    Reactive,
}

/// A cluster and what it serves.
#[derive(Debug, Clone, PartialEq)]
pub struct PooledSpec {
    /// What can be booked, and how.
    pub reserve: ReserveSpec,
    /// Who asks.
    pub streams: Vec<PooledStream>,
    /// How batches come about.
    pub dispatch: Dispatch,
    /// Standard deviation of the logarithm of what uses really take over what is profiled; 0: exactly that.
    pub noise: f64,
    /// Seed of the noise.
    pub seed: u64,
    /// Whether every use is wanted in the result.
    pub trace: bool,
}

/// What became of a stream's items.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PooledStats {
    /// All that came.
    pub arrived: u64,
    /// Out within the SLO.
    pub delivered: u64,
    /// Out after it.
    pub late: u64,
    /// Dropped.
    pub dropped: u64,
    /// Batches.
    pub batches: u64,
}

impl PooledStats {
    /// Part of what arrived that was not out in time.
    #[must_use]
    pub fn miss_rate(&self) -> f64 {
        (self.late + self.dropped) as f64 / self.arrived.max(1) as f64
    }
}

/// One use of a resource, for a picture.
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
    /// From when.
    pub from: Timestamp,
    /// To when.
    pub to: Timestamp,
}

/// What came out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PooledRun {
    /// By stream.
    pub streams: Vec<PooledStats>,
    /// Time that shares of each class were running, in device seconds: a half counts for half.
    pub busy_s: BTreeMap<String, f64>,
    /// When the last batch came out.
    pub last_output: Timestamp,
    /// Probes over all dispatches.
    pub probes: u64,
    /// Every use in the order in which they ended, if it was wanted.
    pub uses: Vec<ResourceUsage>,
    /// Sum and greatest of what batches came out later than was booked.
    pub lateness_s: (f64, f64),
}
