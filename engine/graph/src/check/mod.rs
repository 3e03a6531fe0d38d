//! Builds a graph from the raw tables: names resolve, there is no cycle, types match, the SLO can be met at all.

mod cascades;
mod clients;
mod lengths;
mod like;
mod memory;
mod never;
mod objects;
mod onvif;
mod placement;
mod plan;
mod privacy;
mod reserves;
mod scaling;
mod search;
mod sound;
mod streams;
mod tiles;
mod transforms;
mod types;
mod wiring;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use weir_config::{Diagnostics, Field, Spanned, spelling};
use weir_flow::{Catalog, Value};
use weir_policy::Policy;
use weir_types::Span;

use crate::critical_path;
use crate::device::DeviceNode;
use crate::gear_memory::{GearModels, shortage};
use crate::gears_file;
use crate::graph::{
    EndNode, FRAMES, Graph, ModelNode, ModuleNode, OnDrop, PerTrackNode, SinkNode, StageNode, TrackerNode,
    TransformNode, Vertex,
};
use crate::raw::{
    HeadName, RawGraph, RawModel, RawModule, RawPerTrack, RawSink, RawSource, RawStage, RawTransform,
};
use crate::source_node::{SourceMode, SourceNode};
use wiring::Wiring;

/// Checks the tables against each other. `None` only where something was reported.
pub(crate) fn check(
    mut raw: RawGraph,
    file: &Path,
    catalog: &Catalog,
    diagnostics: &mut Diagnostics,
) -> Option<Graph> {
    if raw.sources.is_empty() && raw.templates.is_empty() {
        let hint = "add [sources.NAME] with uri = \"...\", or with template = true for streams that are added to `weir serve`";
        diagnostics.add_if_parsed(0, "the graph has no sources", Some(hint.to_owned()));
    }
    if raw.modules.is_empty() {
        let hint = Some("add [modules.NAME] with operator, model and inputs".to_owned());
        diagnostics.add_if_parsed(0, "the graph has no modules", hint);
    }
    let wiring = wiring::resolve(&raw, diagnostics);
    let models = module_models(&raw, diagnostics);
    types::check(&raw, &wiring, &models, catalog, diagnostics);
    types::check_trackers(&raw, &wiring, &models, catalog, diagnostics);
    types::check_per_track(&raw, &wiring, diagnostics);
    streams::check(&raw, &wiring, diagnostics);
    objects::check(&raw, &wiring, &models, catalog, diagnostics);
    privacy::check(&raw, &wiring, &models, catalog, diagnostics);
    search::check(&raw, &wiring, diagnostics);
    sound::check(&raw, diagnostics);
    onvif::check(&raw, diagnostics);
    transforms::check(&raw, &wiring, &models, catalog, diagnostics);
    never::check(&raw, &wiring, &models, catalog, diagnostics);
    tiles::check(&raw, diagnostics);
    cascades::check(&mut raw, &models, catalog, diagnostics);
    check_slo(&raw, &wiring, &models, diagnostics);
    check_paths(&raw, &wiring, diagnostics);
    check_output_paths(&raw, diagnostics);
    clients::check(&raw, diagnostics);
    let devices = placement::place(&raw, diagnostics);
    placement::check_exclusive_slots(&raw, &models, &devices, diagnostics);
    placement::check_plans(&raw, diagnostics);
    memory::check(&raw, &devices, diagnostics);
    scaling::check(&raw, &models, &devices, diagnostics);
    lengths::check(&raw, &models, diagnostics);
    let plan = plan::read(&raw, diagnostics);
    warn_unused(&raw, &wiring, &models, &devices, diagnostics);
    reserves::warn(&raw, &wiring, &models, &devices, diagnostics);
    memory::warn(&raw, &wiring, &models, &devices, diagnostics);
    if !diagnostics.is_clean() {
        return None;
    }
    let planned_gears = raw.gears.clone();
    let finders = privacy::finders(&raw, &models, catalog);
    let graph = build(raw, file, &wiring, &models, (&devices, &finders))?;
    let gears = planned_gears.map(|path| {
        let read = gears_file::read_gears(&path.value, &graph);
        let short = (read.as_ref().ok()).and_then(|gears| shortage(&graph, gears, GearModels::Switched));
        if let Some(short) = short {
            let message = format!("`gears`: {short}: its models take turns on the slots");
            let hint = "raise it, ask fewer models, or give `shares` of fewer slots; models = \"switched\" in the file of the \
                        gears makes this an error";
            diagnostics.warn(path.at, message, Some(hint.to_owned()));
        }
        read.map_err(|reason| {
            let message = format!("`gears`: {}: {reason}", path.value.display());
            let is_missing = !path.value.exists();
            let hint =
                is_missing.then(|| "leave `gears` out until weir gears plan has written the file".to_owned());
            diagnostics.add(path.at, message, hint);
        })
    });
    Some(Graph {
        plan,
        gears: gears.and_then(Result::ok),
        ..graph
    })
}

