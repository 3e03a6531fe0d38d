//! Where things are: slots of devices, models on slots, requests on their way through the graph. And how long models
//! take here.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_flow::{DeviceKind, Model, SessionError, StopFlag};
use weir_graph::{DeviceClass, Graph, Vertex};
use weir_policy::Placement;
use weir_types::{ModuleId, Profile, SlotId, Span, Topology};

use crate::assembly::RunError;
use crate::clock::Clock;
use crate::emulated::EmulatedModel;
use crate::progress::Progress;
use crate::worker::{Placed, Worker};

/// Runs by which a batch size is measured.
const RUNS: usize = 3;

/// Slots and what is placed on them.
pub(crate) struct SlotLayout {
    /// What each slot is.
    kinds: Vec<DeviceKind>,
    /// Slots of each model.
    of_model: Vec<Vec<SlotId>>,
}

impl SlotLayout {
    /// Numbers the slots of all devices one after the other. A model that wants fewer workers than its device has slots
    /// begins at a slot of its own turn, so that such models spread.
    pub(crate) fn of(graph: &Graph) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        let mut kinds = Vec::new();
        let mut of_device: Vec<Vec<SlotId>> = Vec::new();
        for device in graph.devices() {
            let kind = match device.class {
                DeviceClass::Cpu | DeviceClass::Emulated(_) | DeviceClass::Workers => DeviceKind::Cpu,
                DeviceClass::Cuda(ordinal) => DeviceKind::Cuda(ordinal),
            };
            let first = kinds.len() as u32;
            let count = device.slots_with(cores);
            kinds.extend((0..count).map(|_| kind));
            of_device.push((first..first + count).map(SlotId).collect());
        }
        let place = |(turn, model): (usize, &weir_graph::ModelNode)| {
            let slots = &of_device[model.device];
            let wanted = model
                .workers
                .map_or(slots.len(), |workers| workers as usize)
                .min(slots.len());
            let mut placed: Vec<SlotId> = slots.iter().cycle().skip(turn).take(wanted).copied().collect();
            placed.sort_unstable();
            placed
        };
        let of_model = graph.models().iter().enumerate().map(place).collect();
        Self { kinds, of_model }
    }

    pub(crate) fn slots(&self) -> u32 {
        self.kinds.len() as u32
    }

    pub(crate) fn of_model(&self, model: usize) -> &[SlotId] {
        &self.of_model[model]
    }

    pub(crate) fn placements(&self, graph: &Graph) -> Vec<Placement> {
        let place = |(id, module): (u32, &weir_graph::ModuleNode)| Placement {
            module: ModuleId(id),
            slots: self.of_model(module.model).to_vec(),
            weight: module.weight,
        };
        (0..).zip(graph.modules()).map(place).collect()
    }

    /// Opens the worker of every slot with the sessions of the models placed on it.
    pub(crate) fn workers(
        &self,
        graph: &Graph,
        models: &[Arc<dyn Model>],
        clock: Clock,
        progress: &Progress,
    ) -> Result<Vec<Worker>, SessionError> {
        let open = |(slot, &device): (u32, &DeviceKind)| {
            let slot = SlotId(slot);
            let here = (0..models.len()).filter(|&model| self.of_model(model).contains(&slot));
            let placed = here.map(|model| Placed {
                model,
                name: graph.models()[model].name.clone(),
                device,
                opener: Arc::clone(&models[model]),
            });
            let placed: Vec<Placed> = placed.collect();
            let names: Vec<&str> = placed.iter().map(|placed| placed.name.as_str()).collect();
            progress.prepares(
                "opening sessions",
                slot.index() + 1,
                self.kinds.len(),
                &names.join(", "),
            );
            Worker::open(slot, clock, placed)
        };
        (0..).zip(&self.kinds).map(open).collect()
    }
}

/// The graph's shape as the policy wants it.
pub(crate) fn topology(graph: &Graph) -> Topology {
    let mut successors = vec![Vec::new(); graph.modules().len()];
    for (id, module) in (0..).zip(graph.modules()) {
        for input in &module.inputs {
            if let Vertex::Module(before) = input {
                successors[*before].push(ModuleId(id));
            }
        }
    }
    Topology::new(successors)
}

/// How the requests of one stream go through the graph.
pub(crate) struct Route {
    /// Modules that frames enter directly.
    pub(crate) entries: Vec<ModuleId>,
    /// How many parts make a request whole at each module; 0 where it never comes.
    pub(crate) parts: Vec<u32>,
    /// How many modules are the last of a branch; 1 for frames that no module takes, which are out at once.
    pub(crate) ends: u32,
}

