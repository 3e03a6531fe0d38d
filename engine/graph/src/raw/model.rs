//! The tables of models: their files, heads, devices and batch sizes.

use std::path::PathBuf;

use weir_config::{Content, Entry, Field, Fields, Spanned, absolute, durations, report_missing, spelling};
use weir_flow::{
    COCO, COCO_LABEL, Catalog, ClassNames, HeadSpec, ModelDefaults, PYTHON_FUNCTION, Settings, Value,
    catalog_name,
};
use weir_policy::AutoscaleRule;
use weir_types::Span;

use super::context::Context;
use super::ends::{self, RawEnds};
use super::gpu;
use super::lengths;
use super::python;
use super::required::expect_keys;
use super::scaling;
use super::section::{check_known, correct};
use super::server;
use super::tables::{HeadName, RawModel};
use crate::graph::{AUTO, GENERATE, ModelOrigin};
use crate::keys::{self, MAX_BATCH, MODEL};
use crate::settings;

pub(super) fn read(name: Spanned<String>, entry: &Entry, context: &mut Context<'_>) -> Option<RawModel> {
    let mut fields = Fields::open(format!("model \"{}\"", name.value), entry, context.diagnostics)?;
    let ends = ends::read(&fields, context);
    let on_emulated_device = is_on_emulated_device(&fields, &ends);
    // A plan says all of a model that workers emulate.
    let is_plan_alone = fields.entry("plan").is_some() && fields.entry("model").is_none();
    let emulated = on_emulated_device || is_plan_alone;
    let model = fields.peek("model");
    let hint = model.and_then(|model| zoo_hint(model.value, context));
    let spec = head_spec(&fields, emulated, hint, context.catalog);
    let keys = spec.map_or(&[][..], |spec| &*spec.keys);
    let has_head = fields.peek("head").is_some() || fields.entry("head").is_some() || hint.is_some();
    let is_open_ended = spec.is_none() && (has_head || !emulated);
    expect_keys(&mut fields, MODEL, keys, is_open_ended, context);

    let servers = server::read(&name.value, &fields, context);
    let remote = servers.is_some();
    let calls = keys::count(MODEL, "workers", &fields, context.diagnostics);
    let server_slots = servers.as_ref().map(|servers| {
        let calls = calls.given().map_or(1, |calls| calls.value);
        calls.saturating_mul(servers.urls.len() as u32)
    });
    let origin = match servers {
        Some(servers) => Some(ModelOrigin::Server(servers)),
        None => origin(&fields, emulated, context),
    };
    let may_lack_head = emulated || hint.is_some();
    check_head(&fields, spec, may_lack_head, remote, context);
    let read = settings::read(&fields, keys, context.folder, context.diagnostics);
    let mut settings = settings_over(hint, &fields, read.settings);
    python::add_place("head", &fields, &mut settings, context);
    let batch = batch(&fields, context);
    let profile = profile(&fields, (on_emulated_device, &ends), &batch, context);
    let preparation = preparation(&fields, on_emulated_device, context);
    let fail_every = fail_every(&fields, on_emulated_device, context);
    let scaling = scaling::read(&fields, context);
    let most = scaling.as_ref().and_then(most_workers);
    let workers = most.or_else(|| calls.given().filter(|_| !remote).cloned());
    let memory = fields.bytes("memory", context.diagnostics).given().cloned();
    let [open_cold, open_warm] =
        ["open_cold", "open_warm"].map(|key| opening(key, &fields, on_emulated_device, context));
    let gpu = gpu::read(&fields, context);
    let plan = plan(&fields, context);
    let known = lengths::Known {
        generates: spec.is_some_and(|spec| spec.name == GENERATE),
        emulated: on_emulated_device,
        shipped: hint.and_then(|hint| hint.lengths),
    };
    let predictor = lengths::read(&fields, &known, context);
    let names_predictor = lengths::KEYS.iter().any(|key| fields.entry(key).is_some());
    let classes = spec
        .filter(|_| read.whole && !emulated)
        .and_then(|spec| classes(spec, &settings));
    Some(RawModel {
        origin,
        head: spec
            .filter(|_| !emulated || has_head)
            .map_or(HeadName::Unknown, |spec| HeadName::Known(spec.name.to_owned())),
        classes,
        device: fields.text("device", context.diagnostics),
        ends,
        workers: workers.filter(|_| plan.is_none()),
        scaling,
        server_slots,
        batch: batch.into_value().unwrap_or_else(|| vec![1]),
        profile: profile.unwrap_or_default(),
        preparation: preparation.unwrap_or_default(),
        fail_every,
        memory,
        open_cold,
        open_warm,
        gpu,
        plan,
        predictor,
        names_predictor,
        settings,
        name,
    })
}

