//! From the graph and the measured profiles to the specifications of the policy's state machines.

use std::collections::BTreeSet;

use weir_control::{ControlSpec, DeviceQueuesSpec, Edge, GearSpec, StageSpec};
use weir_graph::{Graph, PrepareMode, SourceMode, replica_profiles};
use weir_planner::{MAX_PIPELINE_SLOTS, PipelineSlots};
use weir_policy::{
    Answer, BatchBinding, BreakerSpec, DeviceMemory, DeviceModel, GenerateSpec, Mailboxes, ModuleInfo,
    ModuleSpec, OverlapSpec, Placement, Pool, ScalingSpec, SlotsSpec, StreamShare, worker_throughput,
};
use weir_types::{ModelId, ModuleId, Profile, SlotId, Span, Topology};

use crate::assembly::{RunError, RunOptions};
use crate::fleet::ActivePlan;
use crate::profiles::Profiles;
use crate::routes::topology;
use crate::slot_layout::SlotLayout;

/// Tokens that a sequence generates at most, where its module does not say.
const MAX_TOKENS: f64 = 64.0;

/// Specifications of the state machines of a graph, and of their breaker.
pub(crate) struct PolicySpecs {
    pub(crate) topology: Topology,
    pub(crate) modules: Vec<ModuleSpec>,
    pub(crate) slots: SlotsSpec,
    pub(crate) breaker: BreakerSpec,
    /// Modules whose workers open and close with the load.
    pub(crate) scaling: Vec<(ModuleId, ScalingSpec)>,
    /// Queues of models that generate and take turns, by device.
    pub(crate) queues: Vec<DeviceQueuesSpec>,
    /// By module whose model is on several devices, the names of these by slot; of others empty.
    pub(crate) devices: Vec<Vec<String>>,
}

impl PolicySpecs {
    /// `profiles` are batch sizes and durations by model.
    ///
    /// # Errors
    /// [`RunError::SloTooShort`] where no frame of a live stream could ever meet its deadline.
    pub(crate) fn new(
        graph: &Graph,
        slots: &SlotLayout,
        profiles: &Profiles,
        active: Option<&ActivePlan>,
        options: &RunOptions,
    ) -> Result<Self, RunError> {
        let topology = topology(graph);
        check_slo(graph, slots, (&profiles.batches, &profiles.ends), options)?;
        let pipelines: Vec<Option<PipelineSlots>> = (0..graph.modules().len() as u32)
            .map(|id| active.and_then(|active| active.pipeline_slots(ModuleId(id))))
            .collect();
        let peers = peers(graph, slots, profiles, &pipelines);
        let shares = shares(graph);
        let spec = |(id, module): (u32, &weir_graph::ModuleNode)| {
            let (batch, profile) = profiles.batches[module.model].clone();
            let own_slots = slots.slots_of_model(module.model);
            let ends = match &profiles.ends[module.model] {
                ends if ends.is_empty() && pipelines[id as usize].is_none() => {
                    replica_profiles(graph, id as usize, &profile, own_slots.len())
                }
                ends => ends.clone(),
            };
            ModuleSpec {
                id: ModuleId(id),
                slo: graph.slo(),
                policy: graph.policy().clone(),
                slots: match &pipelines[id as usize] {
                    Some(pipelines) => {
                        let first = slots.slot_count() + id * MAX_PIPELINE_SLOTS;
                        (first..first + pipelines.count).map(SlotId).collect()
                    }
                    None => own_slots.to_vec(),
                },
                pool: match &pipelines[id as usize] {
                    Some(_) => Pool::Pipelines,
                    None => pool(graph, module.model),
                },
                batch,
                profile,
                topology: topology.clone(),
                peers: peers.clone(),
                share: pipelines[id as usize]
                    .as_ref()
                    .map_or(1.0, |pipelines| pipelines.share),
                shares: shares.clone(),
                seed: options.seed,
                ends,
                generate: generate(graph, module, profiles, options.seed),
                overlap: match &pipelines[id as usize] {
                    Some(_) => None,
                    None => overlap(graph, slots, module.model),
                },
            }
        };
        let modules: Vec<ModuleSpec> = (0..).zip(graph.modules()).map(spec).collect();
        let scaling = scaling(graph, &topology, &modules);
        let queues = queues(graph, profiles, &modules);
        let devices = graph
            .modules()
            .iter()
            .map(|module| devices(graph, slots, module.model))
            .collect();
        let slots = SlotsSpec {
            slots: slots.slot_count(),
            placements: placements(graph, &modules),
            arbitration: graph.policy().arbitration,
            topology: topology.clone(),
            forecasts: graph.policy().binding() == BatchBinding::Early,
            overlapped: slots.overlapped_slots(),
            memory: profiles.memory.short.clone(),
            queues: graph.policy().queues,
            planning: graph.policy().slot_planning(),
        };
        Ok(Self {
            topology,
            modules,
            slots,
            breaker: BreakerSpec::default(),
            scaling,
            queues,
            devices,
        })
    }

