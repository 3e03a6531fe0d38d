//! A module of a world's file, and the stages of one that is a cascade: modules of their own, in a row.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use weir_config::{
    Content, Diagnostics, Entry, Environment, Fields, Node, Spanned, absolute, durations, report_missing,
    spelling,
};
use weir_graph::{Escalate, OnLate, StageNode};
use weir_policy::gears::Settle;
use weir_types::{ModelId, Profile, Span};

use super::generate::{self, RawGenerate};
use super::values::number;
use crate::demand::Crops;
use crate::gears::{SampledItem, read_samples};
use crate::spec::{Edge, Link, WorldModule, WorldPool};

/// The most workers of a module and slots of a device.
pub(super) const MAX_WORKERS: u32 = 1_024;
/// Maximum number of items in a batch.
const MAX_ITEMS: u32 = 255;
/// Most stages of a cascade, as in a graph.
const MAX_STAGES: usize = 8;

/// Keys that describe the model of a module or of a cascade's stage.
const MODEL: &[&str] = &[
    "profile",
    "batch",
    "workers",
    "device",
    "weight",
    "accuracy",
    "memory",
    "open_cold",
    "open_warm",
];
const MODULE: &[&str] = &[
    "inputs", "items", "link", "cascade", "settle", "on_late", "escalate", "samples", "generate",
];
const STAGE: &[&str] = &["model", "certainty"];
const CASCADE: &str = "cascade = [{ model = \"small\", profile = \"small.toml\", workers = 1, certainty = 0.3 }, { model = \"large\", .. }]";

/// A session of a module's model.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RawSession {
    pub(super) memory: Option<u64>,
    pub(super) open_cold: Option<Span>,
    pub(super) open_warm: Option<Span>,
}

#[derive(Debug, Clone)]
pub(super) struct RawModule {
    pub(super) name: Spanned<String>,
    /// Place in the cascade; its name is that of the module in the text.
    pub(super) stage: Option<StageNode>,
    /// Name of the model, for gears.
    pub(super) model: String,
    /// Share of right answers that is declared.
    pub(super) accuracy: Option<f64>,
    /// Samples of all stages of the cascade; set only for the first stage.
    pub(super) samples: Option<Arc<[SampledItem]>>,
    profile: Option<Profile>,
    batch: Option<Vec<u32>>,
    pub(super) inputs: Vec<Spanned<String>>,
    workers: Option<u32>,
    pub(super) device: Option<Spanned<String>>,
    pub(super) link: Option<Spanned<String>>,
    weight: f64,
    /// Generator of the module; `None` if its model does not generate.
    generate: Option<RawGenerate>,
    /// Memory and load times of a session, for devices with limited memory.
    pub(super) session: RawSession,
    pub(super) items: Option<Crops>,
}

