//! The slot actor: passes what modules bid to the policy's arbiter `Slots`, and what it grants back to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::{Actor, ActorContext, AsyncContext, Context, Handler};
use weir_policy::{ModuleEvent, SlotEffect, SlotEvent, Slots};
use weir_types::{SlotId, Span};

use super::burst::{Burst, PolicyActor};
use super::messages::{ArbiterEvent, ModuleRef, PolicyEvent, StopActor};
use crate::clock::{Clock, duration};
use crate::record::Recorder;
use crate::residency_tally::ResidencyTally;
use crate::session_control::{SessionControl, SessionOrder};
use crate::telemetry::TICK_INTERVAL;

/// The sessions of slots whose devices do not hold all their models.
#[derive(Default)]
pub(crate) struct SlotSessions {
    pub(crate) controls: BTreeMap<SlotId, SessionControl>,
    /// Names of models, by index.
    pub(crate) names: Vec<String>,
    pub(crate) tally: Arc<ResidencyTally>,
}

impl SlotSessions {
    /// Gives a worker an order; what has become of it where its thread is gone.
    fn order(&self, slot: SlotId, order: SessionOrder) -> Option<SlotEvent> {
        let sent = self
            .controls
            .get(&slot)
            .map(|control| control.orders.try_send(order));
        if matches!(sent, Some(Ok(()))) {
            return None;
        }
        let took = Span::ZERO;
        Some(match order {
            SessionOrder::Open { model, .. } => SlotEvent::OpenFailed { slot, model, took },
            SessionOrder::Close { model } => SlotEvent::Closed { slot, model, took },
        })
    }
}

pub(crate) struct SlotActor {
    burst: Burst<Slots>,
    modules: Vec<ModuleRef>,
    sessions: SlotSessions,
}

impl SlotActor {
    pub(crate) fn new(
        slots: Slots,
        clock: Clock,
        recorder: Option<Recorder>,
        modules: Vec<ModuleRef>,
        sessions: SlotSessions,
    ) -> Self {
        Self {
            burst: Burst::new(slots, clock, recorder),
            modules,
            sessions,
        }
    }

    fn order(&self, slot: SlotId, order: SessionOrder, context: &mut Context<Self>) {
        if let Some(event) = self.sessions.order(slot, order) {
            context.notify(ArbiterEvent(event));
        }
    }

    /// Modules that own their slots never bid, so they are informed of slots that go down and up themselves.
    fn notify_modules(&self, event: SlotEvent) {
        let event = match event {
            SlotEvent::Down { slot } => ModuleEvent::SlotDown { slot },
            SlotEvent::Up { slot } => ModuleEvent::SlotUp { slot },
            _ => return,
        };
        for module in &self.modules {
            module.events.do_send(PolicyEvent(event.clone()));
        }
    }
}

impl PolicyActor for SlotActor {
    type Machine = Slots;

    fn burst(&mut self) -> &mut Burst<Slots> {
        &mut self.burst
    }

    fn apply(&mut self, effect: SlotEffect, context: &mut Context<Self>) {
        match effect {
            SlotEffect::Open { slot, model, warm } => {
                self.order(slot, SessionOrder::Open { model, warm }, context);
            }
            SlotEffect::Close { slot, model } => self.order(slot, SessionOrder::Close { model }, context),
            SlotEffect::Discard { model } => {
                if let Some(control) = self.sessions.controls.values().next() {
                    control.warm.discard(model);
                }
            }
            SlotEffect::SetTimer { at } => self.set_timer(at, context, |actor, context| {
                actor.on_event(SlotEvent::TimerFired, context);
            }),
            SlotEffect::Planned { .. } => self.sessions.tally.on_planned(self.burst.last_step()),
            SlotEffect::Grant { .. } | SlotEffect::Forecast { .. } | SlotEffect::Share { .. } => {}
        }
        let Some((module, event)) = ModuleEvent::from_slots(effect) else {
            return;
        };
        if let Some(module) = self.modules.get(module.index()) {
            module.events.do_send(PolicyEvent(event));
        }
    }
}

impl Handler<StopActor> for SlotActor {
    type Result = ();

    fn handle(&mut self, _: StopActor, context: &mut Self::Context) {
        context.stop();
    }
}

impl Actor for SlotActor {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        context.run_interval(duration(TICK_INTERVAL), |actor, context| {
            actor.on_event(SlotEvent::Tick, context)
        });
    }
}

impl Handler<ArbiterEvent> for SlotActor {
    type Result = ();

    fn handle(&mut self, ArbiterEvent(event): ArbiterEvent, context: &mut Self::Context) {
        self.notify_modules(event);
        if !self.sessions.controls.is_empty() {
            self.sessions.tally.on_event(&event, &self.sessions.names);
            if let (SlotEvent::Finished { .. }, Some(report)) = (event, self.burst.machine().queues_report())
            {
                self.sessions.tally.set_queues(report);
            }
        }
        self.on_event(event, context);
    }
}
