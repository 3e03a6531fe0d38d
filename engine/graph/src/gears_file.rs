//! Gears files (KEN): by range of load, which stages of which cascade are asked, and how certain their answers must be.
//!
//! ```toml
//! graph  = "street"                # the graph that it is for
//! number = 1
//! shift  = { window = "1s", waiting = 8 }
//!
//! [[gears]]
//! up_to    = 30                    # requests a second; the last gear is also for all that is above
//! accuracy = 0.93                  # expected
//! [gears.cascades]
//! read = [{ model = "reader-small", certainty = 0.9 }, { model = "reader" }]
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use weir_config::toml_error;
use weir_policy::gears::InvocationSize;
use weir_types::{Span, TileGrid};

use crate::device::DeviceClass;
use crate::gear_memory::{GearModels, shortage};
use crate::graph::{Graph, ModuleNode};
use crate::replicas::check_replicas;
use crate::shift_file::ShiftFile;
use crate::slots::GraphSlots;
use weir_policy::gears::{GearNode, Gears, StageSetting};

/// A gears file as it is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GearsFile {
    /// Name of the graph that it is for.
    pub graph: String,
    /// Number of the plan; a later plan has a higher one.
    pub number: u64,
    /// Models that must fit into the memory of a device together. Without it those of a gear may take turns, with a warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<GearModels>,
    /// Rule for shifting gears; without it, the defaults apply.
    #[serde(default)]
    pub shift: ShiftFile,
    /// Gears by ascending load.
    pub gears: Vec<GearFile>,
}

/// A gear as it is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GearFile {
    /// Requests a second up to which it is meant.
    pub up_to: f64,
    /// The accuracy that is expected, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// The stages of each cascade that are asked, by its name; of one that is not here, all, as the graph has them.
    pub cascades: BTreeMap<String, Vec<StageFile>>,
}

/// A stage as it is written.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageFile {
    /// Its model, by the name that the graph has for it.
    pub model: String,
    /// Least certainty of an answer that is accepted; the last stage takes the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certainty: Option<f64>,
    /// Items that it waits for before it runs a batch; default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<u32>,
    /// It waits no longer than this for them; default half of the time that they have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<String>,
    /// Share of the stage's items per slot of its model, by the index of the slot: 0 for a slot that is not
    /// used, together 1. By default each slot takes as many items as it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<Vec<f64>>,
    /// Replicas by the index of the slot, each with a queue; in place of `shares`, `items` and `wait`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Vec<ReplicaFile>>,
    /// Columns and rows of the tiles in which it reads frames; default those of the graph. Of the first stage only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tiles: Option<TileGrid>,
}

/// A replica of a stage as it is written.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicaFile {
    /// Share of the stage's items, 0 to 1.
    pub share: f64,
    /// Items of its queue that it waits for before it runs a batch; default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<u32>,
    /// It waits no longer than this for them; default half of the time that they have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<String>,
}

impl ReplicaFile {
    fn text(&self) -> String {
        let keys = [
            Some(format!("share = {:?}", self.share)),
            self.items.map(|items| format!("items = {items}")),
            self.wait.as_ref().map(|wait| format!("wait = {}", quoted(wait))),
        ];
        let keys: Vec<String> = keys.into_iter().flatten().collect();
        format!("{{ {} }}", keys.join(", "))
    }
}

impl GearsFile {
    /// The file as people would write it, as [`read_gears`] takes it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("graph  = {}\nnumber = {}\n", quoted(&self.graph), self.number);
        if let Some(models) = self.models {
            text += &format!("models = {}\n", quoted(models.word()));
        }
        if let Some(shift) = self.shift.text() {
            text += &format!("shift  = {{ {shift} }}\n");
        }
        for gear in &self.gears {
            text += &format!("\n[[gears]]\nup_to    = {:?}\n", gear.up_to);
            if let Some(accuracy) = gear.accuracy {
                text += &format!("accuracy = {accuracy:?}\n");
            }
            text += "[gears.cascades]\n";
            for (cascade, stages) in &gear.cascades {
                let stages: Vec<String> = stages.iter().map(StageFile::text).collect();
                let is_bare = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
                let key = match cascade.chars().all(is_bare) {
                    true => cascade.clone(),
                    false => quoted(cascade),
                };
                text += &format!("{key} = [{}]\n", stages.join(", "));
            }
        }
        text
    }
}

