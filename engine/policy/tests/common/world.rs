//! A small deterministic world around the decisions: one time-ordered queue of messages, effects carried out as in a live
//! driver. It checks every invariant at every step and panics with the seed. Unlike the simulator it has no traces and no
//! reports.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Serialize, de::DeserializeOwned};
use weir_policy::*;
use weir_types::*;

use super::scenario::{Scenario, Stream, Vertex};

#[derive(Debug, Clone)]
pub(super) enum Message {
    Frame(u32),
    Branch(Option<ModuleId>, RequestId),
    Module(ModuleId, ModuleEvent),
    Slots(SlotEvent),
    /// A batch ended on its slot.
    Done(ModuleId, SlotId, BatchId, Span),
    /// The flaky slot goes down, or up.
    FlapSlot(bool),
    Wake(ModuleId),
    Tick,
}

/// The state of one request.
pub(super) struct RequestState {
    pub(super) stream: u32,
    pub(super) sent_at: Timestamp,
    pub(super) ended: Option<(Outcome, Timestamp)>,
    /// By module: items that ran.
    pub(super) ran: BTreeMap<u32, BTreeSet<u32>>,
}

pub struct World {
    pub(super) scenario: Scenario,
    pub(super) now: Timestamp,
    pub(super) next: u64,
    pub(super) messages: BTreeMap<(Timestamp, u64), Message>,
    pub modules: Vec<Module>,
    pub(super) slots: Slots,
    pub(super) branches: Vec<u32>,
    pub(super) joins: Vec<Join<()>>,
    pub(super) limits: Vec<ConcurrencyLimit>,
    pub(super) blocked_frames: Vec<u32>,
    pub(super) frames_left: Vec<u32>,
    pub(super) reorder: ReorderBuffer<RequestId>,
    pub(super) released_requests: Vec<Vec<RequestId>>,
    pub ledger: Ledger,
    pub(super) requests: Vec<RequestState>,
    pub(super) running: BTreeMap<u32, (ModuleId, BatchId)>,
    pub(super) cancelled: BTreeSet<(u32, RequestId)>,
    pub(super) lost: BTreeSet<u32>,
    pub(super) random: Pcg64Mcg,
    pub log: String,
    pub states: BTreeMap<u32, Arc<ModuleState>>,
    pub runs: u64,
}

pub(super) fn json_round_trip<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T) -> T {
    let text = serde_json::to_string(value).unwrap();
    let back: T = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"));
    assert_eq!(&back, value, "{text}");
    back
}

impl World {
    pub fn new(scenario: Scenario) -> Self {
        let ids = |list: &[u32]| list.iter().map(|&id| ModuleId(id)).collect::<Vec<_>>();
        let topology = Topology::new(scenario.vertices.iter().map(|vertex| ids(&vertex.next)).collect());
        let spans = |vertex: &Vertex| {
            let points = vertex.profile.iter();
            Profile::new(points.map(|&(size, ms)| (size, Span::from_millis(ms))).collect()).unwrap()
        };
        let slots_of = |vertex: &Vertex| vertex.slots.iter().map(|&slot| SlotId(slot)).collect::<Vec<_>>();
        let peer = |vertex: &Vertex| ModuleInfo {
            profile: spans(vertex),
            batch: vertex.batch.clone(),
            workers: vertex.slots.len() as u32,
            fallback: weir_policy::gears::Fallback::Never,
        };
        let peers: Vec<ModuleInfo> = scenario.vertices.iter().map(peer).collect();
        let module = |(id, vertex): (u32, &Vertex)| {
            let spec = ModuleSpec {
                ends: Vec::new(),
                generate: None,
                id: ModuleId(id),
                slo: scenario.slo,
                policy: scenario.policy.clone(),
                slots: slots_of(vertex),
                pool: Pool::Shared,
                batch: vertex.batch.clone(),
                profile: spans(vertex),
                topology: topology.clone(),
                peers: peers.clone(),
                share: 1.0,
                shares: Vec::new(),
                seed: scenario.seed,
                overlap: None,
            };
            Module::new(json_round_trip(&spec))
        };
        let placement = |(id, vertex): (u32, &Vertex)| Placement {
            module: ModuleId(id),
            slots: slots_of(vertex),
            weight: 1.0,
            optional: false,
            model: None,
            live: false,
        };
        let slots = SlotsSpec {
            slots: scenario.slots,
            placements: (0..).zip(&scenario.vertices).map(placement).collect(),
            arbitration: scenario.policy.arbitration,
            topology: topology.clone(),
            forecasts: scenario.policy.forming == BatchBinding::Early,
            overlapped: Vec::new(),
            memory: Vec::new(),
            queues: None,
            planning: SlotPlanning::default(),
        };
        let overflow = |stream: &Stream| {
            if stream.lossless {
                Overflow::Backpressure
            } else {
                Overflow::Drop
            }
        };
        let into = |id: u32| {
            scenario
                .vertices
                .iter()
                .filter(|vertex| vertex.next.contains(&id))
                .count() as u32
        };
        let ends = scenario
            .vertices
            .iter()
            .filter(|vertex| vertex.next.is_empty())
            .count() as u32;
        let count = scenario.vertices.len() as u32;
        let mut world = Self {
            now: Timestamp::ZERO,
            next: 0,
            messages: BTreeMap::new(),
            modules: (0..).zip(&scenario.vertices).map(module).collect(),
            slots: Slots::new(json_round_trip(&slots)),
            branches: (0..count).map(into).chain([ends]).collect(),
            joins: (0..=count).map(|_| Join::default()).collect(),
            limits: scenario
                .streams
                .iter()
                .map(|stream| {
                    ConcurrencyLimit::new(ConcurrencyLimitSpec {
                        overflow: overflow(stream),
                        initial: stream.max_in_flight,
                        max: stream.max_in_flight,
                        slo: Span::MAX,
                    })
                })
                .collect(),
            blocked_frames: vec![0; scenario.streams.len()],
            frames_left: scenario.streams.iter().map(|stream| stream.frames).collect(),
            reorder: ReorderBuffer::default(),
            released_requests: vec![Vec::new(); scenario.streams.len()],
            ledger: Ledger::default(),
            requests: Vec::new(),
            running: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            lost: BTreeSet::new(),
            random: Pcg64Mcg::seed_from_u64(scenario.seed),
            log: String::new(),
            states: BTreeMap::new(),
            runs: 0,
            scenario,
        };
        for stream in 0..world.scenario.streams.len() as u32 {
            world.send(Span::ZERO, Message::Frame(stream));
        }
        world.send(Span::ZERO, Message::Tick);
        if world.scenario.flaky_slot.is_some() {
            world.send(Span::from_millis(100), Message::FlapSlot(true));
        }
        world
    }

