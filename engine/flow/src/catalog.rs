//! The names that a graph may use: operators, heads, sinks and their keys, options of sources. `weir-operators` fills the catalog,
//! `weir-graph` validates against it, and the reference of keys is printed from it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Items of an operator, unless the module sets `items = "frame"` (see [`Settings::takes_frames`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperatorInput {
    /// Whole frames, or boxes of objects if `regions` is set.
    FrameOrBoxes,
    /// Boxes of objects; `regions` is required.
    Boxes,
    /// Faces with five landmarks, or boxes of objects if the model does not align (see [`Settings::aligns`]).
    Faces,
    /// Quadrilaterals (objects with four corners), or boxes if the model reads boxes.
    Quads,
}

/// Result that a head decodes from the outputs of its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadOutput {
    /// Objects with boxes.
    Boxes,
    /// Faces with five landmarks.
    Faces,
    /// Quadrilaterals: objects with four corners.
    Quads,
    /// An attribute of the object that the item was made for.
    Attribute,
}

/// Type and bounds of a key's value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KeyKind {
    /// A number within bounds.
    Number {
        /// Lower bound, inclusive.
        min: f64,
        /// Upper bound, inclusive.
        max: f64,
    },
    /// A whole number within bounds.
    Integer {
        /// Lower bound, inclusive.
        min: i64,
        /// Upper bound, inclusive.
        max: i64,
    },
    /// Text without restrictions.
    Text,
    /// One of a list of words.
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
    /// An amount of bytes as for [`KeyKind::Bytes`], or a share of a file system (`"10%"`), as a fraction below one.
    Space,
    /// A table of durations by name: `{ person = "30d", default = "7d" }`.
    Durations,
    /// A list of points, each of two numbers: `[[0.1, 0.5], [0.9, 0.5]]`.
    Points,
    /// Two whole numbers, each within bounds: `[3, 2]`.
    Pair {
        /// Lower bound, inclusive.
        min: u32,
        /// Upper bound, inclusive.
        max: u32,
    },
}

/// Key of an operator, head or sink.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KeySpec {
    /// Name of the key in the graph file.
    pub name: &'static str,
    /// Type and bounds of its value.
    pub kind: KeyKind,
    /// Meaning and default, for the reference.
    pub about: &'static str,
}

/// An operator that `operator = "..."` of a module may name.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorSpec {
    /// Name of the operator in the graph file.
    pub name: &'static str,
    /// Description in one line, for the reference.
    pub about: &'static str,
    /// The items it takes.
    pub input: OperatorInput,
    /// Heads whose models the operator can run.
    pub heads: &'static [&'static str],
    /// Name of its attribute if the module does not set `attribute`; `None`: unknown.
    pub attribute: Option<&'static str>,
    /// True if it also reports the number of tokens, as `ATTRIBUTE_tokens`.
    pub counts_tokens: bool,
    /// Keys of the module beside `operator`, `model`, `inputs` and `regions`.
    pub keys: Cow<'static, [KeySpec]>,
}

/// A head that `head = "..."` of a model may name.
#[derive(Debug, Clone, PartialEq)]
pub struct HeadSpec {
    /// Name of the head in the graph file.
    pub name: &'static str,
    /// Input and output in one line, for the reference.
    pub about: &'static str,
    /// Result that it decodes.
    pub output: HeadOutput,
    /// Default classes of its objects, used where `labels` is absent.
    pub classes: &'static [&'static str],
    /// Keys of the model beside `model`, `head`, `device`, `batch`, `workers` and `profile`.
    pub keys: Cow<'static, [KeySpec]>,
}

/// A sink that `type = "..."` may name.
#[derive(Debug, Clone, PartialEq)]
pub struct SinkSpec {
    /// Name of the sink type in the graph file.
    pub name: &'static str,
    /// Description in one line, for the reference.
    pub about: &'static str,
    /// Keys beside `type`, `inputs` and `when_slow`.
    pub keys: &'static [KeySpec],
    /// Check of all keys together, where the type and bounds of each are right.
    pub check: SinkCheck,
}

/// Fault in a key of a transform or a sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFault {
    /// Key with the fault, or key that is missing.
    pub key: &'static str,
    /// Description of the fault.
    pub message: String,
    /// Advice on how to fix it, if there is any.
    pub hint: Option<String>,
}

/// Check of the keys of a sink together, beyond the type and bounds of each. It opens no file and no connection.
#[derive(Debug, Clone, Copy)]
pub struct SinkCheck(pub fn(&Settings) -> Vec<KeyFault>);

impl Default for SinkCheck {
    /// Finds no faults.
    fn default() -> Self {
        Self(|_| Vec::new())
    }
}

