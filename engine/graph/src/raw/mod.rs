//! The tables of a graph with their positions: keys are known, values are of the right kind, files exist. Whether the
//! tables are consistent is checked afterwards, in `check`.

mod address;
mod cameras;
mod cascade;
mod connection;
mod context;
mod emulated;
mod ends;
mod gate;
mod gpu;
mod groups;
mod lengths;
mod model;
mod objects;
mod per_track;
mod privacy;
mod python;
mod required;
mod scaling;
mod section;
mod server;
mod tables;
mod times;
mod tracker;
mod transform;
mod worker;

use std::path::{Path, PathBuf};

use weir_analytics::transforms::TimeZone;
use weir_config::{Content, Diagnostics, Entry, Fields, Spanned, absolute, report_missing, spelling};
use weir_policy::Policy;
use weir_types::Span;

use crate::graph::WorkerNode;
use crate::keys::{self, APP};
use crate::policy;
use crate::queue_node::QueueNode;
use crate::stream_defaults::StreamDefaults;
use crate::stream_places::{Hosts, StreamPlaces};

pub(crate) use context::Context;
pub(crate) use privacy::RawPrivacy;
pub(crate) use tables::{
    HeadName, RawDevice, RawModel, RawModule, RawModuleTable, RawPerTrack, RawSink, RawSource, RawStage,
    RawTracker, RawTransform,
};

/// All tables, each kind in the order of the text.
#[derive(Default)]
pub(crate) struct RawGraph {
    pub(crate) name: Option<String>,
    pub(crate) slo: Option<Spanned<Span>>,
    /// Time zone of streams that have none of their own.
    pub(crate) timezone: Option<TimeZone>,
    /// The file of the gears that cascades are shifted by.
    pub(crate) gears: Option<Spanned<PathBuf>>,
    /// Hosts and folders that clients of the API may add streams from.
    pub(crate) stream_places: StreamPlaces,
    /// Keys that streams which clients add have, too.
    pub(crate) stream_defaults: StreamDefaults,
    pub(crate) default_password_file: Option<PathBuf>,
    pub(crate) policy: Policy,
    /// Position of `[policy]`.
    pub(crate) policy_at: usize,
    /// Privacy by `[defaults]`, of streams that are no sources of the text.
    pub(crate) privacy: Option<RawPrivacy>,
    pub(crate) sources: Vec<RawSource>,
    /// Whether a part of a camera was left out, for a reason that was reported.
    pub(crate) lacks_parts: bool,
    /// Numbered behind the sources wherever they are inputs.
    pub(crate) templates: Vec<Spanned<String>>,
    pub(crate) queues: Vec<QueueNode>,
    pub(crate) devices: Vec<RawDevice>,
    pub(crate) workers: Vec<(Spanned<String>, WorkerNode)>,
    pub(crate) models: Vec<RawModel>,
    pub(crate) modules: Vec<RawModule>,
    pub(crate) trackers: Vec<RawTracker>,
    pub(crate) transforms: Vec<RawTransform>,
    pub(crate) sinks: Vec<RawSink>,
}

/// Tables of one section, such as sources: a process cannot have threads for more.
const MAX_TABLES: usize = 4_096;
/// Modules of a graph: each keeps state of all others, so that memory grows with the square of this.
const MAX_MODULES: usize = 512;

const SECTIONS: &[&str] = &[
    "app",
    "policy",
    "sources",
    "cameras",
    "defaults",
    "devices",
    "workers",
    "models",
    "modules",
    "transforms",
    "sinks",
];

