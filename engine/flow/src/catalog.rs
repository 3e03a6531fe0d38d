//! What a graph may name: operators, heads, sinks and their keys. `weir-operators` fills it, `weir-graph` checks
//! against it, and the documentation of keys is printed from it.

use std::collections::BTreeMap;

use serde::Deserialize;

/// What an operator's items are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperatorInput {
    /// Whole frames, or boxes of objects where `regions` is given.
    FrameOrBoxes,
    /// Boxes of objects: `regions` must be given.
    Boxes,
    /// Faces with five points; boxes of objects where the model does not align (see [`Settings::aligns`]).
    Faces,
    /// Flat things with four corners, or boxes where the model reads boxes.
    Quads,
}

/// What a head gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadOutput {
    /// Objects with boxes.
    Boxes,
    /// Objects with five points of a face.
    Faces,
    /// Objects with four corners.
    Quads,
    /// An attribute of the object.
    Attribute,
}

/// What a key holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KeyKind {
    /// A number within bounds.
    Number {
        /// Least.
        min: f64,
        /// Most.
        max: f64,
    },
    /// A whole number within bounds.
    Integer {
        /// Least.
        min: i64,
        /// Most.
        max: i64,
    },
    /// Text.
    Text,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A list of texts.
    Texts,
    /// A file that must exist, relative to the graph's file.
    File,
    /// A folder that must exist, relative to the graph's file.
    Folder,
    /// True or false.
    Flag,
    /// A duration above zero with its unit (`"24h"`), as seconds.
    Duration,
    /// An amount of bytes above zero with its unit (`"64MiB"`), as bytes.
    Bytes,
}

/// One key of an operator, head or sink.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KeySpec {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: KeyKind,
    /// What it means, with its default.
    pub about: &'static str,
}

/// An operator: what `operator = "..."` of a module may name.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorSpec {
    /// Its name.
    pub name: &'static str,
    /// One line.
    pub about: &'static str,
    /// Its items.
    pub input: OperatorInput,
    /// Heads whose models it can run.
    pub heads: &'static [&'static str],
    /// Keys of the module beside `operator`, `model`, `inputs` and `regions`.
    pub keys: &'static [KeySpec],
}

/// A head: what `head = "..."` of a model may name.
#[derive(Debug, Clone, PartialEq)]
pub struct HeadSpec {
    /// Its name.
    pub name: &'static str,
    /// What it wants and gives.
    pub about: &'static str,
    /// What it gives.
    pub output: HeadOutput,
    /// Classes of its objects where `labels` does not say otherwise.
    pub classes: &'static [&'static str],
    /// Keys of the model beside `model`, `head`, `device`, `batch`, `workers` and `profile`.
    pub keys: &'static [KeySpec],
}

/// A sink: what `type = "..."` may name.
#[derive(Debug, Clone, PartialEq)]
pub struct SinkSpec {
    /// Its name.
    pub name: &'static str,
    /// One line.
    pub about: &'static str,
    /// Keys beside `type`, `inputs` and `when_slow`.
    pub keys: &'static [KeySpec],
}

/// All that a graph may name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Catalog {
    /// Operators.
    pub operators: Vec<OperatorSpec>,
    /// Heads.
    pub heads: Vec<HeadSpec>,
    /// Sinks.
    pub sinks: Vec<SinkSpec>,
    /// What is known of the models of the zoo, by name; where it is empty, names are not checked.
    pub zoo: BTreeMap<String, ModelDefaults>,
    /// The same of the models that ship with the program.
    pub embedded: BTreeMap<String, ModelDefaults>,
}

/// What a graph need not say of a model that is known by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelDefaults {
    /// Its head.
    pub head: String,
    /// Keys of the head; what a graph says goes before them.
    pub settings: Settings,
}

/// A checked value.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// Number or whole number; seconds of a duration, bytes of an amount.
    Number(f64),
    /// Text, word, or a path made absolute.
    Text(String),
    /// List of texts.
    Texts(Vec<String>),
    /// True or false.
    Flag(bool),
}

/// Checked keys of one table: names are known, kinds and bounds hold.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct Settings(pub BTreeMap<String, Value>);

impl Settings {
    /// The number under `key`, or `default`.
    #[must_use]
    pub fn number(&self, key: &str, default: f64) -> f64 {
        match self.0.get(key) {
            Some(Value::Number(number)) => *number,
            _ => default,
        }
    }

    /// The text under `key`.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.0.get(key) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The list under `key`.
    #[must_use]
    pub fn texts(&self, key: &str) -> Option<&[String]> {
        match self.0.get(key) {
            Some(Value::Texts(texts)) => Some(texts),
            _ => None,
        }
    }

    /// The flag under `key`, or `default`.
    #[must_use]
    pub fn flag(&self, key: &str, default: bool) -> bool {
        match self.0.get(key) {
            Some(Value::Flag(flag)) => *flag,
            _ => default,
        }
    }

    /// Whether a head that turns items upright by their points does so: `align = "none"` says that it reads boxes as
    /// they are.
    #[must_use]
    pub fn aligns(&self) -> bool {
        self.text("align") != Some("none")
    }
}
