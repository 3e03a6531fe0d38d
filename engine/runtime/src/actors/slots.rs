//! The reservation actor: drives the policy's `Slots` with what modules tell it, and tells them what it grants.

use actix::{Actor, Addr, AsyncContext, Context, Handler, Message};
use weir_policy::{ModuleEvent, SlotEffect, SlotEvent, Slots};

use super::module::{Fact, ModuleActor};
use crate::clock::{Clock, duration};
use crate::record::Recorder;
use crate::telemetry::TICK;

/// A fact for the arbiter.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct SlotFact(pub(crate) SlotEvent);

/// Sent by the actor to itself: all facts of a burst are in.
#[derive(Message)]
#[rtype(result = "()")]
struct Decide;

/// The modules are there: their addresses, by id.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Modules(pub(crate) Vec<Addr<ModuleActor>>);

pub(crate) struct SlotActor {
    slots: Slots,
    clock: Clock,
    recorder: Option<Recorder>,
    modules: Vec<Addr<ModuleActor>>,
    facts: Vec<SlotEvent>,
    effects: Vec<SlotEffect>,
    deciding: bool,
}

impl SlotActor {
    pub(crate) fn new(slots: Slots, clock: Clock, recorder: Option<Recorder>) -> Self {
        Self {
            slots,
            clock,
            recorder,
            modules: Vec::new(),
            facts: Vec::new(),
            effects: Vec::new(),
            deciding: false,
        }
    }

    fn fact(&mut self, fact: SlotEvent, context: &mut Context<Self>) {
        self.facts.push(fact);
        if !self.deciding {
            self.deciding = true;
            context.notify(Decide);
        }
    }

    fn decide(&mut self) {
        self.deciding = false;
        let now = self.clock.now();
        let facts = std::mem::take(&mut self.facts);
        self.tell_owners(&facts);
        self.slots.step(facts.iter().copied(), now, &mut self.effects);
        if let Some(recorder) = &self.recorder {
            recorder.slots(now, &facts, &self.effects);
        }
        for effect in self.effects.drain(..) {
            let (module, event) = ModuleEvent::from_slots(effect);
            if let Some(address) = self.modules.get(module.index()) {
                address.do_send(Fact(event));
            }
        }
    }
}

impl SlotActor {
    /// Modules with a pool of their own ask for nothing, so they are told themselves which of their slots are there.
    fn tell_owners(&self, facts: &[SlotEvent]) {
        for fact in facts {
            let event = match *fact {
                SlotEvent::Down { slot } => ModuleEvent::SlotDown { slot },
                SlotEvent::Up { slot } => ModuleEvent::SlotUp { slot },
                _ => continue,
            };
            for module in &self.modules {
                module.do_send(Fact(event.clone()));
            }
        }
    }
}

impl Actor for SlotActor {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        context.run_interval(duration(TICK), |actor, context| {
            actor.fact(SlotEvent::Tick, context)
        });
    }
}

impl Handler<SlotFact> for SlotActor {
    type Result = ();

    fn handle(&mut self, fact: SlotFact, context: &mut Self::Context) {
        self.fact(fact.0, context);
    }
}

impl Handler<Decide> for SlotActor {
    type Result = ();

    fn handle(&mut self, _: Decide, _context: &mut Self::Context) {
        self.decide();
    }
}

impl Handler<Modules> for SlotActor {
    type Result = ();

    fn handle(&mut self, modules: Modules, _context: &mut Self::Context) {
        self.modules = modules.0;
    }
}
