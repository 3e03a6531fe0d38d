//! The tables of sources, devices, modules and sinks.

use weir_analytics::transforms::{TimeZone, time_zone};
use weir_config::{Content, Diagnostics, Entry, Field, Fields, Spanned, absolute, spelling};
use weir_flow::{KeyKind, KeySpec, PYTHON_FUNCTION, PYTHON_PREFIX, Value, VideoDecoder, catalog_name};
use weir_policy::StreamShare;
use weir_types::Span;

use super::context::Context;
use super::required::{expect_keys, required, required_inputs, streams};
use super::tables::{RawDevice, RawModel, RawModule, RawModuleTable, RawSink, RawSource};
use super::{
    address, cascade, connection, gate, groups, objects, per_track, privacy, python, times, tracker,
};
use crate::device::PrepareMode;
use crate::graph::{EMULATE, FRAMES, OnDrop, TRACK, WhenSlow};
use crate::keys::{self, DEVICE, MODULE, Mark, SINK, SOURCE, SectionKey};
use crate::queue_node::QueueNode;
use crate::settings;
use crate::source_node::{Decoding, SourceMode};

/// The mode of a source whose videos come from jobs.
const QUEUED: &str = "queued";

/// Default time limit of a job: one hour. The source and the job can override it.
const QUEUED_SLO: Span = Span::from_secs(3_600);

/// Default of the least length of a segment. A crash costs at most the work on one segment.
const SEGMENT: Span = Span::from_secs(10);

/// Default number of videos of a queued source that are processed at a time. With two, one video is opened or
/// ends while the other keeps the models busy.
const QUEUED_STREAMS: u32 = 2;

pub(super) fn source(name: Spanned<String>, entry: &Entry, context: &mut Context<'_>) -> Option<RawSource> {
    let owner = format!("source \"{}\"", name.value);
    let mut fields = Fields::open(owner, entry, context.diagnostics)?;
    let known = keys::names(SOURCE);
    fields.expect(&known, false, context.diagnostics);
    let is_template = fields.flag("template", context.diagnostics).into_value();
    if is_template == Some(true) {
        check_template(&fields, &known, context.diagnostics);
        return Some(RawSource::template(name));
    }
    if fields.peek("mode").is_some_and(|mode| mode.value == QUEUED) {
        return queued(name, &fields, context);
    }
    for key in keys::marked(SOURCE, Mark::QueuedOnly) {
        if let Some(entry) = fields.entry(key) {
            let message = format!("`{key}` has a meaning only with mode = \"queued\"");
            let hint = Some("take it out, or set the mode".to_owned());
            context.diagnostics.add(entry.at, message, hint);
        }
    }
    let uri = required(
        &fields,
        "uri",
        "a file, a URL, a device or a folder of images",
        context,
    );
    let addresses = address::read(&uri, &fields, context);
    let connection = connection::read(&name.value, &addresses, &fields, context);
    let modes = [("live", SourceMode::Live), ("lossless", SourceMode::Lossless)];
    let gate = gate::read(
        &fields,
        addresses.is_emulated(),
        connection.onvif.is_some(),
        context,
    );
    let gate_schedule = times::gate_schedule(&fields, gate.as_ref(), context);
    let active = times::active(&fields, addresses.is_emulated(), context);
    let diagnostics = &mut *context.diagnostics;
    let decoding = [("as-needed", Decoding::AsNeeded), ("all", Decoding::All)];
    let sample = fields.frame_rate("sample", diagnostics).given().cloned();
    if let Some(sample) = sample.as_ref().filter(|_| addresses.is_emulated()) {
        let hint = Some("set its `rate` instead: its frames cost nothing to leave out".to_owned());
        diagnostics.add(
            sample.at,
            "`sample` is for recorded and live streams, not for emulated ones",
            hint,
        );
    }
    let decoder = decoder(&fields, addresses.is_emulated(), diagnostics);
    Some(RawSource {
        uri: addresses.uri,
        detect_uri: addresses.detect,
        like: fields.text("like", diagnostics).given().cloned(),
        mode: fields.word("mode", &modes, diagnostics).into_value(),
        fps: fields.positive("fps", diagnostics).into_value(),
        sample: sample.map(|sample| sample.value),
        decoding: fields
            .word("decode", &decoding, diagnostics)
            .into_value()
            .unwrap_or_default(),
        decoder,
        gate,
        gate_schedule,
        active,
        repeat: fields.flag("loop", diagnostics).into_value().unwrap_or(false),
        slo: fields.span("slo", diagnostics).given().cloned(),
        share: share(&fields, diagnostics),
        reserve_at: fields.entry("reserve").map(|entry| entry.node.at),
        connection,
        objects: objects::read(&fields, context),
        object_classes: objects::named_classes(&fields),
        privacy: privacy::read(&fields, context),
        timezone: timezone(&fields, context),
        groups: groups::read(&fields, context),
        name,
        is_template: false,
        queue: None,
    })
}