/// Reads the module of `entry`, or its stages in order; empty if problems were reported that leave them
/// unknown.
pub(super) fn read(
    entry: &Entry,
    folder: &Path,
    environment: Environment<'_>,
    diagnostics: &mut Diagnostics,
) -> Vec<RawModule> {
    let owner = format!("module \"{}\"", entry.name);
    let Some(mut fields) = Fields::open(owner, entry, diagnostics) else {
        return Vec::new();
    };
    let keys: Vec<&str> = MODULE.iter().chain(MODEL).copied().collect();
    fields.expect(&keys, false, diagnostics);
    let name = Spanned::new(entry.name.clone(), entry.at);
    let inputs = fields.texts("inputs", diagnostics).into_value();
    let link = fields.text("link", diagnostics).given().cloned();
    let items = fields.entry("items").and_then(|entry| items(entry, diagnostics));
    let first = |model: RawModule| RawModule {
        inputs: inputs.clone().unwrap_or_default(),
        link: link.clone(),
        items,
        ..model
    };
    refuse_keys(&fields, diagnostics);
    let Some(list) = fields.entry("cascade") else {
        return vec![first(model(name, &fields, (folder, environment), diagnostics))];
    };
    let settles = [("last", Settle::Last), ("surest", Settle::Surest)];
    let lates = [("drop", OnLate::Drop), ("accept", OnLate::Accept)];
    let settle = fields.word("settle", &settles, diagnostics).into_value();
    let on_late = fields.word("on_late", &lates, diagnostics).into_value();
    let escalates = [("frames", Escalate::Frames), ("regions", Escalate::Regions)];
    let escalate = fields.word("escalate", &escalates, diagnostics).into_value();
    let Content::List(list) = &list.node.content else {
        let message = format!("`cascade` of {} must be a list of stages", fields.owner);
        diagnostics.add_if_parsed(list.node.at, message, Some(CASCADE.to_owned()));
        return Vec::new();
    };
    if list.len() < 2 || list.len() > MAX_STAGES {
        let count = list.len();
        let message = format!(
            "the cascade of {} has {count} stages; it may have 2 to {MAX_STAGES}",
            fields.owner
        );
        diagnostics.add(fields.at, message, Some(CASCADE.to_owned()));
        return Vec::new();
    }
    let mut stages: Vec<RawModule> = Vec::with_capacity(list.len());
    for (index, node) in (0..).zip(list) {
        let place = StageNode {
            cascade: name.value.clone(),
            index,
            count: list.len() as u32,
            certainty: 0.0,
            settle: settle.unwrap_or_default(),
            on_late: on_late.unwrap_or_default(),
            escalate: escalate.unwrap_or_default(),
        };
        let Some(read) = stage(node, place, &fields.owner, (folder, environment), diagnostics) else {
            return Vec::new();
        };
        stages.push(match stages.last() {
            None => first(read),
            Some(before) => RawModule {
                inputs: vec![before.name.clone()],
                ..read
            },
        });
    }
    let samples = samples(&fields, &name.value, &stages, folder, diagnostics);
    if let Some(first) = stages.first_mut() {
        first.samples = samples;
    }
    stages
}

/// Reports keys of cascades in a module without one, and keys of a model beside a cascade.
fn refuse_keys(fields: &Fields<'_>, diagnostics: &mut Diagnostics) {
    if fields.entry("cascade").is_none() {
        for key in ["settle", "on_late", "escalate", "samples"] {
            if let Some(entry) = fields.entry(key) {
                let message = format!(
                    "`{key}` is of modules with a `cascade`, and {} has none",
                    fields.owner
                );
                diagnostics.add(entry.at, message, None);
            }
        }
        return;
    }
    for key in MODEL.iter().chain(&["generate"]) {
        if let Some(entry) = fields.entry(key) {
            let message = format!("{} has a `cascade`, and `{key}` beside it", fields.owner);
            let hint = Some("give it to the stages of the cascade".to_owned());
            diagnostics.add(entry.at, message, hint);
        }
    }
}

