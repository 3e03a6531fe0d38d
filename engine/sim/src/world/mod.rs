//! The driver in virtual time: one event queue, the state machines of `weir-policy`, and what they want done.
//!
//! At every instant all facts that are due are collected per module; then each module that has some decides once, as the
//! live engine does after a burst, and its effects become facts for others, at the same instant or later. The order is by
//! time, then by the order of noting: the same world runs the same way, to the last byte.

mod booked_cluster;
mod breaker;
mod build;
mod cluster_run;
mod decoders;
mod decoding;
mod effects;
mod gears;
mod generated;
mod pipelines;
mod pool;
mod requests;
mod scaling;
mod scheduled;
mod sequences;
mod sessions;
mod simulate;
mod stages;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rand_pcg::Pcg64Mcg;
use weir_policy::reservations::{BookingId, ReserveEvent};
use weir_policy::{
    ConcurrencyLimit, Join, Ledger, Module, ModuleEffect, ModuleEvent, ResidencyReport, RunStats,
    SlotBreaker, SlotEffect, SlotEvent, Slots,
};
use weir_types::{BatchId, ModuleId, RequestId, SlotId, Span, StreamId, Timestamp};

use crate::demand::DemandSampler;
use crate::event_queue::EventQueue;
use crate::spec::{WorldModule, WorldPool, WorldSpec};
use crate::timeline::Timeline;

use booked_cluster::BookedCluster;
use decoders::Decoders;
use gears::GearState;
pub use gears::Shift;
use pool::WorkerPool;
use sequences::Generated;
pub use simulate::{SimulationResult, simulate, simulate_streams};
use stages::Stages;

/// Modules look at their load this often.
const TICK: Span = Span::from_millis(200);

/// What is to come.
#[derive(Debug)]
enum Event {
    /// A request comes to a module, or to the end.
    RequestArrived(Option<ModuleId>, RequestId),
    /// A fact for a module that took time to come.
    Module(ModuleId, Box<ModuleEvent>),
    /// A fact for the arbiter that took time to come.
    Slot(SlotEvent),
    /// A fact for the reservations that took time to come.
    Reservations(ReserveEvent),
    /// The reservations wanted to be called.
    ReservationTimer,
    /// A plan, by its index, is offered.
    PlanOffered(usize),
    /// Its partitions are loaded.
    PlanLoaded(usize),
    /// The breaker of slots wanted to be called.
    BreakerTimer,
    /// A batch has ended its use of a share or of links.
    UseEnded(BookingId),
    /// The inputs of a batch are prepared, which took so long, and it runs.
    Launched(ModuleId, SlotId, BatchId, Span),
    /// A batch comes back from its slot, failed or not.
    BatchDone(ModuleId, SlotId, BatchId, Span, bool),
    /// A step of an instance is done, which took so long.
    Stepped(ModuleId, SlotId, Span),
    /// A module wanted to be called.
    TimerFired(ModuleId),
    /// A worker has started.
    WorkerStarted(ModuleId, SlotId),
    /// The failure by its index begins, or ends.
    Failure(usize, bool),
    /// A frame of a stream, sent at that time, is decoded.
    Decoded(StreamId, Timestamp),
    /// What became of the frames of streams is observed.
    DecodingTick,
    /// The load of cascades is looked at.
    GearTick,
    /// The change by its index happens to its stream.
    StreamChanged(usize),
    /// Time passes.
    Tick,
}

/// When a request comes, and of which stream; `None`: of the next in turn.
type Arrival = (Timestamp, Option<StreamId>);

/// One request as the world knows it.
#[derive(Debug, Clone, Copy)]
struct RequestState {
    sent_at: Timestamp,
    stream: StreamId,
    /// Its latency objective, where that is not the world's.
    slo: Option<Span>,
    ended: bool,
}

