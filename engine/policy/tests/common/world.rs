//! A small deterministic world around the decisions: one time-ordered heap of wires, effects carried out as a live driver
//! would. It checks every invariant as it goes and panics with the seed. It is not the simulator: no traces, no reports.

use std::collections::{BTreeMap, BTreeSet};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Serialize, de::DeserializeOwned};
use weir_policy::*;

/// How many items a request brings to a module.
#[derive(Debug, Clone, Copy)]
pub enum Items {
    Fixed(u32),
    UpTo(u32),
}

#[derive(Debug, Clone)]
pub struct Vertex {
    pub next: Vec<u32>,
    pub slots: Vec<u32>,
    pub batch: Vec<u32>,
    /// `(batch size, milliseconds)`.
    pub profile: Vec<(u32, u64)>,
    pub items: Items,
}

#[derive(Debug, Clone)]
pub struct Stream {
    pub frames: u32,
    pub period: Span,
    pub poisson: bool,
    /// Held back rather than let go.
    pub lossless: bool,
    pub most: u32,
}

#[derive(Debug, Clone)]
pub struct Scene {
    pub seed: u64,
    pub policy: Policy,
    pub slo: Span,
    pub slots: u32,
    pub vertices: Vec<Vertex>,
    pub streams: Vec<Stream>,
    /// Durations vary by up to this factor either way.
    pub noise: f64,
    /// How long a message takes.
    pub hop: Span,
    /// Whether all that is there for a module at one instant is told in one step.
    pub bursts: bool,
    /// Whether everything goes through JSON.
    pub json: bool,
}

#[derive(Debug, Clone)]
enum Wire {
    Frame(u32),
    Part(Option<ModuleId>, RequestId),
    Module(ModuleId, ModuleEvent),
    Slots(SlotEvent),
    Wake(ModuleId),
    Tick,
}

/// One request as the world knows it.
struct Journey {
    stream: u32,
    sent_at: Timestamp,
    ended: Option<(Outcome, Timestamp)>,
    /// By module: items that were put on a slot.
    ran: BTreeMap<u32, BTreeSet<u32>>,
}

pub struct World {
    scene: Scene,
    now: Timestamp,
    next: u64,
    wires: BTreeMap<(Timestamp, u64), Wire>,
    pub modules: Vec<Module>,
    slots: Slots,
    parts: Vec<u32>,
    joins: Vec<Join<()>>,
    gates: Vec<Gate>,
    held: Vec<u32>,
    frames_left: Vec<u32>,
    release: Release<RequestId>,
    released: Vec<Vec<RequestId>>,
    pub ledger: Ledger,
    journeys: Vec<Journey>,
    running: BTreeMap<u32, (ModuleId, BatchId)>,
    cancelled: BTreeSet<(u32, RequestId)>,
    random: Pcg64Mcg,
    pub log: String,
    pub states: BTreeMap<u32, ModuleState>,
    pub runs: u64,
}

fn again<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T) -> T {
    let text = serde_json::to_string(value).unwrap();
    let back: T = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"));
    assert_eq!(&back, value, "{text}");
    back
}