    /// The specification of the machines of the graph. Reservations and books are with other
    /// actors, which several graphs share.
    pub(crate) fn control(&self, graph: &Graph) -> ControlSpec {
        let edges = |spec: &ModuleSpec| {
            let next = self.topology.successors(spec.id).iter();
            next.map(|&to| Edge { to, link: None }).collect()
        };
        let stage = |module: &weir_graph::ModuleNode| {
            let stage = module.stage.as_ref();
            let stage = stage.map(|stage| (stage.certainty, stage.index));
            StageSpec::new(stage, module.tiling().is_some())
        };
        ControlSpec {
            slo: graph.slo(),
            cascades: GearSpec::new(
                graph.modules().iter().map(stage).collect(),
                graph.gears().cloned(),
            ),
            modules: self
                .modules
                .iter()
                .map(|spec| (spec.clone(), edges(spec)))
                .collect(),
            topology: self.topology.clone(),
            routes: Vec::new(),
            slots: Some(self.slots.clone()),
            breaker: self.breaker,
            scaling: self.scaling.clone(),
            max_workers: None,
            queues: self.queues.clone(),
            plan: None,
            has_books: false,
            is_distributed: false,
        }
    }
}

/// The modules as other modules see them, by id; `pipelines` are the slots of those whose model is partitioned.
fn peers(
    graph: &Graph,
    slots: &SlotLayout,
    profiles: &Profiles,
    pipelines: &[Option<PipelineSlots>],
) -> Vec<ModuleInfo> {
    let peer = |(module, pipelines): (&weir_graph::ModuleNode, &Option<PipelineSlots>)| {
        let (batch, profile) = profiles.batches[module.model].clone();
        let slots = slots.slots_of_model(module.model).len() as u32;
        ModuleInfo {
            profile,
            batch,
            workers: pipelines.as_ref().map_or(slots, |pipelines| pipelines.count),
            fallback: module.fallback(),
        }
    };
    graph.modules().iter().zip(pipelines).map(peer).collect()
}

/// Ownership of the slots of a model that is not partitioned.
fn pool(graph: &Graph, model: usize) -> Pool {
    match graph.policy().mailboxes() {
        // Its instances are its own.
        _ if graph.models()[model].generates() => Pool::Own,
        // The graph's check has seen to it that its device has no other model.
        _ if graph.models()[model].scaling.is_some() => Pool::Own,
        // The graph's check has seen to it that slots are not shared then.
        Mailboxes::Worker => Pool::Own,
        Mailboxes::Pool => Pool::Shared,
    }
}

/// Set where the model of a module generates: its instances, and the router that assigns sequences to them.
fn generate(
    graph: &Graph,
    module: &weir_graph::ModuleNode,
    profiles: &Profiles,
    seed: u64,
) -> Option<GenerateSpec> {
    let instances = &profiles.instances[module.model];
    (!instances.is_empty()).then(|| GenerateSpec {
        instances: instances.clone(),
        router: graph.policy().router(seed, profiles.moves[module.model]),
        max_tokens: module.settings.number("max_tokens", MAX_TOKENS) as u32,
        answer: Answer::Whole,
        length: graph.policy().length,
    })
}

/// Queues of models that generate and take turns, by device.
fn queues(graph: &Graph, profiles: &Profiles, modules: &[ModuleSpec]) -> Vec<DeviceQueuesSpec> {
    let of_device = |device: &DeviceMemory| {
        let module = |model: &DeviceModel| {
            let mut all = graph.modules().iter().zip(modules);
            let (_, spec) = all.find(|(node, _)| node.model == model.model.index())?;
            Some((spec.id, spec.generate.as_ref()?))
        };
        let modules: Vec<Option<(ModuleId, &GenerateSpec)>> = device.models.iter().map(module).collect();
        let policy = graph.policy();
        DeviceQueuesSpec::new(device, &modules, (policy.queues, policy.slot_planning()))
    };
    profiles.memory.generating.iter().filter_map(of_device).collect()
}

/// Modules whose workers open and close with the load, as the rule of their model says.
fn scaling(graph: &Graph, topology: &Topology, modules: &[ModuleSpec]) -> Vec<(ModuleId, ScalingSpec)> {
    if graph.models().iter().all(|model| model.scaling.is_none()) {
        return Vec::new();
    }
    let profiles: Vec<(&Profile, &[u32])> = modules
        .iter()
        .map(|spec| (&spec.profile, &spec.batch[..]))
        .collect();
    let throughput = worker_throughput(graph.slo(), topology, &profiles);
    let of_module = |(spec, worker_throughput): (&ModuleSpec, f64)| {
        let model = &graph.models()[graph.modules()[spec.id.index()].model];
        let rule = model.scaling_on(spec.slots.len())?;
        let scaling = ScalingSpec {
            initial: rule.min_workers,
            rule,
            worker_throughput,
            is_foretold: false,
        };
        Some((spec.id, scaling))
    };
    modules.iter().zip(throughput).filter_map(of_module).collect()
}