/// The model of each module, by index; `None` where it does not resolve.
fn module_models(raw: &RawGraph, diagnostics: &mut Diagnostics) -> Vec<Option<usize>> {
    let names = || raw.models.iter().map(|model| model.name.value.as_str());
    let find = |spanned: &Spanned<String>, diagnostics: &mut Diagnostics| {
        if let Some(index) = names().position(|name| name == spanned.value) {
            return Some(index);
        }
        if diagnostics.is_full() {
            return None;
        }
        let hint = spelling::hint(&spanned.value, "models", names())
            .or_else(|| Some(format!("add [models.{}]", spanned.value)));
        diagnostics.add_if_parsed(
            spanned.at,
            format!("there is no model \"{}\"", spanned.value),
            hint,
        );
        let meant = spelling::nearest(&spanned.value, names())?;
        names().position(|name| name == meant)
    };
    raw.modules
        .iter()
        .map(|module| {
            module
                .model
                .given()
                .and_then(|spanned| find(spanned, diagnostics))
        })
        .collect()
}

/// Returns the action of each module for requests that it cannot serve in time. A module without `on_drop`
/// degrades if all of its inputs are modules that do: its requests can already lack results.
fn actions_on_drop(raw: &RawGraph, wiring: &Wiring) -> Vec<OnDrop> {
    let mut actions = vec![OnDrop::Drop; raw.modules.len()];
    for module in &wiring.order {
        let degrades = |input: &Vertex| match input {
            Vertex::Source(_) => false,
            Vertex::Module(before) => actions[*before] == OnDrop::Degrade,
        };
        let inherited = if wiring.modules[*module].iter().all(degrades) {
            OnDrop::Degrade
        } else {
            OnDrop::Drop
        };
        actions[*module] = raw.modules[*module].on_drop.unwrap_or(inherited);
    }
    actions
}

/// The declared duration of the smallest batch of each module; zero where none is declared.
fn min_durations(raw: &RawGraph, wiring: &Wiring, models: &[Option<usize>]) -> Vec<Span> {
    // On the fastest of its devices.
    let smallest = |model: &RawModel| {
        let first = |profile: &[(u32, Span)]| profile.first().map_or(Span::ZERO, |(_, span)| *span);
        let devices = model.ends.devices.iter();
        let own = devices.map(|device| first(model.ends.profile_of(&device.value).unwrap_or(&model.profile)));
        own.min().unwrap_or_else(|| first(&model.profile))
    };
    let actions = actions_on_drop(raw, wiring);
    let of_module = |((module, model), action): ((&RawModule, &Option<usize>), OnDrop)| match model {
        // Requests without the time for it go on without.
        _ if module.stage.as_ref().is_some_and(RawStage::is_optional) => Span::ZERO,
        _ if action == OnDrop::Degrade => Span::ZERO,
        Some(model) => smallest(&raw.models[*model]),
        None => Span::ZERO,
    };
    raw.modules
        .iter()
        .zip(models)
        .zip(actions)
        .map(of_module)
        .collect()
}

/// The objective of the graph, and those that sources have of their own, leave time for what their frames pass.
fn check_slo(raw: &RawGraph, wiring: &Wiring, models: &[Option<usize>], diagnostics: &mut Diagnostics) {
    let durations = min_durations(raw, wiring, models);
    let mut check = |slo: &Spanned<Span>, durations: &[Span], whose: &str| {
        let path = critical_path::critical_path(&wiring.order, &wiring.modules, durations);
        if slo.value >= path.length {
            return;
        }
        let names: Vec<&str> = path
            .modules
            .iter()
            .map(|module| raw.modules[*module].name.value.as_str())
            .collect();
        let message = format!(
            "the SLO of {} is shorter than the {whose} bare execution of {}: {}",
            slo.value,
            path.length,
            names.join(" -> ")
        );
        diagnostics.add(slo.at, message, Some("no request could be on time".to_owned()));
    };
    if let Some(slo) = &raw.slo {
        check(slo, &durations, "graph's");
    }
    for (index, source) in raw.sources.iter().enumerate() {
        let Some(slo) = &source.slo else { continue };
        let passed = wiring.passed_by(index);
        // Modules that frames of this source do not pass do not count.
        let of_module = |(module, duration): (usize, &Span)| {
            if passed.contains(&module) {
                *duration
            } else {
                Span::ZERO
            }
        };
        let durations: Vec<Span> = durations.iter().enumerate().map(of_module).collect();
        check(slo, &durations, "source's");
    }
}