    pub(super) fn send(&mut self, after: Span, message: Message) {
        self.messages.insert((self.now + after, self.next), message);
        self.next += 1;
    }

    pub(super) fn is_done(&self) -> bool {
        self.frames_left.iter().all(|&left| left == 0)
            && self
                .blocked_frames
                .iter()
                .all(|&blocked_frames| blocked_frames == 0)
            && self.ledger.total().in_flight == 0
            && self.running.is_empty()
    }

    /// Runs until all requests have ended and all messages are delivered.
    pub fn run(mut self) -> Self {
        let most = Timestamp::ZERO + Span::from_secs(600);
        while let Some(((at, _), message)) = self.messages.pop_first() {
            assert!(at < most, "stuck: {:?}, {:?}", self.ledger.total(), self.scenario);
            self.now = at;
            self.handle(message);
            assert!(self.ledger.total().is_balanced());
        }
        let total = self.ledger.total();
        assert!(
            total.in_flight == 0 && self.ledger.open_requests().is_empty(),
            "{total:?}"
        );
        assert!(
            self.modules.iter().all(|module| module.requests() == 0),
            "requests remain in a module"
        );
        assert!(self.joins.iter().all(Join::is_empty) && self.reorder.waiting_results() == 0);
        assert!(self.limits.iter().all(|limit| limit.in_flight() == 0));
        assert_eq!(self.slots.free(), self.scenario.slots as usize);
        assert!(self.released_requests.iter().all(|line| line.is_sorted()));
        self
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Frame(stream) => self.frame(stream),
            Message::Branch(to, request) => self.on_branch(to, request),
            Message::Slots(event) => self.step_slots(event),
            Message::Done(module, slot, batch, took) => self.done(module, slot, batch, took),
            Message::FlapSlot(lost) => self.flap_slot(lost),
            Message::Wake(module) => self.step_module(module, Vec::new()),
            Message::Module(module, event) => {
                let mut events = vec![event];
                if self.scenario.batch_events {
                    let now = self.now;
                    let same = |at: &(Timestamp, u64), message: &mut Message| {
                        at.0 == now && matches!(message, Message::Module(to, _) if *to == module)
                    };
                    let burst = self.messages.extract_if(.., same);
                    events.extend(burst.filter_map(|(_, message)| match message {
                        Message::Module(_, event) => Some(event),
                        _ => None,
                    }));
                }
                self.step_module(module, events);
            }
            Message::Tick => {
                for module in 0..self.modules.len() as u32 {
                    self.send(Span::ZERO, Message::Module(ModuleId(module), ModuleEvent::Tick));
                }
                self.send(Span::ZERO, Message::Slots(SlotEvent::Tick));
                self.change_policy();
                if !self.is_done() {
                    self.send(Span::from_millis(200), Message::Tick);
                }
            }
        }
    }

    /// The next policy comes into force, and a stream has another share.
    fn change_policy(&mut self) {
        let changes = &self.scenario.changes;
        if changes.is_empty() {
            return;
        }
        let number = self.now.micros() / 200_000;
        let policy = changes[number as usize % changes.len()].clone();
        let stream = StreamId(number as u32 % self.scenario.streams.len() as u32);
        let share = [
            StreamShare::default(),
            StreamShare {
                weight: 3.0,
                reserve: None,
            },
            StreamShare {
                weight: 1.0,
                reserve: Some(5.0),
            },
        ][number as usize % 3];
        self.send(
            Span::ZERO,
            Message::Slots(SlotEvent::PolicyApplied {
                arbitration: policy.arbitration,
                forecasts: policy.forming == BatchBinding::Early,
            }),
        );
        for module in (0..self.modules.len() as u32).map(ModuleId) {
            let policy = Box::new(policy.clone());
            let applied = ModuleEvent::PolicyApplied { policy };
            self.send(Span::ZERO, Message::Module(module, applied));
            let changed = ModuleEvent::StreamShareChanged { stream, share };
            self.send(Span::ZERO, Message::Module(module, changed));
        }
    }

    fn frame(&mut self, stream: u32) {
        let at = stream as usize;
        if self.frames_left[at] == 0 {
            return;
        }
        self.frames_left[at] -= 1;
        let Stream { period, poisson, .. } = self.scenario.streams[at];
        let factor = if poisson {
            -(1.0 - self.random.random::<f64>()).ln()
        } else {
            1.0
        };
        self.send(period.scale(factor), Message::Frame(stream));
        self.admit(stream);
    }

    fn admit(&mut self, stream: u32) {
        let admission = self.limits[stream as usize].admit(true);
        if admission == Admission::Wait {
            self.blocked_frames[stream as usize] += 1;
            return;
        }
        let request = RequestId(self.requests.len() as u64);
        let (sent_at, ran, ended) = (self.now, BTreeMap::new(), None);
        self.requests.push(RequestState {
            stream,
            sent_at,
            ended,
            ran,
        });
        assert!(self.ledger.on_arrived(request, StreamId(stream)));
        self.reorder.on_sent(StreamId(stream), request);
        if let Admission::Drop(reason) = admission {
            self.end_request(request, Outcome::Dropped(None, reason), false);
            return;
        }
        for module in 0..self.modules.len() {
            if self.branches[module] == 0 {
                self.send(
                    self.scenario.message_delay,
                    Message::Branch(Some(ModuleId(module as u32)), request),
                );
            }
        }
    }

    /// Ends a request once, and cancels it elsewhere.
    pub(super) fn end_request(&mut self, request: RequestId, outcome: Outcome, entered: bool) {
        if !self.ledger.on_ended(request, outcome) {
            return;
        }
        let state = &mut self.requests[request.index()];
        assert!(state.ended.is_none(), "{request:?} ends twice");
        state.ended = Some((outcome, self.now));
        let stream = state.stream;
        let result = (!matches!(outcome, Outcome::Dropped(..))).then_some(request);
        let leaving = self.reorder.on_ended(StreamId(stream), request, result);
        self.released_requests[stream as usize].extend(leaving);
        for join in &mut self.joins {
            join.cancel(request);
        }
        if let Outcome::Dropped(by, _) = outcome {
            for module in (0..self.modules.len() as u32)
                .map(ModuleId)
                .filter(|&module| Some(module) != by)
            {
                self.send(
                    self.scenario.message_delay,
                    Message::Module(module, ModuleEvent::Cancelled { request }),
                );
            }
        }
        if entered {
            self.limits[stream as usize].on_ended(Span::ZERO);
            if self.blocked_frames[stream as usize] > 0 {
                self.blocked_frames[stream as usize] -= 1;
                self.admit(stream);
            }
        }
    }

    /// A branch of a request arrived at a module, or at the end.
    pub(super) fn on_branch(&mut self, to: Option<ModuleId>, request: RequestId) {
        let RequestState {
            stream,
            sent_at,
            ended,
            ..
        } = self.requests[request.index()];
        if ended.is_some() {
            return;
        }
        let join = to.map_or(self.modules.len(), ModuleId::index);
        if self.joins[join]
            .on_branch(request, self.branches[join], (), |_, ()| ())
            .is_none()
        {
            return;
        }
        let Some(module) = to else {
            let own = self.scenario.streams[stream as usize].slo;
            let late = self.now.since(sent_at) > own.unwrap_or(self.scenario.slo);
            self.end_request(
                request,
                if late { Outcome::Late } else { Outcome::Delivered },
                true,
            );
            return;
        };
        let items = self.items(module, request);
        let droppable = !self.scenario.streams[stream as usize].lossless;
        self.send(
            Span::ZERO,
            Message::Module(
                module,
                ModuleEvent::Arrived {
                    request,
                    stream: StreamId(stream),
                    sent_at,
                    items,
                    droppable,
                    slo: self.scenario.streams[stream as usize].slo,
                },
            ),
        );
    }
}
