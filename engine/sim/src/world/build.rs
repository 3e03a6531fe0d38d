//! A world as its specification has it, before the first request.

use std::collections::BTreeMap;

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use weir_control::{
    ControlSpec, Controller, DeviceQueuesSpec, Edge, GEAR_INTERVAL, GearMessage, GearSpec, Message, Route,
    StageSpec,
};
use weir_policy::{
    BatchBinding, BreakerSpec, ConcurrencyLimit, ConcurrencyLimitSpec, DeviceMemory, DeviceModel,
    GenerateSpec, ModuleInfo, ModuleSpec, Placement, Pool, ResidencyReport, ScalingSpec, SlotsSpec,
};
use weir_types::{ModuleId, SlotId, Span, StreamId, Timestamp, Topology};

use super::booked_cluster::BookedCluster;
use super::decoders::{Decoders, OBSERVE_INTERVAL};
use super::pool::WorkerPool;
use super::request_items::RequestItems;
use super::sequences::Generated;
use super::stages::Stages;
use super::streams::Streams;
use super::tiles::Tiles;
use super::{Event, Site, World};
use crate::cascades::CascadeSpec;
use crate::demand::DemandSampler;
use crate::event_queue::EventQueue;
use crate::spec::{WorldGenerate, WorldModule, WorldPool, WorldSpec};
use crate::timeline::Timeline;

impl<'a> World<'a> {
    pub(super) fn new(spec: &'a WorldSpec) -> Self {
        let count = spec.modules.len();
        let control = control_spec(spec);
        let streams = spec.streams.max(1);
        let own_slos = (0..streams).map(|stream| spec.own_slo(StreamId(stream)));
        let sampler = DemandSampler::new(spec.demand.clone(), streams, spec.seed);
        let site = Site {
            spec,
            now: Timestamp::ZERO,
            event_queue: EventQueue::default(),
            residency: spec.memory.is_limited().then(ResidencyReport::default),
            decoders: spec
                .decoding
                .map(|decoding| Decoders::new(decoding, streams, spec.slo)),
            stages: Stages::new(&spec.cascades, count, streams),
            tiles: Tiles::new(&spec.cascades),
            shifts: Vec::new(),
            streams: Streams::new(limits(spec, &control).into_iter().zip(own_slos)),
            requests: RequestItems::new(sampler, count),
            timeline: Timeline::new(count),
            pools: spec
                .modules
                .iter()
                .map(|node| WorkerPool::new(&node.pool))
                .collect(),
            run_ends: BTreeMap::new(),
            generated: (0..count).map(|_| Generated::default()).collect(),
            cluster: spec.cluster.as_ref().map(BookedCluster::new),
            link_free: vec![Timestamp::ZERO; spec.links.len()],
            random: Pcg64Mcg::seed_from_u64(spec.seed ^ 0x006e_6f69_7365),
            events: 0,
            facts: 0,
            more_arrivals: true,
        };
        let mut world = Self {
            controller: Controller::new(control),
            site,
            messages: Vec::new(),
        };
        world.schedule_initial();
        world
    }

    fn schedule_initial(&mut self) {
        self.site.schedule_initial();
        self.tell(Message::Gears(GearMessage::Begun));
        self.decide();
    }
}

impl Site<'_> {
    fn schedule_initial(&mut self) {
        for (index, failure) in (0..).zip(&self.spec.failures) {
            let at = Timestamp::ZERO + failure.at;
            self.event_queue.push(at, Event::Failure(index, true));
            self.event_queue
                .push(at + failure.lasts, Event::Failure(index, false));
        }
        for (index, change) in self.spec.changes.iter().enumerate() {
            self.event_queue
                .push(Timestamp::ZERO + change.at, Event::StreamChanged(index));
        }
        let later = self.spec.cluster.iter().flat_map(|cluster| &cluster.later);
        for (index, later) in later.enumerate() {
            self.event_queue
                .push(Timestamp::ZERO + later.at, Event::PlanOffered(index));
        }
        let changes = self.spec.cluster.iter().flat_map(|cluster| &cluster.link_changes);
        for (index, change) in changes.enumerate() {
            self.event_queue
                .push(Timestamp::ZERO + change.at, Event::LinksChanged(index));
        }
        if let Some(stops_at) = self.spec.stops_at {
            self.event_queue
                .push(Timestamp::ZERO + stops_at, Event::SourcesStopped);
        }
        self.event_queue.push(Timestamp::ZERO, Event::Tick);
        if self.decoders.is_some() {
            self.event_queue
                .push(Timestamp::ZERO + OBSERVE_INTERVAL, Event::DecodingTick);
        }
        if self.spec.cascades.gears.is_some() {
            let first = Timestamp::ZERO + GEAR_INTERVAL;
            self.event_queue.push(first, Event::GearTick);
        }
    }
}