/// Reads all tables; what is wrong is reported.
pub(crate) fn read(document: &[Entry], context: &mut Context<'_>) -> RawGraph {
    let mut graph = RawGraph::default();
    let mut app = false;
    // Tables under a misspelled section join those under the right one; [app] and [policy] exist once.
    let once = |section: &str| !section.ends_with('s') && document.iter().any(|entry| entry.name == section);
    let (document, defaults) = &cameras::expand(document, context.diagnostics);
    graph.lacks_parts = !context.diagnostics.is_clean();
    let free: Vec<&str> = SECTIONS
        .iter()
        .copied()
        .filter(|section| !once(section))
        .collect();
    for entry in document {
        if context.diagnostics.is_full() {
            break;
        }
        let Some(section) = known_section(entry, &free, context.diagnostics) else {
            continue;
        };
        match section {
            "app" => {
                app = true;
                read_app(entry, &mut graph, context);
            }
            "policy" => {
                graph.policy = policy::read(entry, context.diagnostics);
                graph.policy_at = entry.at;
            }
            "sources" => graph
                .sources
                .extend(each(entry, section, context, section::source)),
            "devices" => graph
                .devices
                .extend(each(entry, section, context, section::device)),
            "workers" => graph.workers.extend(each(entry, section, context, worker::read)),
            "models" => graph.models.extend(each(entry, section, context, model::read)),
            "modules" => {
                for table in each(entry, section, context, section::module) {
                    match table {
                        RawModuleTable::Module(module) => graph.modules.push(*module),
                        RawModuleTable::Tracker(tracker) => graph.trackers.push(tracker),
                        RawModuleTable::Model(model) => graph.models.push(*model),
                    }
                }
            }
            "transforms" => graph
                .transforms
                .extend(each(entry, section, context, transform::read)),
            // A misspelled section, which was reported.
            "cameras" | "defaults" => {}
            _ => graph.sinks.extend(each(entry, section, context, section::sink)),
        }
    }
    if graph.sources.iter().all(|source| source.is_template) {
        // No source of the text has them.
        cameras::check_defaults(&defaults.shared, context);
    }
    graph.privacy = privacy::read_defaults(&defaults.shared, context);
    graph.default_password_file = connection::default_password_file(&defaults.shared, context.folder);
    graph.stream_defaults = StreamDefaults::new(defaults.shared.clone(), defaults.pictures.clone());
    if let Some(module) = graph.modules.get(MAX_MODULES) {
        let message = format!(
            "the graph has {} modules, stages counted; {MAX_MODULES} are the most",
            graph.modules.len()
        );
        let hint = Some("make several graphs of it".to_owned());
        context.diagnostics.add_if_parsed(module.name.at, message, hint);
    }
    let (templates, sources): (Vec<_>, Vec<_>) = std::mem::take(&mut graph.sources)
        .into_iter()
        .partition(|source| source.is_template);
    graph.sources = sources;
    for template in templates {
        graph.queues.extend(template.queue);
        graph.templates.push(template.name);
    }
    if !app {
        let hint = Some("begin with [app] and slo = \"400ms\"".to_owned());
        context
            .diagnostics
            .add_if_parsed(0, "there is no [app] with the latency objective", hint);
    }
    graph
}

/// Reads the sources of a text that holds nothing else, with the keys that they have from a graph; what is wrong is reported.
pub(crate) fn read_sources(
    document: &[Entry],
    defaults: &StreamDefaults,
    context: &mut Context<'_>,
) -> Vec<RawSource> {
    let mut sources = Vec::new();
    for entry in document {
        if entry.name == "sources" {
            let entry = &cameras::with_defaults(entry, defaults);
            sources.extend(each(entry, "sources", context, section::source));
        } else {
            let message = format!("\"{}\" is no part of a stream", entry.name);
            context.diagnostics.add(entry.at, message, None);
        }
    }
    for like in sources.iter().filter_map(|source| source.like.as_ref()) {
        let hint = Some("the inputs that it shares are given beside its keys".to_owned());
        context
            .diagnostics
            .add(like.at, "`like` is no key of an added stream", hint);
    }
    sources
}

/// The section that an entry is, or is probably meant to be.
fn known_section(
    entry: &Entry,
    free: &[&'static str],
    diagnostics: &mut Diagnostics,
) -> Option<&'static str> {
    if let Some(section) = SECTIONS.iter().find(|section| **section == entry.name) {
        return Some(section);
    }
    let meant = spelling::nearest(&entry.name, free.iter().copied())
        .filter(|_| matches!(entry.node.content, Content::Table(_)));
    let hint = spelling::hint(&entry.name, "sections", SECTIONS.iter().copied());
    let what = if matches!(entry.node.content, Content::Table(_)) {
        "section"
    } else {
        "key outside a section"
    };
    diagnostics.add(entry.at, format!("there is no {what} \"{}\"", entry.name), hint);
    meant
}

fn read_app(entry: &Entry, graph: &mut RawGraph, context: &mut Context<'_>) {
    let Some(mut fields) = Fields::open("[app]".to_owned(), entry, context.diagnostics) else {
        return;
    };
    fields.expect(&keys::names(APP), false, context.diagnostics);
    graph.timezone = section::timezone(&fields, context);
    let diagnostics = &mut *context.diagnostics;
    graph.gears = fields.text("gears", diagnostics).given().map(|text| {
        let path = absolute(context.folder, &text.value);
        diagnostics.record_file(&path);
        Spanned::new(path, text.at)
    });
    graph.name = fields.text("name", diagnostics).into_value();
    graph.stream_places = stream_places(&fields, context.folder, diagnostics);
    let slo = fields.span("slo", diagnostics);
    if slo.is_absent() {
        let hint = Some("the latency objective of every frame: slo = \"400ms\"".to_owned());
        diagnostics.add_if_parsed(fields.at, "[app] has no `slo`", hint);
    }
    graph.slo = slo.given().cloned();
}

