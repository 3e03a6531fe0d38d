//! A small deterministic world around the decisions: one time-ordered heap of wires, effects carried out as a live driver
//! would. It checks every invariant as it goes and panics with the seed. It is not the simulator: no traces, no reports.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Serialize, de::DeserializeOwned};
use weir_policy::*;
use weir_types::*;

use super::scene::{Scene, Stream, Vertex};

#[derive(Debug, Clone)]
pub(super) enum Wire {
    Frame(u32),
    BatchSlice(Option<ModuleId>, RequestId),
    Module(ModuleId, ModuleEvent),
    Slots(SlotEvent),
    /// A batch comes back from its slot.
    Done(ModuleId, SlotId, BatchId, Span),
    /// The shaky slot is lost, or is back.
    Shake(bool),
    Wake(ModuleId),
    Tick,
}

/// One request as the world knows it.
pub(super) struct Journey {
    pub(super) stream: u32,
    pub(super) sent_at: Timestamp,
    pub(super) ended: Option<(Outcome, Timestamp)>,
    /// By module: items that were put on a slot.
    pub(super) ran: BTreeMap<u32, BTreeSet<u32>>,
}

pub struct World {
    pub(super) scene: Scene,
    pub(super) now: Timestamp,
    pub(super) next: u64,
    pub(super) wires: BTreeMap<(Timestamp, u64), Wire>,
    pub modules: Vec<Module>,
    pub(super) slots: Slots,
    pub(super) slices: Vec<u32>,
    pub(super) joins: Vec<Join<()>>,
    pub(super) gates: Vec<ConcurrencyLimit>,
    pub(super) held: Vec<u32>,
    pub(super) frames_left: Vec<u32>,
    pub(super) release: ReorderBuffer<RequestId>,
    pub(super) released: Vec<Vec<RequestId>>,
    pub ledger: Ledger,
    pub(super) journeys: Vec<Journey>,
    pub(super) running: BTreeMap<u32, (ModuleId, BatchId)>,
    pub(super) cancelled: BTreeSet<(u32, RequestId)>,
    pub(super) lost: BTreeSet<u32>,
    pub(super) random: Pcg64Mcg,
    pub log: String,
    pub states: BTreeMap<u32, Arc<ModuleState>>,
    pub runs: u64,
}

pub(super) fn again<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T) -> T {
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
        let peer = |vertex: &Vertex| ModuleInfo {
            profile: spans(vertex),
            batch: vertex.batch.clone(),
            workers: vertex.slots.len() as u32,
        };
        let peers: Vec<ModuleInfo> = scene.vertices.iter().map(peer).collect();
        let module = |(id, vertex): (u32, &Vertex)| {
            let spec = ModuleSpec {
                id: ModuleId(id),
                slo: scene.slo,
                policy: scene.policy.clone(),
                slots: slots_of(vertex),
                pool: Pool::Shared,
                batch: vertex.batch.clone(),
                profile: spans(vertex),
                topology: topology.clone(),
                peers: peers.clone(),
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
            forecasts: scene.policy.forming == BatchBinding::Early,
        };
        let overflow = |stream: &Stream| {
            if stream.lossless {
                Overflow::Backpressure
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
            slices: (0..count).map(into).chain([ends]).collect(),
            joins: (0..=count).map(|_| Join::default()).collect(),
            gates: scene
                .streams
                .iter()
                .map(|stream| {
                    ConcurrencyLimit::new(ConcurrencyLimitSpec {
                        overflow: overflow(stream),
                        initial: stream.most,
                        max: stream.most,
                        slo: Span::MAX,
                    })
                })
                .collect(),
            held: vec![0; scene.streams.len()],
            frames_left: scene.streams.iter().map(|stream| stream.frames).collect(),
            release: ReorderBuffer::default(),
            released: vec![Vec::new(); scene.streams.len()],
            ledger: Ledger::default(),
            journeys: Vec::new(),
            running: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            lost: BTreeSet::new(),
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
        if world.scene.shaky.is_some() {
            world.wire(Span::from_millis(100), Wire::Shake(true));
        }
        world
    }

    pub(super) fn wire(&mut self, after: Span, wire: Wire) {
        self.wires.insert((self.now + after, self.next), wire);
        self.next += 1;
    }

    pub(super) fn over(&self) -> bool {
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
            assert!(self.ledger.total().is_balanced());
        }
        let total = self.ledger.total();
        assert!(total.in_flight == 0 && self.ledger.open().is_empty(), "{total:?}");
        assert!(
            self.modules.iter().all(|module| module.requests() == 0),
            "a module holds requests"
        );
        assert!(self.joins.iter().all(Join::is_empty) && self.release.len() == 0);
        assert!(self.gates.iter().all(|gate| gate.in_flight() == 0));
        assert_eq!(self.slots.free(), self.scene.slots as usize);
        assert!(self.released.iter().all(|line| line.is_sorted()));
        self
    }

    fn pass(&mut self, wire: Wire) {
        match wire {
            Wire::Frame(stream) => self.frame(stream),
            Wire::BatchSlice(to, request) => self.slice(to, request),
            Wire::Slots(event) => self.step_slots(event),
            Wire::Done(module, slot, batch, took) => self.done(module, slot, batch, took),
            Wire::Shake(lost) => self.shake(lost),
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
        if admission == Admission::Wait {
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
        self.release.on_sent(StreamId(stream), request);
        if let Admission::Drop(reason) = admission {
            self.end(request, Outcome::Dropped(None, reason), false);
            return;
        }
        for module in 0..self.modules.len() {
            if self.slices[module] == 0 {
                self.wire(
                    self.scene.hop,
                    Wire::BatchSlice(Some(ModuleId(module as u32)), request),
                );
            }
        }
    }

    /// Ends a request once; those who may have it are told.
    pub(super) fn end(&mut self, request: RequestId, outcome: Outcome, entered: bool) {
        if !self.ledger.ended(request, outcome) {
            return;
        }
        let journey = &mut self.journeys[request.index()];
        assert!(journey.ended.is_none(), "{request:?} ends twice");
        journey.ended = Some((outcome, self.now));
        let stream = journey.stream;
        let result = (!matches!(outcome, Outcome::Dropped(..))).then_some(request);
        let leaving = self.release.on_ended(StreamId(stream), request, result);
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
            self.gates[stream as usize].on_ended(Span::ZERO);
            if self.held[stream as usize] > 0 {
                self.held[stream as usize] -= 1;
                self.admit(stream);
            }
        }
    }

    /// A part of a request has come to a module, or to the end.
    pub(super) fn slice(&mut self, to: Option<ModuleId>, request: RequestId) {
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
            .on_branch(request, self.slices[join], (), |_, ()| ())
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
                    stream: StreamId(stream),
                    sent_at,
                    items,
                    droppable,
                },
            ),
        );
    }
}
