//! Carrying out what the policy's module wants done.

use actix::{AsyncContext, Context};
use weir_policy::reservations::ReserveEvent;
use weir_policy::{ModuleEffect, ModuleEvent, SlotEvent};

use super::{Fact, ModuleActor, Wire};
use crate::actors::egress::Spent;
use crate::actors::reservations::ReserveFact;
use crate::actors::slots::SlotFact;
use crate::telemetry;

impl ModuleActor {
    pub(super) fn carry_out(&mut self, effect: ModuleEffect, context: &mut Context<Self>) {
        let Some(wire) = self.wire.clone() else { return };
        let module = self.setup.id;
        match effect {
            ModuleEffect::Bid(bid) => wire.slots.do_send(SlotFact(SlotEvent::Bid { module, bid })),
            ModuleEffect::CancelBid if self.setup.planned => {
                reserve(&wire, ReserveEvent::RequestCancelled { module })
            }
            ModuleEffect::CancelBid => wire.slots.do_send(SlotFact(SlotEvent::BidCancelled { module })),
            ModuleEffect::RequestPath(ask) => {
                reserve(&wire, ReserveEvent::PathRequested { module, request: ask })
            }
            ModuleEffect::CancelBooking { booking } => reserve(&wire, ReserveEvent::Declined { booking }),
            ModuleEffect::Dispatch {
                booking,
                batch,
                slices,
                ..
            } => self.dispatch(booking, batch, slices, &wire),
            ModuleEffect::Decline { slot } => {
                wire.slots.do_send(SlotFact(SlotEvent::Declined { module, slot }))
            }
            ModuleEffect::Run {
                slot,
                batch,
                slices,
                expected,
            } => {
                wire.slots.do_send(SlotFact(SlotEvent::Started {
                    module,
                    slot,
                    expected,
                }));
                self.run(slot, batch, slices, context);
            }
            ModuleEffect::Forward { request } => self.forward(request, &wire),
            ModuleEffect::Drop { request, reason } => self.let_go(request, reason, &wire),
            ModuleEffect::Spent { request, span } => wire.egress.do_send(Spent {
                request,
                module,
                span,
            }),
            ModuleEffect::Publish(state) => {
                telemetry::module_state(&self.setup.name, &state);
                for (id, address) in (0_u32..).zip(&wire.modules) {
                    if id != module.0 {
                        address.do_send(Fact(ModuleEvent::PeerState(state.clone())));
                    }
                }
            }
            ModuleEffect::SetTimer { at } => {
                if let Some(alarm) = self.alarm.take() {
                    context.cancel_future(alarm);
                }
                let wait = self.setup.clock.until(at);
                self.alarm = Some(context.run_later(wait, |actor, context| actor.decide(context)));
            }
        }
    }
}

fn reserve(wire: &Wire, event: ReserveEvent) {
    if let Some(reservations) = &wire.reservations {
        reservations.do_send(ReserveFact(event));
    }
}