/// Reads the stage of a cascade at `place`, where its certainty is not yet known; `owner` is the module of the
/// cascade. `None` if the stage is not a table, which was reported.
fn stage(
    node: &Node,
    place: StageNode,
    owner: &str,
    (folder, environment): (&Path, Environment<'_>),
    diagnostics: &mut Diagnostics,
) -> Option<RawModule> {
    let entry = Entry {
        name: "cascade".to_owned(),
        at: node.at,
        node: node.clone(),
    };
    let number = place.index + 1;
    let mut fields = Fields::open(format!("stage {number} of {owner}"), &entry, diagnostics)?;
    let keys: Vec<&str> = STAGE.iter().chain(MODEL).copied().collect();
    fields.expect(&keys, false, diagnostics);
    let certainty = certainty(&fields, place.is_last(), diagnostics);
    let name = Spanned::new(format!("{}/{number}", place.cascade), entry.at);
    let read = model(name, &fields, (folder, environment), diagnostics);
    Some(RawModule {
        stage: Some(StageNode { certainty, ..place }),
        ..read
    })
}

/// The items of a file of samples that are of this cascade.
fn samples(
    fields: &Fields<'_>,
    cascade: &str,
    stages: &[RawModule],
    folder: &Path,
    diagnostics: &mut Diagnostics,
) -> Option<Arc<[SampledItem]>> {
    let spanned = fields.text("samples", diagnostics).given().cloned()?;
    let path = absolute(folder, &spanned.value);
    if !path.is_file() {
        let message = format!("`samples`: there is no file \"{}\"", spanned.value);
        report_missing(&message, &path, spanned.at, diagnostics);
        return None;
    }
    diagnostics.record_file(&path);
    if stages.iter().any(|stage| stage.accuracy.is_some()) {
        let message = format!(
            "{} has `samples`, and a stage of it an `accuracy` beside them",
            fields.owner
        );
        diagnostics.add(spanned.at, message, Some("leave one of them out".to_owned()));
    }
    let mut add = |reason: String| {
        diagnostics.add(
            spanned.at,
            format!("`samples`: {}: {reason}", spanned.value),
            None,
        );
    };
    let (header, lines) = read_samples(&path).map_err(&mut add).ok()?;
    let models: Vec<&str> = stages.iter().map(|stage| stage.model.as_str()).collect();
    if header
        .cascades
        .get(cascade)
        .is_none_or(|sampled| *sampled != models)
    {
        add(format!(
            "they are not of the cascade \"{cascade}\" of the models {}",
            models.join(", ")
        ));
        return None;
    }
    let own = lines.into_iter().filter(|line| line.cascade == cascade);
    let items: Arc<[SampledItem]> = own.map(|line| line.stages).collect();
    if items.is_empty() {
        add(format!("they have no items of the cascade \"{cascade}\""));
        return None;
    }
    Some(items)
}

fn certainty(fields: &Fields<'_>, is_last: bool, diagnostics: &mut Diagnostics) -> f32 {
    match (fields.entry("certainty"), is_last) {
        (Some(entry), true) => {
            let hint = Some("the last stage takes the rest: leave it out".to_owned());
            diagnostics.add(entry.at, format!("{} has a `certainty`", fields.owner), hint);
        }
        (None, false) => {
            let hint = Some("certainty = 0.3: three tenths go to the next stage".to_owned());
            diagnostics.add_if_parsed(fields.at, format!("{} has no `certainty`", fields.owner), hint);
        }
        (Some(_), false) | (None, true) => {}
    }
    number(fields, "certainty", 0.0, 1.0, diagnostics).unwrap_or_default() as f32
}

/// Reads the model of a module or of a stage.
fn model(
    name: Spanned<String>,
    fields: &Fields<'_>,
    (folder, environment): (&Path, Environment<'_>),
    diagnostics: &mut Diagnostics,
) -> RawModule {
    let points = match fields.entry("profile") {
        Some(profile) => durations(&profile.node, folder, environment, diagnostics),
        None => {
            let hint = Some("profile = \"../profiles/NAME.toml\", or { \"1\" = \"8ms\" }".to_owned());
            diagnostics.add_if_parsed(fields.at, format!("{} has no `profile`", fields.owner), hint);
            None
        }
    };
    let generate = fields.entry("generate").zip(points.as_ref());
    let generate = generate.and_then(|(entry, points)| generate::read(entry, points, diagnostics));
    let profile = match &generate {
        Some(generate) => Some(generate.request.clone()),
        None => points.and_then(Profile::new),
    };
    if let (Some(entry), true) = (fields.entry("generate"), fields.entry("device").is_some()) {
        let message = format!("{} generates, and has a `device`", fields.owner);
        let hint = Some("its instances are its own: give it `workers`".to_owned());
        diagnostics.add(entry.at, message, hint);
    }
    let workers = fields.count("workers", MAX_WORKERS, diagnostics);
    let device = fields.text("device", diagnostics);
    if workers.is_absent() && device.is_absent() {
        let hint = Some("workers = 4 of its own, or device = \"NAME\" with slots that it shares".to_owned());
        diagnostics.add_if_parsed(fields.at, format!("{} has no `workers`", fields.owner), hint);
    }
    let model = fields.text("model", diagnostics).into_value();
    RawModule {
        model: model.unwrap_or_else(|| name.value.clone()),
        name,
        stage: None,
        accuracy: number(fields, "accuracy", 0.0, 1.0, diagnostics),
        samples: None,
        profile,
        batch: batch(fields, diagnostics),
        inputs: Vec::new(),
        workers: workers.into_value(),
        device: device.given().cloned(),
        link: None,
        weight: fields.positive("weight", diagnostics).into_value().unwrap_or(1.0),
        generate,
        session: RawSession {
            memory: fields.bytes("memory", diagnostics).into_value(),
            open_cold: fields.span("open_cold", diagnostics).into_value(),
            open_warm: fields.span("open_warm", diagnostics).into_value(),
        },
        items: None,
    }
}

fn batch(fields: &Fields<'_>, diagnostics: &mut Diagnostics) -> Option<Vec<u32>> {
    let read = fields.read("batch", diagnostics, |node| {
        let wanted = || format!("a list of batch sizes from 1 to {MAX_ITEMS}, such as [1, 2, 4]");
        let Content::List(list) = &node.content else {
            return Err(wanted());
        };
        let size = |node: &Node| match node.content {
            Content::Integer(size) => u32::try_from(size)
                .ok()
                .filter(|size| (1..=MAX_ITEMS).contains(size)),
            _ => None,
        };
        let mut sizes = list
            .iter()
            .map(size)
            .collect::<Option<Vec<u32>>>()
            .ok_or_else(wanted)?;
        sizes.sort_unstable();
        sizes.dedup();
        if sizes.is_empty() {
            Err(wanted())
        } else {
            Ok(sizes)
        }
    });
    read.into_value()
}

/// Reads the items that requests bring to a module; the module itself is left at 0.
pub(super) fn items(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Crops> {
    let mut fields = Fields::open("`items`".to_owned(), entry, diagnostics)?;
    fields.expect(&["mean", "spread", "persistence", "most"], false, diagnostics);
    let mean = number(&fields, "mean", 0.0, 100.0, diagnostics);
    if fields.entry("mean").is_none() {
        let hint = Some("items = { mean = 2.5, spread = 0.5, persistence = 0.95 }".to_owned());
        diagnostics.add_if_parsed(fields.at, "`items` has no `mean`", hint);
    }
    Some(Crops {
        module: 0,
        mean: mean?,
        spread: number(&fields, "spread", 0.0, 3.0, diagnostics).unwrap_or(0.5),
        persistence: number(&fields, "persistence", 0.0, 0.999_999, diagnostics).unwrap_or(0.95),
        max: fields
            .count("most", MAX_ITEMS, diagnostics)
            .into_value()
            .unwrap_or(MAX_ITEMS),
    })
}

impl RawModule {
    /// Converts the module with its workers and successors; `None` if a problem of its profile or pool was
    /// reported.
    pub(super) fn to_module(
        &self,
        pool: Option<WorldPool>,
        next: Vec<Edge>,
        rank: usize,
    ) -> Option<WorldModule> {
        let profile = self.profile.clone()?;
        let measured = || profile.points().iter().map(|(size, _)| *size).collect();
        Some(WorldModule {
            ends: Vec::new(),
            name: self.name.value.clone(),
            batch: self.batch.clone().unwrap_or_else(measured),
            profile,
            pool: pool?,
            next,
            weight: self.weight,
            overlap: None,
            model: self.session.memory.map(|_| ModelId(rank as u32)),
        })
    }

    /// The link that sequences of a module that generates move over.
    pub(super) fn moves(&self) -> Option<&Spanned<String>> {
        self.generate.as_ref()?.moves.as_ref()
    }

    /// Resources on which it runs; `moves` is the link that its sequences migrate over.
    pub(super) fn pool(
        &self,
        devices: &BTreeMap<&str, std::ops::Range<u32>>,
        moves: Option<&Link>,
        diagnostics: &mut Diagnostics,
    ) -> Option<WorldPool> {
        let Some(device) = &self.device else {
            return Some(match &self.generate {
                Some(generate) => {
                    WorldPool::Generating(Box::new(generate.with_instances(self.workers?, moves)))
                }
                None => WorldPool::Fixed(self.workers?),
            });
        };
        let Some(slots) = devices.get(device.value.as_str()) else {
            let hint = spelling::hint(&device.value, "devices", devices.keys().copied())
                .or_else(|| Some(format!("add [devices.{}]", device.value)));
            diagnostics.add_if_parsed(
                device.at,
                format!("there is no device \"{}\"", device.value),
                hint,
            );
            return None;
        };
        let workers = self.workers.unwrap_or(slots.len() as u32) as usize;
        if workers > slots.len() {
            let message = format!(
                "{workers} workers do not fit on the {} slots of \"{}\"",
                slots.len(),
                device.value
            );
            diagnostics.add(
                device.at,
                message,
                Some("lower `workers`, or add slots".to_owned()),
            );
        }
        Some(WorldPool::Shared(slots.clone().take(workers).collect()))
    }
}
