//! All machines of a graph, and the delivery of what they send.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use weir_policy::reservations::{PlanEvent, PlanSpec, Reservations, ReserveEvent};
use weir_policy::{
    BreakerSpec, ModuleEvent, ModuleSpec, Pool, ScaledPool, ScalingSpec, SlotEvent, SlotsSpec,
};
use weir_types::{ModuleId, SlotId, Span, Timestamp, Topology};

use crate::books::Books;
use crate::breaker::BreakerMachine;
use crate::egress::Egress;
use crate::gears::{GearMachine, GearSpec, Look};
use crate::machine::{Machine, Outbox, Outgoing};
use crate::message::{
    Address, BooksMessage, Effect, EgressMessage, GearMessage, Message, ModuleMessage, QueueMessage,
};
use crate::module::ModuleMachine;
use crate::module_flow::Edge;
use crate::queues::{DeviceQueuesSpec, QueueMachine};
use crate::request::{RequestInfo, Route};
use crate::reservations::ReservationMachine;
use crate::slots::SlotMachine;
use crate::stage_load::StageLoad;

/// A driver: it carries effects out.
pub trait Act {
    /// A machine begins to decide: a driver may measure the time from here to its effects.
    fn on_decision(&mut self, _of: Address) {}

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
#[derive(Debug, Clone, Serialize, Deserialize)]
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
    /// Condition for taking a slot out of use.
    pub breaker: BreakerSpec,
    /// Modules with pools of their own whose workers open and close with the load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scaling: Vec<(ModuleId, ScalingSpec)>,
    /// Most workers of these pools together; `None`: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_workers: Option<u32>,
    /// Queues of models that generate and take turns, by device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<DeviceQueuesSpec>,
    /// Cascades; `None`: there are none.
    #[serde(default)]
    pub cascades: Option<GearSpec>,
    /// The plan in force, where models are partitioned and the reservations are among these machines.
    pub plan: Option<PlanSpec>,
    /// Whether the books are among these machines. Messages to machines that are not are given to the driver to be carried.
    pub has_books: bool,
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
    gears: Option<GearMachine>,
    queues: Option<QueueMachine>,
    egress: Egress,
    books: Books,
    /// Modules whose workers open and close with the load.
    scaled: Vec<ModuleId>,
    max_workers: Option<u32>,
    has_books: bool,
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
        let shared = |(module, _): &(ModuleSpec, Vec<Edge>)| match module.pool {
            Pool::Shared => module.slots.clone(),
            Pool::Own | Pool::Pipelines => Vec::new(),
        };
        let shared: Vec<Vec<SlotId>> = spec.modules.iter().map(shared).collect();
        let stages = spec.cascades.iter().flat_map(|cascades| &cascades.stages);
        let reads_tiles: Vec<Option<bool>> =
            stages.map(|stage| stage.map(|stage| stage.reads_tiles)).collect();
        let machine = |(module, next): (ModuleSpec, Vec<Edge>)| {
            let by_request = reads_tiles.get(module.id.index()).copied().flatten();
            let mut machine = ModuleMachine::new(module, next, count);
            if let Some(by_request) = by_request {
                machine.count_load(by_request);
            }
            machine
        };
        let mut modules: Vec<ModuleMachine> = spec.modules.into_iter().map(machine).collect();
        let scaled: Vec<ModuleId> = spec.scaling.iter().map(|(module, _)| *module).collect();
        for (module, scaling) in spec.scaling {
            if let Some(machine) = modules.get_mut(module.index()) {
                machine.scale_by(scaling);
            }
        }
        let queues = QueueMachine::new(spec.queues);
        for module in queues.iter().flat_map(QueueMachine::modules) {
            if let Some(machine) = modules.get_mut(module.index()) {
                machine.use_queues();
            }
        }
        Self {
            queues,
            ready: scaled.iter().map(|module| module.index()).collect(),
            scaled,
            max_workers: spec.max_workers,
            modules,
            slots: spec.slots.map(SlotMachine::new),
            breaker: BreakerMachine::new(spec.breaker),
            reservations: spec.plan.as_ref().map(ReservationMachine::new),
            gears: spec
                .cascades
                .map(|cascades| GearMachine::new(cascades, shared, spec.topology.clone(), spec.slo)),
            egress: Egress::new(spec.slo, spec.topology, spec.routes),
            books: Books::default(),
            has_books: spec.has_books,
            is_distributed: spec.is_distributed,
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

    /// The gears, where there are cascades.
    #[must_use]
    pub fn gears(&self) -> Option<&GearMachine> {
        self.gears.as_ref()
    }

    /// The queues of models that take turns, where there are any.
    #[must_use]
    pub fn queues(&self) -> Option<&QueueMachine> {
        self.queues.as_ref()
    }

    /// The egress, at which requests begin and end.
    #[must_use]
    pub fn egress(&self) -> &Egress {
        &self.egress
    }

    /// The books; empty where they are elsewhere.
    #[must_use]
    pub fn books(&self) -> &Books {
        &self.books
    }

    /// Counts facts that machines have decided on or entered in their books.
    #[must_use]
    pub fn facts(&self) -> u64 {
        self.facts
    }

    /// Whether a machine has something to decide on.
    #[must_use]
    pub fn is_due(&self) -> bool {
        let slots = self.slots.as_ref().is_some_and(Machine::is_due);
        let queues = self.queues.as_ref().is_some_and(Machine::is_due);
        let reservations = self.reservations.as_ref().is_some_and(Machine::is_due);
        slots || queues || reservations || !self.ready.is_empty()
    }

    /// Takes a message in and delivers what follows of it at once. Machines decide by [`Controller::decide`].
    pub fn on(&mut self, message: Message, now: Timestamp, driver: &mut impl Act) {
        let mut out = self.unused_outboxes.pop().unwrap_or_default();
        let to = message.address();
        match message {
            Message::Module(module, message) => self.on_module(module, message, now, &mut out),
            Message::Modules(fact) => {
                for module in (0..self.modules.len() as u32).map(ModuleId) {
                    out.tell(Message::fact(module, fact.clone()));
                }
                if let ModuleEvent::StreamRemoved { stream } = fact {
                    out.tell(Message::Gears(GearMessage::StreamRemoved(stream)));
                }
            }
            Message::Slots(event) => self.on_slots(event, now, &mut out),
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
                if let EgressMessage::Arrived(request) = &message {
                    self.count_demand(request, now);
                }
                if let EgressMessage::Dropped { reason, .. } = &message
                    && let Some(gears) = &mut self.gears
                {
                    gears.on_dropped(*reason);
                }
                self.egress.on(message, now, &mut out);
            }
            Message::Books(message) => {
                self.facts += facts_of_books(&message);
                self.books.on(message, now, &mut out);
            }
            Message::Gears(message) => self.on_gears(message, now, &mut out),
            Message::Queues(message) => {
                if let Some(queues) = &mut self.queues {
                    queues.on(message, now, &mut out);
                }
            }
            Message::Goes(request, module) => {
                if let Some((request, branches)) = self.egress.at_module(request, module) {
                    let branch = ModuleMessage::Branch { request, branches };
                    self.on_module(module, branch, now, &mut out);
                }
            }
            Message::Scale(module) => self.scale(module, now, &mut out),
            Message::TimerFired(Address::Module(module)) => self.mark_ready(module),
            Message::TimerFired(Address::Slots) => out.tell(Message::Slots(SlotEvent::TimerFired)),
            Message::TimerFired(Address::Breaker) => self.breaker.decide(now, &mut out),
            Message::TimerFired(Address::Reservations) => out.tell(Message::planned(ReserveEvent::Tick)),
            Message::TimerFired(Address::Egress | Address::Books | Address::Gears | Address::Queues) => {}
            Message::Tick => {
                out.tell(Message::Modules(ModuleEvent::Tick));
                out.tell(Message::Slots(SlotEvent::Tick));
                if let Some(reservations) = &self.reservations {
                    if reservations.policy().counts_arrivals() {
                        for (module, machine) in (0..).map(ModuleId).zip(&mut self.modules) {
                            let items = machine.take_booked_items();
                            if items > 0 {
                                out.tell(Message::planned(PlanEvent::Arrived { module, items }));
                            }
                        }
                    }
                    out.tell(Message::planned(ReserveEvent::Tick));
                }
                if self.queues.is_some() {
                    out.tell(Message::Queues(QueueMessage::Tick));
                }
                for module in &self.scaled {
                    out.tell(Message::Scale(*module));
                }
            }
        }
        if out.0.is_empty() {
            self.unused_outboxes.push(out);
        } else {
            self.deliver(to, out, now, driver);
        }
    }

