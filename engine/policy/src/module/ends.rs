//! Batches that come back, well or not, and requests that leave: forwarded, dropped, taken out.

use super::binding::count;
use super::queues::Entry;
use super::{Module, ModuleEffect, Part, Running};
use crate::broker::DropReason;
use crate::id::{BatchId, RequestId};
use crate::time::{Span, Timestamp};

impl Module {
    pub(super) fn finished(
        &mut self,
        batch: BatchId,
        took: Span,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        let Some(run) = self.back(batch, took, now, effects) else {
            return;
        };
        let (expected, actual) = match run.booked {
            Some((at, takes)) => (takes, now.since(at)),
            None => (self.profiled(count(&run.parts)), took),
        };
        self.workers.measured(run.slot, expected, actual);
        for part in run.parts {
            if let Some(entry) = self.queues.done(part.request, part.count) {
                if entry.droppable {
                    self.load.left(now.since(entry.arrived_at), now);
                }
                effects.push(ModuleEffect::Forward {
                    request: part.request,
                });
            }
        }
    }

    pub(super) fn failed(
        &mut self,
        batch: BatchId,
        took: Span,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        let Some(run) = self.back(batch, took, now, effects) else {
            return;
        };
        for part in run.parts {
            self.let_go(part.request, DropReason::Failed, now, effects);
        }
    }

    pub(super) fn lost(
        &mut self,
        batch: BatchId,
        took: Span,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        let Some(run) = self.back(batch, took, now, effects) else {
            return;
        };
        for part in run.parts {
            let again = self
                .queues
                .of(part.request)
                .and_then(|entry| entry.afresh(part.count));
            match again {
                Some(entry) => {
                    self.queues.put_back(part.request, entry, entry.mailbox);
                    self.touch(entry.mailbox);
                }
                None => self.let_go(part.request, DropReason::Failed, now, effects),
            }
        }
    }

    /// A batch came back, well or not: its slot is free, its time is spent.
    fn back(
        &mut self,
        batch: BatchId,
        took: Span,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) -> Option<Running> {
        let run = self.running.remove(&batch)?;
        self.came_back(run.slot, now);
        spend(&run.parts, took, effects);
        Some(run)
    }

    /// Drops `request` if it is still here.
    pub(super) fn let_go(
        &mut self,
        request: RequestId,
        reason: DropReason,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        if let Some(entry) = self.take_out(request) {
            if entry.bound == 0 && entry.droppable && self.load.counts_vain() {
                // It waited in vain, but it did wait: leaving it out would make a full queue look short.
                self.load.queued(now.since(entry.arrived_at), now);
            }
            if reason == DropReason::Hopeless && self.running.is_empty() && self.vain.gave_up(now) {
                self.workers.forget();
            }
            effects.push(ModuleEffect::Drop { request, reason });
        }
    }

    /// Forgets `request`, wherever it stands. Items of it that are running are not stopped; nobody waits for them.
    pub(super) fn take_out(&mut self, request: RequestId) -> Option<Entry> {
        let entry = self.queues.remove(request)?;
        self.touch(entry.mailbox);
        if entry.bound > 0 {
            for worker in self.workers.iter_mut() {
                worker.forming.retain(|part| part.request != request);
            }
        }
        Some(entry)
    }
}

/// Shares the time of a batch among its requests by their items.
fn spend(parts: &[Part], took: Span, effects: &mut Vec<ModuleEffect>) {
    let items = count(parts);
    effects.extend(parts.iter().map(|part| ModuleEffect::Spent {
        request: part.request,
        span: took.scale(f64::from(part.count) / f64::from(items.max(1))),
    }));
}
