//! A checked graph as a world: its modules on the slots that the live engine would number, its emulated streams.

use std::collections::{BTreeMap, BTreeSet};

use weir_graph::{
    DeviceClass, EmulatedStream, Graph, GraphSlots, ModelSlot, OnDrop, PrepareMode, Vertex, WorkerCluster,
};
use weir_planner::{PipelineSlots, Plan};
use weir_policy::reservations::ReplanSpec;
use weir_policy::residency::ModelMemory;
use weir_policy::{ConcurrencyLimitSpec, DeviceMemory, DeviceModel, OverlapSpec, SlotProfiles};
use weir_types::{ModelId, ModuleId, Profile, SlotId, Span, WorkerId};

use super::generate::emulated_generator;
use crate::cascades::CascadeSpec;
use crate::demand::Demand;
use crate::spec::{
    Edge, Replanner, Scaling, StreamSpec, WorldCluster, WorldMemory, WorldModule, WorldPool, WorldSpec,
};

/// Converts a graph into a world, together with its streams. All models must have declared profiles and all
/// streams must be emulated.
///
/// # Errors
/// Reason why the graph cannot be simulated; it may be valid otherwise.
pub fn world_from_graph(graph: &Graph) -> Result<(WorldSpec, Vec<EmulatedStream>), String> {
    let (mut spec, streams) = world(graph)?;
    for node in &mut spec.modules {
        if let WorldPool::Generating(generate) = &mut node.pool {
            generate.follow(&spec.policy, spec.seed);
        }
    }
    Ok((spec, streams))
}

/// World of a graph before its policy is applied to generating models, since an experiment may have another
/// policy.
pub(super) fn world(graph: &Graph) -> Result<(WorldSpec, Vec<EmulatedStream>), String> {
    let streams = streams(graph)?;
    let slots = slots(graph)?;
    let placed = graph.plan().map(|plan| Placed::new(graph, plan)).transpose()?;
    let modules = 0..graph.modules().len();
    let modules = modules.map(|id| module(graph, id, &slots, placed.as_ref()));
    let spec = WorldSpec {
        slo: graph.slo(),
        policy: graph.policy().clone(),
        modules: modules.collect::<Result<_, String>>()?,
        shared_slots: slots.of_device.last().map_or(0, |last| last.end),
        memory: memory(graph, &slots)?,
        cluster: placed.as_ref().map(|placed| placed.cluster(graph)),
        hop: Span::ZERO,
        handover: Span::ZERO,
        timer_delay: Span::ZERO,
        links: Vec::new(),
        streams: streams.len() as u32,
        own: own(graph),
        max_in_flight: Some(ConcurrencyLimitSpec::LIVE),
        stops_at: None,
        demand: Demand::default(),
        cascades: cascades(graph),
        decoding: None,
        noise: 0.0,
        interference: None,
        changes: Vec::new(),
        failures: Vec::new(),
        faults: Vec::new(),
        max_workers: None,
        seed: 1,
    };
    Ok((spec, streams))
}

/// A module of a graph, with the pool that its model has in the live engine.
fn module(
    graph: &Graph,
    id: usize,
    slots: &GraphSlots,
    placed: Option<&Placed<'_>>,
) -> Result<WorldModule, String> {
    let node = &graph.modules()[id];
    let model = &graph.models()[node.model];
    if let Some(device) = model
        .ends()
        .find_map(|(device, _)| remote(&graph.devices()[device]))
    {
        return Err(format!(
            "model \"{}\" is on device \"{device}\", whose times are measured live: a world needs profiles",
            model.name
        ));
    }
    let with_one_size = |profile, batch, pool| WorldModule {
        name: node.name.clone(),
        profile,
        ends: Vec::new(),
        batch: vec![batch],
        pool,
        next: edges_from(graph, id),
        weight: node.weight,
        overlap: None,
        model: None,
    };
    if let Some(slots) = placed.and_then(|placed| placed.slots(id)) {
        let (profile, batch) = (slots.profile.clone(), slots.batch);
        return Ok(with_one_size(profile, batch, WorldPool::Pipelines(slots)));
    }
    let undeclared = || {
        format!(
            "model \"{}\" declares no profile; `weir profile --out` measures one",
            model.name
        )
    };
    if model.generates() {
        let own = &slots.of_model[node.model];
        let (profile, pool) = generating_pool(node, model, own).ok_or_else(undeclared)??;
        let takes_turns = slots.takes_turns(graph, model.device);
        return Ok(WorldModule {
            model: takes_turns.then_some(ModelId(node.model as u32)),
            ..with_one_size(profile, 1, pool)
        });
    }
    module_on_slots(graph, id, slots).ok_or_else(undeclared)
}

/// Edges to the modules that take from the module `id`.
fn edges_from(graph: &Graph, id: usize) -> Vec<Edge> {
    let followers = graph.modules().iter().enumerate();
    let followers = followers.filter(|(_, other)| other.inputs.contains(&Vertex::Module(id)));
    followers.map(|(to, _)| Edge { to, link: None }).collect()
}