    fn on_gears(&mut self, message: GearMessage, now: Timestamp, out: &mut Outbox) {
        let Some(gears) = &mut self.gears else { return };
        let look = match message {
            GearMessage::Look => {
                self.facts += 2;
                let loads: Vec<Option<StageLoad>> =
                    self.modules.iter_mut().map(ModuleMachine::take_load).collect();
                let work = match gears.follows_backlog() {
                    true => (self.modules.iter().zip(&loads))
                        .map(|(module, load)| module.work(load.as_ref().map(StageLoad::items)))
                        .collect(),
                    false => Vec::new(),
                };
                Look { loads, work }
            }
            GearMessage::Begun | GearMessage::Applied(_) | GearMessage::StreamRemoved(_) => Look::default(),
        };
        gears.on(message, look, now, out);
    }

    fn on_slots(&mut self, event: SlotEvent, now: Timestamp, out: &mut Outbox) {
        // Sessions of models that generate are opened and closed for the queues.
        if let SlotEvent::Opened { slot, model, .. }
        | SlotEvent::OpenFailed { slot, model, .. }
        | SlotEvent::Closed { slot, model, .. } = event
            && let Some(queues) = &mut self.queues
            && queues.has_session(slot, model)
        {
            return queues.on(QueueMessage::Session(event), now, out);
        }
        if let SlotEvent::ShareSet { module, slot, share } = event {
            out.tell(Message::fact(module, ModuleEvent::SlotShareSet { slot, share }));
        }
        let fact = match event {
            SlotEvent::Down { slot } => Some((slot, ModuleEvent::SlotDown { slot })),
            SlotEvent::Up { slot } => Some((slot, ModuleEvent::SlotUp { slot })),
            _ => None,
        };
        if let (Some((slot, fact)), Some(gears)) = (&fact, &mut self.gears) {
            gears.on_slot(*slot, matches!(fact, ModuleEvent::SlotUp { .. }));
        }
        // A module that has its slots alone learns of them here: it never bids for one.
        let is_granted = |slot| self.slots.as_ref().is_some_and(|slots| slots.grants(slot));
        if let Some((slot, fact)) = fact.filter(|(slot, _)| !is_granted(*slot)) {
            let owners = (0..).zip(&self.modules).filter(|(_, module)| module.owns(slot));
            owners.for_each(|(id, _)| out.tell(Message::fact(ModuleId(id), fact.clone())));
        }
        if let Some(slots) = &mut self.slots {
            slots.on(event, now, out);
        }
    }