impl World {
    pub fn new(scene: Scene) -> Self {
        let ids = |list: &[u32]| list.iter().map(|&id| ModuleId(id)).collect::<Vec<_>>();
        let topology = Topology::new(scene.vertices.iter().map(|vertex| ids(&vertex.next)).collect());
        let spans = |vertex: &Vertex| {
            let points = vertex.profile.iter();
            Profile::new(points.map(|&(size, ms)| (size, Span::from_millis(ms))).collect()).unwrap()
        };
        let slots_of = |vertex: &Vertex| vertex.slots.iter().map(|&slot| SlotId(slot)).collect::<Vec<_>>();
        let durations: Vec<Span> = scene
            .vertices
            .iter()
            .map(|vertex| spans(vertex).duration(1))
            .collect();
        let module = |(id, vertex): (u32, &Vertex)| {
            let spec = ModuleSpec {
                id: ModuleId(id),
                slo: scene.slo,
                policy: scene.policy.clone(),
                slots: slots_of(vertex),
                batch: vertex.batch.clone(),
                profile: spans(vertex),
                topology: topology.clone(),
                durations: durations.clone(),
                seed: scene.seed,
            };
            Module::new(again(&spec))
        };
        let placement = |(id, vertex): (u32, &Vertex)| Placement {
            module: ModuleId(id),
            slots: slots_of(vertex),
            weight: 1.0,
        };
        let slots = SlotsSpec {
            slots: scene.slots,
            placements: (0..).zip(&scene.vertices).map(placement).collect(),
            arbitration: scene.policy.arbitration,
            topology: topology.clone(),
            forecasts: scene.policy.forming == Forming::Eager,
        };
        let overflow = |stream: &Stream| {
            if stream.lossless {
                Overflow::Hold
            } else {
                Overflow::Drop
            }
        };
        let into = |id: u32| {
            scene
                .vertices
                .iter()
                .filter(|vertex| vertex.next.contains(&id))
                .count() as u32
        };
        let ends = scene
            .vertices
            .iter()
            .filter(|vertex| vertex.next.is_empty())
            .count() as u32;
        let count = scene.vertices.len() as u32;
        let mut world = Self {
            now: Timestamp::ZERO,
            next: 0,
            wires: BTreeMap::new(),
            modules: (0..).zip(&scene.vertices).map(module).collect(),
            slots: Slots::new(again(&slots)),
            parts: (0..count).map(into).chain([ends]).collect(),
            joins: (0..=count).map(|_| Join::default()).collect(),
            gates: scene
                .streams
                .iter()
                .map(|stream| Gate::new(overflow(stream), stream.most))
                .collect(),
            held: vec![0; scene.streams.len()],
            frames_left: scene.streams.iter().map(|stream| stream.frames).collect(),
            release: Release::default(),
            released: vec![Vec::new(); scene.streams.len()],
            ledger: Ledger::default(),
            journeys: Vec::new(),
            running: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            random: Pcg64Mcg::seed_from_u64(scene.seed),
            log: String::new(),
            states: BTreeMap::new(),
            runs: 0,
            scene,
        };
        for stream in 0..world.scene.streams.len() as u32 {
            world.wire(Span::ZERO, Wire::Frame(stream));
        }
        world.wire(Span::ZERO, Wire::Tick);
        world
    }

    fn wire(&mut self, after: Span, wire: Wire) {
        self.wires.insert((self.now + after, self.next), wire);
        self.next += 1;
    }

    fn over(&self) -> bool {
        self.frames_left.iter().all(|&left| left == 0)
            && self.held.iter().all(|&held| held == 0)
            && self.ledger.total().in_flight == 0
            && self.running.is_empty()
    }

    /// Runs until everything that was sent has ended and all messages have come.
    pub fn run(mut self) -> Self {
        let most = Timestamp::ZERO + Span::from_secs(600);
        while let Some(((at, _), wire)) = self.wires.pop_first() {
            assert!(at < most, "stuck: {:?}, {:?}", self.ledger.total(), self.scene);
            self.now = at;
            self.pass(wire);
            assert!(self.ledger.total().add_up());
        }
        let total = self.ledger.total();
        assert!(total.in_flight == 0 && self.ledger.open().is_empty(), "{total:?}");
        assert!(
            self.modules.iter().all(|module| module.requests() == 0),
            "a module holds requests"
        );
        assert!(self.joins.iter().all(Join::is_empty) && self.release.held() == 0);
        assert!(self.gates.iter().all(|gate| gate.under_way() == 0));
        assert_eq!(self.slots.free(), self.scene.slots as usize);
        assert!(self.released.iter().all(|line| line.is_sorted()));
        self
    }

