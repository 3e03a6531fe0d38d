//! Worker pools over time: scaling with the load, failure and return.

use weir_policy::{ModuleEvent, SlotEvent};
use weir_types::{ModuleId, SlotId, Timestamp};

use super::pool::WorkerPool;
use super::{Event, World};
use crate::spec::{Scaling, WorldPool};

impl World<'_> {
    /// Lets pools grow and shrink with their load.
    pub(super) fn scale(&mut self) {
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
                // One that is starting costs nothing yet.
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
                self.deliver(id, ModuleEvent::SlotDown { slot });
            }
        }
    }

    /// How many workers a module should have: by what is asked of it and what one worker can do.
    fn target_size(&mut self, module: usize) -> Option<(Scaling, u32)> {
        let now = self.now;
        let each = self.worker_throughput[module];
        let pool = &mut self.pools[module];
        let rate = pool.demand.rate(now, Timestamp::ZERO);
        let (scaling, scaler) = pool.scaling.as_mut()?;
        Some((*scaling, scaler.target_workers(rate, each, now)))
    }

    pub(super) fn on_worker_started(&mut self, module: ModuleId, slot: SlotId) {
        let now = self.now;
        let pool = &mut self.pools[module.index()];
        if pool.starting.remove(&slot) {
            pool.up.insert(slot);
            pool.record_size(now);
            self.deliver(module, ModuleEvent::SlotUp { slot });
        }
    }

    /// A worker is lost with what runs on it, or returns.
    pub(super) fn on_failure(&mut self, index: usize, begins: bool) {
        let failure = self.spec.failures[index];
        let (Some(node), now) = (self.spec.modules.get(failure.module), self.now) else {
            return;
        };
        if let WorldPool::Pipelines(_) = node.pool {
            return self.on_share_failure(failure.module, failure.worker, begins);
        }
        if let WorldPool::Generating(_) = node.pool {
            return self.on_instance_failure(ModuleId(failure.module as u32), SlotId(failure.worker), begins);
        }
        let shared = match &node.pool {
            WorldPool::Shared(slots) => slots.get(failure.worker as usize).copied().map(SlotId),
            _ => None,
        };
        let slot = shared.unwrap_or(SlotId(failure.worker));
        // A shared slot may run anybody's batch.
        let concerned: Vec<ModuleId> = (0..self.modules.len() as u32)
            .map(ModuleId)
            .filter(|&id| {
                if shared.is_some() {
                    self.is_shared(id)
                } else {
                    id.index() == failure.module
                }
            })
            .collect();
        if shared.is_some() {
            self.send_slots(if begins {
                SlotEvent::Down { slot }
            } else {
                SlotEvent::Up { slot }
            });
        }
        for module in concerned {
            let pool = &mut self.pools[module.index()];
            let known = pool.up.contains(&slot) || pool.failed.contains(&slot);
            if begins {
                let was = pool.up.remove(&slot);
                pool.starting.remove(&slot);
                if was {
                    pool.failed.insert(slot);
                }
                pool.record_size(now);
                let lost = pool.running.remove(&slot).unwrap_or_default();
                if shared.is_none() && known {
                    self.deliver(module, ModuleEvent::SlotDown { slot });
                }
                for lost in lost {
                    if lost.is_prepared {
                        self.launch_lost(module, slot, lost.batch);
                    }
                    self.on_batch_end(module, slot, lost.batch, now.since(lost.since), true);
                }
                let own = shared.is_none().then_some(module);
                self.run_ends.remove(&(own, slot));
            } else if pool.failed.remove(&slot) {
                pool.up.insert(slot);
                pool.record_size(now);
                if shared.is_none() {
                    self.deliver(module, ModuleEvent::SlotUp { slot });
                }
            }
        }
    }
}