/// Whether all devices of the model are emulated.
fn is_on_emulated_device(fields: &Fields<'_>, ends: &RawEnds) -> bool {
    let is_emulated = |device: &str| device.starts_with("emulated:");
    if ends.are_given() {
        return ends.devices.iter().all(|device| is_emulated(&device.value));
    }
    fields
        .peek("device")
        .is_some_and(|device| is_emulated(device.value))
}

/// Head of the model: the one that its table names, else that of the known model, else the one for files.
fn head_spec<'c>(
    fields: &Fields<'_>,
    emulated: bool,
    hint: Option<&ModelDefaults>,
    catalog: &'c Catalog,
) -> Option<&'c HeadSpec> {
    let heads = || catalog.heads.iter().map(|head| head.name);
    let named = fields.peek("head").map(|head| head.value);
    // A file says by itself which detector it is; a server has none, and an emulated model is not opened.
    let is_file = !emulated && fields.entry("model").is_some() && fields.entry("backend").is_none();
    let by_file = (is_file && fields.entry("head").is_none() && hint.is_none()).then_some(AUTO);
    let meant = named
        .or(hint.map(|hint| hint.head.as_str()))
        .and_then(|name| correct(catalog_name(name), heads()))
        .or(by_file.and_then(|name| heads().find(|head| *head == name)));
    catalog.heads.iter().find(|head| Some(head.name) == meant)
}

/// Reports a head that the catalog lacks, and a model that needs a head and has none.
fn check_head(
    fields: &Fields<'_>,
    spec: Option<&HeadSpec>,
    may_lack_head: bool,
    remote: bool,
    context: &mut Context<'_>,
) {
    let catalog = context.catalog;
    let heads = || catalog.heads.iter().map(|head| head.name);
    let head = fields.text("head", context.diagnostics);
    if let Some(spanned) = head.given() {
        if spec.is_none_or(|spec| spec.name != PYTHON_FUNCTION) {
            check_known(spanned, "head", heads(), context);
        }
    } else if head.is_absent()
        && !may_lack_head
        && spec.is_none()
        && (remote || !fields.text("model", context.diagnostics).is_absent())
    {
        let hint = spelling::list("heads", heads());
        context
            .diagnostics
            .add_if_parsed(fields.at, format!("{} has no `head`", fields.owner), hint);
    }
}

/// Settings that the table gives, over those of the known model that apply beside them.
fn settings_over(hint: Option<&ModelDefaults>, fields: &Fields<'_>, given: Settings) -> Settings {
    let mut settings = hint.map(|hint| hint.settings.clone()).unwrap_or_default();
    if fields.entry("labels").is_some() || fields.entry("labels_file").is_some() {
        // They name classes: where those are renamed, what is known for the model does not apply.
        settings.0.remove("nms_groups");
        settings.0.remove("class_thresholds");
    }
    if fields
        .entry("score_threshold")
        .is_some_and(|entry| !entry.node.is_unset())
    {
        // A graph that sets the least score wants every detection that reaches it.
        settings.0.remove("class_thresholds");
    }
    settings.0.extend(given.0);
    settings
}

/// Number of workers at the highest load; `None` if it has no bound.
fn most_workers(scaling: &Spanned<AutoscaleRule>) -> Option<Spanned<u32>> {
    let most = scaling.value.max_workers;
    (most < u32::MAX).then(|| Spanned::new(most, scaling.at))
}

/// The plan's file, made absolute.
fn plan(fields: &Fields<'_>, context: &mut Context<'_>) -> Option<Spanned<PathBuf>> {
    let spanned = fields.text("plan", context.diagnostics).given().cloned()?;
    let path = absolute(context.folder, &spanned.value);
    if !path.is_file() {
        let message = format!("`plan`: there is no file \"{}\"", spanned.value);
        report_missing(&message, &path, spanned.at, context.diagnostics);
        return None;
    }
    for key in ["workers", "profile"] {
        if let Some(entry) = fields.entry(key) {
            let hint = Some("leave it out".to_owned());
            let message = format!("{} has a plan, which replaces `{key}`", fields.owner);
            context.diagnostics.add(entry.at, message, hint);
        }
    }
    context.diagnostics.record_file(&path);
    Some(Spanned::new(path, spanned.at))
}

