//! Batches that end or fail, and requests that leave: forwarded, dropped, removed.

use weir_types::invariant;
use weir_types::invariant::Kind;
use weir_types::{BatchId, DropReason, RequestId, Shortfall, SlotId, Span, Timestamp};

use super::Module;
use super::api::{BatchSlice, ModuleEffect, item_count};
use super::mailboxes::Entry;
use super::overlap::Overlap;
use super::running::Running;
use crate::gears::Fallback;
use crate::measure::starvation_reset::StarvationReset;

impl Module {
    /// The inputs of a batch are prepared and it runs: another one may be prepared for its slot.
    pub(super) fn on_launched(&mut self, batch: BatchId, prepared: Span, now: Timestamp) {
        let run = self.running.of_mut(batch);
        let holds = invariant!(
            self.overlap.is_some() && run.as_ref().is_some_and(|run| run.launched_at.is_none()),
            Kind::Batches,
            "the run of batch {} of module {} begins, which was not to be prepared",
            batch.0,
            self.spec.id.0
        );
        let (Some(run), Some(overlap)) = (run.filter(|_| holds), &mut self.overlap) else {
            return;
        };
        run.launched_at = Some(now);
        let (slot, size) = (run.slot, item_count(&run.slices));
        overlap.on_prepared(size, prepared);
        let Some(place) = self.workers.place(slot) else {
            return;
        };
        let expected = self
            .workers
            .expected_at(place, self.workers.profiled_at(place, size));
        if let Some(worker) = self.workers.at_mut(place) {
            worker.busy = false;
            worker.free_at = now + expected;
        }
        self.wakeups.mark(self.mailbox_of(place));
    }

    /// Measured times of preparation and read-out on a slot; `None` if it does not prepare ahead.
    pub(super) fn overlap_on(&self, slot: SlotId) -> Option<&Overlap> {
        self.overlap.as_ref().filter(|overlap| overlap.is_on(slot))
    }

    /// The same for the slot at `place`.
    pub(super) fn overlap_at(&self, place: usize) -> Option<&Overlap> {
        self.overlap_on(self.workers.at(place)?.slot)
    }

    /// Expected duration of preparing the inputs of a batch of `size`, for which its slot need not be free.
    pub(super) fn preparation(&self, size: u32) -> Span {
        let overlap = self.overlap.as_ref();
        overlap.map_or(Span::ZERO, |overlap| overlap.preparation(size))
    }

    /// Expected time from the run's end of a batch of `size` until its outputs are read.
    pub(super) fn read_out(&self, size: u32) -> Span {
        let overlap = self.overlap.as_ref();
        overlap.map_or(Span::ZERO, |overlap| overlap.read_out(size))
    }

    pub(super) fn on_finished(
        &mut self,
        batch: BatchId,
        took: Span,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        let Some(run) = self.back(batch, took, now, effects) else {
            return;
        };
        let size = item_count(&run.slices);
        let (expected, actual) = match run.booked {
            Some((at, takes)) => (takes, now.since(at)),
            None => (self.workers.profiled_on(run.slot, size), took),
        };
        self.workers.measured(run.slot, size, expected, actual, now);
        for slice in run.slices {
            if let Some(entry) = self.mailboxes.done(slice.request, slice.count) {
                if entry.droppable {
                    self.metrics.on_completed(now.since(entry.arrived_at), now);
                }
                effects.push(ModuleEffect::Forward {
                    request: slice.request,
                });
            }
        }
    }

    pub(super) fn on_failed(
        &mut self,
        batch: BatchId,
        took: Span,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        let Some(run) = self.back(batch, took, now, effects) else {
            return;
        };
        for slice in run.slices {
            self.drop_request(slice.request, DropReason::Failed, None, now, effects);
        }
    }

