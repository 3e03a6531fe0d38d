//! Makes a graph of the raw tables: names resolve, there is no cycle, types fit, the SLO can be met at all.

mod placement;
mod plan;
mod types;
mod wiring;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use weir_config::{Field, Reports, Spot, spelling};
use weir_flow::Catalog;
use weir_types::Span;

use crate::graph::{Graph, ModelNode, ModuleNode, SinkNode, SourceMode, SourceNode, Vertex};
use crate::raw::{RawGraph, RawModel, Speech};
use crate::walk;
use wiring::Wiring;

/// Checks what the tables say of each other. `None` only where something was reported.
pub(crate) fn check(raw: RawGraph, file: &Path, catalog: &Catalog, reports: &mut Reports) -> Option<Graph> {
    if raw.sources.is_empty() {
        reports.add_whole(
            0,
            "the graph has no sources",
            Some("add [sources.NAME] with uri = \"...\"".to_owned()),
        );
    }
    if raw.modules.is_empty() {
        let hint = Some("add [modules.NAME] with operator, model and inputs".to_owned());
        reports.add_whole(0, "the graph has no modules", hint);
    }
    let wiring = wiring::resolve(&raw, reports);
    let models = module_models(&raw, reports);
    types::check(&raw, &wiring, &models, catalog, reports);
    check_slo(&raw, &wiring, &models, reports);
    check_paths(&raw, &wiring, reports);
    same_files(&raw, reports);
    let devices = placement::place(&raw, reports);
    placement::own_slots(&raw, &models, &devices, reports);
    placement::planned(&raw, reports);
    let plan = plan::read(&raw, reports);
    warn_unused(&raw, &wiring, &models, &devices, reports);
    if !reports.is_clean() {
        return None;
    }
    let graph = build(raw, file, &wiring, &models, &devices)?;
    Some(Graph { plan, ..graph })
}

/// The model of each module, by index.
fn module_models(raw: &RawGraph, reports: &mut Reports) -> Vec<Option<usize>> {
    let names = || raw.models.iter().map(|model| model.name.value.as_str());
    let find = |spot: &Spot<String>, reports: &mut Reports| {
        if let Some(index) = names().position(|name| name == spot.value) {
            return Some(index);
        }
        if reports.is_full() {
            return None;
        }
        let hint = spelling::hint(&spot.value, "models", names())
            .or_else(|| Some(format!("add [models.{}]", spot.value)));
        reports.add_whole(spot.at, format!("there is no model \"{}\"", spot.value), hint);
        let meant = spelling::nearest(&spot.value, names())?;
        names().position(|name| name == meant)
    };
    raw.modules
        .iter()
        .map(|module| module.model.given().and_then(|spot| find(spot, reports)))
        .collect()
}

/// The declared duration of one batch of the least size of each module; zero where none is declared.
fn declared(raw: &RawGraph, models: &[Option<usize>]) -> Vec<Span> {
    let least = |model: &RawModel| model.profile.first().map_or(Span::ZERO, |(_, span)| *span);
    models
        .iter()
        .map(|model| model.map_or(Span::ZERO, |model| least(&raw.models[model])))
        .collect()
}

fn check_slo(raw: &RawGraph, wiring: &Wiring, models: &[Option<usize>], reports: &mut Reports) {
    let Some(slo) = &raw.slo else { return };
    let path = walk::longest(&wiring.order, &wiring.modules, &declared(raw, models));
    if slo.value < path.length {
        let names: Vec<&str> = path
            .modules
            .iter()
            .map(|module| raw.modules[*module].name.value.as_str())
            .collect();
        let message = format!(
            "the SLO of {} is shorter than the graph's bare execution of {}: {}",
            slo.value,
            path.length,
            names.join(" -> ")
        );
        reports.add(slo.at, message, Some("no request could be on time".to_owned()));
    }
}

/// The policy looks at every downstream path of a module on every decision: more than these would be too slow.
const MOST_PATHS: u64 = 4_096;

fn check_paths(raw: &RawGraph, wiring: &Wiring, reports: &mut Reports) {
    let counts = walk::path_counts(&wiring.order, &wiring.modules);
    if let Some(module) = wiring.order.iter().find(|module| counts[**module] > MOST_PATHS) {
        let name = &raw.modules[*module].name;
        let hint = Some("join branches in fewer places".to_owned());
        reports.add(
            name.at,
            format!("more than {MOST_PATHS} paths lead to module \"{}\"", name.value),
            hint,
        );
    }
}

/// Two sinks on one file would write over each other.
fn same_files(raw: &RawGraph, reports: &mut Reports) {
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    for sink in &raw.sinks {
        let Some(path) = &sink.path else { continue };
        if let Some(other) = seen.insert(&path.value, &sink.name.value) {
            let message = format!(
                "sink \"{}\" writes the same file as sink \"{other}\"",
                sink.name.value
            );
            reports.add(path.at, message, Some("give each its own path".to_owned()));
        }
    }
}

