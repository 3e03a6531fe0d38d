//! The slot actor: passes what modules bid to the policy's arbiter `Slots`, and what it grants back to them.

use actix::{Actor, ActorContext, AsyncContext, Context, Handler};
use weir_policy::{ModuleEvent, SlotEffect, SlotEvent, Slots};

use super::burst::{Burst, PolicyActor};
use super::messages::{ArbiterEvent, ModuleRef, PolicyEvent, StopActor};
use crate::clock::{Clock, duration};
use crate::record::Recorder;
use crate::telemetry::TICK_INTERVAL;

pub(crate) struct SlotActor {
    burst: Burst<Slots>,
    modules: Vec<ModuleRef>,
}

impl SlotActor {
    pub(crate) fn new(
        slots: Slots,
        clock: Clock,
        recorder: Option<Recorder>,
        modules: Vec<ModuleRef>,
    ) -> Self {
        Self {
            burst: Burst::new(slots, clock, recorder),
            modules,
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

    fn apply(&mut self, effect: SlotEffect, _context: &mut Context<Self>) {
        let (module, event) = ModuleEvent::from_slots(effect);
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
        self.on_event(event, context);
    }
}