/// The policy evaluates every downstream path of a module on every decision: more than these would be too slow.
const MAX_PATHS: u64 = 4_096;

fn check_paths(raw: &RawGraph, wiring: &Wiring, diagnostics: &mut Diagnostics) {
    let counts = critical_path::path_counts(&wiring.order, &wiring.modules);
    if let Some(module) = wiring.order.iter().find(|module| counts[**module] > MAX_PATHS) {
        let name = &raw.modules[*module].name;
        let hint = Some("join branches in fewer places".to_owned());
        diagnostics.add(
            name.at,
            format!("more than {MAX_PATHS} paths lead to module \"{}\"", name.value),
            hint,
        );
    }
}

/// Two sinks on one file would overwrite each other.
fn check_output_paths(raw: &RawGraph, diagnostics: &mut Diagnostics) {
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    for sink in &raw.sinks {
        let Some(path) = &sink.path else { continue };
        if let Some(other) = seen.insert(&path.value, &sink.name.value) {
            let message = format!(
                "sink \"{}\" writes the same file as sink \"{other}\"",
                sink.name.value
            );
            diagnostics.add(path.at, message, Some("give each its own path".to_owned()));
        }
    }
}

fn warn_unused(
    raw: &RawGraph,
    wiring: &Wiring,
    models: &[Option<usize>],
    devices: &placement::Devices,
    diagnostics: &mut Diagnostics,
) {
    let used: BTreeSet<Vertex> = wiring
        .modules
        .iter()
        .chain(&wiring.sinks)
        .flatten()
        .copied()
        .collect();
    let followed: BTreeSet<usize> = wiring.trackers.iter().flatten().copied().collect();
    let taken = wiring.transforms.iter().flat_map(|taken| &taken.modules);
    let taken: BTreeSet<usize> = taken.copied().collect();
    let used = |vertex: Vertex| {
        used.contains(&vertex)
            || matches!(vertex, Vertex::Module(module) if followed.contains(&module) || taken.contains(&module))
    };
    let sources = raw.sources.iter().map(|source| &source.name);
    for (index, name) in sources.chain(&raw.templates).enumerate() {
        if !used(Vertex::Source(index)) {
            let message = format!("no module or sink uses the frames of source \"{}\"", name.value);
            diagnostics.warn(name.at, message, None);
        }
    }
    for (index, module) in raw.modules.iter().enumerate() {
        if !used(Vertex::Module(index)) {
            diagnostics.warn(
                module.name.at,
                format!("nothing takes what module \"{}\" finds", module.name.value),
                None,
            );
        }
    }
    transforms::warn_unused(raw, wiring, diagnostics);
    for (index, tracker) in raw.trackers.iter().enumerate() {
        let is_taken = wiring
            .transforms
            .iter()
            .any(|taken| taken.trackers.contains(&index));
        if !is_taken && wiring.sink_trackers.iter().all(|shown| !shown.contains(&index)) {
            let message = format!("no sink receives the tracks of \"{}\"", tracker.name.value);
            let hint = format!("inputs = [\"{}\", ...] of a sink", tracker.name.value);
            diagnostics.warn(tracker.name.at, message, Some(hint));
        }
    }
    for (index, model) in raw.models.iter().enumerate() {
        if !models.contains(&Some(index)) {
            diagnostics.warn(
                model.name.at,
                format!("no module uses model \"{}\"", model.name.value),
                None,
            );
        }
    }
    for device in &raw.devices {
        if !devices.nodes.iter().any(|node| node.name == device.name.value) {
            diagnostics.warn(
                device.name.at,
                format!("no model is placed on device \"{}\"", device.name.value),
                None,
            );
        }
    }
}

