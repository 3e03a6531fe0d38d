//! All machines of a graph, and the delivery of what they send.

use std::collections::VecDeque;

use weir_policy::reservations::{PlanSpec, Reservations, ReserveEvent};
use weir_policy::{BreakerSpec, ModuleEvent, ModuleSpec, SlotEvent, SlotsSpec};
use weir_types::{ModuleId, Span, Timestamp, Topology};

use crate::breaker::BreakerMachine;
use crate::egress::Egress;
use crate::machine::{Machine, Outbox, Outgoing};
use crate::message::{Address, Effect, EgressMessage, Message, ModuleMessage};
use crate::module::ModuleMachine;
use crate::module_flow::Edge;
use crate::request::Route;
use crate::reservations::ReservationMachine;
use crate::slots::SlotMachine;

/// A driver: it carries effects out.
pub trait Act {
    /// Carries an effect out. What follows at once goes to `answers`; what takes time is given to the controller later.
    fn act(&mut self, effect: Effect, view: View<'_>, answers: &mut Vec<Message>);
}

/// State of the machines that a driver may see while it acts.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Time of the step, by the clock of the driver.
    pub now: Timestamp,
    /// Bookings, where there is a plan.
    pub reservations: Option<&'a Reservations>,
}

/// Specification of the machines of a graph.
#[derive(Debug, Clone)]
pub struct ControlSpec {
    /// The latency objective of requests that have none of their own.
    pub slo: Span,
    /// The modules, by id, and where requests go on to from each.
    pub modules: Vec<(ModuleSpec, Vec<Edge>)>,
    /// The graph's shape.
    pub topology: Topology,
    /// Ways of requests through the graph, by [`crate::RequestInfo::route`].
    pub routes: Vec<Route>,
    /// Slots that are shared; `None`: there are none.
    pub slots: Option<SlotsSpec>,
    /// When a slot is taken out of use.
    pub breaker: BreakerSpec,
    /// The plan in force, where models are partitioned.
    pub plan: Option<PlanSpec>,
    /// Whether messages between machines take time: each is given to the driver to be carried.
    pub is_distributed: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Controller {
    modules: Vec<ModuleMachine>,
    slots: Option<SlotMachine>,
    breaker: BreakerMachine,
    reservations: Option<ReservationMachine>,
    egress: Egress,
    is_distributed: bool,
    /// Modules that are to decide, in the order in which something came in.
    ready: VecDeque<usize>,
    /// Facts that were decided on or entered in the books.
    facts: u64,
    /// Empty lists, for their memory.
    unused_outboxes: Vec<Outbox>,
    unused_answers: Vec<Vec<Message>>,
}

impl Controller {
    /// Nothing in flight, all slots free.
    #[must_use]
    pub fn new(spec: ControlSpec) -> Self {
        let count = spec.modules.len() as u32;
        let splits = spec
            .routes
            .iter()
            .map(|route| route.splits(&spec.topology))
            .collect();
        let machine = |(module, next): (ModuleSpec, Vec<Edge>)| {
            let wiring = ModuleMachine::wiring(module.id, next, &spec.routes);
            ModuleMachine::new(module, wiring)
        };
        Self {
            modules: spec.modules.into_iter().map(machine).collect(),
            slots: spec.slots.map(SlotMachine::new),
            breaker: BreakerMachine::new(spec.breaker),
            reservations: spec.plan.as_ref().map(ReservationMachine::new),
            egress: Egress::new(spec.slo, spec.routes, splits, count),
            is_distributed: spec.is_distributed,
            ready: VecDeque::new(),
            facts: 0,
            unused_outboxes: Vec::new(),
            unused_answers: Vec::new(),
        }
    }

    /// The modules, by id.
    #[must_use]
    pub fn modules(&self) -> &[ModuleMachine] {
        &self.modules
    }

    /// The arbiter of shared slots.
    #[must_use]
    pub fn slots(&self) -> Option<&SlotMachine> {
        self.slots.as_ref()
    }

    /// The reservations, where there is a plan.
    #[must_use]
    pub fn reservations(&self) -> Option<&ReservationMachine> {
        self.reservations.as_ref()
    }

    /// The egress, at which requests begin and end.
    #[must_use]
    pub fn egress(&self) -> &Egress {
        &self.egress
    }

    /// Counts facts that machines have decided on or entered in their books.
    #[must_use]
    pub fn facts(&self) -> u64 {
        self.facts
    }

