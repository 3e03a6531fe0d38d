//! Running batches, by number.

use std::collections::BTreeMap;

use weir_types::{BatchId, SlotId, Span, Timestamp};

use super::api::BatchSlice;

/// A batch on its slot.
#[derive(Debug, Clone)]
pub(super) struct Running {
    pub(super) slot: SlotId,
    pub(super) slices: Vec<BatchSlice>,
    /// Time of its dispatch and its expected duration, if it was booked.
    pub(super) booked: Option<(Timestamp, Span)>,
    /// Time at which its run began, on a slot that prepares ahead.
    pub(super) launched_at: Option<Timestamp>,
}

/// All running batches of a module. A batch's number is never used again.
#[derive(Debug, Clone, Default)]
pub(super) struct RunningBatches {
    batches: BTreeMap<BatchId, Running>,
    next: u64,
}

impl RunningBatches {
    /// Adds a batch that starts, and returns its number.
    pub(super) fn start(&mut self, batch: Running) -> BatchId {
        let id = BatchId(self.next);
        self.next += 1;
        self.batches.insert(id, batch);
        id
    }

    /// Removes the batch that ended; `None` if it is unknown.
    pub(super) fn end(&mut self, batch: BatchId) -> Option<Running> {
        self.batches.remove(&batch)
    }

    /// The batch with that number; `None` if it is unknown.
    pub(super) fn of_mut(&mut self, batch: BatchId) -> Option<&mut Running> {
        self.batches.get_mut(&batch)
    }

    /// Whether a batch whose run has begun is still on `slot`.
    pub(super) fn is_launched_on(&self, slot: SlotId) -> bool {
        let mut all = self.batches.values();
        all.any(|batch| batch.slot == slot && batch.launched_at.is_some())
    }

    pub(super) fn len(&self) -> usize {
        self.batches.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }
}