fn warn_unused(
    raw: &RawGraph,
    wiring: &Wiring,
    models: &[Option<usize>],
    devices: &placement::Devices,
    reports: &mut Reports,
) {
    let used: BTreeSet<Vertex> = wiring
        .modules
        .iter()
        .chain(&wiring.sinks)
        .flatten()
        .copied()
        .collect();
    let used = |vertex: Vertex| used.contains(&vertex);
    for (index, source) in raw.sources.iter().enumerate() {
        if !used(Vertex::Source(index)) {
            reports.warn(
                source.name.at,
                format!("nothing takes the frames of source \"{}\"", source.name.value),
                None,
            );
        }
    }
    for (index, module) in raw.modules.iter().enumerate() {
        if !used(Vertex::Module(index)) {
            reports.warn(
                module.name.at,
                format!("nothing takes what module \"{}\" finds", module.name.value),
                None,
            );
        }
    }
    for (index, model) in raw.models.iter().enumerate() {
        if !models.contains(&Some(index)) {
            reports.warn(
                model.name.at,
                format!("no module uses model \"{}\"", model.name.value),
                None,
            );
        }
    }
    for device in &raw.devices {
        if !devices.nodes.iter().any(|node| node.name == device.name.value) {
            reports.warn(
                device.name.at,
                format!("no model is placed on device \"{}\"", device.name.value),
                None,
            );
        }
    }
}

/// Puts the checked tables together. Models that no module uses, and devices that none of the others needs, are left
/// out: nobody shall load them.
fn build(
    raw: RawGraph,
    file: &Path,
    wiring: &Wiring,
    models: &[Option<usize>],
    devices: &placement::Devices,
) -> Option<Graph> {
    let rank = wiring.ranks();
    let ranked = |vertex: &Vertex| match vertex {
        Vertex::Source(index) => Vertex::Source(*index),
        Vertex::Module(index) => Vertex::Module(rank[*index]),
    };
    let mut kept = vec![None; raw.models.len()];
    let mut model_nodes = Vec::new();
    let mut device_nodes = Vec::new();
    let mut device_kept = vec![None; devices.nodes.len()];
    for (index, model) in raw
        .models
        .into_iter()
        .enumerate()
        .filter(|(index, _)| models.contains(&Some(*index)))
    {
        let on = devices.of_model.get(index).copied().flatten()?;
        let device = *device_kept[on].get_or_insert_with(|| {
            device_nodes.push(devices.nodes[on].clone());
            device_nodes.len() - 1
        });
        kept[index] = Some(model_nodes.len());
        model_nodes.push(model_node(model, device)?);
    }
    let mut modules: Vec<Option<_>> = raw.modules.into_iter().map(Some).collect();
    let mut module_nodes = Vec::with_capacity(modules.len());
    for index in &wiring.order {
        let module = modules.get_mut(*index)?.take()?;
        module_nodes.push(ModuleNode {
            name: module.name.value,
            operator: module.operator.into_value()?,
            model: kept[models[*index]?]?,
            inputs: wiring.modules[*index].iter().map(ranked).collect(),
            regions: distinct(module.regions),
            weight: module.weight,
            settings: module.settings,
        });
    }
    let sources = raw.sources.into_iter().map(|source| {
        let (name, uri) = (source.name.value, source.uri?);
        Some(SourceNode {
            name,
            mode: source.mode.unwrap_or_else(|| SourceMode::default_of(&uri)),
            mode_given: source.mode.is_some(),
            uri,
            fps: source.fps,
            sample: source.sample,
            repeat: source.repeat,
        })
    });
    let sinks = raw.sinks.into_iter().zip(&wiring.sinks).map(|(sink, inputs)| {
        Some(SinkNode {
            name: sink.name.value,
            kind: sink.kind.into_value()?,
            inputs: inputs.iter().map(ranked).collect(),
            when_slow: sink.when_slow,
            settings: sink.settings,
        })
    });
    let stem = || {
        file.file_stem()
            .map_or_else(|| "graph".to_owned(), |stem| stem.to_string_lossy().into_owned())
    };
    Some(Graph {
        name: raw.name.unwrap_or_else(stem),
        slo: raw.slo?.value,
        policy: raw.policy,
        sources: sources.collect::<Option<_>>()?,
        devices: device_nodes,
        workers: raw.workers.into_iter().map(|(_, worker)| worker).collect(),
        models: model_nodes,
        modules: module_nodes,
        sinks: sinks.collect::<Option<_>>()?,
        plan: None,
        warnings: Vec::new(),
        files: Vec::new(),
    })
}

fn model_node(model: RawModel, device: usize) -> Option<ModelNode> {
    Some(ModelNode {
        name: model.name.value,
        origin: model.origin?,
        head: match model.speech {
            Speech::Head(head) => Some(head),
            Speech::Unknown => None,
        },
        device,
        batch: model.batch,
        workers: model.workers.map(|workers| workers.value),
        profile: model.profile,
        plan: model.plan.map(|plan| plan.value),
        settings: model.settings,
    })
}

/// The texts without repetition, in their order.
fn distinct(texts: Field<Vec<Spot<String>>>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let texts = texts.into_value().unwrap_or_default().into_iter();
    texts
        .map(|spot| spot.value)
        .filter(|text| seen.insert(text.clone()))
        .collect()
}
