//! Events that the client reports to the engine.

use weir_flow::Tensor;
use weir_types::{Span, Timestamp, WorkerId};

use crate::wire::{BatchFailure, BatchKey, PartitionId, Resource, StageTimes, Usage};

/// One stage on the path of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stage {
    /// Worker that owns the share.
    pub worker: WorkerId,
    /// Index of the share on its worker, from 0.
    pub share: u32,
    /// Partition that runs there.
    pub partition: PartitionId,
    /// Time for which the share is booked; of the queued batches, the share runs the one with the earliest
    /// booking first.
    pub booked: Timestamp,
    /// Time for which the transfer of its input is booked; of the features that wait for a worker's uplink, the one with the
    /// earliest booking is sent first.
    pub sent: Timestamp,
}

/// A worker as it introduced itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerInfo {
    /// Device class of the worker.
    pub class: String,
    /// Number of shares.
    pub shares: u32,
    /// True if durations or links are emulated.
    pub emulated: bool,
    /// Largest error of the worker's timestamps on the engine's clock.
    pub uncertainty: Span,
}

/// Something happened. Moments are on the engine's clock. What different workers tell comes in any order: the use of a
/// share may come after the end of its batch.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A worker is ready: its partitions are loaded, except those that it refused.
    Up {
        /// The worker that is ready.
        worker: WorkerId,
        /// Properties that the worker announced.
        info: WorkerInfo,
    },
    /// A worker that was up is no longer available. Its batches fail one by one after this event.
    Down {
        /// The worker that is down.
        worker: WorkerId,
        /// Reason for logs and users.
        reason: String,
    },
    /// A worker has loaded a partition.
    Loaded {
        /// Worker that loaded it.
        worker: WorkerId,
        /// The partition that is ready.
        partition: PartitionId,
        /// Time that loading took.
        took: Span,
    },
    /// A worker refused to load a partition.
    NotLoaded {
        /// Worker that refused it.
        worker: WorkerId,
        /// The partition that is not available.
        partition: PartitionId,
        /// Reason for logs and users.
        reason: String,
    },
    /// A worker unloaded all partitions that do not belong to this plan.
    Activated {
        /// The worker that switched.
        worker: WorkerId,
        /// Number of the plan.
        plan: u64,
    },
    /// A share, or the links before it, finished a use.
    Used {
        /// Worker that reports the use.
        worker: WorkerId,
        /// Batch that used it.
        key: BatchKey,
        /// Stage of the batch, from 0.
        stage: u32,
        /// Kind of resource that was used.
        what: Resource,
        /// Start and end of the use, on the engine's clock.
        usage: Usage,
    },
    /// A batch has completed its last stage.
    Done {
        /// The batch that completed.
        key: BatchKey,
        /// Transfer and run time of each stage.
        times: Vec<StageTimes>,
        /// Outputs of the last stage.
        outputs: Vec<Tensor>,
    },
    /// A batch failed before its last stage.
    Failed {
        /// The batch that failed.
        key: BatchKey,
        /// Stage that it had reached, as far as the client knows.
        stage: u32,
        /// Cause of the failure.
        failure: BatchFailure,
    },
}
