//! The workers of a module: which are there, which are starting, what runs on them; scaling, failure and return.

use std::collections::{BTreeMap, BTreeSet};

use weir_policy::{Autoscaler, ModuleEvent, SlotEvent, Window};
use weir_types::{BatchId, ModuleId, SlotId, Span, Timestamp};

use super::{Event, World};
use crate::spec::{PoolPlan, Scaling};

/// Over which the rate is taken that workers are scaled by.
const RATE: Span = Span::from_secs(5);

/// The workers of one module.
#[derive(Debug)]
pub(super) struct Fleet {
    slots: u32,
    scaling: Option<(Scaling, Autoscaler)>,
    up: BTreeSet<SlotId>,
    starting: BTreeSet<SlotId>,
    failed: BTreeSet<SlotId>,
    running: BTreeMap<SlotId, (BatchId, Timestamp)>,
    /// How many were there since when.
    pub(super) history: Vec<(Timestamp, u32)>,
    asked: Window,
}

impl Fleet {
    pub(super) fn new(pool: &PoolPlan) -> Self {
        let (slots, begin, scaling) = match pool {
            PoolPlan::Fixed(workers) => (*workers, *workers, None),
            PoolPlan::Scaled(scaling) => {
                let most = scaling.rule.max_workers.max(scaling.begin);
                (
                    most,
                    scaling.begin,
                    Some((*scaling, Autoscaler::new(scaling.rule))),
                )
            }
            PoolPlan::Shared(slots) => (0, slots.len() as u32, None),
        };
        let up = match pool {
            PoolPlan::Shared(slots) => slots.iter().copied().map(SlotId).collect(),
            _ => (0..begin).map(SlotId).collect(),
        };
        Self {
            slots,
            scaling,
            up,
            starting: BTreeSet::new(),
            failed: BTreeSet::new(),
            running: BTreeMap::new(),
            history: vec![(Timestamp::ZERO, begin)],
            asked: Window::new(RATE),
        }
    }

    /// Workers that could be there and are not.
    pub(super) fn absent(&self) -> Vec<SlotId> {
        (0..self.slots)
            .map(SlotId)
            .filter(|slot| !self.up.contains(slot))
            .collect()
    }

    /// Workers that are there or starting.
    pub(super) fn size(&self) -> u32 {
        (self.up.len() + self.starting.len()) as u32
    }

    pub(super) fn runs(&mut self, slot: SlotId, batch: BatchId, now: Timestamp) {
        self.running.insert(slot, (batch, now));
    }

    /// Says whether the batch was still running.
    pub(super) fn came_back(&mut self, slot: SlotId, batch: BatchId) -> bool {
        let runs = self
            .running
            .get(&slot)
            .is_some_and(|(running, _)| *running == batch);
        if runs {
            self.running.remove(&slot);
        }
        runs
    }

    fn note(&mut self, now: Timestamp) {
        self.history.push((now, self.up.len() as u32));
    }

    /// Counts a request that asks for this module.
    pub(super) fn asked(&mut self, items: u32, now: Timestamp) {
        if self.scaling.is_some() {
            self.asked.observe(f64::from(items), now);
        }
    }
}

impl World<'_> {
    /// Lets pools grow and shrink with their load.
    pub(super) fn scale(&mut self) {
        for module in 0..self.fleets.len() {
            let Some((scaling, wanted)) = self.wanted(module) else {
                continue;
            };
            let id = ModuleId(module as u32);
            let now = self.now;
            let others: u32 = self.fleets.iter().map(Fleet::size).sum();
            let mut room = self
                .spec
                .workers_most
                .map_or(u32::MAX, |most| most.saturating_sub(others));
            let fleet = &mut self.fleets[module];
            while fleet.size() < wanted && room > 0 {
                let free = |slot: &SlotId| {
                    !fleet.up.contains(slot) && !fleet.starting.contains(slot) && !fleet.failed.contains(slot)
                };
                let Some(slot) = (0..fleet.slots).map(SlotId).find(free) else {
                    break;
                };
                room -= 1;
                fleet.starting.insert(slot);
                self.agenda
                    .note(now + scaling.cold_start, Event::Started(id, slot));
            }
            let mut leaving = Vec::new();
            while fleet.size() > wanted {
                // One that is starting costs nothing yet.
                if fleet.starting.pop_last().is_some() {
                    continue;
                }
                if let Some(slot) = fleet.up.pop_last() {
                    leaving.push(slot);
                }
            }
            if !leaving.is_empty() {
                fleet.note(now);
            }
            for slot in leaving {
                self.tell(id, ModuleEvent::SlotDown { slot });
            }
        }
    }

    /// How many workers a module should have: by what is asked of it and what one worker can do.
    fn wanted(&mut self, module: usize) -> Option<(Scaling, u32)> {
        let now = self.now;
        let each = self.each_worker[module];
        let fleet = &mut self.fleets[module];
        let rate = fleet.asked.rate(now, Timestamp::ZERO);
        let (scaling, scaler) = fleet.scaling.as_mut()?;
        Some((*scaling, scaler.target_workers(rate, each, now)))
    }

    pub(super) fn started(&mut self, module: ModuleId, slot: SlotId) {
        let now = self.now;
        let fleet = &mut self.fleets[module.index()];
        if fleet.starting.remove(&slot) {
            fleet.up.insert(slot);
            fleet.note(now);
            self.tell(module, ModuleEvent::SlotUp { slot });
        }
    }

    /// A worker is lost with what runs on it, or returns.
    pub(super) fn failure(&mut self, index: usize, begins: bool) {
        let failure = self.spec.failures[index];
        let (Some(plan), now) = (self.spec.modules.get(failure.module), self.now) else {
            return;
        };
        let shared = match &plan.pool {
            PoolPlan::Shared(slots) => slots.get(failure.worker as usize).copied().map(SlotId),
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
            let fleet = &mut self.fleets[module.index()];
            let known = fleet.up.contains(&slot) || fleet.failed.contains(&slot);
            if begins {
                let was = fleet.up.remove(&slot);
                fleet.starting.remove(&slot);
                if was {
                    fleet.failed.insert(slot);
                }
                fleet.note(now);
                let lost = fleet.running.remove(&slot);
                if shared.is_none() && known {
                    self.tell(module, ModuleEvent::SlotDown { slot });
                }
                if let Some((batch, since)) = lost {
                    self.back(module, slot, batch, now.since(since), true);
                }
            } else if fleet.failed.remove(&slot) {
                fleet.up.insert(slot);
                fleet.note(now);
                if shared.is_none() {
                    self.tell(module, ModuleEvent::SlotUp { slot });
                }
            }
        }
    }
}