/// The time zone of `[app]` or of a source.
pub(super) fn timezone(fields: &Fields<'_>, context: &mut Context<'_>) -> Option<TimeZone> {
    let name = fields.text("timezone", context.diagnostics);
    let name = name.given()?;
    let zone = time_zone(&name.value).map_err(|hint| {
        let message = format!("`timezone`: \"{}\" is not a time zone", name.value);
        context.diagnostics.add(name.at, message, Some(hint));
    });
    zone.ok()
}

/// A source whose videos come from jobs.
fn queued(name: Spanned<String>, fields: &Fields<'_>, context: &mut Context<'_>) -> Option<RawSource> {
    let other = |key: &&SectionKey| !key.has(Mark::Queued) && !key.has(Mark::QueuedOnly);
    for key in SOURCE.iter().filter(other) {
        if let Some(entry) = fields.entry(key.name) {
            let message = format!(
                "`{}` has no meaning for a queued source: its videos come from jobs",
                key.name
            );
            context
                .diagnostics
                .add(entry.at, message, Some("take it out".to_owned()));
        }
    }
    let queue = required(
        fields,
        "queue",
        "the folder of the queue, or its address",
        context,
    )
    .given()
    .cloned();
    let slo = fields.span("slo", context.diagnostics).into_value();
    let segment = fields.span("segment", context.diagnostics).into_value();
    let streams = keys::count(SOURCE, "streams", fields, context.diagnostics).into_value();
    let queue = queue.map(|queue| QueueNode {
        source: name.value.clone(),
        queue: if queue.value.contains("://") {
            queue.value.into()
        } else {
            absolute(context.folder, &queue.value)
        },
        slo: slo.unwrap_or(QUEUED_SLO),
        segment: segment.unwrap_or(SEGMENT),
        streams: streams.unwrap_or(QUEUED_STREAMS),
    });
    Some(RawSource {
        queue,
        ..RawSource::template(name)
    })
}

/// Reads the device that decodes the source.
fn decoder(fields: &Fields<'_>, is_emulated: bool, diagnostics: &mut Diagnostics) -> VideoDecoder {
    let field = fields.text("decoder", diagnostics).and_then(|spanned| {
        let decoder = VideoDecoder::named(&spanned.value);
        if decoder.is_none() {
            let message = format!("`decoder` cannot be \"{}\"", spanned.value);
            let hint = "it is \"cpu\", \"auto\", \"qsv\", \"vaapi\", or an NVIDIA GPU: \"cuda:0\", \"cuda:1\" and so on";
            diagnostics.add(spanned.at, message, Some(hint.to_owned()));
        }
        decoder
    });
    if let Some(entry) = fields.entry("decoder").filter(|_| is_emulated) {
        let message = "`decoder` is for streams that are decoded, not for emulated ones";
        diagnostics.add(entry.at, message, Some("leave it out".to_owned()));
    }
    field.into_value().unwrap_or_default()
}

