//! The driver in virtual time: one agenda, the state machines of `weir-policy`, and what they want done.
//!
//! At every instant all facts that are due are collected per module; then each module that has some decides once, as the
//! live engine does after a burst, and its effects become facts for others, at the same instant or later. The order is by
//! time, then by the order of noting: the same world runs the same way, to the last byte.

use std::collections::VecDeque;

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use weir_policy::{
    Admission, BatchId, Forming, Gate, GateSpec, Join, Ledger, Module, ModuleEffect, ModuleEvent, ModuleId,
    ModuleSpec, Outcome, Overflow, Peer, Placement, Pool, RequestId, SlotEffect, SlotEvent, SlotId, Slots,
    SlotsSpec, Span, StreamId, Tally, Timestamp, Topology,
};

use crate::agenda::Agenda;
use crate::demand::Draws;
use crate::fleet::Fleet;
use crate::spec::{PoolPlan, WorldSpec};
use crate::trail::Trail;

/// Modules look at their load this often.
pub(crate) const TICK: Span = Span::from_millis(200);

/// What is to come.
#[derive(Debug)]
pub(crate) enum Event {
    /// A request comes to a module, or to the end.
    Part(Option<ModuleId>, RequestId),
    /// A fact for a module that took time to come.
    Fact(ModuleId, Box<ModuleEvent>),
    /// A fact for the arbiter that took time to come.
    Slot(SlotEvent),
    /// A batch comes back from its slot.
    Done(ModuleId, SlotId, BatchId, Span),
    /// A module wanted to be called.
    Wake(ModuleId),
    /// A worker has started.
    Started(ModuleId, SlotId),
    /// The failure by its index begins, or ends.
    Failure(usize, bool),
    /// Time passes.
    Tick,
}

/// One request as the world knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Journey {
    pub(crate) sent_at: Timestamp,
    pub(crate) stream: StreamId,
    pub(crate) ended: bool,
}

/// A world.
pub(crate) struct World<'a> {
    pub(crate) spec: &'a WorldSpec,
    pub(crate) now: Timestamp,
    pub(crate) agenda: Agenda<Event>,
    pub(crate) modules: Vec<Module>,
    slots: Option<Slots>,
    slot_facts: Vec<SlotEvent>,
    /// Facts that are due, by module, and the modules that have some.
    due: Vec<Vec<ModuleEvent>>,
    ready: VecDeque<usize>,
    /// How many parts make a request whole, by module; the last is the end.
    parts: Vec<u32>,
    joins: Vec<Join<()>>,
    gates: Vec<Gate>,
    pub(crate) draws: Draws,
    pub(crate) journeys: Vec<Journey>,
    /// Items of every request, one row a request.
    pub(crate) items: Vec<u8>,
    pub(crate) ledger: Ledger,
    pub(crate) tally: Tally,
    pub(crate) trail: Trail,
    pub(crate) fleets: Vec<Fleet>,
    pub(crate) link_free: Vec<Timestamp>,
    pub(crate) random: Pcg64Mcg,
    pub(crate) splits: bool,
    /// Modules at which requests begin.
    entrances: Vec<ModuleId>,
    pub(crate) events: u64,
    pub(crate) facts: u64,
    /// What one worker of each module does, items a second, by which pools are scaled: at the batch size of its fair
    /// share, whatever the policy.
    pub(crate) fair: Vec<f64>,
    effects: Vec<ModuleEffect>,
    slot_effects: Vec<SlotEffect>,
    /// Whether requests are still to come.
    pub(crate) open: bool,
}

/// The graph's shape as the policy wants it.
pub(crate) fn topology(spec: &WorldSpec) -> Topology {
    let next =
        |module: &crate::spec::ModulePlan| module.next.iter().map(|edge| ModuleId(edge.to as u32)).collect();
    Topology::new(spec.modules.iter().map(next).collect())
}

