//! Driver in virtual time: one event queue around the machines of `weir-control`.
//!
//! At every instant all due messages are passed to the controller. Then each machine with new input decides
//! once, as the live engine does after a burst, and its effects become events, at the same instant or later.
//! Events are ordered by time, then by the order of insertion, so the same world gives exactly the same
//! result.

mod act;
mod booked_cluster;
mod build;
mod cluster_run;
mod decoders;
mod decoding;
mod generated;
mod pipelines;
mod pool;
mod request_items;
mod requests;
mod running;
mod scaling;
mod scene;
mod scheduled;
mod sequences;
mod sessions;
mod simulate;
mod stages;
mod streams;
mod tiles;

use std::collections::BTreeMap;

use rand_pcg::Pcg64Mcg;
use weir_control::{Address, BatchEnd, Controller, GEAR_INTERVAL, GearMessage, Message, ModuleMessage};
use weir_policy::reservations::BookingId;
use weir_policy::{ResidencyReport, SlotEvent};
use weir_types::{BatchId, ModuleId, SlotId, Span, StreamId, Timestamp};

use crate::event_queue::EventQueue;
use crate::spec::{WorldPool, WorldSpec};
use crate::timeline::Timeline;

use booked_cluster::BookedCluster;
pub use build::control_spec;
use decoders::Decoders;
use pool::WorkerPool;
use request_items::RequestItems;
use sequences::Generated;
pub use simulate::{SimulationResult, simulate, simulate_streams};
use stages::Stages;
use streams::Streams;
use tiles::Tiles;

/// Modules look at their load this often.
const TICK: Span = Span::from_millis(200);

/// Scheduled event of a simulated world.
#[derive(Debug)]
enum Event {
    /// A message that was delayed reaches its machine.
    Carried(Box<Message>),
    /// A session was opened or closed.
    Session(SlotEvent),
    /// A machine's timer fires.
    TimerFired(Address),
    /// A plan is offered, by its index.
    PlanOffered(usize),
    /// The partitions of the offered plan are loaded.
    PlanLoaded(usize),
    /// The links of a class change, by the index of the change.
    LinksChanged(usize),
    /// A batch ends its use of a share or of links.
    UseEnded(BookingId),
    /// The inputs of a batch are prepared, which took this span, and the batch starts.
    Launched(ModuleId, SlotId, BatchId, Span),
    /// A batch comes back from its slot; the flag is true if it failed.
    BatchDone(ModuleId, SlotId, BatchId, Span, bool),
    /// A step of an instance is done, after this span.
    Stepped(ModuleId, SlotId, Span),
    /// A worker has started, after this span.
    WorkerStarted(ModuleId, SlotId, Span),
    /// The failure by its index begins, or ends.
    Failure(usize, bool),
    /// A frame of a stream, sent at this time, is decoded.
    Decoded(StreamId, Timestamp),
    /// The decoders report the outcome of recent frames to the decode levels.
    DecodingTick,
    /// The load of cascades is evaluated.
    GearTick,
    /// A stream changes, by the index of the change.
    StreamChanged(usize),
    /// A lossless stream has room for a frame that waits.
    HasRoom(StreamId),
    /// The sources stop.
    SourcesStopped,
    /// The periodic tick of machines, every `TICK`.
    Tick,
}

/// Arrival time of a request and its stream; `None`: the next stream in turn.
type Arrival = (Timestamp, Option<StreamId>);

/// A running simulation: the controller and its simulated site.
struct World<'a> {
    controller: Controller,
    site: Site<'a>,
    /// Messages for the controller; empty except while they are delivered.
    messages: Vec<Message>,
}

/// Another gear came into force.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shift {
    /// Time of the shift.
    pub at: Timestamp,
    /// The gear, by index.
    pub gear: usize,
    /// The load that it was chosen for, in requests a second.
    pub rate: f64,
    /// Stream that shifts; `None`: all streams.
    pub stream: Option<StreamId>,
}

/// Devices, links and cameras around the machines, and items of requests.
struct Site<'a> {
    spec: &'a WorldSpec,
    now: Timestamp,
    event_queue: EventQueue<Event>,
    /// Log of models loaded and unloaded, if the memory of a device is limited.
    residency: Option<ResidencyReport>,
    decoders: Option<Decoders>,
    /// Stages of cascades and accuracy of modules, if there are any.
    stages: Option<Stages>,
    tiles: Tiles,
    /// Gear shifts so far.
    shifts: Vec<Shift>,
    streams: Streams,
    requests: RequestItems,
    timeline: Timeline,
    pools: Vec<WorkerPool>,
    /// End of the last run on each slot that prepares ahead: of a shared slot, or of a module's own.
    run_ends: BTreeMap<(Option<ModuleId>, SlotId), Timestamp>,
    /// Sequences of modules that generate, by module.
    generated: Vec<Generated>,
    cluster: Option<BookedCluster<'a>>,
    link_free: Vec<Timestamp>,
    random: Pcg64Mcg,
    events: u64,
    /// Number of facts processed by machines outside the controller.
    facts: u64,
    /// True while further requests are to come.
    more_arrivals: bool,
}