/// A world.
struct World<'a> {
    spec: &'a WorldSpec,
    now: Timestamp,
    event_queue: EventQueue<Event>,
    modules: Vec<Module>,
    slots: Option<Slots>,
    slot_events: Vec<SlotEvent>,
    /// What was opened and closed, where the memory of a device is limited.
    residency: Option<ResidencyReport>,
    breaker: SlotBreaker,
    /// Facts that are due, by module, and the modules that have some.
    due: Vec<Vec<ModuleEvent>>,
    ready: VecDeque<usize>,
    /// How many parts make a request whole, by module; the last is the end.
    join_counts: Vec<u32>,
    joins: Vec<Join<()>>,
    decoders: Option<Decoders>,
    /// Stages of cascades, and the accuracy of modules, where there are any.
    stages: Option<Stages>,
    gears: Option<GearState<'a>>,
    /// Whether it is known of which stream requests are.
    names_streams: bool,
    /// Frames that were sent so far, decoded or not.
    frames: u64,
    limits: Vec<ConcurrencyLimit>,
    /// The latency objective of each stream, where it has its own.
    own_slo: Vec<Option<Span>>,
    /// Streams that were removed and of which something is in flight.
    removed: BTreeSet<StreamId>,
    sampler: DemandSampler,
    requests: Vec<RequestState>,
    /// Items of every request, one row a request.
    items: Vec<u8>,
    ledger: Ledger,
    stats: RunStats,
    timeline: Timeline,
    pools: Vec<WorkerPool>,
    /// When the last run on a slot that prepares ahead ends: of a shared slot, or of one of a module's own.
    run_ends: BTreeMap<(Option<ModuleId>, SlotId), Timestamp>,
    /// By module: sequences of those that generate.
    generated: Vec<Generated>,
    pipelines: Option<BookedCluster<'a>>,
    link_free: Vec<Timestamp>,
    random: Pcg64Mcg,
    has_branches: bool,
    /// Modules at which requests begin.
    entrances: Vec<ModuleId>,
    events: u64,
    policy_events: u64,
    /// What one worker of each module does, items a second, by which pools are scaled.
    worker_throughput: Vec<f64>,
    effects: Vec<ModuleEffect>,
    slot_effects: Vec<SlotEffect>,
    /// Whether requests are still to come.
    more_arrivals: bool,
}

