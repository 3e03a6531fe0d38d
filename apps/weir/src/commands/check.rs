//! `weir check`: every problem of a graph, and of what it names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use weir_analytics::transforms::{TransformSpec, Units};
use weir_flow::{DeviceKind, SinkError, SourceError, StopFlag};
use weir_graph::{DeviceClass, EmulatedStream, Graph, SourceNode, Sources, TransformNode};
use weir_operators::media::{SourceOptions, source};
use weir_operators::sinks::{check_writable, local_model, model_server};

use super::replay::replace_sources;
use super::{check_memory, check_tiles};
use crate::args::{Check, RunArgs};
use crate::error::{ErrorList, UserError};
use crate::launch::LaunchOptions;
use crate::settings::Settings;
use crate::zoo::Zoo;
use crate::{assemble, catalog, handles, launch, output, zoo};

/// Says that the graph can be run, or all that is wrong with it. What it names is opened as a run would open it, and left
/// as it is; with `--quick` the text alone is looked at.
///
/// # Errors
/// All problems at once: those of the text, and where there are none those of what it names.
pub(crate) fn check(args: &Check, settings: &Settings, zoo: &Zoo) -> anyhow::Result<()> {
    let sources = Sources::replaced_if(!args.videos.is_empty());
    let graph = catalog::load_for(sources, &args.graph, zoo)?;
    let graph = replace_sources(graph, &args.videos)?;
    let verdict = verdict(&graph);
    let pictures = pictures_sent(&graph);
    let aside = if args.quick {
        let mut aside = check_tiles::remarks(&graph, &BTreeMap::new());
        aside.push("only the text was checked: no source, model or sink was opened (--quick)".to_owned());
        aside
    } else {
        open_all(graph, settings, zoo)?
    };
    output::say(&verdict)?;
    for remark in aside.into_iter().chain(pictures) {
        output::remark(&remark);
    }
    Ok(())
}

fn verdict(graph: &Graph) -> String {
    let counted = [
        (graph.sources().len(), "source"),
        (graph.templates().len(), "template"),
        (graph.modules().len(), "module"),
        (graph.models().len(), "model"),
        (graph.sinks().len(), "sink"),
    ];
    let counted = counted
        .into_iter()
        .filter(|(count, noun)| *count > 0 || *noun != "template");
    let counted = counted.map(|(count, noun)| super::counted(count, noun));
    let counted: Vec<String> = counted.collect();
    format!(
        "{}: {}, SLO {}: no problems",
        crate::printable::line(graph.name()),
        counted.join(", "),
        graph.slo()
    )
}

/// Opens what a run would open. Gives what was not, and why.
fn open_all(graph: Graph, settings: &Settings, zoo: &Zoo) -> anyhow::Result<Vec<String>> {
    let mut errors = ErrorList::default();
    let mut aside = Vec::new();
    let options = LaunchOptions::for_graph(RunArgs::default());
    let files = launch::files(&graph, &options, settings, zoo);
    errors.take(files.and_then(|files| files.check()));
    errors.take(handles::require(&graph).map_err(Into::into));
    errors.take(crate::jobs::check(&graph).map_err(Into::into));
    for node in graph.queues() {
        aside.push(format!(
            "source {}: its videos come from the queue {}",
            node.source,
            node.queue.display()
        ));
    }
    if graph.sources().is_empty() && graph.queues().is_empty() {
        aside.push("the graph has no sources: add streams while weir serve runs it".to_owned());
    }
    for worker in graph.workers() {
        if worker.address.is_some() {
            aside.push(format!(
                "worker {}: not contacted (weir check does not connect to workers)",
                worker.name
            ));
        }
    }
    let mut seen = BTreeSet::new();
    let mut sizes = BTreeMap::new();
    let sources = graph.sources().iter();
    for (node, uri) in sources.flat_map(|node| node.uris().map(move |uri| (node, uri))) {
        // Many streams may be of one file.
        if seen.insert(uri) {
            let opened = open_source(uri, assemble::source_options(node));
            let named =
                opened.map_err(|error| UserError::new(format!("source {}: {error}", node.name)).into());
            match errors.take(named) {
                Some(Opened::Not(remark)) => aside.push(format!("source {}: {remark}", node.name)),
                Some(Opened::Size(width, height)) => {
                    sizes.insert(uri.to_owned(), (width, height));
                }
                Some(Opened::Emulated) | None => {}
            }
        }
    }
    aside.extend(check_tiles::remarks(&graph, &sizes));
    for problem in points_outside(&graph, &sizes) {
        errors.take::<()>(Err(UserError::new(problem).into()));
    }
    aside.extend(open_sinks(&graph, &mut errors));
    if zoo::require(&graph, zoo).is_ok()
        && let Some(remarks) = errors.take(check_memory::check(&graph, zoo))
    {
        aside.extend(remarks);
    }
    // What is missing of the zoo is said together, with one command that brings it; the other models are opened all the same.
    if errors.take(zoo::require(&graph, zoo)).is_none() {
        for node in graph
            .models()
            .iter()
            .filter(|node| zoo::has_models_for(node, zoo))
        {
            errors.take(assemble::model(node, &graph, zoo, None));
        }
    } else if let Some(assembly) = errors.take(assemble::assemble(graph, zoo, None, None)) {
        let graph = &assembly.graph;
        for (node, model) in graph.models().iter().zip(&assembly.models) {
            let Some(model) = model else { continue };
            for (device, _) in node.ends() {
                let device = match graph.devices()[device].class {
                    DeviceClass::Cpu => DeviceKind::Cpu,
                    DeviceClass::Cuda(ordinal) => DeviceKind::Cuda(ordinal),
                    DeviceClass::Servers(_) => DeviceKind::Server(0),
                    // Nothing is opened there.
                    DeviceClass::Emulated(_) | DeviceClass::Workers | DeviceClass::Worker(_) => continue,
                };
                let session = match model.generative() {
                    Some(model) => model.open(device).map(drop),
                    None => model.open(device).map(drop),
                };
                errors.take(session.map_err(|error| UserError::new(error.to_string()).into()));
            }
        }
    }
    errors.finish()?;
    Ok(aside)
}