/// Assembles the checked tables. Models that no module uses, and devices without models, are left out, so that they are
/// not loaded.
fn build(
    raw: RawGraph,
    file: &Path,
    wiring: &Wiring,
    models: &[Option<usize>],
    (devices, finders): (&placement::Devices, &[bool]),
) -> Option<Graph> {
    let actions = actions_on_drop(&raw, wiring);
    let used = UsedModels::new(raw.models, models, devices)?;
    let modules = module_nodes(raw.modules, wiring, &used.of_module, &actions, finders)?;
    let rank = wiring.ranks();
    let zone = raw.timezone.clone();
    let sources = raw.sources.into_iter().map(source_node);
    let sources = sources.map(|source| Some(source?.in_zone(zone.as_ref())));
    let trackers = raw.trackers.into_iter().zip(&wiring.trackers);
    let trackers = trackers.map(|(tracker, modules)| TrackerNode {
        name: tracker.name.value,
        modules: modules.iter().map(|module| rank[*module]).collect(),
        streams: streams::named(&tracker.streams),
        settings: tracker.settings,
    });
    let stem = || {
        file.file_stem()
            .map_or_else(|| "graph".to_owned(), |stem| stem.to_string_lossy().into_owned())
    };
    let graph = Graph {
        name: raw.name.unwrap_or_else(stem),
        slo: raw.slo?.value,
        timezone: raw.timezone,
        stream_places: raw.stream_places,
        privacy: raw.privacy.map(|privacy| privacy.privacy).unwrap_or_default(),
        stream_defaults: raw.stream_defaults,
        default_password_file: raw.default_password_file,
        policy: Policy::default(),
        sources: sources.collect::<Option<_>>()?,
        templates: raw.templates.into_iter().map(|name| name.value).collect(),
        queues: raw.queues,
        devices: used.devices,
        workers: raw.workers.into_iter().map(|(_, worker)| worker).collect(),
        models: used.nodes,
        modules,
        trackers: trackers.collect(),
        transforms: transform_nodes(raw.transforms, wiring)?,
        sinks: sink_nodes(raw.sinks, wiring)?,
        plan: None,
        gears: None,
        warnings: Vec::new(),
        files: Vec::new(),
    };
    Some(graph.with_policy(raw.policy))
}

/// Models that a module uses, and the devices that they are on.
struct UsedModels {
    nodes: Vec<ModelNode>,
    devices: Vec<DeviceNode>,
    /// Index in `nodes` of the model of each module.
    of_module: Vec<Option<usize>>,
}

impl UsedModels {
    /// `models` holds the index in `raw` of the model of each module.
    fn new(raw: Vec<RawModel>, models: &[Option<usize>], placed: &placement::Devices) -> Option<Self> {
        let mut kept = vec![None; raw.len()];
        let mut nodes = Vec::new();
        let mut devices = Vec::new();
        let mut device_kept = vec![None; placed.nodes.len()];
        for (index, model) in raw
            .into_iter()
            .enumerate()
            .filter(|(index, _)| models.contains(&Some(*index)))
        {
            let ends = placed.of_model.get(index)?.iter().map(|end| {
                let on = end.device?;
                let device = *device_kept[on].get_or_insert_with(|| {
                    devices.push(placed.nodes[on].clone());
                    devices.len() - 1
                });
                Some(EndNode {
                    device,
                    profile: end.profile.clone(),
                })
            });
            let ends: Option<Vec<EndNode>> = ends.collect();
            kept[index] = Some(nodes.len());
            nodes.push(model_node(model, ends?)?);
        }
        let of_module = models.iter().map(|model| kept[(*model)?]).collect();
        Some(Self {
            nodes,
            devices,
            of_module,
        })
    }
}

/// Modules in topological order. `model_of` has the index of the model of each module.
fn module_nodes(
    modules: Vec<RawModule>,
    wiring: &Wiring,
    model_of: &[Option<usize>],
    actions: &[OnDrop],
    finders: &[bool],
) -> Option<Vec<ModuleNode>> {
    let rank = wiring.ranks();
    let mut modules: Vec<Option<_>> = modules.into_iter().map(Some).collect();
    let mut nodes = Vec::with_capacity(modules.len());
    for index in &wiring.order {
        let module = modules.get_mut(*index)?.take()?;
        nodes.push(ModuleNode {
            name: module.name.value,
            operator: module.operator.into_value()?,
            model: model_of[*index]?,
            inputs: ranked(&wiring.modules[*index], &rank),
            on_drop: actions[*index],
            regions: distinct(module.regions),
            per_track: module
                .per_track
                .zip(wiring.tracker_before(*index))
                .map(per_track_node),
            streams: streams::named(&module.streams),
            finds_objects: finders[*index],
            weight: module.weight,
            stage: module.stage.map(stage_node),
            settings: module.settings,
        });
    }
    Some(nodes)
}

/// Vertices with modules by their ranks in topological order.
fn ranked(vertices: &[Vertex], rank: &[usize]) -> Vec<Vertex> {
    let ranked = |vertex: &Vertex| match vertex {
        Vertex::Source(index) => Vertex::Source(*index),
        Vertex::Module(index) => Vertex::Module(rank[*index]),
    };
    vertices.iter().map(ranked).collect()
}