    fn pass(&mut self, wire: Wire) {
        match wire {
            Wire::Frame(stream) => self.frame(stream),
            Wire::Part(to, request) => self.part(to, request),
            Wire::Slots(event) => self.step_slots(event),
            Wire::Wake(module) => self.step_module(module, Vec::new()),
            Wire::Module(module, event) => {
                let mut events = vec![event];
                if self.scene.bursts {
                    let now = self.now;
                    let same = |at: &(Timestamp, u64), wire: &mut Wire| {
                        at.0 == now && matches!(wire, Wire::Module(to, _) if *to == module)
                    };
                    let burst = self.wires.extract_if(.., same);
                    events.extend(burst.filter_map(|(_, wire)| match wire {
                        Wire::Module(_, event) => Some(event),
                        _ => None,
                    }));
                }
                self.step_module(module, events);
            }
            Wire::Tick => {
                for module in 0..self.modules.len() as u32 {
                    self.wire(Span::ZERO, Wire::Module(ModuleId(module), ModuleEvent::Tick));
                }
                self.wire(Span::ZERO, Wire::Slots(SlotEvent::Tick));
                if !self.over() {
                    self.wire(Span::from_millis(200), Wire::Tick);
                }
            }
        }
    }

    fn frame(&mut self, stream: u32) {
        let at = stream as usize;
        if self.frames_left[at] == 0 {
            return;
        }
        self.frames_left[at] -= 1;
        let Stream { period, poisson, .. } = self.scene.streams[at];
        let factor = if poisson {
            -(1.0 - self.random.random::<f64>()).ln()
        } else {
            1.0
        };
        self.wire(period.scale(factor), Wire::Frame(stream));
        self.admit(stream);
    }

    fn admit(&mut self, stream: u32) {
        let admission = self.gates[stream as usize].admit(true);
        if admission == Admission::Hold {
            self.held[stream as usize] += 1;
            return;
        }
        let request = RequestId(self.journeys.len() as u64);
        let (sent_at, ran, ended) = (self.now, BTreeMap::new(), None);
        self.journeys.push(Journey {
            stream,
            sent_at,
            ended,
            ran,
        });
        assert!(self.ledger.arrived(request, StreamId(stream)));
        self.release.sent(StreamId(stream), request);
        if let Admission::Drop(reason) = admission {
            self.end(request, Outcome::Dropped(None, reason), false);
            return;
        }
        for module in 0..self.modules.len() {
            if self.parts[module] == 0 {
                self.wire(self.scene.hop, Wire::Part(Some(ModuleId(module as u32)), request));
            }
        }
    }

    /// Ends a request once; those who may have it are told.
    fn end(&mut self, request: RequestId, outcome: Outcome, entered: bool) {
        if !self.ledger.ended(request, outcome) {
            return;
        }
        let journey = &mut self.journeys[request.index()];
        assert!(journey.ended.is_none(), "{request:?} ends twice");
        journey.ended = Some((outcome, self.now));
        let stream = journey.stream;
        let result = (!matches!(outcome, Outcome::Dropped(..))).then_some(request);
        let leaving = self.release.ended(StreamId(stream), request, result);
        self.released[stream as usize].extend(leaving);
        for join in &mut self.joins {
            join.cancel(request);
        }
        if let Outcome::Dropped(by, _) = outcome {
            for module in (0..self.modules.len() as u32)
                .map(ModuleId)
                .filter(|&module| Some(module) != by)
            {
                self.wire(
                    self.scene.hop,
                    Wire::Module(module, ModuleEvent::Cancelled { request }),
                );
            }
        }
        if entered {
            self.gates[stream as usize].ended();
            if self.held[stream as usize] > 0 {
                self.held[stream as usize] -= 1;
                self.admit(stream);
            }
        }
    }

