//! Carrying out what modules want done.

use weir_policy::{BatchSlice, ModuleEffect, ModuleEvent, Outcome, SlotEvent};
use weir_types::{BatchId, ModuleId, SlotId, Span};

use super::{Event, World};
use crate::demand::normal;
use crate::spec::PoolPlan;

impl World<'_> {
    pub(super) fn carry_out(&mut self, module: ModuleId, effect: ModuleEffect) {
        match effect {
            ModuleEffect::Bid(bid) => self.send_slots(SlotEvent::Bid { module, bid }),
            ModuleEffect::CancelBid => self.send_slots(SlotEvent::BidCancelled { module }),
            ModuleEffect::Decline { slot } => self.send_slots(SlotEvent::Declined { module, slot }),
            ModuleEffect::Run {
                slot,
                batch,
                slices,
                expected,
            } => {
                if self.is_shared(module) {
                    self.send_slots(SlotEvent::Started {
                        module,
                        slot,
                        expected,
                    });
                }
                self.run_batch(module, slot, batch, &slices);
            }
            ModuleEffect::Forward { request } => {
                let spec = self.spec;
                let next = &spec.modules[module.index()].next;
                if next.is_empty() {
                    self.hand_on(None, request, None);
                }
                for edge in next {
                    self.hand_on(Some(ModuleId(edge.to as u32)), request, edge.link);
                }
            }
            ModuleEffect::Drop { request, reason } => {
                if self.end(request, Outcome::Dropped(Some(module), reason), true) {
                    self.trail.dropped(module, self.now);
                }
            }
            ModuleEffect::Spent { request, span } => {
                self.facts += 1;
                self.ledger.on_spent(request, module, span);
            }
            ModuleEffect::Publish(state) => {
                self.trail.told(state.bytes());
                for to in (0..self.modules.len() as u32)
                    .map(ModuleId)
                    .filter(|&to| to != module)
                {
                    self.send(to, ModuleEvent::PeerState(state.clone()));
                }
            }
            // Pools of pipelines are simulated on their own: a world has none.
            ModuleEffect::RequestPath(_)
            | ModuleEffect::Dispatch { .. }
            | ModuleEffect::CancelBooking { .. } => {}
            ModuleEffect::SetTimer { at } => self.agenda.note(at, Event::Wake(module)),
        }
    }

    pub(super) fn is_shared(&self, module: ModuleId) -> bool {
        matches!(self.spec.modules[module.index()].pool, PoolPlan::Shared(_))
    }

    fn run_batch(&mut self, module: ModuleId, slot: SlotId, batch: BatchId, slices: &[BatchSlice]) {
        let items = slices.iter().map(|slice| slice.count).sum();
        let profiled = self.spec.modules[module.index()].profile.duration(items);
        let took = if self.spec.noise > 0.0 {
            let noise = self.spec.noise;
            profiled.scale((noise * normal(&mut self.random) - noise * noise / 2.0).exp())
        } else {
            profiled
        };
        self.tally.modules.entry(module).or_default().on_run(slices);
        self.trail.ran(module, self.now, slices);
        self.fleets[module.index()].runs(slot, batch, self.now);
        self.agenda
            .note(self.now + took, Event::Done(module, slot, batch, took));
    }

    pub(super) fn done(&mut self, module: ModuleId, slot: SlotId, batch: BatchId, took: Span) {
        // What was lost with its worker does not come back.
        if self.fleets[module.index()].came_back(slot, batch) {
            self.back(module, slot, batch, took, false);
        }
    }

    /// Tells of a batch that came back, or of one that was lost.
    pub(super) fn back(&mut self, module: ModuleId, slot: SlotId, batch: BatchId, took: Span, failed: bool) {
        self.tally
            .modules
            .entry(module)
            .or_default()
            .on_batch_done(took, failed);
        let fact = if failed {
            ModuleEvent::Failed { batch, took }
        } else {
            ModuleEvent::Finished { batch, took }
        };
        self.tell(module, fact);
        if self.is_shared(module) {
            self.send_slots(SlotEvent::Finished { module, slot, took });
        }
    }
}
