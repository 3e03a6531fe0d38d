//! How long models take: as declared, or measured on this machine.

use std::sync::Arc;

use weir_flow::{DeviceKind, Model, SessionError, StopFlag};
use weir_graph::{Graph, ModelNode, PrepareMode};
use weir_policy::generate::InstanceSpec;
use weir_types::{ModuleId, Profile, SlotId, Span, StepProfile, Timestamp};

use crate::assembly::RunError;
use crate::batch::PlacedModel;
use crate::clock::Clock;
use crate::emulated::EmulatedModel;
use crate::emulated_generator::EmulatedGenerator;
use crate::fleet::ActivePlan;
use crate::instance_spec::{InstanceBounds, declared_steps, instance_spec};
use crate::progress::Progress;
use crate::slot_layout::SlotLayout;
use crate::worker::Worker;

/// Runs by which a batch size is measured.
const RUNS: usize = 3;

/// Durations of a model by batch size.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredProfile {
    /// `(batch size, duration)`.
    pub points: Vec<(u32, Span)>,
    /// How long it took to be opened; what of the device is made ready for its first session is in that of the first model that a
    /// process measures.
    pub opening: Span,
    /// Bytes of the device's memory that were free before it was opened and not after its largest batch; `None` where that is not
    /// known.
    pub memory_bytes: Option<u64>,
}

/// Measures `model` alone on `device`.
///
/// # Errors
/// [`SessionError`] where it cannot be opened or run.
pub fn measure_profile(
    model: &Arc<dyn Model>,
    device: DeviceKind,
    batches: &[u32],
    runs: usize,
) -> Result<MeasuredProfile, SessionError> {
    measure_profile_and_memory(model, device, batches, runs, &|| None)
}

/// As [`measure_profile`]; `free_bytes` says what of the device's memory is free.
///
/// # Errors
/// As [`measure_profile`].
pub fn measure_profile_and_memory(
    model: &Arc<dyn Model>,
    device: DeviceKind,
    batches: &[u32],
    runs: usize,
    free_bytes: &dyn Fn() -> Option<u64>,
) -> Result<MeasuredProfile, SessionError> {
    let placed = PlacedModel {
        model: 0,
        name: String::new(),
        device,
        opener: Arc::clone(model),
    };
    let clock = Clock::start();
    let free_before = free_bytes();
    let mut worker = Worker::open(SlotId(0), clock, vec![placed], false)?;
    let opening = clock.now() - Timestamp::ZERO;
    let points = batches
        .iter()
        .map(|&size| Ok((size, worker.measure(clock, 0, size, runs)?)));
    let points = points.collect::<Result<_, SessionError>>()?;
    let memory_bytes = free_before
        .zip(free_bytes())
        .map(|(before, after)| before.saturating_sub(after));
    Ok(MeasuredProfile {
        points,
        opening,
        memory_bytes,
    })
}

/// The models of a graph, emulated ones included, by index.
pub(crate) fn models(graph: &Graph, given: &[Option<Arc<dyn Model>>]) -> Vec<Arc<dyn Model>> {
    let model = |(node, given): (&ModelNode, &Option<Arc<dyn Model>>)| match given {
        Some(model) => Arc::clone(model),
        None if node.generates() => Arc::new(EmulatedGenerator::new(node)) as Arc<dyn Model>,
        None => Arc::new(EmulatedModel::new(node, declared(node).unwrap_or_else(fallback))) as Arc<dyn Model>,
    };
    graph.models().iter().zip(given).map(model).collect()
}

/// How long the models of a graph take, by index.
pub(crate) struct Profiles {
    /// Batch sizes and their durations; of a model that generates, a sequence of one token.
    pub(crate) batches: Vec<(Vec<u32>, Profile)>,
    /// What an instance of a model that generates is.
    pub(crate) instances: Vec<Option<InstanceSpec>>,
}