/// Limits of the streams' requests in flight.
fn limits(spec: &WorldSpec, control: &ControlSpec) -> Vec<ConcurrencyLimit> {
    let modules = control.modules.iter().map(|(module, _)| module);
    let together = ConcurrencyLimitSpec::initial_lossless(modules, spec.shared_slots);
    let streams = spec.streams.max(1);
    let limit = |stream: StreamId| {
        let slo = spec.own_slo(stream).unwrap_or(spec.slo);
        if spec.is_lossless(stream) {
            return ConcurrencyLimitSpec::lossless(together, streams as usize, slo);
        }
        let most = spec.max_in_flight.unwrap_or(u32::MAX);
        ConcurrencyLimitSpec {
            initial: most,
            max: most,
            ..ConcurrencyLimitSpec::live(slo)
        }
    };
    let all = (0..streams).map(StreamId);
    all.map(|stream| ConcurrencyLimit::new(limit(stream))).collect()
}

/// Specification of the machines of a world: of a graph, the one that its live run has, but for the books and
/// the ways of requests.
#[must_use]
pub fn control_spec(spec: &WorldSpec) -> ControlSpec {
    let topology = spec.topology();
    let peer = |(id, node): (usize, &WorldModule)| ModuleInfo {
        profile: node.profile.clone(),
        batch: node.batch.clone(),
        workers: slots_of(&node.pool).len() as u32,
        fallback: spec.cascades.fallback(id),
    };
    let has_own_slots = spec.has_own_slots();
    let slots = (!has_own_slots).then(|| shared(spec, &topology)).flatten();
    let peers: Vec<ModuleInfo> = spec.modules.iter().enumerate().map(peer).collect();
    let module = |(id, node): (u32, &WorldModule)| {
        let next = node.next.iter().map(|edge| Edge {
            to: ModuleId(edge.to as u32),
            link: edge.link,
        });
        let spec = ModuleSpec {
            ends: spec.slot_profiles(id as usize),
            generate: generating(node).map(|generate| generate.spec.clone()),
            id: ModuleId(id),
            slo: spec.slo,
            policy: spec.policy.clone(),
            slots: slots_of(&node.pool),
            pool: match node.pool {
                WorldPool::Shared(_) if has_own_slots => Pool::Own,
                WorldPool::Shared(_) => Pool::Shared,
                WorldPool::Fixed(_) | WorldPool::Scaled(_) | WorldPool::Generating(_) => Pool::Own,
                WorldPool::Pipelines(_) => Pool::Pipelines,
            },
            batch: node.batch.clone(),
            profile: node.profile.clone(),
            topology: topology.clone(),
            peers: peers.clone(),
            share: match &node.pool {
                WorldPool::Pipelines(slots) => slots.share,
                _ => 1.0,
            },
            shares: spec.shares(),
            seed: spec.seed,
            overlap: node
                .overlap
                .clone()
                .filter(|_| !matches!(node.pool, WorldPool::Pipelines(_))),
        };
        (spec, next.collect())
    };
    ControlSpec {
        slo: spec.slo,
        modules: (0..).zip(&spec.modules).map(module).collect(),
        routes: vec![Route::through(&topology)],
        slots,
        breaker: BreakerSpec::default(),
        scaling: scaling(spec),
        max_workers: spec.max_workers,
        queues: queues(spec),
        cascades: gear_spec(&spec.cascades, spec.modules.len()),
        plan: spec.cluster.as_ref().map(|cluster| cluster.plan.clone()),
        has_books: true,
        is_distributed: spec.hop > Span::ZERO,
        topology,
    }
}