/// The devices of a model's slots, where there are several.
fn devices(graph: &Graph, slots: &SlotLayout, model: usize) -> Vec<String> {
    let ends = &graph.models()[model].ends;
    let of_slot = |slot: &SlotId| {
        let end = ends.get(slots.end_of_slot(model, *slot))?;
        Some(graph.devices()[end.device].name.clone())
    };
    slots.slots_of_model(model).iter().filter_map(of_slot).collect()
}

/// Set where slots of a module prepare the next batch while one runs.
fn overlap(graph: &Graph, slots: &SlotLayout, model: usize) -> Option<OverlapSpec> {
    let all = slots.slots_of_model(model);
    let overlaps = |slot: &SlotId| slots.prepare_on(*slot) == PrepareMode::Overlap;
    let ahead: Vec<SlotId> = all.iter().copied().filter(overlaps).collect();
    let preparation = Profile::new(graph.models()[model].preparation.clone());
    OverlapSpec::on(ahead, all.len(), preparation)
}

/// Weights and reserves of the streams under overload; empty if all streams have the same.
fn shares(graph: &Graph) -> Vec<StreamShare> {
    let shares: Vec<StreamShare> = graph.sources().iter().map(|source| source.share).collect();
    if StreamShare::are_alike(&shares) {
        return Vec::new();
    }
    shares
}

/// Modules with the slots that the arbiter may grant them. Slots of a single module are left out, since the
/// arbiter would always see them as free.
fn placements(graph: &Graph, modules: &[ModuleSpec]) -> Vec<Placement> {
    let sources = graph.sources().iter().enumerate();
    let cameras = sources.filter(|(_, source)| source.mode == SourceMode::Live);
    let live: BTreeSet<usize> = cameras
        .flat_map(|(source, _)| graph.reachable_from(source))
        .collect();
    let shared = graph.modules().iter().zip(modules);
    shared
        .filter(|(_, spec)| spec.pool == Pool::Shared)
        .map(|(node, spec)| Placement {
            module: spec.id,
            slots: spec.slots.clone(),
            weight: node.weight,
            optional: node.fallback().is_optional(),
            model: {
                let device = graph.models()[node.model].device;
                let limited = graph.shared_memory(device).is_some();
                limited.then_some(ModelId(node.model as u32))
            },
            live: live.contains(&spec.id.index()),
            routed: !spec.ends.is_empty(),
        })
        .collect()
}

/// Batch sizes of a model, and how long they take.
type BatchProfile = (Vec<u32>, Profile);

fn check_slo(
    graph: &Graph,
    slots: &SlotLayout,
    (profiles, ends): (&[BatchProfile], &[Vec<Profile>]),
    options: &RunOptions,
) -> Result<(), RunError> {
    let duration = |(id, module): (usize, &weir_graph::ModuleNode)| {
        // Requests without the time for it go on without.
        if module.fallback().is_optional() {
            return Span::ZERO;
        }
        let (batch, own) = &profiles[module.model];
        let ends = &ends[module.model];
        // On the fastest of its devices.
        let profiles = || ends.iter().chain(ends.is_empty().then_some(own));
        let one = profiles().map(|profile| profile.duration(1)).min();
        let one = one.unwrap_or(Span::ZERO);
        // The slots share the tiles of a frame, in batches of the size at which a tile takes least.
        let least = profiles().flat_map(|profile| {
            let item = move |&size: &u32| profile.duration(size).as_secs_f64() / f64::from(size.max(1));
            batch.iter().map(item)
        });
        let least = least.fold(one.as_secs_f64(), f64::min);
        let slots = slots.slots_of_model(module.model).len().max(1) as f64;
        let items = f64::from(graph.least_items(id));
        one.max(Span::from_secs_f64(least * items / slots))
    };
    let durations: Vec<Span> = graph.modules().iter().enumerate().map(duration).collect();
    let bare = weir_graph::bare_execution(graph, &durations);
    let sources = graph.sources().iter().enumerate();
    for (index, source) in sources.filter(|(_, source)| source.mode == SourceMode::Live) {
        let (execution, slo) = match source.slo {
            None => (bare, graph.slo()),
            // The modules that its frames do not pass may take as long as they like.
            Some(slo) => {
                let passed = graph.reachable_from(index);
                let mut durations = durations.clone();
                let others = durations
                    .iter_mut()
                    .enumerate()
                    .filter(|(id, _)| !passed.contains(id));
                others.for_each(|(_, duration)| *duration = Span::ZERO);
                (weir_graph::bare_execution(graph, &durations), slo)
            }
        };
        if execution > slo {
            return Err(RunError::SloTooShort { execution, slo });
        }
    }
    // Live streams may be added to a run that goes on without any.
    if options.until_stopped && bare > graph.slo() {
        return Err(RunError::SloTooShort {
            execution: bare,
            slo: graph.slo(),
        });
    }
    Ok(())
}