impl StageFile {
    fn text(&self) -> String {
        let keys = [
            Some(format!("model = {}", quoted(&self.model))),
            self.certainty
                .map(|certainty| format!("certainty = {certainty:?}")),
            self.items.map(|items| format!("items = {items}")),
            self.wait.as_ref().map(|wait| format!("wait = {}", quoted(wait))),
            self.shares.as_ref().map(|shares| format!("shares = {shares:?}")),
            self.replicas.as_ref().map(|replicas| {
                let replicas: Vec<String> = replicas.iter().map(ReplicaFile::text).collect();
                format!("replicas = [{}]", replicas.join(", "))
            }),
            self.tiles
                .map(|tiles| format!("tiles = [{}, {}]", tiles.columns(), tiles.rows())),
        ];
        let keys: Vec<String> = keys.into_iter().flatten().collect();
        format!("{{ {} }}", keys.join(", "))
    }

    /// The shares of its slots, where it has any.
    fn shares(&self, slots: Option<usize>) -> Result<Option<Vec<f64>>, String> {
        let model = &self.model;
        let of_replicas = self.replicas.as_ref();
        let of_replicas =
            of_replicas.map(|replicas| replicas.iter().map(|replica| replica.share).collect::<Vec<f64>>());
        let shares = match (&self.shares, of_replicas) {
            (Some(_), Some(_)) => {
                return Err(format!(
                    "`shares` and `replicas` of \"{model}\": give one of them"
                ));
            }
            (Some(shares), None) => shares.clone(),
            (None, Some(shares)) => shares,
            (None, None) => return Ok(None),
        };
        if let Some(slots) = slots.filter(|slots| shares.len() > *slots) {
            return Err(format!(
                "`shares` of \"{model}\" are of {} slots, and it has {slots}",
                shares.len()
            ));
        }
        if let Some(share) = shares.iter().find(|share| !(0.0..=1.0).contains(*share)) {
            return Err(format!(
                "`shares` of \"{model}\" must lie between 0 and 1, not {share}"
            ));
        }
        let sum: f64 = shares.iter().sum();
        if (sum - 1.0).abs() > SHARE_TOLERANCE {
            return Err(format!("`shares` of \"{model}\" must add up to 1, not {sum:.3}"));
        }
        Ok(Some(shares))
    }

    /// Triggers of its replicas, where these are given.
    fn triggers(&self) -> Result<Option<Vec<InvocationSize>>, String> {
        let Some(replicas) = &self.replicas else {
            return Ok(None);
        };
        if self.items.is_some() || self.wait.is_some() {
            return Err(format!(
                "\"{}\" has `replicas`: give `items` and `wait` of each of them",
                self.model
            ));
        }
        let trigger =
            |replica: &ReplicaFile| invocation_of(&self.model, replica.items, replica.wait.as_ref());
        replicas.iter().map(trigger).collect::<Result<_, _>>().map(Some)
    }

    /// Returns the number of items to wait for before a batch runs, with the longest wait.
    fn invocation(&self) -> Result<InvocationSize, String> {
        invocation_of(&self.model, self.items, self.wait.as_ref())
    }
}