/// Queues of models that generate and take turns, by device.
fn queues(spec: &WorldSpec) -> Vec<DeviceQueuesSpec> {
    let of_device = |device: &DeviceMemory| {
        let module = |model: &DeviceModel| {
            let mut nodes = (0..).map(ModuleId).zip(&spec.modules);
            let (id, node) = nodes.find(|(_, node)| node.model == Some(model.model))?;
            Some((id, &generating(node)?.spec))
        };
        let modules: Vec<Option<(ModuleId, &GenerateSpec)>> = device.models.iter().map(module).collect();
        DeviceQueuesSpec::new(
            device,
            &modules,
            (spec.policy.queues, spec.policy.slot_planning()),
        )
    };
    spec.memory.generating.iter().filter_map(of_device).collect()
}

/// Modules whose workers follow the load.
fn scaling(spec: &WorldSpec) -> Vec<(ModuleId, ScalingSpec)> {
    let is_scaled = |node: &WorldModule| matches!(node.pool, WorldPool::Scaled(_));
    if !spec.modules.iter().any(is_scaled) {
        return Vec::new();
    }
    let modules = (0..).map(ModuleId).zip(&spec.modules);
    let of_module = |((module, node), worker_throughput): ((ModuleId, &WorldModule), f64)| match node.pool {
        WorldPool::Scaled(scaling) => Some((
            module,
            ScalingSpec {
                rule: scaling.rule,
                initial: scaling.initial,
                worker_throughput,
                is_foretold: scaling.is_foretold,
            },
        )),
        _ => None,
    };
    modules
        .zip(spec.worker_throughput())
        .filter_map(of_module)
        .collect()
}

/// The stages of a world's cascades, and its gears.
fn gear_spec(cascades: &CascadeSpec, modules: usize) -> Option<GearSpec> {
    let stage = |module: usize| {
        let node = cascades.stages.get(&module);
        let stage = node.map(|node| (node.certainty, node.index));
        StageSpec::new(stage, cascades.tiles.contains_key(&module))
    };
    GearSpec::new((0..modules).map(stage).collect(), cascades.gears.clone())
}

/// Generator of a module whose model generates; `None` for other modules.
pub(super) fn generating(node: &WorldModule) -> Option<&WorldGenerate> {
    match &node.pool {
        WorldPool::Generating(generate) => Some(generate),
        _ => None,
    }
}

fn slots_of(pool: &WorldPool) -> Vec<SlotId> {
    match pool {
        WorldPool::Fixed(workers) => (0..*workers).map(SlotId).collect(),
        WorldPool::Scaled(scaling) => (0..scaling.rule.max_workers.max(scaling.initial))
            .map(SlotId)
            .collect(),
        WorldPool::Shared(slots) => slots.iter().copied().map(SlotId).collect(),
        WorldPool::Generating(generate) => (0..generate.spec.instances.len() as u32).map(SlotId).collect(),
        WorldPool::Pipelines(slots) => (0..slots.count).map(SlotId).collect(),
    }
}

/// Shared slots that prepare ahead.
fn overlapped(spec: &WorldSpec) -> Vec<SlotId> {
    let shared = spec.modules.iter();
    let shared = shared.filter(|node| matches!(node.pool, WorldPool::Shared(_)));
    let of_node = |node: &WorldModule| {
        let overlap = node.overlap.clone();
        let slots = slots_of(&node.pool).into_iter();
        slots.filter(move |slot| overlap.as_ref().is_some_and(|overlap| overlap.is_on(*slot)))
    };
    let mut slots: Vec<SlotId> = shared.flat_map(of_node).collect();
    slots.sort_unstable();
    slots.dedup();
    slots
}

fn shared(spec: &WorldSpec, topology: &Topology) -> Option<SlotsSpec> {
    let placements: Vec<Placement> = (0..)
        .zip(&spec.modules)
        .filter(|(_, node)| matches!(node.pool, WorldPool::Shared(_)))
        .map(|(id, node)| Placement {
            module: ModuleId(id),
            slots: slots_of(&node.pool),
            weight: node.weight,
            optional: spec.cascades.fallback(id as usize).is_optional(),
            model: node.model,
            live: spec.has_live_streams(),
            routed: !spec.slot_profiles(id as usize).is_empty(),
        })
        .collect();
    (!placements.is_empty()).then(|| SlotsSpec {
        slots: spec.shared_slots,
        placements,
        arbitration: spec.policy.arbitration,
        topology: topology.clone(),
        forecasts: spec.policy.binding() == BatchBinding::Early,
        overlapped: overlapped(spec),
        memory: spec.memory.devices.clone(),
        queues: spec.policy.queues,
        planning: spec.policy.slot_planning(),
    })
}
