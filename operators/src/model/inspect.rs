//! A model file described: its ports, what it says of itself, the heads that read it, and the keys by which a graph names it.
//!
//! All texts are bounded, and made of one line each; a file may say anything.

use std::path::Path;
use std::sync::Arc;

use prost::Message;
use serde::{Deserialize, Serialize};
use weir_flow::{Model, Settings, Value};

use super::adapt::{COMPUTED, Opened};
use super::auto::{self, Verdict};
use super::error::ModelError;
use super::generate;
use super::onnx::MetadataOnly;
use super::runtime::Port;
use super::{LoadRequest, ModelFile, companion, load, metadata, read_model};
use crate::heads::{AUTO, HeadKind, NAMES, names};

/// Characters of a text that are kept.
const MAX_TEXT: usize = 400;
/// Ports, entries of metadata and operator sets that are listed.
const MAX_LISTED: usize = 64;
/// Names of classes that are listed.
const MAX_CLASSES: usize = 1000;
/// Classes of a detector that counts none and that nothing names: as many as COCO's numbers.
const UNCOUNTED: usize = 91;

/// A model file described.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Inspection {
    /// Length of the file, without weights beside it.
    pub file_bytes: u64,
    /// Program that wrote the file, with its version.
    pub producer: String,
    /// Version of the format.
    pub ir_version: Option<i64>,
    /// Operator sets with their versions: `ai.onnx 17`.
    pub opsets: Vec<String>,
    /// Inputs as the file declares them.
    pub inputs: Vec<InspectedPort>,
    /// Outputs as the file declares them.
    pub outputs: Vec<InspectedPort>,
    /// Entries of the metadata.
    pub metadata: Vec<(String, String)>,
    /// Files beside the model that were read, with what they say.
    pub beside: Vec<(String, String)>,
    /// Names of the classes that the model finds, where its head is known; else those that the file names.
    pub classes: Vec<String>,
    /// Number of these classes.
    pub class_count: usize,
    /// All heads, with the reason why one does not read the model.
    pub heads: Vec<InspectedHead>,
    /// The head that is right for it, if that is known.
    pub head: Option<String>,
    /// Keys that a graph must set beside `model` and `head`.
    pub keys: Settings,
    /// Remarks on these keys, or on the model.
    pub remarks: Vec<String>,
    /// The reason why a graph cannot name it yet, and the way on.
    pub problem: Option<String>,
}

/// An input or output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InspectedPort {
    /// Name in the file.
    pub name: String,
    /// Type of the elements, such as `f32`.
    pub element: String,
    /// Sizes; none for one that is free.
    pub shape: Vec<Option<usize>>,
    /// Whether it is an input that is computed from the shape of the image.
    pub is_computed: bool,
}

/// A head, and why it does not read the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InspectedHead {
    /// Name in graphs.
    pub name: String,
    /// None where it reads the model.
    pub reason: Option<String>,
}

/// Describes the file at `path`, as a model for `head` where that is given, with keys that are known of it.
///
/// # Errors
/// The file cannot be read or opened, or there is no such head.
pub fn inspect(path: &Path, head: Option<&str>, keys: &Settings) -> Result<Inspection, ModelError> {
    if let Some(head) = head.filter(|head| *head != generate::HEAD) {
        super::head_kind(head)?;
    }
    let file = read_model(path)?;
    let mut opened = Opened::new(&file)?;
    let settings = metadata::with_metadata(keys, &file, Some(path), &opened);
    let mut found = described(&file, path, &opened);
    found.file_bytes = std::fs::metadata(path).map_or(0, |data| data.len());
    let names = settings.texts(NAMES).unwrap_or_default();
    found.class_count = names.len();
    found.classes = names.iter().take(MAX_CLASSES).map(|name| line(name)).collect();
    let verdicts = auto::judge_all(&mut opened, &settings)?;
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for (name, verdict) in verdicts {
        let reason = match verdict {
            Verdict::Fits(head) => {
                counts.push((name, head.classes().len()));
                None
            }
            Verdict::OtherValues(reason) | Verdict::No(reason) => Some(line(&reason)),
        };
        found.heads.push(InspectedHead {
            name: name.to_owned(),
            reason,
        });
    }
    found.heads.push(InspectedHead {
        name: generate::HEAD.to_owned(),
        reason: generates(path).err().map(|reason| line(&reason)),
    });
    found.keys = keys.clone();
    let chosen = chosen(&mut opened, &settings, &found, head);
    // What it takes is not taken twice.
    drop((opened, file));
    match chosen {
        Ok(head) => {
            let count = counts.iter().find(|(name, _)| *name == head);
            suggest(&mut found, path, &head, count.map(|(_, count)| *count));
            found.head = Some(head);
        }
        Err(problem) => found.problem = Some(line(&problem)),
    }
    Ok(found)
}