/// Batch sizes and durations of every model. Those of a partitioned model are its plan's; others are declared, or measured
/// on the first slot of the model.
pub(crate) fn profiles(
    graph: &Graph,
    models: &[Arc<dyn Model>],
    slots: &SlotLayout,
    workers: &mut [Worker],
    active: Option<&ActivePlan>,
    (progress, stop): (&Progress, &StopFlag),
) -> Result<Profiles, RunError> {
    let mut profiles = Vec::new();
    let mut instances = Vec::new();
    for (index, node) in graph.models().iter().enumerate() {
        if stop.is_raised() {
            return Err(RunError::Stopped);
        }
        let first = slots.slots_of_model(index).first().copied().unwrap_or(SlotId(0));
        if node.generates() {
            progress.set_preparing("measuring models", index + 1, models.len(), &node.name);
            let instance = generative(node, models[index].as_ref(), &mut workers[first.index()])?;
            let one = instance.steps.duration(1, true);
            profiles.push((vec![1], Profile::new(vec![(1, one)]).unwrap_or_else(fallback)));
            instances.push(Some(instance));
            continue;
        }
        instances.push(None);
        let module = (0..)
            .zip(graph.modules())
            .find(|(_, module)| module.model == index);
        let pipelines = module.and_then(|(id, _)| active?.pipeline_slots(ModuleId(id)));
        if let Some(pipelines) = pipelines {
            profiles.push((vec![pipelines.batch], pipelines.profile));
            continue;
        }
        progress.set_preparing("measuring models", index + 1, models.len(), &node.name);
        profiles.push(profile(
            node,
            index,
            &models[index],
            &mut workers[first.index()],
            stop,
        )?);
        // What the thread that runs a batch prepares before has the slot, too.
        if let Some(preparation) = Profile::new(node.preparation.clone())
            && graph.devices()[node.device].prepare == PrepareMode::Inline
            && let Some((_, profile)) = profiles.last_mut()
        {
            *profile = profile.followed_by(&preparation);
        }
    }
    Ok(Profiles {
        batches: profiles,
        instances,
    })
}

/// What an instance of a model that generates is: its step times are declared, or measured.
fn generative(node: &ModelNode, model: &dyn Model, worker: &mut Worker) -> Result<InstanceSpec, RunError> {
    let bad = |reason: String| RunError::Generate {
        model: node.name.clone(),
        reason,
    };
    let limits = model.generative().map(|model| model.limits());
    let limits = limits.ok_or_else(|| bad("it does not generate".to_owned()))?;
    let bounds = InstanceBounds::new(node, limits);
    let steps = match declared_steps(node) {
        Some(curve) => {
            let curve = curve.map_err(|error| bad(error.to_string()))?;
            StepProfile {
                decode: curve.clone(),
                prompt: curve,
            }
        }
        None => {
            let instance = worker.instance_mut();
            let instance = instance.ok_or_else(|| bad("it has no slot".to_owned()))?;
            instance.measure(bounds.max_step_tokens, bounds.max_sequences)?
        }
    };
    tracing::debug!(model = %node.name, ?steps, "step times");
    instance_spec(&bounds, steps).map_err(|error| bad(error.to_string()))
}

fn declared(node: &ModelNode) -> Option<Profile> {
    Profile::new(node.profile.clone())
}

/// A profile for a model that was neither declared nor measured: one millisecond a batch. The graph's check asks for a
/// declared one where a device is emulated, so no batch is ever judged by this one.
fn fallback() -> Profile {
    #[expect(clippy::unwrap_used, reason = "one point of size one is a profile")]
    Profile::new(vec![(1, Span::from_millis(1))]).unwrap()
}

fn profile(
    node: &ModelNode,
    index: usize,
    model: &Arc<dyn Model>,
    worker: &mut Worker,
    stop: &StopFlag,
) -> Result<(Vec<u32>, Profile), RunError> {
    let batching = model.batching();
    let max = batching.max.unwrap_or(u32::MAX).max(1);
    if let Some(remark) = &batching.remark {
        tracing::info!(model = %node.name, "{remark}");
    }
    let mut sizes: Vec<u32> = node.batch.iter().copied().filter(|&size| size <= max).collect();
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
        points.push((size, worker.measure(Clock::start(), index, size, RUNS)?));
    }
    tracing::debug!(model = %node.name, ?points, "measured");
    Ok((sizes, Profile::new(points).unwrap_or_else(fallback)))
}
