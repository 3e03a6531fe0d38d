//! The half of the world that carries effects out, and checks what is run, forwarded and dropped.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use weir_policy::*;
use weir_types::*;

use super::scene::Items;
use super::world::{Wire, World, again};

impl World {
    pub(super) fn items(&self, module: ModuleId, request: RequestId) -> u32 {
        match self.scene.vertices[module.index()].items {
            Items::Fixed(items) => items,
            Items::UpTo(most) => {
                let seed = self.scene.seed ^ (request.0 << 8) ^ u64::from(module.0);
                Pcg64Mcg::seed_from_u64(seed).random_range(0..=most)
            }
        }
    }

    pub(super) fn step_module(&mut self, module: ModuleId, events: Vec<ModuleEvent>) {
        for event in &events {
            if let ModuleEvent::Cancelled { request } = event {
                self.cancelled.insert((module.0, *request));
            }
        }
        let events = if self.scene.json {
            events.iter().map(again).collect()
        } else {
            events
        };
        let mut effects = Vec::new();
        self.modules[module.index()].step(events, self.now, &mut effects);
        for effect in effects {
            let effect = if self.scene.json {
                self.log += &format!(
                    "{} {module:?} {}\n",
                    self.now.micros(),
                    serde_json::to_string(&effect).unwrap()
                );
                again(&effect)
            } else {
                effect
            };
            self.carry_out(module, effect);
        }
    }

    fn carry_out(&mut self, module: ModuleId, effect: ModuleEffect) {
        let hop = self.scene.hop;
        match effect {
            ModuleEffect::Bid(bid) => self.wire(hop, Wire::Slots(SlotEvent::Bid { module, bid })),
            ModuleEffect::CancelBid => self.wire(hop, Wire::Slots(SlotEvent::BidCancelled { module })),
            ModuleEffect::Decline { slot } => {
                self.wire(hop, Wire::Slots(SlotEvent::Declined { module, slot }))
            }
            ModuleEffect::Run {
                slot,
                batch,
                slices,
                expected,
            } => {
                let items = self.check_run(module, slot, batch, &slices);
                self.wire(
                    hop,
                    Wire::Slots(SlotEvent::Started {
                        module,
                        slot,
                        expected,
                    }),
                );
                let points = &self.scene.vertices[module.index()].profile;
                let profile = Profile::new(
                    points
                        .iter()
                        .map(|&(size, ms)| (size, Span::from_millis(ms)))
                        .collect(),
                );
                let factor = 1.0 + self.scene.noise * (2.0 * self.random.random::<f64>() - 1.0);
                let took = profile.unwrap().duration(items).scale(factor);
                if self.lost.contains(&slot.0) {
                    // Granted just before the slot was lost.
                    self.running.remove(&slot.0);
                    let took = Span::ZERO;
                    self.wire(hop, Wire::Module(module, ModuleEvent::Failed { batch, took }));
                    self.wire(hop, Wire::Slots(SlotEvent::Finished { module, slot, took }));
                } else {
                    self.wire(took, Wire::Done(module, slot, batch, took));
                }
                self.runs += 1;
                for slice in slices {
                    let ran = self.journeys[slice.request.index()]
                        .ran
                        .entry(module.0)
                        .or_default();
                    let fresh = (slice.first..slice.first + slice.count).all(|item| ran.insert(item));
                    assert!(fresh, "items of {:?} run twice", slice.request);
                }
            }
            ModuleEffect::Forward { request } => {
                let wanted = self.items(module, request);
                let ran = self.journeys[request.index()]
                    .ran
                    .remove(&module.0)
                    .unwrap_or_default();
                assert!(
                    ran.into_iter().eq(0..wanted),
                    "{request:?} goes on from {module:?} with items not run"
                );
                let next = self.scene.vertices[module.index()].next.clone();
                if next.is_empty() {
                    self.wire(hop, Wire::BatchSlice(None, request));
                }
                for follower in next {
                    self.wire(hop, Wire::BatchSlice(Some(ModuleId(follower)), request));
                }
            }
            ModuleEffect::Drop { request, reason } => {
                let stream = self.journeys[request.index()].stream;
                let lossless = self.scene.streams[stream as usize].lossless;
                let kept = lossless || self.scene.policy.drop == DropRule::None;
                assert!(
                    !kept || reason == DropReason::Failed,
                    "{request:?} must not be dropped"
                );
                self.cancelled.insert((module.0, request));
                self.end(request, Outcome::Dropped(Some(module), reason), true);
            }
            ModuleEffect::Spent { request, span } => self.ledger.spent(request, module, span),
            ModuleEffect::Publish(state) => {
                self.states.insert(module.0, state.clone());
                for to in (0..self.modules.len() as u32)
                    .map(ModuleId)
                    .filter(|&to| to != module)
                {
                    self.wire(hop, Wire::Module(to, ModuleEvent::PeerState(state.clone())));
                }
            }
            ModuleEffect::RequestPath(_)
            | ModuleEffect::Dispatch { .. }
            | ModuleEffect::CancelBooking { .. } => {
                panic!("there are no pipelines here")
            }
            ModuleEffect::SetTimer { at } => {
                assert!(at > self.now, "an alarm in the past");
                self.wire(at.since(self.now), Wire::Wake(module));
            }
        }
    }