/// The facts that need no head.
fn described(file: &[u8], path: &Path, opened: &Opened) -> Inspection {
    let ports = |ports: &[Port]| ports.iter().take(MAX_LISTED).map(inspected).collect();
    let mut found = Inspection {
        inputs: ports(&opened.inputs),
        outputs: ports(&opened.outputs),
        ..Inspection::default()
    };
    if let Ok(about) = MetadataOnly::decode(file) {
        found.ir_version = about.ir_version;
        let producer = [about.producer_name, about.producer_version];
        let producer: Vec<String> = producer
            .into_iter()
            .flatten()
            .filter(|text| !text.is_empty())
            .collect();
        found.producer = line(&producer.join(" "));
        let opsets = about.opset_import.iter().take(MAX_LISTED);
        let opset = opsets.map(|opset| match opset.domain() {
            "" => format!("ai.onnx {}", opset.version()),
            domain => line(&format!("{domain} {}", opset.version())),
        });
        found.opsets = opset.collect();
        let entries = about.metadata_props.iter().take(MAX_LISTED);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        found.metadata = entries
            .map(|entry| {
                let (key, value) = (text(entry.key()), text(entry.value()));
                let shown = match key.as_str() {
                    "names" => class_names(&value),
                    "character" => format!("{} characters", value.split('\n').count()),
                    _ => line(&value),
                };
                (line(&key), shown)
            })
            .collect();
    }
    let beside = companion::read(path, opened);
    let shown = |path: &Path, text: &str| (line(&path.display().to_string()), line(text));
    found.beside = beside
        .files
        .iter()
        .map(|(path, text)| shown(path, text))
        .collect();
    let unread = beside
        .unread
        .iter()
        .map(|(path, reason)| shown(path, &format!("is not used: {reason}")));
    found.beside.extend(unread);
    found
}

/// The names of classes in short: their number, and the first of them.
fn class_names(text: &str) -> String {
    match names::parse(text) {
        Some(names) => line(&format!("{} classes: {}", names.len(), names.join(", "))),
        None => line(text),
    }
}

fn inspected(port: &Port) -> InspectedPort {
    InspectedPort {
        name: line(&port.name),
        element: port.element.clone(),
        shape: port.shape.clone(),
        is_computed: COMPUTED.contains(&port.name.as_str()),
    }
}

/// Whether the model generates text.
fn generates(path: &Path) -> Result<(), String> {
    let request = LoadRequest {
        name: "inspected",
        file: ModelFile::Path(path.to_owned()),
        head: generate::HEAD,
        settings: &Settings::default(),
        max_batch: 1,
        dump: None,
    };
    super::load_generative(&request)
        .map(drop)
        .map_err(|error| error.cause.to_string())
}

/// Heads that know their outputs by name: where only one of them fits, the model is of its kind.
const BY_NAMES: [&str; 4] = ["nanodet", "yunet", "class-map", generate::HEAD];

/// The head that was asked for, the one that is found by itself, or the only one that fits by names.
fn chosen(
    opened: &mut Opened,
    settings: &Settings,
    found: &Inspection,
    asked: Option<&str>,
) -> Result<String, String> {
    if let Some(asked) = asked.filter(|asked| *asked != AUTO) {
        return Ok(asked.to_owned());
    }
    let reason = match auto::choose(opened, settings) {
        Ok(kind) => return Ok(kind.name.to_owned()),
        Err(error) => error.to_string(),
    };
    let fits: Vec<&InspectedHead> = found.heads.iter().filter(|head| head.reason.is_none()).collect();
    match fits[..] {
        [only] if BY_NAMES.contains(&only.name.as_str()) => Ok(only.name.clone()),
        _ => Err(reason),
    }
}

/// Finds the keys with which a graph can load the model under this head.
fn suggest(found: &mut Inspection, path: &Path, head: &str, classes: Option<usize>) {
    let opens = |keys: &Settings| {
        load(&LoadRequest {
            name: "inspected",
            file: ModelFile::Path(path.to_owned()),
            head,
            settings: keys,
            max_batch: 1,
            dump: None,
        })
    };
    let mut opened = opens(&found.keys);
    // The number of names says how the scores of DETR are meant.
    let is_counted = head != "detr" && HeadKind::named(head).is_some_and(HeadKind::is_detector);
    if let Err(error) = &opened
        && is_counted
        && error.cause.to_string().contains("nothing names")
    {
        // Numbers are right for any model, and say that its names are missing.
        let numbers = match head {
            "ssd" => 1..UNCOUNTED,
            "end2end" | "paddle" | "mmdeploy" => 0..UNCOUNTED,
            _ => 0..classes.filter(|classes| *classes > 1).unwrap_or(UNCOUNTED),
        };
        let numbers = numbers.map(|class| class.to_string()).collect();
        found.keys.0.insert("labels".to_owned(), Value::Texts(numbers));
        found.remarks.push(
            "nothing names its classes: the numbers under labels stand for them; write their names instead, labels = [\"coco\"] if it was \
             trained on COCO"
                .to_owned(),
        );
        opened = opens(&found.keys);
    }
    match opened {
        Ok(model) => of_model(found, &model),
        Err(error) => found.problem = Some(line(&error.cause.to_string())),
    }
}

/// Adds the classes and characters of the open model.
fn of_model(found: &mut Inspection, model: &Arc<dyn Model>) {
    let classes = model.classes();
    if !classes.is_empty() {
        found.class_count = classes.len();
        found.classes = classes.iter().take(MAX_CLASSES).map(|name| line(name)).collect();
    }
    if !model.alphabet().is_empty() {
        found
            .remarks
            .push(format!("it writes {} characters", model.alphabet().len()));
    }
}

/// A text of a file in one line of bounded length.
fn line(text: &str) -> String {
    let mut line: String = text
        .chars()
        .take(MAX_TEXT)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().nth(MAX_TEXT).is_some() {
        line.push_str(" ...");
    }
    line.trim().to_owned()
}