impl World<'_> {
    /// Runs until all that was sent has ended.
    fn run(&mut self, arrivals: &mut dyn Iterator<Item = Arrival>, progress: &mut dyn FnMut(Timestamp)) {
        let mut next = arrivals.next();
        let mut reported = Timestamp::ZERO;
        loop {
            let due = self.event_queue.next_time();
            let at = match (next, due) {
                (Some((arrival, _)), Some(due)) => arrival.min(due),
                (Some((arrival, _)), None) => arrival,
                (None, Some(due)) => due,
                (None, None) => break,
            };
            self.more_arrivals = next.is_some();
            self.now = at.max(self.now);
            if self.now.since(reported) >= Span::from_secs(10) {
                reported = self.now;
                progress(reported);
            }
            while let Some((_, stream)) = next.filter(|(arrival, _)| *arrival <= at) {
                self.on_arrival(stream);
                next = arrivals.next();
            }
            while self.event_queue.next_time() == Some(at) {
                let Some((_, event)) = self.event_queue.pop() else {
                    break;
                };
                self.handle(event);
            }
            self.decide();
        }
    }

    fn handle(&mut self, event: Event) {
        self.events += 1;
        match event {
            Event::RequestArrived(to, request) => self.on_request_arrived(to, request),
            Event::Module(module, event) => self.deliver(module, *event),
            Event::Slot(event) => self.on_slot_event(event),
            Event::Reservations(event) => self.on_planned_event(event.into()),
            Event::ReservationTimer => self.on_planned_event(ReserveEvent::Tick.into()),
            Event::PlanOffered(index) => self.on_plan_offered(index),
            Event::PlanLoaded(index) => self.on_plan_loaded(index),
            Event::BreakerTimer => self.break_slots(None),
            Event::UseEnded(booking) => self.on_use_ended(booking),
            Event::Launched(module, slot, batch, prepared) => {
                self.on_launched(module, slot, batch, prepared);
            }
            Event::BatchDone(module, slot, batch, took, failed) => {
                self.on_batch_done(module, slot, batch, took, failed);
            }
            Event::Stepped(module, slot, took) => self.on_stepped(module, slot, took),
            Event::TimerFired(module) => self.mark_ready(module),
            Event::WorkerStarted(module, slot) => self.on_worker_started(module, slot),
            Event::Failure(index, begins) => self.on_failure(index, begins),
            Event::Decoded(stream, sent_at) => self.on_decoded(stream, sent_at),
            Event::DecodingTick => self.observe_decoding(),
            Event::GearTick => self.look_at_load(),
            Event::StreamChanged(index) => self.on_stream_changed(index),
            Event::Tick => self.tick(),
        }
    }

    /// Lets everybody decide who has facts that are due, until nobody has.
    fn decide(&mut self) {
        loop {
            if let Some(module) = self.ready.pop_front() {
                let mut events = std::mem::take(&mut self.due[module]);
                let mut effects = std::mem::take(&mut self.effects);
                self.policy_events += events.len() as u64;
                self.modules[module].step(events.drain(..), self.now, &mut effects);
                if self.due[module].is_empty() {
                    self.due[module] = events;
                }
                for effect in effects.drain(..) {
                    self.apply(ModuleId(module as u32), effect);
                }
                self.effects = effects;
            } else if !self.slot_events.is_empty() {
                self.arbitrate();
            } else if !self.reserve() {
                return self.start_uses();
            }
        }
    }

    fn arbitrate(&mut self) {
        let mut events = std::mem::take(&mut self.slot_events);
        let mut effects = std::mem::take(&mut self.slot_effects);
        self.policy_events += events.len() as u64;
        if let Some(slots) = &mut self.slots {
            slots.step(events.drain(..), self.now, &mut effects);
        }
        events.clear();
        self.slot_events = events;
        for effect in effects.drain(..) {
            match ModuleEvent::from_slots(effect) {
                Some((to, event)) => self.deliver(to, event),
                None => self.change_session(effect),
            }
        }
        self.slot_effects = effects;
    }

    /// Gives a module a fact that is due now.
    fn deliver(&mut self, module: ModuleId, event: ModuleEvent) {
        self.mark_ready(module);
        self.due[module.index()].push(event);
    }

    /// Gives a module a fact after a hop.
    fn send(&mut self, module: ModuleId, event: ModuleEvent) {
        if self.spec.hop == Span::ZERO {
            self.deliver(module, event);
        } else {
            self.event_queue
                .push_in_order(self.now + self.spec.hop, Event::Module(module, Box::new(event)));
        }
    }

    /// Gives the arbiter a fact after a hop.
    fn send_slots(&mut self, event: SlotEvent) {
        if self.slots.is_none() {
            return;
        }
        if self.spec.hop == Span::ZERO {
            self.slot_events.push(event);
        } else {
            self.event_queue
                .push_in_order(self.now + self.spec.hop, Event::Slot(event));
        }
    }

    /// Lets a module decide at this instant.
    fn mark_ready(&mut self, module: ModuleId) {
        let place = module.index();
        if self.due[place].is_empty() && !self.ready.contains(&place) {
            self.ready.push_back(place);
        }
    }

    /// Whether anything is to come, or in flight.
    fn goes_on(&self) -> bool {
        let decoding = self.decoders.as_ref().is_some_and(Decoders::is_busy);
        self.more_arrivals || decoding || self.ledger.total().in_flight > 0
    }

    fn look_at_load(&mut self) {
        if let (Some(gears), Some(stages)) = (&mut self.gears, &mut self.stages) {
            self.policy_events += 2;
            gears.look(stages, self.now);
        }
        self.set_invocations();
        if self.goes_on() {
            self.event_queue.push(self.now + gears::INTERVAL, Event::GearTick);
        }
    }

    /// Sets what stages wait for, and which part of their work each of their slots does, to the gear in force.
    fn set_invocations(&mut self) {
        let slots_of = |module: &WorldModule| match &module.pool {
            WorldPool::Shared(slots) => slots.len(),
            _ => 0,
        };
        if let Some(gears) = &mut self.gears {
            let slots: Vec<usize> = self.spec.modules.iter().map(slots_of).collect();
            for (module, place, share) in gears.take_shares(&slots) {
                if let WorldPool::Shared(slots) = &self.spec.modules[module].pool {
                    let (module, slot) = (ModuleId(module as u32), SlotId(slots[place]));
                    self.slot_events.push(SlotEvent::ShareSet { module, slot, share });
                }
            }
        }
        let changed = self.stages.as_mut().map(Stages::take_invocations);
        for (module, invocation) in changed.unwrap_or_default() {
            self.deliver(module, ModuleEvent::InvocationChanged { invocation });
        }
    }

    fn tick(&mut self) {
        for module in (0..self.modules.len() as u32).map(ModuleId) {
            self.deliver(module, ModuleEvent::Tick);
        }
        if self.slots.is_some() {
            self.slot_events.push(SlotEvent::Tick);
        }
        self.on_planned_event(ReserveEvent::Tick.into());
        self.scale();
        self.timeline.on_tick(self.now, &self.modules);
        if self.goes_on() {
            self.event_queue.push(self.now + TICK, Event::Tick);
        }
    }
}