fn zoo_hint<'c>(model: &str, context: &Context<'c>) -> Option<&'c ModelDefaults> {
    let catalog = context.catalog;
    let (hints, name) = if let Some(name) = model.strip_prefix("zoo:") {
        (&catalog.zoo, name)
    } else {
        (&catalog.embedded, model.strip_prefix("embedded:")?)
    };
    hints.get(correct(name, hints.keys().map(String::as_str))?)
}

fn origin(fields: &Fields<'_>, emulated: bool, context: &mut Context<'_>) -> Option<ModelOrigin> {
    let field = fields.text("model", context.diagnostics);
    let Field::Given(spanned) = field else {
        if field.is_absent() && emulated {
            return Some(ModelOrigin::Emulated);
        }
        if field.is_absent() {
            let hint =
                "a path, \"zoo:NAME\" or \"embedded:NAME\"; only emulated devices need none".to_owned();
            context.diagnostics.add_if_parsed(
                fields.at,
                format!("{} has no `model`", fields.owner),
                Some(hint),
            );
        }
        return None;
    };
    let catalog = context.catalog;
    if let Some(name) = spanned.value.strip_prefix("zoo:") {
        if !catalog.zoo.is_empty() {
            let name = Spanned::new(name.to_owned(), spanned.at);
            check_known(
                &name,
                "zoo model",
                catalog.zoo.keys().map(String::as_str),
                context,
            );
        }
        return Some(ModelOrigin::Zoo(name.to_owned()));
    }
    if let Some(name) = spanned.value.strip_prefix("embedded:") {
        if !catalog.embedded.is_empty() {
            let name = Spanned::new(name.to_owned(), spanned.at);
            check_known(
                &name,
                "embedded model",
                catalog.embedded.keys().map(String::as_str),
                context,
            );
        }
        return Some(ModelOrigin::Embedded(name.to_owned()));
    }
    let path = absolute(context.folder, &spanned.value);
    if path.is_dir() {
        context.diagnostics.add(
            spanned.at,
            format!("`model`: \"{}\" is a folder", spanned.value),
            None,
        );
    } else if !path.exists() {
        let message = format!("`model`: there is no file \"{}\"", spanned.value);
        report_missing(&message, &path, spanned.at, context.diagnostics);
    }
    context.diagnostics.record_file(&path);
    Some(ModelOrigin::File(path))
}

/// Batch sizes, ascending.
fn batch(fields: &Fields<'_>, context: &mut Context<'_>) -> Field<Vec<u32>> {
    let field = fields.read("batch", context.diagnostics, |node| match &node.content {
        Content::List(list) => Ok(list),
        _ => Err("a list of batch sizes, such as [1, 2, 4]".to_owned()),
    });
    field.and_then(|spanned| {
        let diagnostics = &mut *context.diagnostics;
        let mut sizes: Vec<u32> = Vec::with_capacity(spanned.value.len());
        for node in spanned.value {
            let size = match node.content {
                Content::Integer(whole) => u32::try_from(whole)
                    .ok()
                    .filter(|size| (1..=MAX_BATCH).contains(size)),
                _ => None,
            };
            let Some(size) = size else {
                let message = format!("`batch` must hold whole numbers between 1 and {MAX_BATCH}");
                diagnostics.add(node.at, message, None);
                return None;
            };
            if sizes.last().is_some_and(|last| *last >= size) {
                let hint = Some("each size once, the smallest first".to_owned());
                diagnostics.add(
                    node.at,
                    format!("`batch` must ascend, but {size} is out of order"),
                    hint,
                );
                return None;
            }
            sizes.push(size);
        }
        if sizes.is_empty() {
            diagnostics.add(
                spanned.at,
                "`batch` is empty",
                Some("leave it out for [1]".to_owned()),
            );
            return None;
        }
        Some(sizes)
    })
}

