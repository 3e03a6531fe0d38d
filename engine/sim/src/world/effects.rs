//! Carrying out what modules want done.

use weir_policy::reservations::ReserveEvent;
use weir_policy::{BatchSlice, ModuleEffect, ModuleEvent, Outcome, SlotEvent};
use weir_types::{BatchId, DropReason, ModuleId, RequestId, SlotId, Span};

use super::cluster_run::actual_span;
use super::{Event, World};
use crate::spec::WorldPool;

/// How long a batch takes to fail on a slot with a fault.
const FAILS_AFTER: Span = Span::from_millis(1);

impl World<'_> {
    pub(super) fn apply(&mut self, module: ModuleId, effect: ModuleEffect) {
        match effect {
            ModuleEffect::Bid(bid) => self.send_slots(SlotEvent::Bid { module, bid }),
            ModuleEffect::RequestPath(request) => {
                self.send_reservations(ReserveEvent::PathRequested { module, request });
            }
            ModuleEffect::CancelBid if self.is_partitioned(module) => {
                self.send_reservations(ReserveEvent::RequestCancelled { module });
            }
            ModuleEffect::CancelBooking { booking } => {
                self.send_reservations(ReserveEvent::Declined { booking });
            }
            ModuleEffect::Dispatch {
                booking,
                batch,
                slices,
                ..
            } => self.dispatch(module, booking, batch, &slices),
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
            ModuleEffect::Forward { request } => self.forward_from(module, request, None),
            ModuleEffect::Accept { request, reason } => self.forward_from(module, request, Some(reason)),
            ModuleEffect::Drop { request, reason, .. } => {
                if self.end(request, Outcome::Dropped(Some(module), reason), true) {
                    self.timeline.on_dropped(module, self.now);
                }
            }
            ModuleEffect::Spent { request, span } => {
                self.policy_events += 1;
                self.ledger.on_spent(request, module, span);
            }
            ModuleEffect::Publish(state) => {
                self.timeline.on_state_published(state.bytes());
                self.send_to_peers(module, &ModuleEvent::PeerState(state));
            }
            ModuleEffect::PublishFanOut { fan_out } => {
                self.timeline.on_state_published(fan_out.bytes());
                self.send_to_peers(module, &ModuleEvent::PeerFanOut { module, fan_out });
            }
            ModuleEffect::SetTimer { at } => self.event_queue.push(at, Event::TimerFired(module)),
            ModuleEffect::Place {
                sequence,
                request,
                item,
                ..
            } => self.on_placed(module, sequence, request, item),
            ModuleEffect::RunStep { slot, step } => self.run_step(module, slot, step),
            // Where the cache of a sequence is makes no difference to what it generates.
            ModuleEffect::Remove { .. } | ModuleEffect::EvictSequence { .. } => {}
        }
    }

    /// With a reason to fall back the request goes on as far as it has come.
    fn forward_from(&mut self, module: ModuleId, request: RequestId, fallback: Option<DropReason>) {
        if let Some(stages) = &mut self.stages
            && let Some(counts) = stages.settle(module, request, fallback)
        {
            self.stats.modules.entry(module).or_default().on_stage(counts);
        }
        if fallback.is_some() && self.spec.cascades.optional.contains(&module.index()) {
            self.stats.modules.entry(module).or_default().on_degraded();
        }
        let spec = self.spec;
        let next = &spec.modules[module.index()].next;
        if next.is_empty() {
            self.forward(None, request, None);
        }
        for edge in next {
            self.forward(Some(ModuleId(edge.to as u32)), request, edge.link);
        }
    }

    fn send_to_peers(&mut self, module: ModuleId, event: &ModuleEvent) {
        let modules = (0..self.modules.len() as u32).map(ModuleId);
        for to in modules.filter(|&to| to != module) {
            self.send(to, event.clone());
        }
    }

    pub(super) fn is_shared(&self, module: ModuleId) -> bool {
        matches!(self.spec.modules[module.index()].pool, WorldPool::Shared(_))
    }

    fn run_batch(&mut self, module: ModuleId, slot: SlotId, batch: BatchId, slices: &[BatchSlice]) {
        let items = slices.iter().map(|slice| slice.count).sum();
        let node = &self.spec.modules[module.index()];
        let profile = match &node.pool {
            WorldPool::Unequal(ends) => ends.get(slot.index()).unwrap_or(&node.profile),
            _ => &node.profile,
        };
        let profiled = profile.duration(items);
        let work = actual_span(profiled, self.spec.noise, &mut self.random);
        let work = self.slowed(work);
        let took = self.spec.interference.map_or(work, |others| {
            let workers = match &self.spec.modules[module.index()].pool {
                WorldPool::Shared(_) => self.spec.shared_slots,
                _ => self.pools[module.index()].slots,
            };
            others.elapsed(work, self.now, (slot.0, workers), self.spec.seed)
        });
        self.stats.modules.entry(module).or_default().on_run(slices);
        self.timeline.on_run(module, self.now, slices);
        let overlap = self.spec.modules[module.index()].overlap.as_ref();
        self.pools[module.index()].on_run(slot, batch, self.now, overlap.is_some());
        self.stages
            .iter_mut()
            .for_each(|stages| stages.on_run(module, batch, slices));
        let failed = self.is_shared(module) && self.is_faulty(slot);
        let took = if failed { FAILS_AFTER } else { took };
        let mut began = self.now;
        if let Some(overlap) = overlap {
            let declared = overlap.preparation.as_ref();
            let declared = declared.map_or(Span::ZERO, |profile| profile.duration(items));
            let prepared = actual_span(declared, self.spec.noise, &mut self.random);
            let place = ((!self.is_shared(module)).then_some(module), slot);
            // Prepared at once, and run when the run before is over.
            let run_end = self.run_ends.entry(place).or_default();
            began = (self.now + prepared).max(*run_end);
            *run_end = began + took;
            self.event_queue
                .push(began, Event::Launched(module, slot, batch, prepared));
        }
        self.event_queue
            .push(began + took, Event::BatchDone(module, slot, batch, took, failed));
    }

    pub(super) fn on_launched(&mut self, module: ModuleId, slot: SlotId, batch: BatchId, prepared: Span) {
        // What was lost with its worker before is launched no more.
        if self.pools[module.index()].launch(slot, batch) {
            self.deliver(module, ModuleEvent::Launched { batch, prepared });
            if self.is_shared(module) {
                self.send_slots(SlotEvent::Launched { module, slot });
            }
        }
    }

    /// What was being prepared on a slot that is lost: each batch is launched once before it ends.
    pub(super) fn launch_lost(&mut self, module: ModuleId, slot: SlotId, batch: BatchId) {
        let prepared = Span::ZERO;
        self.deliver(module, ModuleEvent::Launched { batch, prepared });
        if self.is_shared(module) {
            self.send_slots(SlotEvent::Launched { module, slot });
        }
    }

    pub(super) fn on_batch_done(
        &mut self,
        module: ModuleId,
        slot: SlotId,
        batch: BatchId,
        took: Span,
        failed: bool,
    ) {
        // What was lost with its worker does not come back.
        if self.pools[module.index()].take_running(slot, batch) {
            self.on_batch_end(module, slot, batch, took, failed);
            if failed {
                self.break_slots(Some(slot));
            }
        }
    }

    /// A batch of a stage came back, or was lost.
    pub(super) fn end_stage_batch(&mut self, module: ModuleId, batch: BatchId, failed: bool) {
        if let Some(stages) = &mut self.stages {
            stages.on_batch_end(module, batch, failed);
        }
    }

    /// Tells of a batch that came back, or of one that was lost.
    pub(super) fn on_batch_end(
        &mut self,
        module: ModuleId,
        slot: SlotId,
        batch: BatchId,
        took: Span,
        failed: bool,
    ) {
        self.stats
            .modules
            .entry(module)
            .or_default()
            .on_batch_done(took, failed);
        self.end_stage_batch(module, batch, failed);
        let event = if failed {
            ModuleEvent::Failed { batch, took }
        } else {
            ModuleEvent::Finished { batch, took }
        };
        self.deliver(module, event);
        if self.is_shared(module) {
            self.send_slots(SlotEvent::Finished { module, slot, took });
        }
    }
}