impl<'a> World<'a> {
    /// Runs until all that was sent has ended.
    fn run(&mut self, arrivals: &mut dyn Iterator<Item = Arrival>, progress: &mut dyn FnMut(Timestamp)) {
        let mut next = arrivals.next();
        let mut reported = Timestamp::ZERO;
        loop {
            let due = self.site.event_queue.next_time();
            let at = match (next, due) {
                (Some((arrival, _)), Some(due)) => arrival.min(due),
                (Some((arrival, _)), None) => arrival,
                (None, Some(due)) => due,
                (None, None) => break,
            };
            self.site.more_arrivals = next.is_some();
            self.site.now = at.max(self.site.now);
            if self.site.now.since(reported) >= Span::from_secs(10) {
                reported = self.site.now;
                progress(reported);
            }
            while let Some((_, stream)) = next.filter(|(arrival, _)| *arrival <= at) {
                self.on_arrival(stream);
                next = arrivals.next();
            }
            while self.site.event_queue.next_time() == Some(at) {
                let Some((_, event)) = self.site.event_queue.pop() else {
                    break;
                };
                self.handle(event);
            }
            self.decide();
        }
    }

    fn handle(&mut self, event: Event) {
        self.site.events += 1;
        match event {
            Event::Carried(message) => self.tell(*message),
            Event::Session(event) => {
                self.site.count_session(&event);
                self.tell(Message::Slots(event));
            }
            Event::TimerFired(of) => self.tell(Message::TimerFired(of)),
            Event::PlanOffered(index) => self.tell_all(|site, messages| site.offer_plan(index, messages)),
            Event::PlanLoaded(index) => self.tell_all(|site, messages| site.on_plan_loaded(index, messages)),
            Event::LinksChanged(index) => self.site.change_links(index),
            Event::UseEnded(booking) => self.tell_all(|site, messages| site.on_use_ended(booking, messages)),
            Event::Launched(module, slot, batch, prepared) => {
                // What was lost with its worker before is launched no more.
                if self.site.pools[module.index()].launch(slot, batch) {
                    let launched = ModuleMessage::Launched {
                        slot,
                        batch,
                        prepared,
                    };
                    self.tell(Message::Module(module, launched));
                }
            }
            Event::BatchDone(module, slot, batch, took, failed) => {
                // What was lost with its worker does not come back.
                if self.site.pools[module.index()].take_running(slot, batch) {
                    let end = if failed {
                        BatchEnd::Failed(slot)
                    } else {
                        BatchEnd::Done(slot)
                    };
                    let ended = ModuleMessage::BatchEnded { batch, took, end };
                    self.tell(Message::Module(module, ended));
                }
            }
            Event::Stepped(module, slot, took) => {
                if let Some(stepped) = self.site.on_stepped(module, slot, took) {
                    self.tell(Message::Module(module, stepped));
                }
            }
            Event::WorkerStarted(module, slot, took) => {
                if let Some(started) = self.site.on_worker_started(module, slot, took) {
                    self.tell(started);
                }
            }
            Event::Failure(index, begins) => {
                self.tell_all(|site, messages| site.on_failure(index, begins, messages));
            }
            Event::Decoded(stream, sent_at) => self.on_decoded(stream, sent_at),
            Event::DecodingTick => self.observe_decoding(),
            Event::GearTick => self.look_at_load(),
            Event::StreamChanged(index) => {
                self.tell_all(|site, messages| site.on_stream_changed(index, messages));
            }
            Event::HasRoom(stream) => self.admit_waiting(stream),
            Event::SourcesStopped => self.site.streams.forget_all_waiting(),
            Event::Tick => self.tick(),
        }
    }

    /// Passes a message to the controller now.
    fn tell(&mut self, message: Message) {
        self.controller.on(message, self.site.now, &mut self.site);
    }

    /// Passes the messages that follow from an event to the controller.
    fn tell_all(&mut self, happen: impl FnOnce(&mut Site<'a>, &mut Vec<Message>)) {
        let mut messages = std::mem::take(&mut self.messages);
        happen(&mut self.site, &mut messages);
        for message in messages.drain(..) {
            self.tell(message);
        }
        self.messages = messages;
    }

    /// Lets machines decide until none has new input.
    fn decide(&mut self) {
        self.controller.decide(self.site.now, &mut self.site);
        self.site.start_uses();
    }

    /// True if events are scheduled, or requests are in flight.
    fn goes_on(&self) -> bool {
        let decoding = self.site.decoders.as_ref().is_some_and(Decoders::is_busy);
        let ledger = self.controller.books().ledger();
        self.site.more_arrivals || decoding || ledger.total().in_flight > 0
    }

    fn look_at_load(&mut self) {
        self.tell(Message::Gears(GearMessage::Look));
        if self.goes_on() {
            let next = self.site.now + GEAR_INTERVAL;
            self.site.event_queue.push(next, Event::GearTick);
        }
    }

    fn tick(&mut self) {
        self.tell(Message::Tick);
        let modules = self.controller.modules().iter().map(|module| module.policy());
        self.site.timeline.on_tick(self.site.now, modules);
        if self.goes_on() {
            self.site.event_queue.push(self.site.now + TICK, Event::Tick);
        }
    }
}

impl Site<'_> {
    /// Sends a message to a machine, with the delay of a hop.
    fn send(&mut self, message: Message, messages: &mut Vec<Message>) {
        self.carry(message, None, messages);
    }

    /// Sends a message to a machine, with the delay of a hop and of its link.
    fn carry(&mut self, message: Message, link: Option<usize>, messages: &mut Vec<Message>) {
        let mut at = self.now + self.spec.hop;
        if let Some((link, free)) =
            link.and_then(|link| Some((self.spec.links.get(link)?, self.link_free.get_mut(link)?)))
        {
            *free = (*free).max(at) + Span::from_secs_f64(link.bytes * 8.0 / link.bandwidth_bps.max(1.0));
            at = *free + link.latency;
        }
        if at == self.now {
            messages.push(message);
        } else {
            self.event_queue
                .push_in_order(at, Event::Carried(Box::new(message)));
        }
    }

    fn is_shared(&self, module: ModuleId) -> bool {
        matches!(self.spec.modules[module.index()].pool, WorldPool::Shared(_))
    }
}
