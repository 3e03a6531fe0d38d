//! Worker pools over time: scaling with the load, failure and return.

use weir_control::{BatchEnd, Message, ModuleMessage};
use weir_policy::{ModuleEvent, SlotEvent};
use weir_types::{ModuleId, SlotId, Span, Timestamp};

use super::pool::WorkerPool;
use super::{Event, Site};
use crate::spec::{Scaling, WorldPool};

impl Site<'_> {
    /// Lets pools grow and shrink with their load.
    pub(super) fn scale(&mut self, messages: &mut Vec<Message>) {
        for module in 0..self.pools.len() {
            let Some((scaling, wanted)) = self.target_size(module) else {
                continue;
            };
            let id = ModuleId(module as u32);
            let now = self.now;
            let others: u32 = self.pools.iter().map(WorkerPool::size).sum();
            let mut room = self
                .spec
                .max_workers
                .map_or(u32::MAX, |max| max.saturating_sub(others));
            let pool = &mut self.pools[module];
            while pool.size() < wanted && room > 0 {
                let free = |slot: &SlotId| {
                    !pool.up.contains(slot) && !pool.starting.contains(slot) && !pool.failed.contains(slot)
                };
                let Some(slot) = (0..pool.slots).map(SlotId).find(free) else {
                    break;
                };
                room -= 1;
                pool.starting.insert(slot);
                self.event_queue
                    .push(now + scaling.cold_start, Event::WorkerStarted(id, slot));
            }
            let mut leaving = Vec::new();
            while pool.size() > wanted {
                // A worker that is still starting has no cost.
                if pool.starting.pop_last().is_some() {
                    continue;
                }
                if let Some(slot) = pool.up.pop_last() {
                    leaving.push(slot);
                }
            }
            if !leaving.is_empty() {
                pool.record_size(now);
            }
            for slot in leaving {
                messages.push(Message::fact(id, ModuleEvent::SlotDown { slot }));
            }
        }
    }

    /// Number of workers that a module should have, from its request rate and the throughput of one worker.
    fn target_size(&mut self, module: usize) -> Option<(Scaling, u32)> {
        let now = self.now;
        let each = self.worker_throughput[module];
        let pool = &mut self.pools[module];
        let rate = pool.demand.rate(now, Timestamp::ZERO);
        let (scaling, scaler) = pool.scaling.as_mut()?;
        Some((*scaling, scaler.target_workers(rate, each, now)))
    }

    /// Records that a worker has started; returns false if it is not needed any more.
    pub(super) fn on_worker_started(&mut self, module: ModuleId, slot: SlotId) -> bool {
        let now = self.now;
        let pool = &mut self.pools[module.index()];
        let is_wanted = pool.starting.remove(&slot);
        if is_wanted {
            pool.up.insert(slot);
            pool.record_size(now);
        }
        is_wanted
    }

    /// A worker is lost with what runs on it, or returns.
    pub(super) fn on_failure(&mut self, index: usize, begins: bool, messages: &mut Vec<Message>) {
        let failure = self.spec.failures[index];
        let Some(node) = self.spec.modules.get(failure.module) else {
            return;
        };
        let own = ModuleId(failure.module as u32);
        match &node.pool {
            WorldPool::Pipelines(_) => {
                messages.extend(self.on_share_failure(failure.module, failure.worker, begins));
            }
            WorldPool::Generating(_) => {
                messages.push(self.on_instance_failure(own, SlotId(failure.worker), begins));
            }
            WorldPool::Shared(slots) if (failure.worker as usize) < slots.len() => {
                let slot = SlotId(slots[failure.worker as usize]);
                self.on_shared_failure(slot, begins, messages);
            }
            WorldPool::Shared(_) | WorldPool::Fixed(_) | WorldPool::Scaled(_) => {
                self.on_own_failure(own, SlotId(failure.worker), begins, messages);
            }
        }
    }

    /// A shared slot is lost, which may run anybody's batch, or is back.
    fn on_shared_failure(&mut self, slot: SlotId, begins: bool, messages: &mut Vec<Message>) {
        let event = if begins {
            SlotEvent::Down { slot }
        } else {
            SlotEvent::Up { slot }
        };
        self.send(Message::Slots(event), messages);
        for module in (0..self.spec.modules.len() as u32).map(ModuleId) {
            if !self.is_shared(module) {
                continue;
            }
            if begins {
                self.pools[module.index()].fail(slot, self.now);
                self.lose_batches(module, slot, messages);
                self.run_ends.remove(&(None, slot));
            } else {
                self.pools[module.index()].restore(slot, self.now);
            }
        }
    }

    /// A worker of a module's own is lost, or is back.
    fn on_own_failure(&mut self, module: ModuleId, slot: SlotId, begins: bool, messages: &mut Vec<Message>) {
        let pool = &mut self.pools[module.index()];
        if !begins {
            if pool.restore(slot, self.now) {
                messages.push(Message::fact(module, ModuleEvent::SlotUp { slot }));
            }
            return;
        }
        if pool.fail(slot, self.now) {
            messages.push(Message::fact(module, ModuleEvent::SlotDown { slot }));
        }
        self.lose_batches(module, slot, messages);
        self.run_ends.remove(&(Some(module), slot));
    }

    /// Batches on a slot are lost with it. One that was being prepared is launched first: each is launched once before it ends.
    fn lose_batches(&mut self, module: ModuleId, slot: SlotId, messages: &mut Vec<Message>) {
        let lost = self.pools[module.index()].running.remove(&slot);
        for lost in lost.unwrap_or_default() {
            let batch = lost.batch;
            if lost.is_prepared {
                let launched = ModuleMessage::Launched {
                    slot,
                    batch,
                    prepared: Span::ZERO,
                };
                messages.push(Message::Module(module, launched));
            }
            let ended = ModuleMessage::BatchEnded {
                batch,
                took: self.now.since(lost.since),
                end: BatchEnd::LostWith(slot),
            };
            messages.push(Message::Module(module, ended));
        }
    }
}
