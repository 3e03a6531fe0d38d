//! Durations of models: declared ones, or measurements on this machine.

use std::sync::Arc;

use weir_flow::{DeviceKind, Model, SessionError, StopFlag};
use weir_graph::{Graph, ModelNode, ModelOrigin, PrepareMode};
use weir_policy::SlotProfiles;
use weir_policy::generate::InstanceSpec;
use weir_policy::route::{Link, MoveCost};
use weir_types::{ModuleId, Profile, SlotId, Span, StepProfile, Timestamp};

use crate::assembly::RunError;
use crate::batch::PlacedModel;
use crate::clock::Clock;
use crate::device_memory::DeviceMemories;
use crate::ends::{EndModels, fallback};
use crate::fleet::ActivePlan;
use crate::instance_spec::{InstanceBounds, declared_steps, instance_spec};
use crate::progress::Progress;
use crate::resident::{ResidentWorker, SessionUse};
use crate::slot_layout::SlotLayout;
use crate::worker::Worker;

/// Runs by which a batch size is measured.
const RUNS: usize = 3;
/// Over which a cache goes from slot to slot of this process: it is copied out of the rows of one session, and into those of
/// another one.
const CACHE_LINK: Link = Link {
    latency: Span::from_micros(50),
    bandwidth_bps: 8e9,
};

/// Durations of a model by batch size.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredProfile {
    /// `(batch size, duration)`.
    pub points: Vec<(u32, Span)>,
    /// Time to open the model. For the first model that a process measures, it includes the initialisation of
    /// the device.
    pub opening: Span,
    /// Bytes of the device's memory that were free before it was opened and not after its largest batch; `None` where that is not
    /// known.
    pub memory_bytes: Option<u64>,
    /// On a CPU: how long it is opened and what a session takes.
    pub session: Option<SessionUse>,
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
    let session = match (device, model.generative()) {
        (DeviceKind::Cpu, None) => Some(measure_session(model, device, batches)?),
        // Providers of GPUs may take minutes to open a model.
        _ => None,
    };
    Ok(MeasuredProfile {
        points,
        opening,
        memory_bytes,
        session,
    })
}

/// Opens `model` on `device` from its file and from host memory, and measures what a session takes with the largest of `batches`.
///
/// # Errors
/// [`SessionError`] where it cannot be opened or run.
pub fn measure_session(
    model: &Arc<dyn Model>,
    device: DeviceKind,
    batches: &[u32],
) -> Result<SessionUse, SessionError> {
    let placed = PlacedModel {
        model: 0,
        name: String::new(),
        device,
        opener: Arc::clone(model),
    };
    let mut worker = ResidentWorker::new(SlotId(0), Clock::start(), vec![placed], Arc::default());
    worker.examine(0, largest_of(model.as_ref(), batches))
}

/// Durations and memory use of the models of a graph. Tables are indexed by model.
pub(crate) struct Profiles {
    /// Batch sizes and their durations; of a model that generates, a sequence of one token.
    pub(crate) batches: Vec<(Vec<u32>, Profile)>,
    /// Durations of a batch per slot, for a model that does not generate and is placed on devices of unequal
    /// speed; empty for other models. In that case the entry in `batches` is the combined profile of these
    /// slots.
    pub(crate) ends: Vec<Vec<Profile>>,
    /// Specification of the instance on each slot of a generative model; empty for other models.
    pub(crate) instances: Vec<Vec<InstanceSpec>>,
    /// Cost of moving a sequence with its cache between two slots; `None` if the model cannot move sequences.
    pub(crate) moves: Vec<Option<MoveCost>>,
    /// Devices with limited memory, and the models on them.
    pub(crate) memory: DeviceMemories,
}