    pub(super) fn on_lost(
        &mut self,
        batch: BatchId,
        took: Span,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        let Some(run) = self.back(batch, took, now, effects) else {
            return;
        };
        for slice in run.slices {
            let again = self
                .mailboxes
                .get(slice.request)
                .and_then(|entry| entry.reset_for_retry(slice.count));
            match again {
                Some(entry) => {
                    self.mailboxes.put_back(slice.request, entry, entry.mailbox);
                    self.wakeups.mark(entry.mailbox);
                }
                None => self.drop_request(slice.request, DropReason::Failed, None, now, effects),
            }
        }
    }

    /// A batch ended, with success or not: frees its slot and charges its time to its requests.
    fn back(
        &mut self,
        batch: BatchId,
        took: Span,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) -> Option<Running> {
        let run = self.running.end(batch);
        invariant!(
            run.is_some(),
            Kind::Batches,
            "batch {} of module {} comes back and does not run; {} run",
            batch.0,
            self.spec.id.0,
            self.running.len()
        );
        let run = run?;
        match run.launched_at.zip(self.overlap.as_mut()) {
            // The slot has started preparing, and may be running, another batch since.
            Some((at, overlap)) => {
                let read = now.since((at + took).min(now));
                overlap.on_read(item_count(&run.slices), read);
                self.on_run_over(run.slot, now);
            }
            None => self.on_slot_free(run.slot, now),
        }
        spend(&run.slices, took, effects);
        Some(run)
    }

    /// Drops `request` if it is still here; a sibling may have dropped it before.
    pub(super) fn drop_request(
        &mut self,
        request: RequestId,
        reason: DropReason,
        shortfall: Option<Shortfall>,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        if let Some(entry) = self.remove(request) {
            if entry.bound == 0 && entry.droppable && self.metrics.counts_dropped() {
                // The request did not run, but it waited: leaving out its wait would make a full queue look
                // short.
                self.metrics
                    .on_queued(entry.slo, now.since(entry.arrived_at), now);
            }
            if reason == DropReason::Infeasible && self.running.is_empty() {
                self.reset_if_starved(now);
            }
            effects.push(self.drop_or_accept(request, reason, shortfall));
        }
    }

    /// Resets all measured durations if no batch has run for long enough.
    fn reset_if_starved(&mut self, now: Timestamp) {
        let expected = self.workers.expected(self.peers.batch_size());
        let patience = StarvationReset::patience(expected);
        if !self.starvation_reset.on_drop(now, patience) {
            return;
        }
        self.workers.forget();
        if let Some(overlap) = &mut self.overlap {
            overlap.forget();
        }
    }

    /// Returns `Accept` for a request that falls back for this reason, else `Drop`.
    pub(super) fn drop_or_accept(
        &self,
        request: RequestId,
        reason: DropReason,
        shortfall: Option<Shortfall>,
    ) -> ModuleEffect {
        if self.fallback().takes(reason) {
            ModuleEffect::Accept { request, reason }
        } else {
            ModuleEffect::Drop {
                request,
                reason,
                shortfall,
            }
        }
    }

    /// The module's rule for requests that it cannot serve in time.
    pub(super) fn fallback(&self) -> Fallback {
        let own = self.spec.peers.get(self.spec.id.index());
        own.map_or(Fallback::Never, |own| own.fallback)
    }

    /// Removes `request`, whether waiting, bound or running. Running items are not stopped; their results are
    /// ignored.
    pub(super) fn remove(&mut self, request: RequestId) -> Option<Entry> {
        let entry = self.mailboxes.remove(request)?;
        self.wakeups.mark(entry.mailbox);
        if entry.bound > 0 {
            for worker in self.workers.iter_mut() {
                worker.forming.retain(|slice| slice.request != request);
            }
        }
        Some(entry)
    }
}

/// Charges the time of a batch to its requests, in proportion to their items.
fn spend(slices: &[BatchSlice], took: Span, effects: &mut Vec<ModuleEffect>) {
    let items = item_count(slices);
    effects.extend(slices.iter().map(|slice| ModuleEffect::Spent {
        request: slice.request,
        span: took.scale(f64::from(slice.count) / f64::from(items.max(1))),
    }));
}
