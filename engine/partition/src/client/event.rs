//! What the client tells.

use weir_flow::Tensor;
use weir_types::{Span, Timestamp, WorkerId};

use crate::wire::{BatchFailure, BatchKey, PartitionId, Resource, StageTimes, Usage};

/// One stage of a batch's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stage {
    /// Whose share.
    pub worker: WorkerId,
    /// Which of its shares, from 0.
    pub share: u32,
    /// What runs there.
    pub partition: PartitionId,
    /// For when the share is booked: of the batches that wait for it, that with the earliest goes first.
    pub booked: Timestamp,
}

/// A worker as it introduced itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerInfo {
    /// Its device class.
    pub class: String,
    /// How many shares it has.
    pub shares: u32,
    /// Whether its durations or links are emulated.
    pub emulated: bool,
    /// By how much its moments on the engine's clock may be wrong.
    pub uncertainty: Span,
}

/// Something happened. Moments are on the engine's clock. What different workers tell comes in any order: the use of a
/// share may come after the end of its batch.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A worker can be used: its partitions are loaded, but for those that it refused.
    Up {
        /// Which.
        worker: WorkerId,
        /// What it is.
        info: WorkerInfo,
    },
    /// A worker that was up cannot be used any more. Its batches fail one by one after this.
    Down {
        /// Which.
        worker: WorkerId,
        /// Why.
        reason: String,
    },
    /// A partition is held ready.
    Loaded {
        /// Where.
        worker: WorkerId,
        /// Which.
        partition: PartitionId,
        /// How long that took.
        took: Span,
    },
    /// A partition was refused.
    NotLoaded {
        /// Where.
        worker: WorkerId,
        /// Which.
        partition: PartitionId,
        /// Why.
        reason: String,
    },
    /// A worker unloaded all partitions but this plan's.
    Activated {
        /// Which worker.
        worker: WorkerId,
        /// The plan.
        plan: u64,
    },
    /// A share, or the links before it, were used just now.
    Used {
        /// Who tells.
        worker: WorkerId,
        /// For which batch.
        key: BatchKey,
        /// Of which stage.
        stage: u32,
        /// Which resource.
        what: Resource,
        /// From when to when.
        usage: Usage,
    },
    /// A batch is through.
    Done {
        /// Which.
        key: BatchKey,
        /// What each stage took.
        times: Vec<StageTimes>,
        /// What came out of the last.
        outputs: Vec<Tensor>,
    },
    /// A batch ended early.
    Failed {
        /// Which.
        key: BatchKey,
        /// At which stage, as far as it is known.
        stage: u32,
        /// Why.
        failure: BatchFailure,
    },
}