impl<'a> World<'a> {
    pub(crate) fn new(spec: &'a WorldSpec) -> Self {
        let topology = topology(spec);
        let count = spec.modules.len();
        let peer = |plan: &crate::spec::ModulePlan| Peer {
            profile: plan.profile.clone(),
            batch: plan.batch.clone(),
            workers: slots_of(&plan.pool).len() as u32,
        };
        let peers: Vec<Peer> = spec.modules.iter().map(peer).collect();
        let module = |(id, plan): (u32, &crate::spec::ModulePlan)| {
            Module::new(ModuleSpec {
                id: ModuleId(id),
                slo: spec.slo,
                policy: spec.policy.clone(),
                slots: slots_of(&plan.pool),
                pool: match plan.pool {
                    PoolPlan::Shared(_) => Pool::Shared,
                    PoolPlan::Fixed(_) | PoolPlan::Scaled(_) => Pool::Own,
                },
                batch: plan.batch.clone(),
                profile: plan.profile.clone(),
                topology: topology.clone(),
                peers: peers.clone(),
                seed: spec.seed,
            })
        };
        let into = |id: usize| {
            let before = spec
                .modules
                .iter()
                .filter(|module| module.next.iter().any(|edge| edge.to == id));
            before.count().max(1) as u32
        };
        let ends = spec
            .modules
            .iter()
            .filter(|module| module.next.is_empty())
            .count();
        let gate = GateSpec {
            overflow: Overflow::Drop,
            begin: spec.under_way.unwrap_or(u32::MAX),
            most: spec.under_way.unwrap_or(u32::MAX),
            slo: spec.slo,
        };
        let streams = spec.streams.max(1);
        let mut world = Self {
            spec,
            now: Timestamp::ZERO,
            agenda: Agenda::default(),
            modules: (0..).zip(&spec.modules).map(module).collect(),
            slots: shared(spec, &topology),
            slot_facts: Vec::new(),
            due: vec![Vec::new(); count],
            ready: VecDeque::new(),
            parts: (0..count).map(into).chain([ends as u32]).collect(),
            joins: (0..=count).map(|_| Join::default()).collect(),
            gates: (0..streams).map(|_| Gate::new(gate)).collect(),
            draws: Draws::new(spec.demand.clone(), streams, spec.seed),
            journeys: Vec::new(),
            items: Vec::new(),
            ledger: Ledger::default(),
            tally: Tally::default(),
            trail: Trail::new(count),
            fleets: spec.modules.iter().map(|plan| Fleet::new(&plan.pool)).collect(),
            link_free: vec![Timestamp::ZERO; spec.links.len()],
            random: Pcg64Mcg::seed_from_u64(spec.seed ^ 0x006e_6f69_7365),
            splits: topology.splits(),
            entrances: topology.entrances(),
            events: 0,
            facts: 0,
            fair: fair(spec, &topology),
            effects: Vec::new(),
            slot_effects: Vec::new(),
            open: true,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        for module in 0..self.modules.len() {
            for slot in self.fleets[module].absent() {
                self.tell(ModuleId(module as u32), ModuleEvent::Down { slot });
            }
        }
        for (index, failure) in (0..).zip(&self.spec.failures) {
            let at = Timestamp::ZERO + failure.at;
            self.agenda.note(at, Event::Failure(index, true));
            self.agenda.note(at + failure.lasts, Event::Failure(index, false));
        }
        self.agenda.note(Timestamp::ZERO, Event::Tick);
        self.settle();
    }

    /// Runs until all that was sent has ended.
    pub(crate) fn run(
        &mut self,
        arrivals: &mut dyn Iterator<Item = Timestamp>,
        progress: &mut dyn FnMut(Timestamp),
    ) {
        let mut next = arrivals.next();
        let mut told = Timestamp::ZERO;
        loop {
            let due = self.agenda.next_at();
            let at = match (next, due) {
                (Some(arrival), Some(due)) => arrival.min(due),
                (Some(arrival), None) => arrival,
                (None, Some(due)) => due,
                (None, None) => break,
            };
            self.open = next.is_some();
            self.now = at.max(self.now);
            if self.now.since(told) >= Span::from_secs(10) {
                told = self.now;
                progress(told);
            }
            while next.is_some_and(|arrival| arrival <= at) {
                self.admit();
                next = arrivals.next();
            }
            while self.agenda.next_at() == Some(at) {
                let Some((_, event)) = self.agenda.next() else {
                    break;
                };
                self.pass(event);
            }
            self.settle();
        }
    }

    fn pass(&mut self, event: Event) {
        self.events += 1;
        match event {
            Event::Part(to, request) => self.part(to, request),
            Event::Fact(module, fact) => self.tell(module, *fact),
            Event::Slot(fact) => self.slot_facts.push(fact),
            Event::Done(module, slot, batch, took) => self.done(module, slot, batch, took),
            Event::Wake(module) => self.call(module),
            Event::Started(module, slot) => self.started(module, slot),
            Event::Failure(index, begins) => self.failure(index, begins),
            Event::Tick => self.tick(),
        }
    }

    /// Lets everybody decide who has facts that are due, until nobody has.
    fn settle(&mut self) {
        loop {
            if let Some(module) = self.ready.pop_front() {
                let mut facts = std::mem::take(&mut self.due[module]);
                let mut effects = std::mem::take(&mut self.effects);
                self.facts += facts.len() as u64;
                self.modules[module].step(facts.drain(..), self.now, &mut effects);
                if self.due[module].is_empty() {
                    self.due[module] = facts;
                }
                for effect in effects.drain(..) {
                    self.carry_out(ModuleId(module as u32), effect);
                }
                self.effects = effects;
            } else if !self.slot_facts.is_empty() {
                self.arbitrate();
            } else {
                return;
            }
        }
    }

    fn arbitrate(&mut self) {
        let mut facts = std::mem::take(&mut self.slot_facts);
        let mut effects = std::mem::take(&mut self.slot_effects);
        self.facts += facts.len() as u64;
        if let Some(slots) = &mut self.slots {
            slots.step(facts.drain(..), self.now, &mut effects);
        }
        facts.clear();
        self.slot_facts = facts;
        for effect in effects.drain(..) {
            let (to, fact) = effect.told();
            self.tell(to, fact);
        }
        self.slot_effects = effects;
    }

    /// Gives a module a fact that is due now.
    pub(crate) fn tell(&mut self, module: ModuleId, fact: ModuleEvent) {
        self.call(module);
        self.due[module.index()].push(fact);
    }

    /// Gives a module a fact after a hop.
    pub(crate) fn send(&mut self, module: ModuleId, fact: ModuleEvent) {
        if self.spec.hop == Span::ZERO {
            self.tell(module, fact);
        } else {
            self.agenda
                .note_in_line(self.now + self.spec.hop, Event::Fact(module, Box::new(fact)));
        }
    }

    /// Gives the arbiter a fact after a hop.
    pub(crate) fn send_slots(&mut self, fact: SlotEvent) {
        if self.slots.is_none() {
            return;
        }
        if self.spec.hop == Span::ZERO {
            self.slot_facts.push(fact);
        } else {
            self.agenda
                .note_in_line(self.now + self.spec.hop, Event::Slot(fact));
        }
    }

    /// Lets a module decide at this instant.
    fn call(&mut self, module: ModuleId) {
        let place = module.index();
        if self.due[place].is_empty() && !self.ready.contains(&place) {
            self.ready.push_back(place);
        }
    }

    /// The next request comes.
    fn admit(&mut self) {
        self.events += 1;
        let request = RequestId(self.journeys.len() as u64);
        let stream = (request.0 % u64::from(self.spec.streams.max(1))) as u32;
        let row = self.items.len();
        self.items.resize(row + self.modules.len(), 1);
        self.draws.draw(stream, &mut self.items[row..]);
        self.journeys.push(Journey {
            sent_at: self.now,
            stream: StreamId(stream),
            ended: false,
        });
        // The ledger and the gate take this in.
        self.facts += 2;
        self.ledger.arrived(request, StreamId(stream));
        self.trail.sent(self.now);
        for (fleet, items) in self.fleets.iter_mut().zip(&self.items[row..]) {
            fleet.asked(u32::from(*items), self.now);
        }
        if let Admission::Drop(reason) = self.gates[stream as usize].admit(true) {
            self.end(request, Outcome::Dropped(None, reason), false);
            return;
        }
        for entrance in 0..self.entrances.len() {
            self.hand_on(Some(self.entrances[entrance]), request, None);
        }
    }

    /// Sends a request on its way to a module or to the end.
    pub(crate) fn hand_on(&mut self, to: Option<ModuleId>, request: RequestId, link: Option<usize>) {
        let mut at = self.now + self.spec.hop;
        if let Some((link, free)) =
            link.and_then(|link| Some((self.spec.links.get(link)?, self.link_free.get_mut(link)?)))
        {
            *free = (*free).max(at) + Span::from_secs_f64(link.bytes * 8.0 / link.bandwidth_bps.max(1.0));
            at = *free + link.latency;
        }
        if at == self.now {
            self.part(to, request);
        } else {
            self.agenda.note_in_line(at, Event::Part(to, request));
        }
    }

    fn part(&mut self, to: Option<ModuleId>, request: RequestId) {
        let journey = self.journeys[request.index()];
        if journey.ended {
            return;
        }
        let place = to.map_or(self.modules.len(), ModuleId::index);
        if self.parts[place] > 1 {
            let of = self.parts[place];
            if self.joins[place].part(request, of, (), |_, ()| ()).is_none() {
                return;
            }
        }
        let Some(module) = to else {
            let latency = self.now.since(journey.sent_at);
            self.tally.came_out(journey.stream, latency);
            let late = latency > self.spec.slo;
            self.end(
                request,
                if late { Outcome::Late } else { Outcome::Delivered },
                true,
            );
            return;
        };
        let items = self.items[request.index() * self.modules.len() + place];
        let arrived = ModuleEvent::Arrived {
            request,
            stream: journey.stream,
            sent_at: journey.sent_at,
            items: u32::from(items),
            droppable: true,
        };
        self.tell(module, arrived);
    }

    /// Ends a request; those who may have it are told. Says false where it had ended already.
    pub(crate) fn end(&mut self, request: RequestId, outcome: Outcome, entered: bool) -> bool {
        if !self.ledger.ended(request, outcome) {
            return false;
        }
        self.facts += 1 + u64::from(entered);
        let journey = &mut self.journeys[request.index()];
        journey.ended = true;
        let (stream, sent_at) = (journey.stream, journey.sent_at);
        if outcome != Outcome::Delivered {
            self.trail.lost(sent_at);
        }
        if entered {
            self.gates[stream.index()].ended(Span::ZERO);
        }
        if let Outcome::Dropped(by, _) = outcome
            && self.splits
        {
            for (join, of) in self.joins.iter_mut().zip(&self.parts) {
                if *of > 1 {
                    join.cancel(request);
                }
            }
            for module in (0..self.modules.len() as u32).map(ModuleId) {
                if Some(module) != by {
                    self.send(module, ModuleEvent::Cancelled { request });
                }
            }
        }
        true
    }

    fn tick(&mut self) {
        for module in (0..self.modules.len() as u32).map(ModuleId) {
            self.tell(module, ModuleEvent::Tick);
        }
        if self.slots.is_some() {
            self.slot_facts.push(SlotEvent::Tick);
        }
        self.scale();
        self.trail.look(self.now, &self.modules);
        if self.open || self.ledger.total().in_flight > 0 {
            self.agenda.note(self.now + TICK, Event::Tick);
        }
    }
}

/// Items a second of one worker at the batch size of its fair share of the SLO.
fn fair(spec: &WorldSpec, topology: &Topology) -> Vec<f64> {
    let of = |(id, plan): (u32, &crate::spec::ModulePlan)| {
        let one = |id: &ModuleId| spec.modules[id.index()].profile.duration(1);
        let paths = topology.paths_through(ModuleId(id)).into_iter();
        let longest: Span = paths
            .map(|path| path.iter().map(one).sum())
            .max()
            .unwrap_or_default();
        let own = plan.profile.duration(1).micros() as f64 / (longest.micros() as f64).max(1.0);
        plan.profile
            .throughput(plan.profile.batch_size(&plan.batch, spec.slo.scale(own)))
    };
    (0..).zip(&spec.modules).map(of).collect()
}

fn slots_of(pool: &PoolPlan) -> Vec<SlotId> {
    match pool {
        PoolPlan::Fixed(workers) => (0..*workers).map(SlotId).collect(),
        PoolPlan::Scaled(scaling) => (0..scaling.rule.most.max(scaling.begin)).map(SlotId).collect(),
        PoolPlan::Shared(slots) => slots.iter().copied().map(SlotId).collect(),
    }
}

fn shared(spec: &WorldSpec, topology: &Topology) -> Option<Slots> {
    let placements: Vec<Placement> = (0..)
        .zip(&spec.modules)
        .filter(|(_, plan)| matches!(plan.pool, PoolPlan::Shared(_)))
        .map(|(id, plan)| Placement {
            module: ModuleId(id),
            slots: slots_of(&plan.pool),
            weight: plan.weight,
        })
        .collect();
    (!placements.is_empty()).then(|| {
        Slots::new(SlotsSpec {
            slots: spec.shared_slots,
            placements,
            arbitration: spec.policy.arbitration,
            topology: topology.clone(),
            forecasts: spec.policy.forming == Forming::Eager,
        })
    })
}
