//! Carries out effects of the world, and checks what is run, forwarded and dropped.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use weir_policy::*;
use weir_types::*;

use super::scenario::Items;
use super::world::{Message, World, json_round_trip};

impl World {
    pub(super) fn items(&self, module: ModuleId, request: RequestId) -> u32 {
        match self.scenario.vertices[module.index()].items {
            Items::Fixed(items) => items,
            Items::UpTo(most) => {
                let seed = self.scenario.seed ^ (request.0 << 8) ^ u64::from(module.0);
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
        let events = if self.scenario.json {
            events.iter().map(json_round_trip).collect()
        } else {
            events
        };
        let mut effects = Vec::new();
        self.modules[module.index()].step(events, self.now, &mut effects);
        for effect in effects {
            let effect = if self.scenario.json {
                self.log += &format!(
                    "{} {module:?} {}\n",
                    self.now.micros(),
                    serde_json::to_string(&effect).unwrap()
                );
                json_round_trip(&effect)
            } else {
                effect
            };
            self.apply_effect(module, effect);
        }
    }

    fn apply_effect(&mut self, module: ModuleId, effect: ModuleEffect) {
        let message_delay = self.scenario.message_delay;
        match effect {
            ModuleEffect::Bid(bid) => {
                self.send(message_delay, Message::Slots(SlotEvent::Bid { module, bid }))
            }
            ModuleEffect::CancelBid => {
                self.send(message_delay, Message::Slots(SlotEvent::BidCancelled { module }))
            }
            ModuleEffect::Decline { slot } => self.send(
                message_delay,
                Message::Slots(SlotEvent::Declined { module, slot }),
            ),
            ModuleEffect::Run {
                slot,
                batch,
                slices,
                expected,
            } => {
                let items = self.check_run(module, slot, batch, &slices);
                self.send(
                    message_delay,
                    Message::Slots(SlotEvent::Started {
                        module,
                        slot,
                        expected,
                    }),
                );
                let points = &self.scenario.vertices[module.index()].profile;
                let profile = Profile::new(
                    points
                        .iter()
                        .map(|&(size, ms)| (size, Span::from_millis(ms)))
                        .collect(),
                );
                let factor = 1.0 + self.scenario.noise * (2.0 * self.random.random::<f64>() - 1.0);
                let took = profile.unwrap().duration(items).scale(factor);
                if self.lost.contains(&slot.0) {
                    // Granted just before the slot was lost.
                    self.running.remove(&slot.0);
                    let took = Span::ZERO;
                    self.send(
                        message_delay,
                        Message::Module(module, ModuleEvent::Failed { batch, took }),
                    );
                    self.send(
                        message_delay,
                        Message::Slots(SlotEvent::Finished { module, slot, took }),
                    );
                } else {
                    self.send(took, Message::Done(module, slot, batch, took));
                }
                self.runs += 1;
                for slice in slices {
                    let ran = self.requests[slice.request.index()]
                        .ran
                        .entry(module.0)
                        .or_default();
                    let fresh = (slice.first..slice.first + slice.count).all(|item| ran.insert(item));
                    assert!(fresh, "items of {:?} run twice", slice.request);
                }
            }
            ModuleEffect::Forward { request } => {
                let wanted = self.items(module, request);
                let ran = self.requests[request.index()]
                    .ran
                    .remove(&module.0)
                    .unwrap_or_default();
                assert!(
                    ran.into_iter().eq(0..wanted),
                    "{request:?} goes on from {module:?} with items not run"
                );
                let next = self.scenario.vertices[module.index()].next.clone();
                if next.is_empty() {
                    self.send(message_delay, Message::Branch(None, request));
                }
                for follower in next {
                    self.send(message_delay, Message::Branch(Some(ModuleId(follower)), request));
                }
            }
            ModuleEffect::Accept { request, .. } => panic!("{request:?} has no answer to go on with"),
            ModuleEffect::Drop { request, reason, .. } => {
                let stream = self.requests[request.index()].stream;
                let lossless = self.scenario.streams[stream as usize].lossless;
                let never = self.scenario.policy.drop == DropRule::None && self.scenario.changes.is_empty();
                let kept = lossless || never;
                assert!(
                    !kept || reason == DropReason::Failed,
                    "{request:?} must not be dropped"
                );
                self.cancelled.insert((module.0, request));
                self.end_request(request, Outcome::Dropped(Some(module), reason), true);
            }
            ModuleEffect::Spent { request, span } => self.ledger.on_spent(request, module, span),
            ModuleEffect::Publish(state) => {
                self.states.insert(module.0, state.clone());
                for to in (0..self.modules.len() as u32)
                    .map(ModuleId)
                    .filter(|&to| to != module)
                {
                    self.send(
                        message_delay,
                        Message::Module(to, ModuleEvent::PeerState(state.clone())),
                    );
                }
            }
            ModuleEffect::PublishFanOut { fan_out } => {
                for to in (0..self.modules.len() as u32)
                    .map(ModuleId)
                    .filter(|&to| to != module)
                {
                    let fan_out = fan_out.clone();
                    self.send(
                        message_delay,
                        Message::Module(to, ModuleEvent::PeerFanOut { module, fan_out }),
                    );
                }
            }
            ModuleEffect::RequestPath(_)
            | ModuleEffect::Dispatch { .. }
            | ModuleEffect::CancelBooking { .. } => {
                panic!("there are no pipelines here")
            }
            ModuleEffect::Place { .. }
            | ModuleEffect::Remove { .. }
            | ModuleEffect::EvictSequence { .. }
            | ModuleEffect::RunStep { .. } => {
                panic!("no model generates here")
            }
            ModuleEffect::SetTimer { at } => {
                assert!(at > self.now, "a timer in the past");
                self.send(at.since(self.now), Message::Wake(module));
            }
        }
    }

    pub(super) fn done(&mut self, module: ModuleId, slot: SlotId, batch: BatchId, took: Span) {
        if self.running.get(&slot.0) != Some(&(module, batch)) {
            return;
        }
        self.running.remove(&slot.0);
        let failed = self.random.random_bool(self.scenario.failure_rate);
        let event = if failed {
            ModuleEvent::Failed { batch, took }
        } else {
            ModuleEvent::Finished { batch, took }
        };
        self.send(Span::ZERO, Message::Module(module, event));
        self.send(
            self.scenario.message_delay,
            Message::Slots(SlotEvent::Finished { module, slot, took }),
        );
    }

    /// The flaky slot goes down with its batch, or up.
    pub(super) fn flap_slot(&mut self, lost: bool) {
        let Some(slot) = self.scenario.flaky_slot.map(SlotId) else {
            return;
        };
        if lost {
            self.lost.insert(slot.0);
            self.send(Span::ZERO, Message::Slots(SlotEvent::Down { slot }));
            if let Some((module, batch)) = self.running.remove(&slot.0) {
                let took = Span::from_millis(1);
                self.send(
                    Span::ZERO,
                    Message::Module(module, ModuleEvent::Failed { batch, took }),
                );
                // Not before the start of the batch was delivered.
                let message_delay = self.scenario.message_delay;
                self.send(
                    message_delay,
                    Message::Slots(SlotEvent::Finished { module, slot, took }),
                );
            }
        } else {
            self.lost.remove(&slot.0);
            self.send(Span::ZERO, Message::Slots(SlotEvent::Up { slot }));
        }
        if !lost && self.is_done() {
            return;
        }
        self.send(
            Span::from_millis(if lost { 300 } else { 500 }),
            Message::FlapSlot(!lost),
        );
    }

    fn check_run(&mut self, module: ModuleId, slot: SlotId, batch: BatchId, slices: &[BatchSlice]) -> u32 {
        let vertex = &self.scenario.vertices[module.index()];
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
        let event = if self.scenario.json {
            json_round_trip(&event)
        } else {
            event
        };
        let mut effects = Vec::new();
        self.slots.step([event], self.now, &mut effects);
        for effect in effects {
            if self.scenario.json {
                self.log += &format!(
                    "{} {}\n",
                    self.now.micros(),
                    serde_json::to_string(&json_round_trip(&effect)).unwrap()
                );
            }
            let Some((to, event)) = ModuleEvent::from_slots(effect) else {
                continue;
            };
            self.send(self.scenario.message_delay, Message::Module(to, event));
        }
    }
}