/// Streams that are added bring their own keys.
fn check_template(fields: &Fields<'_>, known: &[&str], diagnostics: &mut Diagnostics) {
    for key in known.iter().filter(|key| **key != "template") {
        if let Some(entry) = fields.entry(key) {
            let message =
                format!("`{key}` has no meaning for a template: streams that are added have their own");
            diagnostics.add(entry.at, message, Some("take it out, or `template`".to_owned()));
        }
    }
}

/// Reads the share of the stream under overload: `weight` and `reserve`.
fn share(fields: &Fields<'_>, diagnostics: &mut Diagnostics) -> StreamShare {
    let mut number =
        |name: &str, hint: &str| keys::number(SOURCE, name, Some(hint), fields, diagnostics).into_value();
    let relative = "weights are relative: 1 and 3 share as 1 to 3; remove a source that should get nothing";
    let weight = number("weight", relative).unwrap_or(1.0);
    let rate = "frames a second that are kept for this source: reserve = 5; without the key nothing is";
    StreamShare {
        weight,
        reserve: number("reserve", rate),
    }
}

pub(super) fn device(name: Spanned<String>, entry: &Entry, context: &mut Context<'_>) -> Option<RawDevice> {
    let mut fields = Fields::open(format!("device \"{}\"", name.value), entry, context.diagnostics)?;
    fields.expect(&keys::names(DEVICE), false, context.diagnostics);
    let slots = keys::count(DEVICE, "slots", &fields, context.diagnostics).into_value();
    let words = [("overlap", PrepareMode::Overlap), ("inline", PrepareMode::Inline)];
    let prepare = fields.word("prepare", &words, context.diagnostics).into_value();
    let threads = keys::count(DEVICE, "prepare_threads", &fields, context.diagnostics);
    let is_gpu = name.value.starts_with("cuda:");
    if let Some(given) = threads.given().filter(|_| !is_gpu) {
        let message = format!("{} prepares each batch on one thread", fields.owner);
        let hint = "leave `prepare_threads` out: threads that share a batch pay where a GPU runs it";
        context.diagnostics.add(given.at, message, Some(hint.to_owned()));
    }
    let memory = fields.bytes("memory", context.diagnostics).given().cloned();
    let host_memory = fields.bytes("host_memory", context.diagnostics);
    if let Some(host) = host_memory.given().filter(|_| fields.entry("memory").is_none()) {
        let message = "`host_memory` keeps models that are not open, and without `memory` all are open";
        let hint = "set the memory for all models of the device together: memory = \"96MiB\"".to_owned();
        context.diagnostics.add(host.at, message, Some(hint));
    }
    let slowdown = super::worker::slowdown(&fields, context)?;
    if slowdown > 1.0
        && name.value.starts_with("emulated:")
        && let Some(entry) = fields.entry("slowdown")
    {
        let message = format!("{} takes as long as its profile says", fields.owner);
        let hint = "leave `slowdown` out, and declare longer durations";
        context.diagnostics.add(entry.at, message, Some(hint.to_owned()));
    }
    Some(RawDevice {
        name,
        slots,
        prepare,
        prepare_threads: threads.into_value(),
        memory,
        host_memory: host_memory.into_value(),
        slowdown,
    })
}

/// Keys of a module that reads tiles, beside `tiles` itself.
const TILE_KEYS: [&str; 5] = ["overlap", "whole", "merge", "merge_by", "merge_threshold"];

/// The position of the key `tiles`. Keys about tiles without it are reported, if the operator has them.
fn tiles_at(fields: &Fields<'_>, keys: &[KeySpec], diagnostics: &mut Diagnostics) -> Option<usize> {
    if let Some(entry) = fields.entry("tiles") {
        return Some(entry.node.at);
    }
    let is_known = |key: &&str| keys.iter().any(|spec| spec.name == *key);
    for key in TILE_KEYS.into_iter().filter(is_known) {
        if let Some(entry) = fields.entry(key) {
            let message = format!("`{key}` is about tiles, and {} has no `tiles`", fields.owner);
            let hint = "add tiles = [3, 2], or take the key out".to_owned();
            diagnostics.add(entry.at, message, Some(hint));
        }
    }
    None
}

