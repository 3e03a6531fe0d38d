//! Applying the effects of the policy's module.

use std::sync::Arc;

use actix::Context;
use weir_policy::reservations::ReserveEvent;
use weir_policy::{ModuleEffect, ModuleEvent, SlotEvent};

use super::{ActorRefs, ModuleActor};
use crate::actors::burst::PolicyActor;
use crate::actors::messages::{ArbiterEvent, ModuleLoad, PolicyEvent, ReservationEvent, Spent};
use crate::telemetry;

impl ModuleActor {
    pub(super) fn apply_effect(&mut self, effect: ModuleEffect, context: &mut Context<Self>) {
        let refs = Arc::clone(&self.setup.actors);
        let module = self.setup.id;
        match effect {
            ModuleEffect::Bid(bid) => refs.slots.do_send(ArbiterEvent(SlotEvent::Bid { module, bid })),
            ModuleEffect::CancelBid if self.setup.prepost.is_some() => {
                reserve(&refs, ReserveEvent::RequestCancelled { module })
            }
            ModuleEffect::CancelBid => refs
                .slots
                .do_send(ArbiterEvent(SlotEvent::BidCancelled { module })),
            ModuleEffect::RequestPath(ask) => {
                reserve(&refs, ReserveEvent::PathRequested { module, request: ask })
            }
            ModuleEffect::CancelBooking { booking } => self.cancel_booking(booking, &refs),
            ModuleEffect::Dispatch {
                booking,
                batch,
                slices,
                ..
            } => self.dispatch(booking, batch, slices, &refs),
            ModuleEffect::Decline { slot } => refs
                .slots
                .do_send(ArbiterEvent(SlotEvent::Declined { module, slot })),
            ModuleEffect::Run {
                slot,
                batch,
                slices,
                expected,
            } => {
                if self.setup.shared {
                    refs.slots.do_send(ArbiterEvent(SlotEvent::Started {
                        module,
                        slot,
                        expected,
                    }));
                }
                self.run((slot, expected), batch, slices, context);
            }
            ModuleEffect::Forward { request } => self.forward(request, None, &refs),
            ModuleEffect::Accept { request, reason } => {
                self.instances.end_request(request);
                self.forward(request, Some(reason), &refs);
            }
            ModuleEffect::Drop {
                request,
                reason,
                shortfall,
            } => {
                self.instances.end_request(request);
                self.drop_request(request, (reason, shortfall), &refs);
            }
            ModuleEffect::Spent { request, span } => refs.egress.do_send(Spent {
                request,
                module: self.setup.report_id,
                span,
            }),
            ModuleEffect::Publish(state) => {
                telemetry::record_module_state(&self.setup.name, &state);
                self.load = ModuleLoad {
                    input_rate: state.input_rate,
                    throughput: state.throughput,
                    slots: state.workers,
                    ..self.load
                };
                self.send_to_peers(&ModuleEvent::PeerState(state));
            }
            ModuleEffect::PublishFanOut { fan_out } => {
                self.send_to_peers(&ModuleEvent::PeerFanOut { module, fan_out });
            }
            ModuleEffect::SetTimer { at } => self.set_timer(at, context, Self::decide),
            ModuleEffect::Place {
                slot,
                sequence,
                request,
                item,
                cached,
            } => self.place(slot, (sequence, cached), request, item),
            ModuleEffect::Remove {
                slot,
                sequence,
                keeps_cache: true,
            } => self.instances.hand_over(slot, sequence),
            ModuleEffect::Remove { slot, sequence, .. } => self.instances.remove(slot, sequence),
            ModuleEffect::EvictSequence { slot, sequence } => self.instances.evict(slot, sequence),
            ModuleEffect::RunStep { slot, step } => self.run_step(slot, &step, context),
        }
    }

    /// Sends an event to the policies of all other modules.
    pub(super) fn send_to_peers(&self, event: &ModuleEvent) {
        for (id, address) in (0_u32..).zip(&self.setup.actors.modules) {
            if id != self.setup.id.0 {
                address.do_send(PolicyEvent(event.clone()));
            }
        }
    }
}

fn reserve(refs: &ActorRefs, event: ReserveEvent) {
    if let Some(reservations) = &refs.reservations {
        reservations.do_send(ReservationEvent(event));
    }
}
