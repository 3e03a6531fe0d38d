//! Carries out effects of the policy's module, and delivers its messages to other actors.

use std::sync::Arc;

use actix::Context;
use weir_control::{
    Effect, EgressMessage, Message, ModuleMessage, Outbox, Outgoing, Published, ReservationMessage,
};
use weir_policy::reservations::{PlannedEvent, ReserveEvent};
use weir_policy::{BreakerEvent, ModuleEffect, ModuleEvent};

use super::ModuleActor;
use crate::actors::burst::PolicyActor;
use crate::actors::messages::{ArbiterEvent, BatchLost, ModuleLoad, PolicyEvent, ReservationEvent, Spent};
use crate::telemetry;

impl ModuleActor {
    /// Takes in a message by which the flow of the module goes on.
    pub(super) fn take(&mut self, message: ModuleMessage, context: &mut Context<Self>) {
        self.with_flow(context, |flow, facts, out| flow.on(message, facts, out));
    }

    pub(super) fn apply_effect(&mut self, effect: ModuleEffect, context: &mut Context<Self>) {
        self.with_flow(context, |flow, _, out| flow.apply(effect, out));
    }

    /// Lets the flow go on, and delivers what follows.
    pub(super) fn with_flow(
        &mut self,
        context: &mut Context<Self>,
        go_on: impl FnOnce(&mut weir_control::ModuleFlow, &mut Vec<ModuleEvent>, &mut Outbox),
    ) {
        let (mut facts, mut out) = (std::mem::take(&mut self.facts), std::mem::take(&mut self.out));
        go_on(&mut self.flow, &mut facts, &mut out);
        for fact in facts.drain(..) {
            self.on_event(fact, context);
        }
        for outgoing in out.drain() {
            match outgoing {
                Outgoing::Send { message, .. } | Outgoing::Tell(message) => self.send(message),
                Outgoing::Act(effect) => self.act(effect, context),
            }
        }
        (self.facts, self.out) = (facts, out);
    }

    /// Sends a message to the actor of its machine.
    fn send(&mut self, message: Message) {
        let refs = Arc::clone(&self.setup.actors);
        match message {
            Message::Module(to, ModuleMessage::Fact(event)) => {
                refs.modules[to.index()].do_send(PolicyEvent(event));
            }
            Message::Goes(_, to) => self.go_on(to, &refs),
            Message::Slots(event) => refs.slots.do_send(ArbiterEvent(event)),
            Message::Breaker(BreakerEvent::BatchLost { slot }) => {
                let (module, reason) = (self.setup.name.clone(), self.loss.take().unwrap_or_default());
                refs.supervisor.do_send(BatchLost { module, slot, reason });
            }
            Message::Reservations(ReservationMessage::Planned(PlannedEvent::Reserve(event))) => {
                if let ReserveEvent::Declined { booking } = event {
                    self.paths.remove(&booking);
                }
                if let Some(reservations) = &refs.reservations {
                    reservations.do_send(ReservationEvent(event));
                }
            }
            Message::Reservations(ReservationMessage::Dispatched {
                booking,
                batch,
                items,
                ..
            }) => self.set_out(booking, batch, items, &refs),
            Message::Egress(EgressMessage::Dropped {
                request,
                reason,
                shortfall,
                ..
            }) => {
                self.instances.end_request(request);
                self.drop_request(request, (reason, shortfall), &refs);
            }
            Message::Egress(EgressMessage::Spent { request, span, .. }) => refs.egress.do_send(Spent {
                request,
                module: self.setup.report_id,
                span,
            }),
            // A module sends none of these.
            Message::Module(..)
            | Message::Reservations(_)
            | Message::Egress(_)
            | Message::TimerFired(_)
            | Message::Tick => {}
        }
    }

    fn act(&mut self, effect: Effect, context: &mut Context<Self>) {
        match effect {
            Effect::Enter(_, request) => self.enter(request, context),
            Effect::Leave {
                request, fallback, ..
            } => self.leave(request, fallback, context),
            Effect::Run {
                slot,
                batch,
                slices,
                expected,
                ..
            } => self.run((slot, expected), batch, slices, context),
            Effect::Dispatch { batch, slices, .. } => self.dispatch(batch, slices),
            Effect::Place {
                slot,
                sequence,
                request,
                item,
                cached,
                ..
            } => self.place(slot, (sequence, cached), request, item),
            Effect::Remove {
                slot,
                sequence,
                keeps_cache: true,
                ..
            } => self.instances.hand_over(slot, sequence),
            Effect::Remove { slot, sequence, .. } => self.instances.remove(slot, sequence),
            Effect::Evict { slot, sequence, .. } => self.instances.evict(slot, sequence),
            Effect::RunStep { slot, step, .. } => self.run_step(slot, &step, context),
            Effect::Published(_, Published::State(state)) => {
                telemetry::record_module_state(&self.setup.name, &state);
                self.load = ModuleLoad {
                    input_rate: state.input_rate,
                    throughput: state.throughput,
                    slots: state.workers,
                    ..self.load
                };
            }
            Effect::SetTimer { at, .. } => self.set_timer(at, context, Self::decide),
            Effect::Published(_, Published::FanOut(_)) | Effect::BatchOver { .. } => {}
            // A module wants none of these.
            Effect::SetOut { .. }
            | Effect::PathLost(_)
            | Effect::Session(_)
            | Effect::LoadPlan(_)
            | Effect::GiveUpPlan(..)
            | Effect::SwitchPlan { .. }
            | Effect::Ended { .. }
            | Effect::Carry { .. } => {}
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
