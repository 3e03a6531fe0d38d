//! Options of a client, and the reasons for which it rejects a batch.

use std::time::Duration;

use thiserror::Error;

use weir_types::WorkerId;

use crate::carrier::NodeCarrier;
use crate::local_workers::LocalWorkers;
use crate::timeouts::Timeouts;
use crate::wire::{BatchKey, Limits};

/// Options of a client.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// Number that is unique among the engines that may call the same workers; a worker holds partitions per
    /// engine.
    pub engine: u64,
    /// Upper limits of message sizes.
    pub limits: Limits,
    /// Timeouts of connections. `liveness` bounds the time for which a stalled worker goes undetected.
    pub timeouts: Timeouts,
    /// Interval between pings to a worker.
    pub ping_interval: Duration,
    /// Number of clock samples that are taken before a worker counts as up.
    pub min_clock_samples: usize,
    /// First delay before a reconnection; it doubles with every attempt, up to `max_backoff`.
    pub initial_backoff: Duration,
    /// Longest delay before a reconnection.
    pub max_backoff: Duration,
    /// Time in which one partition must be loaded.
    pub load_timeout: Duration,
    /// A batch fails if no worker reports anything about it for this long.
    pub batch_timeout: Duration,
    /// Maximum number of batches in flight.
    pub max_in_flight: usize,
    /// Workers in this process, which are reached without a network.
    pub locals: LocalWorkers,
    /// Carrier to workers of the fleet; `None` outside a fleet.
    pub carrier: Option<NodeCarrier>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            engine: random_number(),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            ping_interval: Duration::from_millis(200),
            min_clock_samples: 8,
            initial_backoff: Duration::from_millis(50),
            max_backoff: Duration::from_secs(2),
            load_timeout: Duration::from_secs(60),
            batch_timeout: Duration::from_secs(10),
            max_in_flight: 4096,
            locals: LocalWorkers::default(),
            carrier: None,
        }
    }
}

/// A number that distinguishes engines, or connections, from what the system seeds hash maps with.
pub(super) fn random_number() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

/// Reason why a batch was not dispatched; the client reports no event for such a batch.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DispatchError {
    /// A worker on its way is not up.
    #[error("worker {} is not up", .0.0)]
    Down(WorkerId),
    /// The way is empty, or longer than plans have.
    #[error("a way has 1 to 32 stages")]
    Path,
    /// The batch is already in flight.
    #[error("batch {} of module {} is in flight already", .0.batch.0, .0.module.0)]
    Duplicate(BatchKey),
    /// Too many are in flight, or wait for the first worker.
    #[error("too many batches are in flight")]
    Full,
}