/// A module, the stages of its cascade, or a tracker.
pub(super) fn module(name: Spanned<String>, entry: &Entry, context: &mut Context<'_>) -> Vec<RawModuleTable> {
    if is_tracker(entry, context) {
        let tracker = tracker::read(name, entry, context);
        return tracker.map(RawModuleTable::Tracker).into_iter().collect();
    }
    let (modules, own_model) = model_module(name, entry, context);
    let modules = modules
        .into_iter()
        .map(|module| RawModuleTable::Module(Box::new(module)));
    let own_model = own_model.map(|model| RawModuleTable::Model(Box::new(model)));
    modules.chain(own_model).collect()
}

/// Whether a table names the operator of trackers.
fn is_tracker(entry: &Entry, context: &mut Context<'_>) -> bool {
    let Content::Table(entries) = &entry.node.content else {
        return false;
    };
    let operator = entries.iter().find(|entry| entry.name == "operator");
    // Without a catalog nothing is known of trackers.
    !context.catalog.tracker_keys.is_empty()
        && operator.is_some_and(|entry| matches!(&entry.node.content, Content::Text(text) if text == TRACK))
}

/// A module, or the stages of its cascade, and the model that stands for an operator in Python.
fn model_module(
    name: Spanned<String>,
    entry: &Entry,
    context: &mut Context<'_>,
) -> (Vec<RawModule>, Option<RawModel>) {
    let owner = format!("module \"{}\"", name.value);
    let Some(mut fields) = Fields::open(owner, entry, context.diagnostics) else {
        return (Vec::new(), None);
    };
    let catalog = context.catalog;
    let operators = || catalog.operators.iter().map(|operator| operator.name);
    let named = fields.peek("operator");
    let in_python = named
        .clone()
        .filter(|name| name.value.starts_with(PYTHON_PREFIX) && catalog.operator(name.value).is_some());
    let meant = match (&in_python, &named) {
        (Some(name), _) => Some(name.value),
        (None, named) => named
            .as_ref()
            .and_then(|name| correct(name.value, operators().chain([EMULATE]))),
    };
    let spec = meant.and_then(|name| catalog.operator(name));
    let keys = spec.map_or(&[][..], |spec| &*spec.keys);
    expect_keys(&mut fields, MODULE, keys, meant.is_none(), context);
    let operator = required(&fields, "operator", "what the module does", context);
    let operator = operator.and_then(|spanned| {
        if in_python.is_none() {
            check_known(&spanned, "operator", operators().chain([EMULATE, TRACK]), context);
        }
        meant.map(str::to_owned)
    });
    let settings = settings::read(&fields, keys, context.folder, context.diagnostics).settings;
    let regions = fields.texts("regions", context.diagnostics);
    let (model, own_model) = match &in_python {
        Some(operator) => {
            let has_regions = regions.given().is_some_and(|regions| !regions.value.is_empty());
            python::model((&name, has_regions), operator, &fields, &settings, context)
        }
        None if fields.entry("cascade").is_some() => (Field::Absent, None),
        None => {
            let named = required(&fields, "model", "the name of a [models] table", context);
            (named, None)
        }
    };
    let drops = [("drop", OnDrop::Drop), ("degrade", OnDrop::Degrade)];
    let module = RawModule {
        operator,
        model,
        inputs: required_inputs(&fields, context),
        regions,
        weight: fields
            .positive("weight", context.diagnostics)
            .into_value()
            .unwrap_or(1.0),
        per_track: per_track::read(&fields, context),
        streams: streams(&fields, context),
        labels_at: fields.entry("labels").map(|entry| entry.node.at),
        items_at: fields.entry("items").map(|entry| entry.node.at),
        tiles_at: tiles_at(&fields, keys, context.diagnostics),
        stage: None,
        on_drop: fields.word("on_drop", &drops, context.diagnostics).into_value(),
        settings,
        name,
    };
    if in_python.is_some() {
        return (vec![module], own_model);
    }
    (cascade::expand(module, &fields, context), None)
}