    /// A part of a request has come to a module, or to the end.
    fn part(&mut self, to: Option<ModuleId>, request: RequestId) {
        let Journey {
            stream,
            sent_at,
            ended,
            ..
        } = self.journeys[request.index()];
        if ended.is_some() {
            return;
        }
        let join = to.map_or(self.modules.len(), ModuleId::index);
        if self.joins[join]
            .part(request, self.parts[join], (), |_, ()| ())
            .is_none()
        {
            return;
        }
        let Some(module) = to else {
            let late = self.now.since(sent_at) > self.scene.slo;
            self.end(
                request,
                if late { Outcome::Late } else { Outcome::Delivered },
                true,
            );
            return;
        };
        let items = self.items(module, request);
        let droppable = !self.scene.streams[stream as usize].lossless;
        self.wire(
            Span::ZERO,
            Wire::Module(
                module,
                ModuleEvent::Arrived {
                    request,
                    sent_at,
                    items,
                    droppable,
                },
            ),
        );
    }

    fn items(&self, module: ModuleId, request: RequestId) -> u32 {
        match self.scene.vertices[module.index()].items {
            Items::Fixed(items) => items,
            Items::UpTo(most) => {
                let seed = self.scene.seed ^ (request.0 << 8) ^ u64::from(module.0);
                Pcg64Mcg::seed_from_u64(seed).random_range(0..=most)
            }
        }
    }

    fn step_module(&mut self, module: ModuleId, events: Vec<ModuleEvent>) {
        for event in &events {
            if let ModuleEvent::Cancelled { request } = event {
                self.cancelled.insert((module.0, *request));
            }
        }
        let events = if self.scene.json {
            events.iter().map(again).collect()
        } else {
            events
        };
        let mut effects = Vec::new();
        self.modules[module.index()].step(events, self.now, &mut effects);
        for effect in effects {
            let effect = if self.scene.json {
                self.log += &format!(
                    "{} {module:?} {}\n",
                    self.now.micros(),
                    serde_json::to_string(&effect).unwrap()
                );
                again(&effect)
            } else {
                effect
            };
            self.carry_out(module, effect);
        }
    }

    fn carry_out(&mut self, module: ModuleId, effect: ModuleEffect) {
        let hop = self.scene.hop;
        match effect {
            ModuleEffect::Bid(bid) => self.wire(hop, Wire::Slots(SlotEvent::Bid { module, bid })),
            ModuleEffect::Withdraw => self.wire(hop, Wire::Slots(SlotEvent::Withdrawn { module })),
            ModuleEffect::Decline { slot } => {
                self.wire(hop, Wire::Slots(SlotEvent::Declined { module, slot }))
            }
            ModuleEffect::Run {
                slot,
                batch,
                parts,
                expected,
            } => {
                let items = self.check_run(module, slot, batch, &parts);
                self.wire(
                    hop,
                    Wire::Slots(SlotEvent::Started {
                        module,
                        slot,
                        expected,
                    }),
                );
                let points = &self.scene.vertices[module.index()].profile;
                let profile = Profile::new(
                    points
                        .iter()
                        .map(|&(size, ms)| (size, Span::from_millis(ms)))
                        .collect(),
                );
                let factor = 1.0 + self.scene.noise * (2.0 * self.random.random::<f64>() - 1.0);
                let took = profile.unwrap().duration(items).scale(factor);
                self.wire(took, Wire::Module(module, ModuleEvent::Finished { batch, took }));
                self.wire(
                    took + hop,
                    Wire::Slots(SlotEvent::Finished { module, slot, took }),
                );
                self.runs += 1;
                for part in parts {
                    let ran = self.journeys[part.request.index()]
                        .ran
                        .entry(module.0)
                        .or_default();
                    let fresh = (part.first..part.first + part.count).all(|item| ran.insert(item));
                    assert!(fresh, "items of {:?} run twice", part.request);
                }
            }
            ModuleEffect::Forward { request } => {
                let wanted = self.items(module, request);
                let ran = self.journeys[request.index()]
                    .ran
                    .remove(&module.0)
                    .unwrap_or_default();
                assert!(
                    ran.into_iter().eq(0..wanted),
                    "{request:?} goes on from {module:?} with items not run"
                );
                let next = self.scene.vertices[module.index()].next.clone();
                if next.is_empty() {
                    self.wire(hop, Wire::Part(None, request));
                }
                for follower in next {
                    self.wire(hop, Wire::Part(Some(ModuleId(follower)), request));
                }
            }
            ModuleEffect::Drop { request, reason } => {
                let stream = self.journeys[request.index()].stream;
                assert!(
                    !self.scene.streams[stream as usize].lossless,
                    "{request:?} must not be dropped"
                );
                assert_ne!(self.scene.policy.drop, DropRule::None);
                self.cancelled.insert((module.0, request));
                self.end(request, Outcome::Dropped(Some(module), reason), true);
            }
            ModuleEffect::Spent { request, span } => self.ledger.spent(request, module, span),
            ModuleEffect::Publish(state) => {
                self.states.insert(module.0, state.clone());
                for to in (0..self.modules.len() as u32)
                    .map(ModuleId)
                    .filter(|&to| to != module)
                {
                    self.wire(hop, Wire::Module(to, ModuleEvent::Heard(state.clone())));
                }
            }
            ModuleEffect::WakeAt { at } => {
                assert!(at > self.now, "an alarm in the past");
                self.wire(at.since(self.now), Wire::Wake(module));
            }
        }
    }