/// Batch sizes and durations of every model. Those of a partitioned model are its plan's; others are declared, or measured
/// on the first slot of the model.
pub(crate) fn profiles(
    graph: &Graph,
    models: &EndModels,
    slots: &SlotLayout,
    workers: &mut [Worker],
    active: Option<&ActivePlan>,
    (progress, stop): (&Progress, &StopFlag),
) -> Result<Profiles, RunError> {
    let mut profiles = Vec::new();
    let (mut ends, mut instances) = (Vec::new(), Vec::new());
    let mut sessions = vec![None; models.len()];
    for (index, node) in graph.models().iter().enumerate() {
        if stop.is_raised() {
            return Err(RunError::Stopped);
        }
        let first = slots.slots_of_model(index).first().copied().unwrap_or(SlotId(0));
        if node.generates() {
            progress.set_preparing("measuring models", index + 1, models.len(), &node.name);
            let own = own_instances(node, &models[index], index, slots, workers)?;
            if slots.takes_turns(graph, node.device) {
                sessions[index] = Some(generating_session(node, &mut workers[first.index()])?);
            }
            let one = own.iter().map(|instance| instance.steps.duration(1, true)).min();
            let one = one.and_then(|one| Profile::new(vec![(1, one)]));
            profiles.push((vec![1], one.unwrap_or_else(fallback)));
            ends.push(Vec::new());
            instances.push(own);
            continue;
        }
        instances.push(Vec::new());
        if !node.ends.is_empty() {
            progress.set_preparing("measuring models", index + 1, models.len(), &node.name);
            let (sizes, own) = own_profiles(node, &models[index], index, slots, workers, stop)?;
            let own = SlotProfiles::new(own, &sizes).unwrap_or_else(|| SlotProfiles {
                profile: fallback(),
                ends: Vec::new(),
            });
            profiles.push((sizes, own.profile));
            ends.push(own.ends);
            continue;
        }
        ends.push(Vec::new());
        let module = (0..)
            .zip(graph.modules())
            .find(|(_, module)| module.model == index);
        let pipelines = module.and_then(|(id, _)| active?.pipeline_slots(ModuleId(id)));
        if let Some(pipelines) = pipelines {
            profiles.push((vec![pipelines.batch], pipelines.profile));
            continue;
        }
        progress.set_preparing("measuring models", index + 1, models.len(), &node.name);
        let (worker, model) = (&mut workers[first.index()], &models[index][0]);
        if node.scaling.is_some() {
            slots.open_least((index, node), workers)?;
        } else if let Some(resident) = worker.resident_mut() {
            sessions[index] = Some(session_use((index, node), model, resident)?);
        }
        let worker = &mut workers[first.index()];
        profiles.push(profile(
            (node, &node.profile),
            index,
            model.as_ref(),
            worker,
            stop,
        )?);
        if let Some(resident) = worker.resident_mut().filter(|_| node.scaling.is_none()) {
            resident.close(index);
        }
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
        ends,
        instances,
        moves: models.iter().map(|ends| cache_moves(ends)).collect(),
        memory: DeviceMemories::new(graph, slots, &sessions)?,
    })
}

/// Memory and opening times of a session: declared ones for an emulated model, else measured. A declared
/// `memory` takes the place of the measured device memory. A measured session stays open until the caller
/// closes it.
fn session_use(
    (index, node): (usize, &ModelNode),
    model: &Arc<dyn Model>,
    worker: &mut ResidentWorker,
) -> Result<SessionUse, SessionError> {
    if node.origin == ModelOrigin::Emulated {
        let [open_cold, open_warm] = node.opening_times();
        return Ok(SessionUse {
            device_bytes: node.memory.unwrap_or(0),
            host_bytes: node.memory.unwrap_or(0),
            open_cold,
            open_warm,
        });
    }
    let measured = worker.examine(index, largest_of(model.as_ref(), &node.batch))?;
    tracing::debug!(model = %node.name, ?measured, "session");
    Ok(SessionUse {
        device_bytes: node.memory.unwrap_or(measured.device_bytes),
        ..measured
    })
}

/// Memory and opening times of a session of a model that takes turns with others: its memory is declared, and its times are
/// declared for an emulated model, else measured. The session is closed then.
fn generating_session(node: &ModelNode, worker: &mut Worker) -> Result<SessionUse, SessionError> {
    let device_bytes = node.memory.unwrap_or(0);
    let [mut open_cold, mut open_warm] = node.opening_times();
    let is_emulated = node.origin == ModelOrigin::Emulated;
    if let Some(instance) = worker.instance_mut() {
        if !is_emulated {
            open_cold = instance.measure_opening()?;
            open_warm = open_cold;
        }
        instance.close();
    }
    Ok(SessionUse {
        device_bytes,
        // Only emulated models are prepared in host memory.
        host_bytes: if is_emulated { device_bytes } else { 0 },
        open_cold,
        open_warm,
    })
}

/// Values of a model per slot. `of_end` runs once per device, on the first slot of the model there; the other
/// slots of the device copy its result.
fn by_slot<T: Clone>(
    slots: &SlotLayout,
    model: usize,
    mut of_end: impl FnMut(usize, SlotId) -> Result<T, RunError>,
) -> Result<Vec<T>, RunError> {
    let mut known: Vec<(usize, T)> = Vec::new();
    let mut all = Vec::new();
    for slot in slots.slots_of_model(model) {
        let end = slots.end_of_slot(model, *slot);
        let found = known.iter().find(|(known, _)| *known == end);
        let own = match found {
            Some((_, own)) => own.clone(),
            None => {
                let own = of_end(end, *slot)?;
                known.push((end, own.clone()));
                own
            }
        };
        all.push(own);
    }
    Ok(all)
}

