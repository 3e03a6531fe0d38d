//! The workers of a module: which are there, which are starting, what runs on them; failure and return.

use std::collections::{BTreeMap, BTreeSet};

use weir_types::invariant;
use weir_types::invariant::Kind;
use weir_types::{BatchId, SlotId, Timestamp};

use crate::spec::WorldPool;

/// A batch on a slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunningBatch {
    pub(super) batch: BatchId,
    pub(super) since: Timestamp,
    /// True if the batch is prepared ahead and does not run yet.
    pub(super) is_prepared: bool,
}

/// The workers of one module.
#[derive(Debug)]
pub(super) struct WorkerPool {
    pub(super) slots: u32,
    pub(super) up: BTreeSet<SlotId>,
    /// Workers that are starting, and when they will be there.
    pub(super) starting: BTreeMap<SlotId, Timestamp>,
    pub(super) failed: BTreeSet<SlotId>,
    pub(super) running: BTreeMap<SlotId, Vec<RunningBatch>>,
    /// Number of workers over time: `(from, workers)`.
    pub(super) history: Vec<(Timestamp, u32)>,
}

impl WorkerPool {
    pub(super) fn new(pool: &WorldPool) -> Self {
        let (slots, begin) = match pool {
            WorldPool::Fixed(workers) => (*workers, *workers),
            WorldPool::Scaled(scaling) => (scaling.rule.max_workers.max(scaling.initial), scaling.initial),
            WorldPool::Shared(slots) => (0, slots.len() as u32),
            // Instances never fail.
            WorldPool::Generating(generate) => (0, generate.spec.instances.len() as u32),
            WorldPool::Pipelines(slots) => (0, slots.count),
        };
        let up = match pool {
            WorldPool::Shared(slots) => slots.iter().copied().map(SlotId).collect(),
            WorldPool::Pipelines(_) | WorldPool::Generating(_) => BTreeSet::new(),
            WorldPool::Fixed(_) | WorldPool::Scaled(_) => (0..begin).map(SlotId).collect(),
        };
        Self {
            slots,
            up,
            starting: BTreeMap::new(),
            failed: BTreeSet::new(),
            running: BTreeMap::new(),
            history: vec![(Timestamp::ZERO, begin)],
        }
    }

    /// A worker is lost; says whether it had been there, or lost before.
    pub(super) fn fail(&mut self, slot: SlotId, now: Timestamp) -> bool {
        let was_up = self.up.remove(&slot);
        let is_known = was_up || self.failed.contains(&slot);
        self.starting.remove(&slot);
        if was_up {
            self.failed.insert(slot);
        }
        self.record_size(now);
        is_known
    }

    /// A worker that was lost is back; says whether one was.
    pub(super) fn restore(&mut self, slot: SlotId, now: Timestamp) -> bool {
        let was_lost = self.failed.remove(&slot);
        if was_lost {
            self.up.insert(slot);
            self.record_size(now);
        }
        was_lost
    }

    /// Records that a batch is on a slot. A second batch is allowed there only while it is prepared
    /// (`overlaps`).
    pub(super) fn on_run(&mut self, slot: SlotId, batch: BatchId, now: Timestamp, overlaps: bool) {
        let running = self.running.entry(slot).or_default();
        invariant!(
            running.iter().all(|before| overlaps && !before.is_prepared),
            Kind::Slots,
            "batch {} runs on slot {} beside another: {running:?}",
            batch.0,
            slot.0
        );
        running.push(RunningBatch {
            batch,
            since: now,
            is_prepared: overlaps,
        });
    }

    /// A batch that was prepared runs; says whether it is still there.
    pub(super) fn launch(&mut self, slot: SlotId, batch: BatchId) -> bool {
        let mut running = self.running.get_mut(&slot).into_iter().flatten();
        let found = running.find(|running| running.batch == batch);
        found.map(|running| running.is_prepared = false).is_some()
    }

    /// Slots on which a batch is.
    pub(super) fn busy_slots(&self) -> usize {
        self.running
            .values()
            .filter(|running| !running.is_empty())
            .count()
    }

    /// Removes a running batch; returns false if it was not running any more.
    pub(super) fn take_running(&mut self, slot: SlotId, batch: BatchId) -> bool {
        let Some(running) = self.running.get_mut(&slot) else {
            return false;
        };
        let before = running.len();
        running.retain(|running| running.batch != batch);
        running.len() < before
    }

    pub(super) fn record_size(&mut self, now: Timestamp) {
        self.history.push((now, self.up.len() as u32));
    }
}

#[cfg(test)]
mod tests {
    use weir_types::invariant::counted;

    use super::*;

    #[test]
    fn a_second_batch_on_a_slot_is_a_violation_until_the_first_has_ended() {
        let mut pool = WorkerPool::new(&WorldPool::Fixed(2));
        let mut run = |slot, batch| {
            let ((), violations) =
                counted(|| pool.on_run(SlotId(slot), BatchId(batch), Timestamp::ZERO, false));
            violations.iter().collect::<Vec<_>>()
        };
        assert_eq!((run(0, 1), run(1, 2)), (vec![], vec![]));
        assert_eq!(run(1, 3), [(Kind::Slots, 1)]);
        assert!(pool.take_running(SlotId(0), BatchId(1)));
        pool.on_run(SlotId(0), BatchId(4), Timestamp::ZERO, false);
    }
}