/// Reads the places that streams of clients may be read from.
fn stream_places(fields: &Fields<'_>, folder: &Path, diagnostics: &mut Diagnostics) -> StreamPlaces {
    let mut places = StreamPlaces::default();
    if let Some(texts) = fields.texts("stream_hosts", diagnostics).into_value() {
        let hosts = texts.into_iter().filter_map(|text| {
            let parsed = Hosts::parse(&text.value);
            let message = format!("`stream_hosts`: \"{}\" is no host", text.value);
            parsed
                .map_err(|forms| diagnostics.add(text.at, message, Some(forms.to_owned())))
                .ok()
        });
        places.hosts = Some(hosts.collect());
    }
    for text in fields
        .texts("stream_folders", diagnostics)
        .into_value()
        .into_iter()
        .flatten()
    {
        let path = absolute(folder, &text.value);
        places.add_folder(&path);
        if !path.is_dir() {
            let message = format!("`stream_folders`: there is no folder \"{}\"", text.value);
            report_missing(&message, &path, text.at, diagnostics);
        }
    }
    places
}

/// Reads each table of a section such as `[sources]`.
fn each<T, I: IntoIterator<Item = T>>(
    entry: &Entry,
    section: &str,
    context: &mut Context<'_>,
    read: fn(Spanned<String>, &Entry, &mut Context<'_>) -> I,
) -> Vec<T> {
    let Content::Table(entries) = &entry.node.content else {
        if !matches!(entry.node.content, Content::Broken) {
            let hint = Some(format!("write [{section}.NAME] above the keys of each"));
            let message = format!(
                "[{section}] must hold named tables, not {}",
                entry.node.content.kind()
            );
            context.diagnostics.add(entry.at, message, hint);
        }
        return Vec::new();
    };
    let max = if section == "modules" {
        MAX_MODULES
    } else {
        MAX_TABLES
    };
    if let Some(entry) = entries.get(max) {
        let message = format!("[{section}] holds {} tables; {max} are the most", entries.len());
        let hint = Some("make several graphs of it".to_owned());
        context.diagnostics.add_if_parsed(entry.at, message, hint);
    }
    let mut out = Vec::new();
    for entry in entries.iter().take(max) {
        if context.diagnostics.is_full() {
            break;
        }
        if !matches!(entry.node.content, Content::Table(_)) {
            if !matches!(entry.node.content, Content::Broken) {
                let hint = Some(format!("write [{section}.NAME] above the keys of each"));
                let message = format!(
                    "[{section}] holds named tables; \"{}\" is {}",
                    entry.name,
                    entry.node.content.kind()
                );
                context.diagnostics.add(entry.at, message, hint);
            }
            continue;
        }
        let name = Spanned::new(entry.name.clone(), entry.at);
        if section != "devices" {
            check_name(&name, context.diagnostics);
        }
        out.extend(read(name, entry, context));
    }
    out
}

/// Longest name in bytes: a file may be called after it, with more before and behind it, and has 255 at most.
const MAX_NAME: usize = 200;

/// Names appear in events, metrics, reports and names of files: only plain characters are allowed, and not too many.
fn check_name(name: &Spanned<String>, diagnostics: &mut Diagnostics) {
    if name.value.len() > MAX_NAME {
        let begin: String = name.value.chars().take(20).collect();
        let message = format!(
            "a name that begins with \"{}\" has {} bytes, and may have {MAX_NAME}",
            begin.escape_debug(),
            name.value.len()
        );
        let hint = Some("files are named after it: choose a shorter name".to_owned());
        diagnostics.add(name.at, message, hint);
        return;
    }
    // Browsers and other clients take `.` and `..` out of an address before they send it, and folders mean others by them.
    if !name.value.is_empty() && name.value.chars().all(|c| c == '.') {
        let message = format!("\"{}\" cannot be a name: it is a part of a path", name.value);
        let hint = Some("a name has a letter or a digit, too".to_owned());
        diagnostics.add(name.at, message, hint);
        return;
    }
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.value.is_empty() || !name.value.chars().all(plain) {
        let hint = Some("letters, digits, \"-\", \"_\" and \".\" make a name".to_owned());
        diagnostics.add(
            name.at,
            format!("\"{}\" cannot be a name", name.value.escape_debug()),
            hint,
        );
    }
}