/// A module whose model runs batches on slots of devices. `None` if a slot has no declared profile.
fn module_on_slots(graph: &Graph, id: usize, slots: &GraphSlots) -> Option<WorldModule> {
    let node = &graph.modules()[id];
    let model = &graph.models()[node.model];
    let own = &slots.of_model[node.model];
    let preparation = Profile::new(model.preparation.clone());
    let overlaps = |slot: &&ModelSlot| {
        let device = slots.all[slot.slot as usize].device;
        graph.devices()[device].prepare == PrepareMode::Overlap
    };
    let on_slot = |slot: &ModelSlot| {
        let (_, declared) = model.ends().nth(slot.end)?;
        let profile = Profile::new(declared.to_vec())?;
        Some(match &preparation {
            // The thread that runs a batch prepares it before.
            Some(preparation) if !overlaps(&slot) => profile.followed_by(preparation),
            _ => profile,
        })
    };
    let ends: Vec<Profile> = own.iter().map(on_slot).collect::<Option<_>>()?;
    let ahead = own.iter().filter(overlaps);
    let ahead: Vec<SlotId> = ahead.map(|slot| SlotId(slot.slot)).collect();
    let SlotProfiles { profile, ends } = SlotProfiles::new(ends, &model.batch)?;
    Some(WorldModule {
        name: node.name.clone(),
        profile,
        ends,
        batch: model.batch.clone(),
        pool: match model.scaling_on(own.len()) {
            Some(rule) => WorldPool::Scaled(Scaling {
                initial: rule.min_workers,
                rule,
                // Workers of the start have left the model in host memory.
                cold_start: model.opening_times()[1],
                is_foretold: false,
            }),
            None => WorldPool::Shared(own.iter().map(|slot| slot.slot).collect()),
        },
        next: edges_from(graph, id),
        weight: node.weight,
        overlap: OverlapSpec::on(ahead, own.len(), preparation),
        model: {
            let limited = graph.shared_memory(model.device).is_some();
            limited.then_some(ModelId(node.model as u32))
        },
    })
}

/// Devices whose memory cannot hold all their models.
fn memory(graph: &Graph, slots: &GraphSlots) -> Result<WorldMemory, String> {
    let (mut devices, mut generating) = (Vec::new(), Vec::new());
    for index in 0..graph.devices().len() {
        let takes_turns = slots.takes_turns(graph, index);
        let limit = match takes_turns {
            true => graph.generating_memory(index),
            false => graph.shared_memory(index),
        };
        let Some(limit) = limit else { continue };
        let models = graph.models().iter().enumerate();
        let of_device = models.filter(|(_, model)| model.device == index);
        let model = |(id, model): (usize, &weir_graph::ModelNode)| {
            let bytes = model.memory.ok_or_else(|| {
                format!(
                    "model \"{}\" declares no `memory`, and its device has a limit; `weir profile` measures what it takes",
                    model.name
                )
            })?;
            let [open_cold, open_warm] = model.opening_times();
            Ok(DeviceModel {
                model: ModelId(id as u32),
                slots: match takes_turns {
                    // A world numbers the instances of each module by themselves.
                    true => (0..slots.of_model[id].len() as u32).map(SlotId).collect(),
                    false => slots.of_model[id].iter().map(|own| SlotId(own.slot)).collect(),
                },
                memory: ModelMemory {
                    device_bytes: bytes,
                    host_bytes: bytes,
                },
                open_cold,
                open_warm,
            })
        };
        let device = DeviceMemory {
            memory: limit.bytes,
            host_memory: limit.host_bytes,
            models: of_device.map(model).collect::<Result<_, String>>()?,
        };
        match takes_turns {
            true => generating.push(device),
            false => devices.push(device),
        }
    }
    if devices.is_empty() && generating.is_empty() {
        return Ok(WorldMemory::default());
    }
    Ok(WorldMemory {
        devices,
        generating,
        names: graph.models().iter().map(|model| model.name.clone()).collect(),
    })
}

/// Class of a remote device, whose times a graph cannot declare.
fn remote(device: &weir_graph::DeviceNode) -> Option<&str> {
    matches!(device.class, DeviceClass::Worker(_)).then_some(&*device.name)
}

/// Instances of a module whose model generates on these slots, and the time per token of the fastest. `None`
/// if a slot has no declared profile.
fn generating_pool(
    node: &weir_graph::ModuleNode,
    model: &weir_graph::ModelNode,
    slots: &[ModelSlot],
) -> Option<Result<(Profile, WorldPool), String>> {
    let declared = slots.iter().map(|slot| model.ends().nth(slot.end));
    let declared: Vec<&[(u32, Span)]> = declared
        .map(|end| {
            end.map(|(_, declared)| declared)
                .filter(|declared| !declared.is_empty())
        })
        .collect::<Option<_>>()?;
    let generate = match emulated_generator(model, node, &declared) {
        Ok(generate) => generate,
        Err(reason) => return Some(Err(reason)),
    };
    let one = generate.spec.instances.iter();
    let one = one.map(|instance| instance.steps.duration(1, true)).min();
    let profile = Profile::new(vec![(1, one.unwrap_or(Span::ZERO))])?;
    Some(Ok((profile, WorldPool::Generating(Box::new(generate)))))
}

