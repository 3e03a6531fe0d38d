//! The driver in virtual time: one agenda, the state machines of `weir-policy`, and what they want done.
//!
//! At every instant all facts that are due are collected per module; then each module that has some decides once, as the
//! live engine does after a burst, and its effects become facts for others, at the same instant or later. The order is by
//! time, then by the order of noting: the same world runs the same way, to the last byte.

mod build;
mod carry;
mod fleet;
mod requests;
mod simulate;

use std::collections::VecDeque;

use rand_pcg::Pcg64Mcg;
use weir_policy::{
    ConcurrencyLimit, Join, Ledger, Module, ModuleEffect, ModuleEvent, RunStats, SlotEffect, SlotEvent, Slots,
};
use weir_types::{BatchId, ModuleId, RequestId, SlotId, Span, StreamId, Timestamp};

use crate::agenda::Agenda;
use crate::demand::Draws;
use crate::spec::WorldSpec;
use crate::trail::Trail;

use fleet::Fleet;
pub use simulate::{Ran, simulate};

/// Modules look at their load this often.
const TICK: Span = Span::from_millis(200);

/// What is to come.
#[derive(Debug)]
enum Event {
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
struct Journey {
    sent_at: Timestamp,
    stream: StreamId,
    ended: bool,
}

/// A world.
struct World<'a> {
    spec: &'a WorldSpec,
    now: Timestamp,
    agenda: Agenda<Event>,
    modules: Vec<Module>,
    slots: Option<Slots>,
    slot_facts: Vec<SlotEvent>,
    /// Facts that are due, by module, and the modules that have some.
    due: Vec<Vec<ModuleEvent>>,
    ready: VecDeque<usize>,
    /// How many parts make a request whole, by module; the last is the end.
    parts: Vec<u32>,
    joins: Vec<Join<()>>,
    gates: Vec<ConcurrencyLimit>,
    draws: Draws,
    journeys: Vec<Journey>,
    /// Items of every request, one row a request.
    items: Vec<u8>,
    ledger: Ledger,
    tally: RunStats,
    trail: Trail,
    fleets: Vec<Fleet>,
    link_free: Vec<Timestamp>,
    random: Pcg64Mcg,
    splits: bool,
    /// Modules at which requests begin.
    entrances: Vec<ModuleId>,
    events: u64,
    facts: u64,
    /// What one worker of each module does, items a second, by which pools are scaled.
    each_worker: Vec<f64>,
    effects: Vec<ModuleEffect>,
    slot_effects: Vec<SlotEffect>,
    /// Whether requests are still to come.
    open: bool,
}

impl World<'_> {
    /// Runs until all that was sent has ended.
    fn run(&mut self, arrivals: &mut dyn Iterator<Item = Timestamp>, progress: &mut dyn FnMut(Timestamp)) {
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
            let (to, fact) = ModuleEvent::from_slots(effect);
            self.tell(to, fact);
        }
        self.slot_effects = effects;
    }

    /// Gives a module a fact that is due now.
    fn tell(&mut self, module: ModuleId, fact: ModuleEvent) {
        self.call(module);
        self.due[module.index()].push(fact);
    }

    /// Gives a module a fact after a hop.
    fn send(&mut self, module: ModuleId, fact: ModuleEvent) {
        if self.spec.hop == Span::ZERO {
            self.tell(module, fact);
        } else {
            self.agenda
                .note_in_line(self.now + self.spec.hop, Event::Fact(module, Box::new(fact)));
        }
    }

    /// Gives the arbiter a fact after a hop.
    fn send_slots(&mut self, fact: SlotEvent) {
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
