//! Pools of a module's own: their slots serve no other module, so it runs batches without bidding, and knows
//! which workers are up. With a mailbox for each worker (the paper), requests are assigned in turn; those of
//! a lost worker are assigned again, as for shared slots that differ in speed.

use weir_types::{RequestId, SlotId, Timestamp};

use super::{Module, ModuleEffect};

impl Module {
    /// Index of the mailbox that a slot is filled from.
    pub(super) fn mailbox_of(&self, place: usize) -> usize {
        if self.mailboxes.count() > 1 { place } else { 0 }
    }

    /// Runs batches on idle slots while requests wait.
    pub(super) fn run_on_own(&mut self, mailbox: usize, now: Timestamp, effects: &mut Vec<ModuleEffect>) {
        if self.mailboxes.count() > 1 {
            let waits = self.waits_until(mailbox, now).is_some();
            if !waits && self.workers.at(mailbox).is_some_and(|worker| worker.idle()) {
                self.run_batch(mailbox, now, effects);
            }
            return;
        }
        while let Some(place) = self.next_idle().filter(|_| self.waits_until(0, now).is_none()) {
            if !self.run_batch(place, now, effects) {
                return;
            }
        }
    }

    /// Place of an idle slot, if there are items to run.
    fn next_idle(&self) -> Option<usize> {
        let formed = || self.workers.iter().any(|worker| !worker.forming.is_empty());
        if self.mailboxes.items_in(0) == 0 && !formed() {
            return None;
        }
        self.workers.iter().position(|worker| worker.idle())
    }

    /// A batch ended and its slot is free again. Legal for an unknown slot, which was a lane of an earlier
    /// plan.
    pub(super) fn on_slot_free(&mut self, slot: SlotId, now: Timestamp) {
        if let Some(place) = self.workers.place(slot) {
            if let Some(worker) = self.workers.at_mut(place) {
                worker.busy = false;
                worker.free_at = worker.free_at.min(now);
            }
            self.wakeups.mark(self.mailbox_of(place));
        }
    }

    /// A batch ended on a slot that prepares ahead: the next one may run at once if none runs there.
    pub(super) fn on_run_over(&mut self, slot: SlotId, now: Timestamp) {
        let runs = self.running.is_launched_on(slot);
        if let Some(place) = self.workers.place(slot) {
            if let Some(worker) = self.workers.at_mut(place).filter(|worker| !runs && !worker.busy) {
                worker.free_at = worker.free_at.min(now);
            }
            self.wakeups.mark(self.mailbox_of(place));
        }
    }

    /// The arbiter expects a slot to be free then.
    pub(super) fn on_forecast(&mut self, slot: SlotId, free_at: Timestamp, now: Timestamp) {
        if let Some(view) = self.workers.of_mut(slot) {
            view.free_at = free_at;
        }
        if self.mailboxes.count() > 1 {
            self.on_slot_change(slot, free_at < Timestamp::MAX, now);
        }
    }

    /// A worker was lost or returned.
    pub(super) fn on_slot_change(&mut self, slot: SlotId, up: bool, now: Timestamp) {
        if !self.workers.set_up(slot, up) {
            return;
        }
        let Some(place) = self.workers.place(slot) else {
            return;
        };
        self.wakeups.mark(self.mailbox_of(place));
        // Requests that arrived while no worker was up wait at workers that may never return.
        let gone: Vec<usize> = if up {
            let all = (0..).zip(self.workers.iter());
            all.filter(|(_, worker)| !worker.up)
                .map(|(place, _)| place)
                .collect()
        } else {
            vec![place]
        };
        for place in gone {
            let formed = self.workers.at(place).map(|worker| &worker.forming);
            let mut moving: Vec<RequestId> =
                formed.into_iter().flatten().map(|slice| slice.request).collect();
            if self.mailboxes.count() > 1 {
                moving.extend(self.mailboxes.standing(place));
            }
            moving.sort_unstable();
            moving.dedup();
            for request in moving {
                self.redistribute(request, now);
            }
        }
    }

    /// Puts a request back into a queue, at a usable worker. If it has partially run, its remaining items are
    /// assigned again. In a pool with one mailbox it stays in the batch formed for the lost worker, which
    /// others take over: its parts may be in several batches, and each item must run once.
    fn redistribute(&mut self, request: RequestId, now: Timestamp) {
        let own = self.mailboxes.count() > 1;
        let entry = self.mailboxes.get(request).copied();
        let Some(entry) = entry.filter(|entry| own || !entry.partially_run()) else {
            return;
        };
        for worker in self.workers.iter_mut() {
            worker.forming.retain(|slice| slice.request != request);
        }
        let entry = entry.unbound();
        let mailbox = self.mailbox_of_arrival(&entry, now);
        self.mailboxes.put_back(request, entry, mailbox);
        self.wakeups.mark(mailbox);
    }
}
