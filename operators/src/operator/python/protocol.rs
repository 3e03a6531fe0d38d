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

/// Message of a process: results, or an error.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Answer {
    pub(super) items: Vec<ItemAnswer>,
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