fn invocation_of(model: &str, items: Option<u32>, wait: Option<&String>) -> Result<InvocationSize, String> {
    let wait = match wait {
        None => Span::MAX,
        Some(_) if items.is_none() => {
            return Err(format!(
                "`wait` of \"{model}\" is the longest wait for `items`, and `items` is missing"
            ));
        }
        Some(text) => (text.parse::<Span>())
            .map_err(|_| format!("`wait` of \"{model}\": \"{text}\" is no duration, such as \"20ms\""))?,
    };
    match items {
        None => Ok(InvocationSize::default()),
        Some(items @ 1..=MAX_ITEMS) => Ok(InvocationSize { items, wait }),
        Some(items) => Err(format!(
            "`items` of \"{model}\" must be from 1 to {MAX_ITEMS}, not {items}"
        )),
    }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Tolerance of the sum of shares around 1, since shares are written with few digits.
const SHARE_TOLERANCE: f64 = 0.02;

/// Maximum number of items that a stage may wait for; batches hold fewer.
const MAX_ITEMS: u32 = 1_024;

/// Maximum number of gears in a file; more gears would hardly differ from each other.
const MAX_GEARS: usize = 1_000;

/// Reads the gears file of a graph.
///
/// # Errors
/// The file cannot be read, is invalid, or belongs to another graph; as a text for its author.
pub fn read_gears(path: &Path, graph: &Graph) -> Result<Gears, String> {
    let text = weir_config::read_text(path).map_err(|reason| format!("it cannot be read: {reason}"))?;
    parse_gears(&text, path, graph)
}

/// Reads gears as [`read_gears`] does, from the text of the file.
///
/// # Errors
/// As [`read_gears`].
pub fn parse_gears(text: &str, path: &Path, graph: &Graph) -> Result<Gears, String> {
    let file = parse_file(text)?;
    let gears = gears_from(&file, path, graph.name(), &cascade_stages(graph))?;
    check_replicas(graph, &gears)?;
    match file.models.and_then(|models| shortage(graph, &gears, models)) {
        Some(short) => Err(format!(
            "{short}: raise it, ask fewer models, or give `shares` of fewer slots"
        )),
        None => Ok(gears),
    }
}

/// A stage that gears may name. A module that reads tiles is one, too: a cascade of a single stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CascadeStage {
    /// Its module, by index.
    pub module: usize,
    /// Name of its cascade, or of the module.
    pub cascade: String,
    /// Name of its model.
    pub model: String,
    /// Slots that its model has; `None` where the machine says.
    pub slots: Option<usize>,
    /// Whether it reads frames in tiles.
    pub reads_tiles: bool,
}

/// The stages of the cascades of a graph, those of each in order.
#[must_use]
pub fn cascade_stages(graph: &Graph) -> Vec<CascadeStage> {
    let slots = GraphSlots::new(graph, 1);
    let stage = |(module, node): (usize, &ModuleNode)| {
        let reads_tiles = node.tiling().is_some();
        if node.stage.is_none() && !reads_tiles {
            return None;
        }
        let model = &graph.models()[node.model];
        let by_machine = model.ends().any(|(device, _)| {
            let device = &graph.devices()[device];
            device.class == DeviceClass::Cpu && device.slots.is_none()
        });
        Some(CascadeStage {
            module,
            cascade: node.label().to_owned(),
            model: model.name.clone(),
            slots: (!by_machine).then(|| slots.of_model[node.model].len()),
            reads_tiles,
        })
    };
    graph.modules().iter().enumerate().filter_map(stage).collect()
}

/// Reads gears as [`parse_gears`] does, for a graph called `name` with these `stages`, those of each cascade
/// in order.
///
/// # Errors
/// As [`read_gears`].
pub fn parse_gears_of(text: &str, path: &Path, name: &str, stages: &[CascadeStage]) -> Result<Gears, String> {
    gears_from(&parse_file(text)?, path, name, stages)
}

fn parse_file(text: &str) -> Result<GearsFile, String> {
    toml::from_str(text).map_err(|error| toml_error(text, &error))
}

/// Gears of a file that was read, as [`parse_gears_of`].
///
/// # Errors
/// As [`read_gears`].
pub fn gears_from(
    file: &GearsFile,
    path: &Path,
    name: &str,
    stages: &[CascadeStage],
) -> Result<Gears, String> {
    if file.graph != name {
        return Err(format!(
            "it is for the graph \"{}\", and this is \"{name}\": plan for this one",
            file.graph
        ));
    }
    if file.gears.is_empty() || file.gears.len() > MAX_GEARS {
        return Err(format!(
            "it has {} gears; it may have 1 to {MAX_GEARS}",
            file.gears.len()
        ));
    }
    let mut gears: Vec<GearNode> = Vec::with_capacity(file.gears.len());
    for (number, gear) in (1..).zip(&file.gears) {
        let before = gears.last().map_or(0.0, |before| before.up_to);
        if !(gear.up_to.is_finite() && gear.up_to > before) {
            return Err(format!(
                "gear {number} is for up to {} requests a second, the one before it for up to {before}: ranges must ascend",
                gear.up_to
            ));
        }
        let wrong = |reason: String| format!("gear {number}: {reason}");
        gears.push(node(gear, stages).map_err(wrong)?);
    }
    Ok(Gears {
        file: path.to_owned(),
        number: file.number,
        rule: file.shift.rule()?,
        gears,
    })
}

