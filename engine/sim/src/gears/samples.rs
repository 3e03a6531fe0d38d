//! Sample files: a line about the cascades and their models, then one for each item with what every stage said of it.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::curve::SampledItem;

/// First line of the file: cascades, batch durations and memory of the models.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SamplesHeader {
    /// Version of the form: 1.
    pub samples: u32,
    /// Name of the graph.
    pub graph: String,
    /// The models of each cascade, in the order of its stages.
    pub cascades: BTreeMap<String, Vec<String>>,
    /// Batch durations in milliseconds, by model and batch size.
    pub durations_ms: BTreeMap<String, BTreeMap<u32, f64>>,
    /// Items of a request, on average, by module; of a cascade by its name.
    #[serde(default)]
    pub items: BTreeMap<String, f64>,
    /// Memory of a session in bytes, by model, for models where it could be measured.
    #[serde(default)]
    pub session_bytes: BTreeMap<String, u64>,
}

/// One sampled item with the answers of all stages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SampleLine {
    /// Name of the cascade.
    pub cascade: String,
    /// Name of the stream.
    pub stream: String,
    /// Index of the frame in its stream.
    pub frame: u64,
    /// Index of the item within its frame.
    pub item: u32,
    /// Certainty and correctness of each stage.
    #[serde(flatten)]
    pub stages: SampledItem,
    /// Answer of each stage as text, for readers of the file.
    pub answer: Vec<String>,
}

/// The version that is written.
pub const SAMPLES_VERSION: u32 = 1;

/// A line is some hundred bytes; ten million items are more than anybody labels.
const MAX_LINE_BYTES: u64 = 1 << 20;
const MAX_BYTES: u64 = 4 << 30;

/// Text of a samples file.
///
/// # Errors
/// Numbers that JSON has none for.
pub fn samples_text(header: &SamplesHeader, lines: &[SampleLine]) -> serde_json::Result<String> {
    let mut text = serde_json::to_string(header)? + "\n";
    for line in lines {
        text += &serde_json::to_string(line)?;
        text.push('\n');
    }
    Ok(text)
}

/// Reads a samples file.
///
/// # Errors
/// What is wrong, with the line that is none.
pub fn read_samples(path: &Path) -> Result<(SamplesHeader, Vec<SampleLine>), String> {
    let lines = weir_files::lines(path, MAX_LINE_BYTES, MAX_BYTES);
    let mut lines = lines.map_err(|error| format!("cannot be read: {error}"))?.lines();
    let first = lines.next().ok_or("is empty")?;
    let first = first.map_err(|error| format!("cannot be read: {error}"))?;
    let header: SamplesHeader = serde_json::from_str(&first)
        .map_err(|error| format!("line 1 is no header: {error}; write samples by weir gears sample"))?;
    if header.samples != SAMPLES_VERSION {
        return Err(format!(
            "it has version {}, this program reads {SAMPLES_VERSION}",
            header.samples
        ));
    }
    let mut items = Vec::new();
    for (number, line) in (2..).zip(lines) {
        let line = line.map_err(|error| format!("cannot be read: {error}"))?;
        let line: SampleLine = serde_json::from_str(&line).map_err(|error| {
            let hint = if line.contains("\"right\"") {
                ""
            } else {
                ": it does not say what is right; write samples by weir gears sample --truth"
            };
            format!("line {number} is no sample: {error}{hint}")
        })?;
        let stages = header.cascades.get(&line.cascade).map(Vec::len);
        if stages
            .is_none_or(|stages| line.stages.certainty.len() != stages || line.stages.right.len() != stages)
        {
            return Err(format!(
                "line {number} is not of the stages of \"{}\" in the first line",
                line.cascade
            ));
        }
        items.push(line);
    }
    Ok((header, items))
}