    /// Takes a message in and delivers what follows of it at once. Machines decide by [`Controller::decide`].
    pub fn on(&mut self, message: Message, now: Timestamp, driver: &mut impl Act) {
        let mut out = self.unused_outboxes.pop().unwrap_or_default();
        let to = message.address();
        match message {
            Message::Module(module, message) => self.on_module(module, message, now, &mut out),
            Message::Slots(event) => {
                if let Some(slots) = &mut self.slots {
                    slots.on(event, now, &mut out);
                }
            }
            Message::Breaker(event) => {
                self.facts += 1;
                self.breaker.on(event, now, &mut out);
            }
            Message::Reservations(message) => {
                if let Some(reservations) = &mut self.reservations {
                    reservations.on(message, now, &mut out);
                }
            }
            Message::Egress(message) => {
                self.facts += facts_of(&message);
                self.egress.on(message, now, &mut out);
            }
            Message::Goes(request, Some(module)) => {
                if let Some(request) = self.egress.request(request) {
                    self.on_module(module, ModuleMessage::Branch(request), now, &mut out);
                }
            }
            Message::Goes(request, None) => out.tell(Message::Egress(EgressMessage::Completed(request))),
            Message::TimerFired(Address::Module(module)) => self.mark_ready(module),
            Message::TimerFired(Address::Slots) => out.tell(Message::Slots(SlotEvent::TimerFired)),
            Message::TimerFired(Address::Breaker) => self.breaker.decide(now, &mut out),
            Message::TimerFired(Address::Reservations) => out.tell(Message::planned(ReserveEvent::Tick)),
            Message::TimerFired(Address::Egress) => {}
            Message::Tick => {
                for module in (0..self.modules.len() as u32).map(ModuleId) {
                    out.tell(Message::fact(module, ModuleEvent::Tick));
                }
                out.tell(Message::Slots(SlotEvent::Tick));
                out.tell(Message::planned(ReserveEvent::Tick));
            }
        }
        if out.0.is_empty() {
            self.unused_outboxes.push(out);
        } else {
            self.deliver(to, out, now, driver);
        }
    }

    fn on_module(&mut self, module: ModuleId, message: ModuleMessage, now: Timestamp, out: &mut Outbox) {
        let Some(machine) = self.modules.get_mut(module.index()) else {
            return;
        };
        machine.on(message, now, out);
        if machine.is_due() {
            self.mark_ready(module);
        }
    }

    fn mark_ready(&mut self, module: ModuleId) {
        let place = module.index();
        if !self.ready.contains(&place) {
            self.ready.push_back(place);
        }
    }

    /// Lets machines decide on what came in, until none has anything to decide.
    pub fn decide(&mut self, now: Timestamp, driver: &mut impl Act) {
        loop {
            let mut out = self.unused_outboxes.pop().unwrap_or_default();
            let of = if let Some(place) = self.ready.pop_front() {
                let machine = &mut self.modules[place];
                self.facts += machine.due() as u64;
                machine.decide(now, &mut out);
                Address::Module(ModuleId(place as u32))
            } else if let Some(slots) = self.slots.as_mut().filter(|slots| slots.is_due()) {
                self.facts += slots.due() as u64;
                slots.decide(now, &mut out);
                Address::Slots
            } else if let Some(reservations) = self.reservations.as_mut().filter(|due| due.is_due()) {
                self.facts += reservations.due() as u64;
                reservations.decide(now, &mut out);
                Address::Reservations
            } else {
                self.unused_outboxes.push(out);
                return;
            };
            self.deliver(of, out, now, driver);
        }
    }

    /// Delivers in order; what follows of a message comes before the next one.
    fn deliver(&mut self, from: Address, mut out: Outbox, now: Timestamp, driver: &mut impl Act) {
        for outgoing in out.drain() {
            match outgoing {
                Outgoing::Send { message, link } if self.is_distributed || link.is_some() => {
                    self.act(Effect::Carry { from, message, link }, now, driver);
                }
                Outgoing::Send { message, .. } | Outgoing::Tell(message) => self.on(message, now, driver),
                Outgoing::Act(effect) => self.act(effect, now, driver),
            }
        }
        self.unused_outboxes.push(out);
    }

    fn act(&mut self, effect: Effect, now: Timestamp, driver: &mut impl Act) {
        let mut answers = self.unused_answers.pop().unwrap_or_default();
        let reservations = self.reservations.as_ref();
        let view = View {
            now,
            reservations: reservations.map(|machine| machine.policy().reservations()),
        };
        driver.act(effect, view, &mut answers);
        for answer in answers.drain(..) {
            self.on(answer, now, driver);
        }
        self.unused_answers.push(answers);
    }
}

/// Entries in the books that a message makes.
fn facts_of(message: &EgressMessage) -> u64 {
    match message {
        EgressMessage::Arrived { rejected, .. } => 2 + u64::from(rejected.is_some()),
        EgressMessage::LeftOut { .. } | EgressMessage::Spent { .. } => 1,
        EgressMessage::Completed(_) | EgressMessage::Dropped { .. } => 2,
        EgressMessage::RemoveStream(_) => 0,
    }
}