fn node(gear: &GearFile, known: &[CascadeStage]) -> Result<GearNode, String> {
    if let Some(accuracy) = gear.accuracy.filter(|accuracy| !(0.0..=1.0).contains(accuracy)) {
        return Err(format!("`accuracy` must lie between 0 and 1, not {accuracy}"));
    }
    let (mut stages, mut shares, mut triggers) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for (name, planned) in &gear.cascades {
        let all: Vec<&CascadeStage> = known.iter().filter(|stage| stage.cascade == *name).collect();
        if all.is_empty() {
            return Err(format!(
                "the graph has no cascade \"{name}\", and no module of that name with `tiles`"
            ));
        }
        let settings = settings(planned, &all).map_err(|reason| format!("cascade \"{name}\": {reason}"))?;
        stages.extend(all.iter().map(|stage| stage.module).zip(settings));
        for stage in planned {
            let Some(known) = all.iter().find(|known| known.model == stage.model) else {
                continue;
            };
            let of_slots = stage
                .shares(known.slots)
                .map_err(|reason| format!("cascade \"{name}\": {reason}"))?;
            shares.extend(of_slots.map(|of_slots| (known.module, of_slots)));
            let of_slots = stage
                .triggers()
                .map_err(|reason| format!("cascade \"{name}\": {reason}"))?;
            triggers.extend(of_slots.map(|of_slots| (known.module, of_slots)));
        }
    }
    Ok(GearNode {
        up_to: gear.up_to,
        accuracy: gear.accuracy,
        stages,
        shares,
        triggers,
    })
}

/// Returns the setting of each stage of a cascade in a gear. Stages must follow the order of the graph; the
/// last stage that the gear uses accepts all of its answers, even if the graph has further stages.
fn settings(planned: &[StageFile], all: &[&CascadeStage]) -> Result<Vec<StageSetting>, String> {
    let Some((last, before)) = planned.split_last() else {
        return Err("it has no stages".to_owned());
    };
    if last.certainty.is_some() {
        return Err(format!(
            "\"{}\" is its last stage and takes the rest: leave its `certainty` out",
            last.model
        ));
    }
    let mut settings = vec![
        StageSetting {
            is_used: false,
            certainty: 0.0,
            invocation: InvocationSize::default(),
            tiles: None,
        };
        all.len()
    ];
    let first = before.first().unwrap_or(last);
    if let Some(stage) = planned.iter().skip(1).find(|stage| stage.tiles.is_some()) {
        return Err(format!(
            "\"{}\" has `tiles` and is not its first stage: the first one makes the items of all",
            stage.model
        ));
    }
    if first.tiles.is_some() && all.iter().any(|stage| !stage.reads_tiles) {
        return Err("its frames are not read in tiles: add `tiles` to the module of the graph".to_owned());
    }
    let mut at = 0;
    for stage in before.iter().chain([last]) {
        let Some(found) = all.iter().skip(at).position(|known| known.model == stage.model) else {
            let known: Vec<&str> = all.iter().map(|stage| stage.model.as_str()).collect();
            return Err(format!(
                "\"{}\" is not among its stages, or not after those before it: {}",
                stage.model,
                known.join(", ")
            ));
        };
        let certainty = stage.certainty.unwrap_or(0.0);
        if !(0.0..=1.0).contains(&certainty) {
            return Err(format!(
                "`certainty` of \"{}\" must lie between 0 and 1, not {certainty}",
                stage.model
            ));
        }
        if let Some(setting) = settings.get_mut(at + found) {
            *setting = StageSetting {
                invocation: stage.invocation()?,
                ..StageSetting::asked(certainty as f32)
            };
        }
        at += found + 1;
    }
    if let Some(stage) = before.iter().find(|stage| stage.certainty.is_none()) {
        return Err(format!(
            "\"{}\" has no `certainty`, and another stage comes after it",
            stage.model
        ));
    }
    // The first stage of the graph makes the items, also where a gear does not ask it.
    if let Some(setting) = settings.first_mut() {
        setting.tiles = first.tiles;
    }
    Ok(settings)
}