impl Route {
    pub(crate) fn of(graph: &Graph, source: usize, topology: &Topology) -> Self {
        let mut reached = BTreeSet::new();
        let mut parts = Vec::new();
        let mut entries = Vec::new();
        for (id, module) in graph.modules().iter().enumerate() {
            let entry = module.inputs.contains(&Vertex::Source(source));
            let before = module
                .inputs
                .iter()
                .filter(|input| matches!(input, Vertex::Module(m) if reached.contains(m)));
            let count = before.count() as u32 + u32::from(entry);
            if count > 0 {
                reached.insert(id);
            }
            if entry {
                entries.push(ModuleId(id as u32));
            }
            parts.push(count);
        }
        let last = |id: &&usize| topology.successors(ModuleId(**id as u32)).is_empty();
        let ends = reached.iter().filter(last).count().max(1) as u32;
        Self { entries, parts, ends }
    }
}

/// What a sink shows: its inputs and all before them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    /// Modules whose findings it shows.
    pub(crate) modules: BTreeSet<u32>,
    /// Streams whose frames it shows.
    pub(crate) streams: BTreeSet<u32>,
}

impl Shown {
    pub(crate) fn of(graph: &Graph, sink: usize) -> Self {
        let mut open = graph.sinks()[sink].inputs.clone();
        let mut shown = Self::default();
        while let Some(vertex) = open.pop() {
            match vertex {
                Vertex::Module(id) if shown.modules.insert(id as u32) => {
                    open.extend(&graph.modules()[id].inputs);
                }
                Vertex::Module(_) => {}
                Vertex::Source(id) => {
                    shown.streams.insert(id as u32);
                }
            }
        }
        shown
    }
}

/// Durations of a model by batch size.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// `(batch size, duration)`.
    pub points: Vec<(u32, Span)>,
}

/// Measures `model` alone on `device`.
///
/// # Errors
/// [`SessionError`] where it cannot be opened or run.
pub fn measure(
    model: &Arc<dyn Model>,
    device: DeviceKind,
    batches: &[u32],
    runs: usize,
) -> Result<Measured, SessionError> {
    let placed = Placed {
        model: 0,
        name: String::new(),
        device,
        opener: Arc::clone(model),
    };
    let mut worker = Worker::open(SlotId(0), Clock::start(), vec![placed])?;
    let points = batches
        .iter()
        .map(|&size| Ok((size, worker.measure(0, size, runs)?)));
    Ok(Measured {
        points: points.collect::<Result<_, SessionError>>()?,
    })
}

/// The models of a graph, emulated ones included, by index.
pub(crate) fn models(graph: &Graph, given: &[Option<Arc<dyn Model>>]) -> Vec<Arc<dyn Model>> {
    let model = |(node, given): (&weir_graph::ModelNode, &Option<Arc<dyn Model>>)| match given {
        Some(model) => Arc::clone(model),
        None => Arc::new(EmulatedModel {
            profile: declared(node).unwrap_or_else(fallback),
        }) as Arc<dyn Model>,
    };
    graph.models().iter().zip(given).map(model).collect()
}

fn declared(node: &weir_graph::ModelNode) -> Option<Profile> {
    Profile::new(node.profile.clone())
}

/// A profile for a model that was neither declared nor measured: one millisecond a batch. The graph's check asks for a
/// declared one where a device is emulated, so this is only ever a beginning.
fn fallback() -> Profile {
    #[expect(clippy::unwrap_used, reason = "one point of size one is a profile")]
    Profile::new(vec![(1, Span::from_millis(1))]).unwrap()
}

/// What batch sizes a model runs and how long each takes: declared, or measured on its first slot.
pub(crate) fn profile(
    node: &weir_graph::ModelNode,
    index: usize,
    model: &Arc<dyn Model>,
    worker: &mut Worker,
    stop: &StopFlag,
) -> Result<(Vec<u32>, Profile), RunError> {
    let batching = model.batching();
    let most = batching.max.unwrap_or(u32::MAX).max(1);
    if let Some(remark) = &batching.remark {
        tracing::info!(model = %node.name, "{remark}");
    }
    let mut sizes: Vec<u32> = node.batch.iter().copied().filter(|&size| size <= most).collect();
    if sizes.is_empty() {
        sizes.push(1);
    }
    if let Some(profile) = declared(node) {
        return Ok((sizes, profile));
    }
    let mut points: Vec<(u32, Span)> = Vec::new();
    for &size in &sizes {
        if stop.is_raised() {
            return Err(RunError::Stopped);
        }
        points.push((size, worker.measure(index, size, RUNS)?));
    }
    tracing::debug!(model = %node.name, ?points, "measured");
    Ok((sizes, Profile::new(points).unwrap_or_else(fallback)))
}
