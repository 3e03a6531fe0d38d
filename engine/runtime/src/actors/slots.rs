//! The slot actor: passes what modules bid to the policy's arbiter `Slots`, and what it grants back to them.

use actix::{Actor, AsyncContext, Context, Handler, Message};
use weir_policy::{ModuleEvent, SlotEffect, SlotEvent, Slots};

use super::messages::{ArbiterEvent, ConnectModules, ModuleRef, PolicyEvent};
use crate::clock::{Clock, duration};
use crate::record::Recorder;
use crate::telemetry::TICK_INTERVAL;

/// Sent by the actor to itself: all events of a burst are in.
#[derive(Message)]
#[rtype(result = "()")]
struct Decide;

pub(crate) struct SlotActor {
    slots: Slots,
    clock: Clock,
    recorder: Option<Recorder>,
    modules: Vec<ModuleRef>,
    events: Vec<SlotEvent>,
    effects: Vec<SlotEffect>,
    decide_pending: bool,
}

impl SlotActor {
    pub(crate) fn new(slots: Slots, clock: Clock, recorder: Option<Recorder>) -> Self {
        Self {
            slots,
            clock,
            recorder,
            modules: Vec::new(),
            events: Vec::new(),
            effects: Vec::new(),
            decide_pending: false,
        }
    }

    fn on_event(&mut self, event: SlotEvent, context: &mut Context<Self>) {
        self.events.push(event);
        if !self.decide_pending {
            self.decide_pending = true;
            context.notify(Decide);
        }
    }

    fn decide(&mut self) {
        self.decide_pending = false;
        let now = self.clock.now();
        let events = std::mem::take(&mut self.events);
        self.notify_modules(&events);
        self.slots.step(events.iter().copied(), now, &mut self.effects);
        if let Some(recorder) = &self.recorder {
            recorder.record_slots_step(now, &events, &self.effects);
        }
        for effect in self.effects.drain(..) {
            let (module, event) = ModuleEvent::from_slots(effect);
            if let Some(module) = self.modules.get(module.index()) {
                module.events.do_send(PolicyEvent(event));
            }
        }
    }
}

impl SlotActor {
    /// Modules that own their slots never bid, so they are informed of slots that go down and up themselves.
    fn notify_modules(&self, events: &[SlotEvent]) {
        for event in events {
            let event = match *event {
                SlotEvent::Down { slot } => ModuleEvent::SlotDown { slot },
                SlotEvent::Up { slot } => ModuleEvent::SlotUp { slot },
                _ => continue,
            };
            for module in &self.modules {
                module.events.do_send(PolicyEvent(event.clone()));
            }
        }
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
        self.on_event(event, context);
    }
}

impl Handler<Decide> for SlotActor {
    type Result = ();

    fn handle(&mut self, _: Decide, _context: &mut Self::Context) {
        self.decide();
    }
}

impl Handler<ConnectModules> for SlotActor {
    type Result = ();

    fn handle(&mut self, ConnectModules(modules): ConnectModules, _context: &mut Self::Context) {
        self.modules = modules;
    }
}
