//! Messages between the engine and a worker process: JSON texts, one a line.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// First message to a process: the function that it is to load.
#[derive(Debug, Serialize)]
pub(super) struct Setup<'a> {
    pub(super) folder: &'a Path,
    pub(super) module: &'a str,
    pub(super) function: &'a str,
    /// Role of the function.
    pub(super) kind: &'a str,
    /// Limit of its address space.
    pub(super) memory: Option<u64>,
    /// Length of the shared memory.
    pub(super) bytes: u64,
}

/// One call of the function.
#[derive(Debug, Serialize)]
pub(super) struct Request<'a> {
    pub(super) items: &'a [ItemFacts<'a>],
}

/// Place of an item's pixels in the shared memory, and facts of it.
#[derive(Debug, Serialize)]
pub(super) struct ItemFacts<'a> {
    pub(super) offset: u64,
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) stream: &'a str,
    pub(super) sequence: u64,
    pub(super) pts_ms: f64,
    /// Width and height of the frame.
    pub(super) size: [u32; 2],
    /// Region of a crop, in pixels of the frame.
    pub(super) r#box: Option<[f32; 4]>,
    pub(super) label: Option<&'a str>,
}

/// One call of a head.
#[derive(Debug, Serialize)]
pub(super) struct HeadRequest<'a> {
    pub(super) outputs: Vec<OutputFacts<'a>>,
    pub(super) rows: Vec<RowFacts>,
}

/// Place of an output of a batch in the shared memory.
#[derive(Debug, Serialize)]
pub(super) struct OutputFacts<'a> {
    pub(super) name: &'a str,
    pub(super) offset: u64,
    /// Sizes, the number of items first.
    pub(super) shape: Vec<usize>,
}

/// Place of an item in its frame.
#[derive(Debug, Serialize)]
pub(super) struct RowFacts {
    /// Width and height of the model's input.
    pub(super) input: [u32; 2],
    /// Width and height of the frame.
    pub(super) frame: [f32; 2],
    /// From pixels of the input to those of the frame, row by row.
    pub(super) matrix: [f64; 9],
}

/// Message of a process: results, or an error.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Answer {
    pub(super) items: Vec<ItemAnswer>,
    /// Attributes that a transform gives to objects, by their numbers; those that are null are removed.
    pub(super) attributes: Vec<(u32, BTreeMap<String, Option<AttributeAnswer>>)>,
    /// Incidents of a transform.
    pub(super) incidents: Vec<IncidentAnswer>,
    pub(super) error: Option<String>,
    /// True if the process is not to be used again.
    pub(super) ends: bool,
}

/// Results for one item.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ItemAnswer {
    pub(super) attributes: BTreeMap<String, AttributeAnswer>,
    pub(super) objects: Vec<ObjectAnswer>,
    /// Reason why there is no result for this item.
    pub(super) error: Option<String>,
}

/// Event of an incident.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IncidentAnswer {
    pub(super) phase: PhaseAnswer,
    pub(super) key: String,
    pub(super) object: Option<u32>,
    pub(super) attributes: BTreeMap<String, AttributeAnswer>,
}

/// Phase of an incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PhaseAnswer {
    Begin,
    Update,
    End,
}

/// Value of an attribute.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub(super) enum AttributeAnswer {
    Number(f64),
    /// A text with its score.
    Text(String, f64),
}

/// An object; its box is in pixels of the item.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ObjectAnswer {
    pub(super) label: String,
    pub(super) score: f64,
    pub(super) r#box: [f64; 4],
}
