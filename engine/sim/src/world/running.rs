//! Batches on slots: how long they take, and which fail.

use weir_policy::BatchSlice;
use weir_types::{BatchId, ModuleId, Profile, SlotId, Span, Timestamp};

use super::cluster_run::actual_span;
use super::{Event, Site};
use crate::spec::{WorldModule, WorldPool};

/// Time after which a batch fails on a slot with a fault.
const FAILS_AFTER: Span = Span::from_millis(1);

impl Site<'_> {
    /// A batch begins, on a slot or a path.
    pub(super) fn note_run(&mut self, module: ModuleId, batch: BatchId, slices: &[BatchSlice]) {
        self.timeline.on_run(module, self.now, slices);
        if let Some(stages) = &mut self.stages {
            stages.on_run(module, batch, slices);
        }
    }

    pub(super) fn run_batch(
        &mut self,
        module: ModuleId,
        slot: SlotId,
        batch: BatchId,
        slices: &[BatchSlice],
    ) {
        let items = slices.iter().map(|slice| slice.count).sum();
        let node = &self.spec.modules[module.index()];
        let profiled = self.profile_on(node, slot).duration(items);
        let work = actual_span(profiled, self.spec.noise, &mut self.random);
        let work = self.slowed(work);
        let took = self.spec.interference.map_or(work, |others| {
            let workers = match &node.pool {
                WorldPool::Shared(_) => self.spec.shared_slots,
                _ => self.pools[module.index()].slots,
            };
            others.elapsed(work, self.now, (slot.0, workers), self.spec.seed)
        });
        self.note_run(module, batch, slices);
        let overlap = node.overlap.as_ref().filter(|overlap| overlap.is_on(slot));
        self.pools[module.index()].on_run(slot, batch, self.now, overlap.is_some());
        let failed = self.is_shared(module) && self.is_faulty(slot);
        let took = if failed { FAILS_AFTER } else { took };
        let mut began = self.now;
        if let Some(overlap) = overlap {
            let declared = overlap.preparation.as_ref();
            let declared = declared.map_or(Span::ZERO, |profile| profile.duration(items));
            let prepared = actual_span(declared, self.spec.noise, &mut self.random);
            let place = ((!self.is_shared(module)).then_some(module), slot);
            // Prepared at once, and run when the run before is over.
            let run_end = self.run_ends.entry(place).or_default();
            began = (self.now + prepared).max(*run_end);
            *run_end = began + took;
            self.event_queue
                .push(began, Event::Launched(module, slot, batch, prepared));
        }
        let reported = began + took + self.spec.handover;
        self.event_queue
            .push(reported, Event::BatchDone(module, slot, batch, took, failed));
    }

    /// Durations of a module's batches on a slot.
    fn profile_on<'a>(&self, node: &'a WorldModule, slot: SlotId) -> &'a Profile {
        let WorldPool::Shared(slots) = &node.pool else {
            return &node.profile;
        };
        let mut ends = slots.iter().zip(&node.ends);
        let own = ends.find(|(own, _)| **own == slot.0);
        own.map_or(&node.profile, |(_, profile)| profile)
    }

    /// True if a batch that starts on a shared slot now will fail.
    fn is_faulty(&self, slot: SlotId) -> bool {
        self.spec.faults.iter().any(|fault| {
            let at = Timestamp::ZERO + fault.at;
            fault.slot == slot.0 && (at..at + fault.lasts).contains(&self.now)
        })
    }

    /// Duration of a batch while decoders use the same cores.
    fn slowed(&self, took: Span) -> Span {
        match &self.decoders {
            Some(decoders) => Span::from_secs_f64(took.as_secs_f64() * decoders.slowdown()),
            None => took,
        }
    }
}