/// Cascades as the graph has them, with its gears.
fn cascades(graph: &Graph) -> CascadeSpec {
    let modules = || graph.modules().iter().enumerate();
    let optional = modules().filter(|(_, module)| module.on_drop == OnDrop::Degrade);
    CascadeSpec {
        optional: optional.map(|(id, _)| id).collect(),
        stages: modules()
            .filter_map(|(id, module)| Some((id, module.stage.clone()?)))
            .collect(),
        accuracy: BTreeMap::new(),
        samples: BTreeMap::new(),
        tiles: modules()
            .filter_map(|(id, module)| Some((id, module.tiling()?)))
            .collect(),
        gears: graph.gears().cloned(),
    }
}

/// Time to solve a plan, and time to load its partitions, of a simulated graph: the live engine looks for plans each second.
const REPLAN_TIME: Span = Span::from_secs(1);

/// Models that a plan spreads over the workers of the graph.
struct Placed<'a> {
    plan: &'a Plan,
    workers: WorkerCluster,
    modules: Vec<(ModuleId, String)>,
}

impl<'a> Placed<'a> {
    fn new(graph: &Graph, plan: &'a Plan) -> Result<Self, String> {
        let modules = graph.partitioned_modules()?;
        let workers = WorkerCluster::new(graph, plan, &modules)?;
        Ok(Self {
            plan,
            workers,
            modules,
        })
    }

    /// The workers of the graph, with the planner where the policy has plans solved again.
    fn cluster(&self, graph: &Graph) -> WorldCluster {
        let policy = graph.policy();
        let mut cluster = WorldCluster::new(policy.reserve_spec(self.workers.cluster.clone()));
        if policy.replan {
            let owners = self.workers.owners.iter();
            cluster.plan.owners = owners.map(|(worker, _)| WorkerId(*worker as u32)).collect();
            cluster.plan.replan = Some(ReplanSpec::new(self.plan.mix(&self.modules)));
            cluster.replanner = Some(Replanner {
                plan: self.plan.clone(),
                modules: self.modules.clone(),
                workers: graph.workers().to_vec(),
                solve_time: REPLAN_TIME,
                load_time: REPLAN_TIME,
            });
        }
        cluster
    }

    fn slots(&self, module: usize) -> Option<PipelineSlots> {
        let (id, model) = self.modules.iter().find(|(id, _)| id.index() == module)?;
        self.workers.pipeline_slots(self.plan, *id, model)
    }
}

/// SLO, share and mode of each stream; empty if all streams use the defaults.
fn own(graph: &Graph) -> Vec<StreamSpec> {
    let own: Vec<StreamSpec> = graph.sources().iter().map(StreamSpec::of).collect();
    if own.iter().all(|own| *own == StreamSpec::default()) {
        return Vec::new();
    }
    own
}

fn streams(graph: &Graph) -> Result<Vec<EmulatedStream>, String> {
    if graph.sources().is_empty() {
        return Err("it has templates and no sources: a world has streams from the beginning".to_owned());
    }
    let entries: BTreeSet<Vec<usize>> = (0..graph.sources().len())
        .map(|source| graph.entry_modules(source))
        .collect();
    let first: Vec<usize> = (0..graph.modules().len())
        .filter(|&id| {
            let inputs = &graph.modules()[id].inputs;
            !inputs.iter().any(|input| matches!(input, Vertex::Module(_)))
        })
        .collect();
    if entries.len() != 1 || !entries.contains(&first) {
        return Err("its streams enter at different modules; a world has one way in".to_owned());
    }
    let of = |source: &weir_graph::SourceNode| {
        let name = &source.name;
        let stream = EmulatedStream::parse(&source.uri).map_err(|bad| {
            format!("source \"{name}\" is not emulated: {bad}; give it uri = \"emulated:poisson?rate=100\"")
        })?;
        let readable = stream
            .trace()
            .map(|_| ())
            .map_err(|error| format!("source \"{name}\": {error}"));
        readable.map(|()| stream)
    };
    graph.sources().iter().map(of).collect()
}

/// The slots of the graph, as the live engine has them.
fn slots(graph: &Graph) -> Result<GraphSlots, String> {
    let without = graph
        .devices()
        .iter()
        .find(|device| device.class == DeviceClass::Cpu && device.slots.is_none());
    if let Some(device) = without {
        return Err(format!(
            "device \"{}\" has as many slots as there are cores; give it `slots`",
            device.name
        ));
    }
    Ok(GraphSlots::new(graph, 1))
}
