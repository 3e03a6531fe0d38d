//! Worker pools over time: workers start and are given up, fail and return.

use weir_control::{BatchEnd, Message, ModuleMessage};
use weir_policy::{ModuleEvent, SlotEvent, WorkerEvent};
use weir_types::{ModuleId, SlotId, Span};

use super::{Event, Site};
use crate::spec::WorldPool;

impl Site<'_> {
    /// A worker starts, which takes as long as the world says.
    pub(super) fn start_worker(&mut self, module: ModuleId, slot: SlotId) {
        let WorldPool::Scaled(scaling) = &self.spec.modules[module.index()].pool else {
            return;
        };
        let at = self.now + scaling.cold_start;
        self.pools[module.index()].starting.insert(slot, at);
        self.event_queue
            .push(at, Event::WorkerStarted(module, slot, scaling.cold_start));
    }

    /// A worker on which nothing runs is given up.
    pub(super) fn stop_worker(&mut self, module: ModuleId, slot: SlotId) -> Message {
        let pool = &mut self.pools[module.index()];
        pool.up.remove(&slot);
        pool.record_size(self.now);
        Message::Module(module, ModuleMessage::Worker(WorkerEvent::Closed { slot }))
    }

    /// A worker has started, after `took`; `None` if it has failed meanwhile.
    pub(super) fn on_worker_started(
        &mut self,
        module: ModuleId,
        slot: SlotId,
        took: Span,
    ) -> Option<Message> {
        let now = self.now;
        let pool = &mut self.pools[module.index()];
        pool.starting.get(&slot).filter(|at| **at == now)?;
        pool.starting.remove(&slot);
        pool.up.insert(slot);
        pool.record_size(now);
        let opened = WorkerEvent::Opened { slot, took };
        Some(Message::Module(module, ModuleMessage::Worker(opened)))
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
        let was_starting = pool.starting.contains_key(&slot);
        if pool.fail(slot, self.now) {
            messages.push(Message::fact(module, ModuleEvent::SlotDown { slot }));
        } else if was_starting {
            let failed = WorkerEvent::OpenFailed { slot };
            messages.push(Message::Module(module, ModuleMessage::Worker(failed)));
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