/// Stage of a cascade, without the positions of its values in the text.
fn stage_node(stage: RawStage) -> StageNode {
    StageNode {
        cascade: stage.cascade,
        index: stage.index,
        count: stage.count,
        certainty: stage.certainty.value,
        settle: stage.settle,
        on_late: stage.on_late,
        escalate: stage.escalate.value,
    }
}

/// Transforms, rules with the zones among their inputs. `None` if a transform has no valid settings.
fn transform_nodes(raw: Vec<RawTransform>, wiring: &Wiring) -> Option<Vec<TransformNode>> {
    let rank = wiring.ranks();
    let names: Vec<String> = raw.iter().map(|transform| transform.name.value.clone()).collect();
    let transforms = raw.into_iter().zip(&wiring.transforms);
    let transforms = transforms.map(|(transform, taken)| {
        Some(TransformNode {
            name: transform.name.value,
            spec: transforms::with_zones(transform.spec?, taken, &names),
            modules: taken.modules.iter().map(|module| rank[*module]).collect(),
            trackers: taken.trackers.iter().copied().collect(),
            streams: streams::named(&transform.streams),
        })
    });
    transforms.collect()
}

/// Sinks. If `frames` is not given, a sink whose inputs are transforms alone has none. `None` if a sink has no type.
fn sink_nodes(raw: Vec<RawSink>, wiring: &Wiring) -> Option<Vec<SinkNode>> {
    let rank = wiring.ranks();
    let sinks = raw
        .into_iter()
        .zip(&wiring.sinks)
        .zip(&wiring.sink_trackers)
        .zip(&wiring.sink_transforms)
        .zip(&wiring.sink_names_frames);
    let sinks = sinks.map(|((((sink, inputs), trackers), transforms), names_frames)| {
        let mut settings = sink.settings;
        if sink.chooses_frames && !names_frames {
            settings.0.insert(FRAMES.to_owned(), Value::Flag(false));
        }
        Some(SinkNode {
            name: sink.name.value,
            kind: sink.kind.into_value()?,
            inputs: ranked(inputs, &rank),
            trackers: trackers.iter().copied().collect(),
            transforms: transforms.iter().copied().collect(),
            streams: streams::named(&sink.streams),
            when_slow: sink.when_slow,
            settings,
        })
    });
    sinks.collect()
}

/// `None` where its address is missing, which was reported.
pub(crate) fn source_node(source: RawSource) -> Option<SourceNode> {
    let (name, uri) = (source.name.value, source.uri?);
    let frames_uri = source.detect_uri.as_ref().unwrap_or(&uri);
    Some(SourceNode {
        name,
        mode: source.mode.unwrap_or_else(|| SourceMode::default_for(frames_uri)),
        mode_given: source.mode.is_some(),
        uri,
        detect_uri: source.detect_uri,
        fps: source.fps,
        sample: source.sample,
        decoding: source.decoding,
        decoder: source.decoder,
        gate: source.gate,
        gate_schedule: source.gate_schedule,
        active: source.active,
        slo: source.slo.map(|slo| slo.value),
        share: source.share,
        connection: source.connection,
        objects: source.objects,
        privacy: source.privacy.map(|privacy| privacy.privacy),
        timezone: source.timezone,
        groups: source.groups,
        repeat: source.repeat,
        paced: true,
        joined_at: 0.0,
    })
}

fn model_node(model: RawModel, ends: Vec<EndNode>) -> Option<ModelNode> {
    let first = ends.first()?.clone();
    Some(ModelNode {
        name: model.name.value,
        origin: model.origin?,
        head: match model.head {
            HeadName::Known(head) => Some(head),
            HeadName::Unknown => None,
        },
        device: first.device,
        batch: model.batch,
        workers: model.workers.map(|workers| workers.value),
        scaling: model.scaling.map(|scaling| scaling.value),
        preparation: model.preparation,
        gpu: model.gpu,
        fail_every: model.fail_every,
        memory: model.memory.map(|memory| memory.value),
        open_cold: model.open_cold,
        open_warm: model.open_warm,
        profile: first.profile,
        ends: if model.ends.are_given() { ends } else { Vec::new() },
        plan: model.plan.map(|plan| plan.value),
        predictor: model.predictor,
        settings: model.settings,
    })
}

fn per_track_node((rule, tracker): (RawPerTrack, usize)) -> PerTrackNode {
    PerTrackNode {
        tracker,
        every: rule.every,
        until: rule.until,
        once: rule.once,
    }
}

/// The texts without repetition, in their order.
fn distinct(texts: Field<Vec<Spanned<String>>>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let texts = texts.into_value().unwrap_or_default().into_iter();
    texts
        .map(|spanned| spanned.value)
        .filter(|text| seen.insert(text.clone()))
        .collect()
}
