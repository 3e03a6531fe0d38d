//! Sample files: a line about the cascades and their models, then one for each item with what every stage said of it.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;

use serde::{Deserialize, Serialize};
use weir_sim::gears::SampledItem;

use crate::error::UserError;

/// The first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SamplesHeader {
    /// Version of the form: 1.
    pub(crate) samples: u32,
    /// Name of the graph.
    pub(crate) graph: String,
    /// The models of each cascade, in the order of its stages.
    pub(crate) cascades: BTreeMap<String, Vec<String>>,
    /// How long batches take, in milliseconds, by model and batch size.
    pub(crate) durations_ms: BTreeMap<String, BTreeMap<u32, f64>>,
    /// Items of a request, on average, by module; of a cascade by its name.
    #[serde(default)]
    pub(crate) items: BTreeMap<String, f64>,
    /// Bytes of memory that a session takes, by model, where they could be measured.
    #[serde(default)]
    pub(crate) session_bytes: BTreeMap<String, u64>,
}

/// An item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SampleLine {
    pub(crate) cascade: String,
    pub(crate) stream: String,
    pub(crate) frame: u64,
    /// Its place among those of the frame.
    pub(crate) item: u32,
    #[serde(flatten)]
    pub(crate) stages: SampledItem,
    /// By stage, for people.
    pub(crate) answer: Vec<String>,
}

/// The version that is written.
pub(crate) const VERSION: u32 = 1;

/// A line is some hundred bytes; ten million items are more than anybody labels.
const MAX_LINE_BYTES: u64 = 1 << 20;
const MAX_BYTES: u64 = 4 << 30;

/// The text of a file of samples.
///
/// # Errors
/// Numbers that JSON has none for.
pub(crate) fn text(header: &SamplesHeader, lines: &[SampleLine]) -> serde_json::Result<String> {
    let mut text = serde_json::to_string(header)? + "\n";
    for line in lines {
        text += &serde_json::to_string(line)?;
        text.push('\n');
    }
    Ok(text)
}

/// Reads a file of samples.
///
/// # Errors
/// [`UserError`] with the file and the line that is none.
pub(crate) fn read(path: &Path) -> Result<(SamplesHeader, Vec<SampleLine>), UserError> {
    let wrong = |reason: String| UserError::new(format!("samples {}: {reason}", path.display()));
    let lines = weir_files::lines(path, MAX_LINE_BYTES, MAX_BYTES);
    let mut lines = lines
        .map_err(|error| wrong(format!("cannot be read: {error}")))?
        .lines();
    let first = lines.next().ok_or_else(|| wrong("is empty".to_owned()))?;
    let first = first.map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let header: SamplesHeader = serde_json::from_str(&first).map_err(|error| {
        wrong(format!(
            "line 1 is no header: {error}; write samples by weir gears sample"
        ))
    })?;
    if header.samples != VERSION {
        return Err(wrong(format!(
            "it has version {}, this program reads {VERSION}",
            header.samples
        )));
    }
    let mut items = Vec::new();
    for (number, line) in (2..).zip(lines) {
        let line = line.map_err(|error| wrong(format!("cannot be read: {error}")))?;
        let line: SampleLine = serde_json::from_str(&line).map_err(|error| {
            let hint = if line.contains("\"right\"") {
                ""
            } else {
                ": it does not say what is right; write samples by weir gears sample --truth"
            };
            wrong(format!("line {number} is no sample: {error}{hint}"))
        })?;
        let stages = header.cascades.get(&line.cascade).map(Vec::len);
        if stages
            .is_none_or(|stages| line.stages.certainty.len() != stages || line.stages.right.len() != stages)
        {
            return Err(wrong(format!(
                "line {number} is not of the stages of \"{}\" in the first line",
                line.cascade
            )));
        }
        items.push(line);
    }
    Ok((header, items))
}