/// Opens what sinks write and run. Returns a sentence for each model that runs here.
fn open_sinks(graph: &Graph, errors: &mut ErrorList) -> Vec<String> {
    let mut models = Vec::new();
    for (index, node) in graph.sinks().iter().enumerate() {
        let streams = assemble::streams_of_sink(graph, index);
        let probed = check_writable(&node.kind, &node.settings, &streams);
        let named =
            |error: SinkError| anyhow::Error::from(UserError::new(format!("sink {}: {error}", node.name)));
        let probed = errors.take(probed.map_err(named));
        // What is wrong with the files of a model is said once.
        if probed.is_some()
            && let Some(model) = local_model(&node.kind, &node.settings)
            && let Some(model) = errors.take(model.map_err(named))
        {
            let said = format!("sink {}: pictures stay on this machine: {model}", node.name);
            models.push(crate::printable::line(&said).to_string());
        }
    }
    models
}

/// Cameras whose pictures sinks send to servers of models, a sentence for each such sink.
fn pictures_sent(graph: &Graph) -> Vec<String> {
    /// Names that a sentence lists.
    const MAX_NAMED: usize = 8;
    let sinks = graph.sinks().iter().enumerate();
    let sent = sinks.filter_map(|(index, sink)| {
        let (server, model) = model_server(&sink.kind, &sink.settings)?;
        let streams = graph.streams_of_sink(index).into_iter();
        let sources = streams.map(|stream| &graph.sources()[stream]);
        let sources = sources.filter(|node| sink.streams.contains(&node.name));
        let (private, sent): (Vec<&SourceNode>, Vec<&SourceNode>) =
            sources.partition(|node| graph.privacy_of(node, None).private);
        let names = sent.iter().take(MAX_NAMED).map(|node| node.name.as_str());
        let mut names = names.collect::<Vec<_>>().join(", ");
        match sent.len().saturating_sub(MAX_NAMED) {
            0 if sent.is_empty() => names.push_str("no camera of the graph"),
            0 => {}
            more => names.push_str(&format!(" and {more} more")),
        }
        let mut sentence = format!(
            "sink {}: pictures of {names} go to {server} (model {model})",
            sink.name
        );
        if !graph.templates().is_empty() {
            sentence.push_str(", and those of streams that are added");
        }
        if !private.is_empty() {
            sentence.push_str(&format!("; private cameras that are left out: {}", private.len()));
        }
        Some(crate::printable::line(&sentence).to_string())
    });
    sent.collect()
}

/// Points of transforms, in pixels, that lie outside the frames of a stream that they look at.
fn points_outside(graph: &Graph, sizes: &BTreeMap<String, (u32, u32)>) -> Vec<String> {
    let mut problems = Vec::new();
    for (index, source) in graph.sources().iter().enumerate() {
        let Some((width, height)) = sizes.get(source.frames_uri()) else {
            continue;
        };
        let passed = graph.reachable_from(index);
        let looks = |node: &&TransformNode| {
            let is_shown = node.streams.contains(&source.name);
            is_shown && node.modules.iter().any(|module| passed.contains(module))
        };
        for node in graph.transforms().iter().filter(looks) {
            let outside = node
                .spec
                .outlines()
                .find_map(|points| points.point_outside(*width, *height));
            if let Some(point) = outside {
                problems.push(format!(
                    "transform {}: [{}, {}] lies outside the frames of source {}, which are {width} x {height}",
                    node.name, point.x, point.y, source.name
                ));
            } else if let Some(edge) = edge_of_pixels(&node.spec, *width, *height) {
                problems.push(format!(
                    "transform {}: no object can cross a line on the {edge} edge of the frames of source {}, which are {width} x {height}",
                    node.name, source.name
                ));
            }
        }
    }
    problems
}

/// The edge of the frames on which a line in pixels lies; of one in parts the reader of the graph warns.
fn edge_of_pixels(spec: &TransformSpec, width: u32, height: u32) -> Option<&'static str> {
    let units = spec.outline.as_ref().map(|outline| outline.units);
    let edge = spec.edge_of_line(f64::from(width), f64::from(height));
    edge.filter(|_| units == Some(Units::Pixels))
}

/// Result of an attempt to open a source.
enum Opened {
    /// The source is emulated and has no address to open.
    Emulated,
    /// The source was not opened, for this reason.
    Not(String),
    /// Width and height of its frames.
    Size(u32, u32),
}

/// Opens a source unless that could wait for another process; returns the reason if it is not opened.
fn open_source(uri: &str, options: SourceOptions) -> Result<Opened, SourceError> {
    if uri.starts_with(EmulatedStream::SCHEME) {
        return Ok(Opened::Emulated);
    }
    let path = Path::new(uri.strip_prefix("file:").unwrap_or(uri));
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() || found.is_dir() => {}
        Ok(_) => {
            return Ok(Opened::Not(
                "not opened (weir check does not open devices and pipes)".to_owned(),
            ));
        }
        Err(_) if uri.contains("://") => {
            source(uri, options).check(&StopFlag::default())?;
            return Ok(Opened::Not(
                "not contacted (weir check does not open network sources)".to_owned(),
            ));
        }
        // Opening it says what is wrong.
        Err(_) => {}
    }
    let info = source(uri, options).open(&StopFlag::default())?.info();
    Ok(Opened::Size(info.width, info.height))
}