    /// Counts a request for each module on its way whose workers open and close with the load: also if it is dropped before.
    fn count_demand(&mut self, request: &RequestInfo, now: Timestamp) {
        for module in &self.scaled {
            if self.egress.passes(request.route, *module)
                && let Some(machine) = self.modules.get_mut(module.index())
            {
                machine.on_arrived(now);
            }
        }
    }

    /// Lets a pool open or close workers, as far as all pools together may have more.
    fn scale(&mut self, module: ModuleId, now: Timestamp, out: &mut Outbox) {
        let pools = self.modules.iter().filter_map(ModuleMachine::scaled);
        let size: u32 = pools.map(ScaledPool::size).sum();
        let room = self.max_workers.map_or(u32::MAX, |max| max.saturating_sub(size));
        self.on_machine(module, |machine| machine.scale(room, now, out));
    }

    fn on_module(&mut self, module: ModuleId, message: ModuleMessage, now: Timestamp, out: &mut Outbox) {
        self.on_machine(module, |machine| machine.on(message, now, out));
    }

    /// Works on a module, which decides later if something came in.
    fn on_machine(&mut self, module: ModuleId, work: impl FnOnce(&mut ModuleMachine)) {
        let Some(machine) = self.modules.get_mut(module.index()) else {
            return;
        };
        work(machine);
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
                driver.on_decision(Address::Module(ModuleId(place as u32)));
                let machine = &mut self.modules[place];
                self.facts += machine.due() as u64;
                machine.decide(now, &mut out);
                Address::Module(ModuleId(place as u32))
            } else if let Some(slots) = self.slots.as_mut().filter(|slots| slots.is_due()) {
                driver.on_decision(Address::Slots);
                self.facts += slots.due() as u64;
                slots.decide(now, &mut out);
                Address::Slots
            } else if let Some(reservations) = self.reservations.as_mut().filter(|due| due.is_due()) {
                driver.on_decision(Address::Reservations);
                self.facts += reservations.due() as u64;
                reservations.decide(now, &mut out);
                Address::Reservations
            } else if let Some(queues) = self.queues.as_mut().filter(|due| due.is_due()) {
                driver.on_decision(Address::Queues);
                self.facts += queues.due() as u64;
                queues.decide(now, &mut out);
                Address::Queues
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
                Outgoing::Send { message, .. } | Outgoing::Tell(message) if self.is_elsewhere(&message) => {
                    let link = None;
                    self.act(Effect::Carry { from, message, link }, now, driver);
                }
                Outgoing::Send { message, .. } | Outgoing::Tell(message) => self.on(message, now, driver),
                Outgoing::Act(effect) => self.act(effect, now, driver),
            }
        }
        self.unused_outboxes.push(out);
    }

    /// Whether the machine of a message is not among these.
    fn is_elsewhere(&self, message: &Message) -> bool {
        match message {
            Message::Books(_) => !self.has_books,
            Message::Reservations(_) => self.reservations.is_none(),
            _ => false,
        }
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

/// Facts that a message to the egress brings.
fn facts_of(message: &EgressMessage) -> u64 {
    match message {
        EgressMessage::Arrived(_) | EgressMessage::Completed(_) | EgressMessage::Dropped { .. } => 2,
        EgressMessage::RouteAdded(_) | EgressMessage::Abandon(_) => 0,
    }
}

/// Facts that a message to the books brings, beside those that the egress was given.
fn facts_of_books(message: &BooksMessage) -> u64 {
    match message {
        BooksMessage::Rejected { .. } => 3,
        BooksMessage::LeftOut { .. } | BooksMessage::Still { .. } | BooksMessage::Spent { .. } => 1,
        BooksMessage::Arrived { .. } | BooksMessage::Ended { .. } | BooksMessage::RemoveStream(_) => 0,
    }
}