/// The instances of a model that generates, by slot. All take the same tokens.
fn own_instances(
    node: &ModelNode,
    models: &[Arc<dyn Model>],
    index: usize,
    slots: &SlotLayout,
    workers: &mut [Worker],
) -> Result<Vec<InstanceSpec>, RunError> {
    let declared: Vec<&[(u32, Span)]> = node.ends().map(|(_, declared)| declared).collect();
    let vocabulary = |end: usize| models[end].generative().map(|model| model.limits().vocabulary);
    for end in 1..models.len() {
        if vocabulary(end) != vocabulary(0) {
            let words = |end| vocabulary(end).map_or_else(|| "none".to_owned(), |count| count.to_string());
            return Err(RunError::Generate {
                model: node.name.clone(),
                reason: format!(
                    "it has {} different tokens on its first device and {} on the next: sequences could not go on from one to \
                     the other. Give all of its devices the same model",
                    words(0),
                    words(end)
                ),
            });
        }
    }
    by_slot(slots, index, |end, slot| {
        let worker = &mut workers[slot.index()];
        generative((node, declared[end]), models[end].as_ref(), worker)
    })
}

/// Batch sizes of a model that is on several devices, and their durations by slot.
fn own_profiles(
    node: &ModelNode,
    models: &[Arc<dyn Model>],
    index: usize,
    slots: &SlotLayout,
    workers: &mut [Worker],
    stop: &StopFlag,
) -> Result<(Vec<u32>, Vec<Profile>), RunError> {
    let declared: Vec<&[(u32, Span)]> = node.ends().map(|(_, declared)| declared).collect();
    let mut sizes = Vec::new();
    let profiles = by_slot(slots, index, |end, slot| {
        let worker = &mut workers[slot.index()];
        let (own, profile) = profile((node, declared[end]), index, models[end].as_ref(), worker, stop)?;
        sizes = own;
        // Where the thread that runs a batch prepares it before.
        Ok(match Profile::new(node.preparation.clone()) {
            Some(preparation) if slots.prepare_on(slot) == PrepareMode::Inline => {
                profile.followed_by(&preparation)
            }
            _ => profile,
        })
    })?;
    Ok((sizes, profiles))
}

/// Cost of moving the cache of a sequence between any two slots of a model. `None` if the sessions cannot
/// exchange caches, because they are in different processes or belong to different models.
fn cache_moves(ends: &[Arc<dyn Model>]) -> Option<MoveCost> {
    let mut kinds = ends.iter().map(|model| model.generative()?.caches());
    let kind = kinds.next().flatten()?;
    kinds.all(|other| other == Some(kind)).then(|| MoveCost {
        link: CACHE_LINK,
        cache_bytes: f64::from(kind.token_bytes),
    })
}

/// Specification of an instance of a generative model; its step times are declared or measured.
fn generative(
    (node, declared): (&ModelNode, &[(u32, Span)]),
    model: &dyn Model,
    worker: &mut Worker,
) -> Result<InstanceSpec, RunError> {
    let bad = |reason: String| RunError::Generate {
        model: node.name.clone(),
        reason,
    };
    let generative = model.generative();
    let generative = generative.ok_or_else(|| bad("it does not generate".to_owned()))?;
    let bounds = InstanceBounds::new(node, declared, generative.as_ref());
    let steps = match declared_steps(declared) {
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

/// The batch sizes of a graph that its model takes; one item where it takes none of them.
fn sizes_of(model: &dyn Model, batch: &[u32]) -> Vec<u32> {
    let max = model.batching().max.unwrap_or(u32::MAX).max(1);
    let mut sizes: Vec<u32> = batch.iter().copied().filter(|&size| size <= max).collect();
    if sizes.is_empty() {
        sizes.push(1);
    }
    sizes
}

fn largest_of(model: &dyn Model, batch: &[u32]) -> u32 {
    sizes_of(model, batch).into_iter().max().unwrap_or(1)
}

fn profile(
    (node, declared): (&ModelNode, &[(u32, Span)]),
    index: usize,
    model: &dyn Model,
    worker: &mut Worker,
    stop: &StopFlag,
) -> Result<(Vec<u32>, Profile), RunError> {
    if let Some(remark) = &model.batching().remark {
        tracing::info!(model = %node.name, "{remark}");
    }
    let sizes = sizes_of(model, &node.batch);
    if let Some(profile) = Profile::new(declared.to_vec()) {
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