/// A check belongs to its sink: two of one sink are equal.
impl PartialEq for SinkCheck {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// Name in the catalog of operators, heads, sinks and types of transforms that users write in Python. A graph names the
/// module and the function in place of the capitals.
pub const PYTHON_FUNCTION: &str = "python:MODULE.FUNCTION";

/// Prefix of the names of what users write in Python.
pub const PYTHON_PREFIX: &str = "python:";

/// The name in the catalog of what a graph names: of all functions in Python the same.
#[must_use]
pub fn catalog_name(name: &str) -> &str {
    if name.starts_with(PYTHON_PREFIX) {
        PYTHON_FUNCTION
    } else {
        name
    }
}

/// Catalog of all names that a graph may use.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Catalog {
    /// Operators for the key `operator` of modules.
    pub operators: Vec<OperatorSpec>,
    /// Keys of modules with `operator = "track"`, which have no model; empty if the program has no tracker.
    pub tracker_keys: &'static [KeySpec],
    /// Heads for the key `head` of models.
    pub heads: Vec<HeadSpec>,
    /// Sinks for the key `type` of sinks.
    pub sinks: Vec<SinkSpec>,
    /// Keys of `options` of a source.
    pub connection_options: &'static [KeySpec],
    /// Defaults of the zoo's models by name; if empty, names are not checked.
    pub zoo: BTreeMap<String, ModelDefaults>,
    /// Defaults of the models that ship with the program, by name.
    pub embedded: BTreeMap<String, ModelDefaults>,
    /// Folder of the modules of operators, heads, transforms and sinks in Python, an absolute path without links; `None`
    /// if graphs may not name such functions.
    pub python: Option<PathBuf>,
}

impl Catalog {
    /// The operator that a graph names.
    #[must_use]
    pub fn operator(&self, name: &str) -> Option<&OperatorSpec> {
        let known = catalog_name(name);
        self.operators.iter().find(|spec| spec.name == known)
    }
}

/// Head and settings of a model that is known by name; defaults for keys that the graph does not set.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelDefaults {
    /// Name of its head.
    pub head: String,
    /// Keys of the head; keys in the graph override them.
    pub settings: Settings,
    /// For generative models: nets that predict the length of outputs, as JSON.
    pub lengths: Option<&'static str>,
}

/// A validated value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// Number or whole number; a duration in seconds, an amount in bytes.
    Number(f64),
    /// Text, one of a key's words, or an absolute path.
    Text(String),
    /// List of texts.
    Texts(Vec<String>),
    /// True or false.
    Flag(bool),
    /// List of points, each `[x, y]`.
    Points(Vec<[f64; 2]>),
    /// Durations in seconds by name.
    Durations(BTreeMap<String, f64>),
    /// Two whole numbers.
    Pair([u32; 2]),
}

/// Validated keys of one table: every name is known, every value has the type and bounds of its [`KeySpec`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Settings(pub BTreeMap<String, Value>);

impl Settings {
    /// The number of `key`, or `default`.
    #[must_use]
    pub fn number(&self, key: &str, default: f64) -> f64 {
        match self.0.get(key) {
            Some(Value::Number(number)) => *number,
            _ => default,
        }
    }

    /// The text of `key`, if set.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.0.get(key) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The list of `key`, if set.
    #[must_use]
    pub fn texts(&self, key: &str) -> Option<&[String]> {
        match self.0.get(key) {
            Some(Value::Texts(texts)) => Some(texts),
            _ => None,
        }
    }

    /// The points of `key`, if set.
    #[must_use]
    pub fn points(&self, key: &str) -> Option<&[[f64; 2]]> {
        match self.0.get(key) {
            Some(Value::Points(points)) => Some(points),
            _ => None,
        }
    }

    /// The durations of `key` in seconds by name, if set.
    #[must_use]
    pub fn durations(&self, key: &str) -> Option<&BTreeMap<String, f64>> {
        match self.0.get(key) {
            Some(Value::Durations(durations)) => Some(durations),
            _ => None,
        }
    }

    /// The two numbers of `key`, if set.
    #[must_use]
    pub fn pair(&self, key: &str) -> Option<[u32; 2]> {
        match self.0.get(key) {
            Some(Value::Pair(pair)) => Some(*pair),
            _ => None,
        }
    }

    /// The flag of `key`, or `default`.
    #[must_use]
    pub fn flag(&self, key: &str, default: bool) -> bool {
        match self.0.get(key) {
            Some(Value::Flag(flag)) => *flag,
            _ => default,
        }
    }

    /// True if a head aligns items by their landmarks; with `align = "none"` it gets the plain boxes.
    #[must_use]
    pub fn aligns(&self) -> bool {
        self.text("align") != Some("none")
    }

    /// True if a module's items are whole frames by `items = "frame"`, whatever its operator takes by
    /// default.
    #[must_use]
    pub fn takes_frames(&self) -> bool {
        self.text("items") == Some("frame")
    }
}