    fn check_run(&mut self, module: ModuleId, slot: SlotId, batch: BatchId, parts: &[Part]) -> u32 {
        let vertex = &self.scene.vertices[module.index()];
        assert!(vertex.slots.contains(&slot.0));
        let before = self.running.insert(slot.0, (module, batch));
        assert_eq!(before, None, "two batches on {slot:?}");
        let items: u32 = parts.iter().map(|part| part.count).sum();
        let most = vertex.batch.iter().max().copied().unwrap_or(1);
        assert!(
            items >= 1 && items <= most,
            "{items} items in a batch of {module:?}"
        );
        for part in parts {
            assert!(part.count > 0);
            let gone = self.cancelled.contains(&(module.0, part.request));
            assert!(!gone, "{:?} runs on {module:?} after it ended", part.request);
        }
        items
    }

    fn step_slots(&mut self, event: SlotEvent) {
        let event = if self.scene.json { again(&event) } else { event };
        if let SlotEvent::Finished { slot, .. } = event {
            self.running.remove(&slot.0);
        }
        let mut effects = Vec::new();
        self.slots.step([event], self.now, &mut effects);
        for effect in effects {
            if self.scene.json {
                self.log += &format!(
                    "{} {}\n",
                    self.now.micros(),
                    serde_json::to_string(&again(&effect)).unwrap()
                );
            }
            let (to, event) = match effect {
                SlotEffect::Grant { module, slot } => (module, ModuleEvent::Granted { slot }),
                SlotEffect::Forecast {
                    module,
                    slot,
                    free_at,
                } => (module, ModuleEvent::Forecast { slot, free_at }),
                SlotEffect::Share { module, share } => (module, ModuleEvent::Share { share }),
            };
            self.wire(self.scene.hop, Wire::Module(to, event));
        }
    }

    /// Requests that ended in `from..to` and for which `is` holds.
    pub fn ended(&self, from_s: u64, to_s: u64, is: impl Fn(Outcome) -> bool) -> usize {
        let moment = |s| Timestamp::ZERO + Span::from_secs(s);
        let ended = self.journeys.iter().filter_map(|journey| journey.ended);
        ended
            .filter(|&(outcome, at)| at >= moment(from_s) && at < moment(to_s) && is(outcome))
            .count()
    }

    /// How long each request took that came out.
    pub fn latencies(&self) -> Vec<Span> {
        let came_out = |journey: &Journey| match journey.ended? {
            (Outcome::Dropped(..), _) => None,
            (_, at) => Some(at.since(journey.sent_at)),
        };
        self.journeys.iter().filter_map(came_out).collect()
    }

    /// Drops by module.
    pub fn dropped_by(&self) -> Vec<u64> {
        let by = |module: usize| {
            let drops = self
                .ledger
                .drops()
                .filter(|(at, ..)| *at == Some(ModuleId(module as u32)));
            drops.map(|(.., count)| count).sum()
        };
        (0..self.modules.len()).map(by).collect()
    }
}