pub(super) fn sink(name: Spanned<String>, entry: &Entry, context: &mut Context<'_>) -> Option<RawSink> {
    let mut fields = Fields::open(format!("sink \"{}\"", name.value), entry, context.diagnostics)?;
    let catalog = context.catalog;
    let sinks = || catalog.sinks.iter().map(|sink| sink.name);
    let named = fields.peek("type").map(|spanned| spanned.value);
    let meant = named.and_then(|name| correct(catalog_name(name), sinks()));
    let spec = catalog.sinks.iter().find(|sink| Some(sink.name) == meant);
    let keys = spec.map_or(&[][..], |spec| spec.keys);
    expect_keys(&mut fields, SINK, keys, spec.is_none(), context);
    let kind = required(&fields, "type", "what happens to the deliveries", context);
    let kind = kind.and_then(|spanned| {
        if meant != Some(PYTHON_FUNCTION) {
            check_known(&spanned, "sink type", sinks(), context);
        }
        meant.map(str::to_owned)
    });
    let mut read = settings::read(&fields, keys, context.folder, context.diagnostics);
    read.whole &= python::add_place("type", &fields, &mut read.settings, context);
    // A value of the wrong kind was reported, and may leave others wrong.
    if let Some(spec) = spec.filter(|_| read.whole) {
        for fault in (spec.check.0)(&read.settings) {
            let at = fields.entry(fault.key).map_or(fields.at, |entry| entry.node.at);
            let message = format!("{}: {}", fields.owner, fault.message);
            context.diagnostics.add_if_parsed(at, message, fault.hint);
        }
    }
    let mut settings = read.settings;
    let is_frames = |key: &KeySpec| key.name == FRAMES && matches!(key.kind, KeyKind::Flag);
    let chooses_frames = keys.iter().any(is_frames) && !settings.0.contains_key(FRAMES);
    // A sink creates its file, which is therefore a text in the catalog; "-" is the standard output.
    let path = match settings.0.get_mut("path") {
        Some(Value::Text(path)) if path != "-" => {
            *path = absolute(context.folder, path).to_string_lossy().into_owned();
            fields
                .entry("path")
                .map(|entry| Spanned::new(path.clone(), entry.at))
        }
        _ => None,
    };
    let words = [("wait", WhenSlow::Wait), ("skip", WhenSlow::Skip)];
    let when_slow = fields
        .word("when_slow", &words, context.diagnostics)
        .into_value()
        .unwrap_or_default();
    let inputs = required_inputs(&fields, context);
    Some(RawSink {
        name,
        kind,
        inputs,
        streams: streams(&fields, context),
        when_slow,
        path,
        chooses_frames,
        settings,
        is_whole: read.whole,
    })
}

/// The catalog word that `name` is, or is a misspelling of.
pub(super) fn correct<'a>(name: &str, words: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    words
        .clone()
        .find(|word| *word == name)
        .or_else(|| spelling::nearest(name, words))
}

/// Reports a word that is not in the catalog.
pub(super) fn check_known<'a>(
    spanned: &Spanned<String>,
    what: &str,
    words: impl Iterator<Item = &'a str> + Clone,
    context: &mut Context<'_>,
) {
    if words.clone().all(|word| word != spanned.value) {
        let hint = spelling::hint(&spanned.value, &format!("{what}s"), words);
        context.diagnostics.add(
            spanned.at,
            format!("there is no {what} \"{}\"", spanned.value),
            hint,
        );
    }
}