fn profile(
    fields: &Fields<'_>,
    (emulated, ends): (bool, &RawEnds),
    batch: &Field<Vec<u32>>,
    context: &mut Context<'_>,
) -> Option<Vec<(u32, Span)>> {
    let largest = batch
        .given()
        .and_then(|batch| batch.value.last().copied())
        .unwrap_or(1);
    for (device, profile) in &ends.profiles {
        let max_profiled = profile.last().map_or(0, |(size, _)| *size);
        if largest > max_profiled {
            let at = fields.entry("profiles").map_or(fields.at, |entry| entry.at);
            let hint = Some(format!("measure or declare it for batches of {largest}"));
            let message = format!(
                "`profiles` of \"{device}\" ends at batches of {max_profiled}, but {} may run {largest}",
                fields.owner
            );
            context.diagnostics.add(at, message, hint);
        }
    }
    let Some(entry) = fields.entry("profile") else {
        // Models on emulated devices run for the times that are declared.
        let mut emulated_ends = ends.devices.iter();
        let lacks = emulated_ends
            .any(|device| device.value.starts_with("emulated:") && ends.profile_of(&device.value).is_none());
        if lacks || (emulated && !ends.are_given()) {
            let hint = Some(
                "an emulated device runs a profile: profile = { \"1\" = \"8ms\", \"4\" = \"30ms\" }"
                    .to_owned(),
            );
            context
                .diagnostics
                .add_if_parsed(fields.at, format!("{} has no `profile`", fields.owner), hint);
        }
        return None;
    };
    let profile = durations(
        &entry.node,
        context.folder,
        context.environment,
        context.diagnostics,
    )?;
    let max_profiled = profile.last().map_or(0, |(size, _)| *size);
    if largest > max_profiled {
        let hint = Some(format!("measure or declare it for batches of {largest}"));
        let message = format!(
            "`profile` ends at batches of {max_profiled}, but {} may run {largest}",
            fields.owner
        );
        context.diagnostics.add(entry.at, message, hint);
    }
    Some(profile)
}

/// Reads the preparation times of batches by size. Only models on emulated devices declare them; they are
/// measured elsewhere.
fn preparation(fields: &Fields<'_>, emulated: bool, context: &mut Context<'_>) -> Option<Vec<(u32, Span)>> {
    let entry = fields.entry("preparation")?;
    if !emulated {
        let message = format!(
            "`preparation` is for emulated devices, and {} measures it",
            fields.owner
        );
        context
            .diagnostics
            .add(entry.at, message, Some("leave it out".to_owned()));
    }
    durations(
        &entry.node,
        context.folder,
        context.environment,
        context.diagnostics,
    )
}

/// Batches of which one fails. Only an emulated device fails on request.
fn fail_every(fields: &Fields<'_>, emulated: bool, context: &mut Context<'_>) -> Option<u32> {
    let batches = keys::count(MODEL, "fail_every", fields, context.diagnostics);
    let batches = batches.given()?;
    if !emulated {
        let message = format!(
            "`fail_every` is for emulated devices, and {} computes",
            fields.owner
        );
        context
            .diagnostics
            .add(batches.at, message, Some("leave it out".to_owned()));
    }
    Some(batches.value)
}

/// Reads a loading time of a model. Only models on emulated devices declare it; it is measured elsewhere.
fn opening(key: &str, fields: &Fields<'_>, emulated: bool, context: &mut Context<'_>) -> Option<Span> {
    let span = fields.span(key, context.diagnostics);
    let span = span.given()?;
    if !emulated {
        let message = format!(
            "`{key}` is for emulated devices, and {} measures it",
            fields.owner
        );
        context
            .diagnostics
            .add(span.at, message, Some("leave it out".to_owned()));
    }
    Some(span.value)
}

/// Classes of a model's objects: its labels, or else those of its head.
fn classes(spec: &HeadSpec, settings: &Settings) -> Option<Vec<String>> {
    match settings.0.get("labels_file").or_else(|| settings.0.get("labels")) {
        Some(Value::Texts(labels)) if *labels == [COCO_LABEL] => {
            Some(COCO.iter().map(|class| (*class).to_owned()).collect())
        }
        Some(Value::Texts(labels)) => Some(labels.clone()),
        Some(Value::Text(path)) => {
            let labels = weir_config::read_text(path.as_ref()).ok()?;
            Some(ClassNames::parse(&labels).names)
        }
        _ if spec.classes.is_empty() => None,
        _ => Some(spec.classes.iter().map(|class| (*class).to_owned()).collect()),
    }
}
