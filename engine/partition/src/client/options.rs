//! How a client behaves, and why it does not take a batch.

use std::time::Duration;

use thiserror::Error;

use weir_types::WorkerId;

use crate::carrier::NodeCarrier;
use crate::local_workers::LocalWorkers;
use crate::timeouts::Timeouts;
use crate::wire::{BatchKey, Limits};

/// How a client behaves.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// A number that no other engine has that may call the same workers; a worker keeps partitions for it.
    pub engine: u64,
    /// How large messages may be.
    pub limits: Limits,
    /// How long is waited for what. `liveness` is how long a stalled worker goes unnoticed, at most.
    pub timeouts: Timeouts,
    /// How often workers are pinged.
    pub ping_interval: Duration,
    /// How often clocks are compared before a worker is up.
    pub min_clock_samples: usize,
    /// The first pause before a worker is called again; it doubles up to `max_backoff`.
    pub initial_backoff: Duration,
    /// The longest pause.
    pub max_backoff: Duration,
    /// How long the loading of one partition may take.
    pub load_timeout: Duration,
    /// A batch of which nothing was received for so long is lost.
    pub batch_timeout: Duration,
    /// Batches in flight at a time, at most.
    pub max_in_flight: usize,
    /// Workers of this process.
    pub locals: LocalWorkers,
    /// What carries messages to workers of the fleet.
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

/// Why a batch was not taken; nothing else is reported of it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DispatchError {
    /// A worker on its way is not up.
    #[error("worker {} is not up", .0.0)]
    Down(WorkerId),
    /// The way is empty, or longer than plans have.
    #[error("a way has 1 to 32 stages")]
    Path,
    /// It is in flight already.
    #[error("batch {} of module {} is in flight already", .0.batch.0, .0.module.0)]
    Duplicate(BatchKey),
    /// Too many are in flight, or wait for the first worker.
    #[error("too many batches are in flight")]
    Full,
}