    pub(super) fn done(&mut self, module: ModuleId, slot: SlotId, batch: BatchId, took: Span) {
        if self.running.get(&slot.0) != Some(&(module, batch)) {
            return;
        }
        self.running.remove(&slot.0);
        let failed = self.random.random_bool(self.scene.failing);
        let event = if failed {
            ModuleEvent::Failed { batch, took }
        } else {
            ModuleEvent::Finished { batch, took }
        };
        self.wire(Span::ZERO, Wire::Module(module, event));
        self.wire(
            self.scene.hop,
            Wire::Slots(SlotEvent::Finished { module, slot, took }),
        );
    }

    /// The shaky slot is lost with what runs on it, or is back.
    pub(super) fn shake(&mut self, lost: bool) {
        let Some(slot) = self.scene.shaky.map(SlotId) else {
            return;
        };
        if lost {
            self.lost.insert(slot.0);
            self.wire(Span::ZERO, Wire::Slots(SlotEvent::Down { slot }));
            if let Some((module, batch)) = self.running.remove(&slot.0) {
                let took = Span::from_millis(1);
                self.wire(
                    Span::ZERO,
                    Wire::Module(module, ModuleEvent::Failed { batch, took }),
                );
                // Not before its own beginning was told.
                let hop = self.scene.hop;
                self.wire(hop, Wire::Slots(SlotEvent::Finished { module, slot, took }));
            }
        } else {
            self.lost.remove(&slot.0);
            self.wire(Span::ZERO, Wire::Slots(SlotEvent::Up { slot }));
        }
        if !lost && self.over() {
            return;
        }
        self.wire(
            Span::from_millis(if lost { 300 } else { 500 }),
            Wire::Shake(!lost),
        );
    }

    fn check_run(&mut self, module: ModuleId, slot: SlotId, batch: BatchId, slices: &[BatchSlice]) -> u32 {
        let vertex = &self.scene.vertices[module.index()];
        assert!(vertex.slots.contains(&slot.0));
        let before = self.running.insert(slot.0, (module, batch));
        assert_eq!(before, None, "two batches on {slot:?}");
        let items: u32 = slices.iter().map(|slice| slice.count).sum();
        let most = vertex.batch.iter().max().copied().unwrap_or(1);
        assert!(
            items >= 1 && items <= most,
            "{items} items in a batch of {module:?}"
        );
        for slice in slices {
            assert!(slice.count > 0);
            let gone = self.cancelled.contains(&(module.0, slice.request));
            assert!(!gone, "{:?} runs on {module:?} after it ended", slice.request);
        }
        items
    }

    pub(super) fn step_slots(&mut self, event: SlotEvent) {
        let event = if self.scene.json { again(&event) } else { event };
        let mut effects = Vec::new();
        self.slots.step([event], self.now, &mut effects);
        for effect in effects {
            if self.scene.json {
                self.log += &format!(
                    "{} {}\n",
                    self.now.micros(),
                    serde_json::to_string(&again(&effect)).unwrap()
                );
            }
            let (to, event) = ModuleEvent::from_slots(effect);
            self.wire(self.scene.hop, Wire::Module(to, event));
        }
    }
}
