//! `weir models inspect`: a model file described, and the lines of a graph that name it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json, json};
use weir_flow::{DeviceKind, Settings, Value};
use weir_operators::{InspectedPort, Inspection, LoadRequest, ModelFile};
use weir_runtime::measure_profile;

use crate::args::Inspect;
use crate::error::UserError;
use crate::output;
use crate::printable;
use crate::probe;
use crate::settings::Bytes;
use crate::zoo::Zoo;

/// Before the name of a model of the zoo.
const ZOO: &str = "zoo:";
/// Batch sizes that are measured.
const BATCHES: [u32; 3] = [1, 2, 4];
/// Runs of each, of which the median counts.
const RUNS: usize = 15;
/// Names of classes that are shown.
const SHOWN_CLASSES: usize = 12;
/// Characters of the name of a table.
const MAX_NAME: usize = 40;

/// A file, and what is known of it beforehand.
struct Target {
    path: PathBuf,
    /// As a graph names it.
    model: String,
    head: Option<String>,
    keys: Settings,
    /// True if a graph knows head and keys by the name of the model.
    is_known: bool,
}

/// Describes a file.
///
/// # Errors
/// It is no model, or a graph cannot name it yet: with the reason and the way on.
pub(crate) fn inspect(args: &Inspect, zoo: &Zoo) -> anyhow::Result<()> {
    let target = target(args, zoo)?;
    let found = probe::describe(&target.path, target.head.as_deref(), &target.keys)?;
    let times = match (&found.head, args.time && found.problem.is_none()) {
        (Some(head), true) => Some(measure(&target, head, &found.keys)?),
        _ => None,
    };
    let table = table(&target, &found);
    let text = match args.json {
        true => as_json(&target, &found, table.as_deref(), times.as_deref())?,
        false => as_text(&target, &found, table.as_deref(), times.as_deref()),
    };
    output::say(&text)?;
    match &found.problem {
        None => Ok(()),
        Some(problem) => {
            let hint = match (&found.head, args.head.is_some()) {
                (None, false) => "; --head NAME shows what is missing for one head",
                _ => "",
            };
            Err(UserError::new(format!("{}: {problem}{hint}", target.path.display())).into())
        }
    }
}

fn target(args: &Inspect, zoo: &Zoo) -> anyhow::Result<Target> {
    let path = match args.file.strip_prefix(ZOO) {
        Some(name) => zoo.resolve(name)?,
        None => PathBuf::from(&args.file),
    };
    if !path.is_file() {
        return Err(UserError::new(format!("there is no file {}", path.display())).into());
    }
    let known = zoo.identify(&path).filter(|_| args.head.is_none());
    Ok(match known {
        Some((name, entry)) => {
            // A graph finds it under that name only where the zoo has it.
            let is_here = zoo.resolve(name).is_ok();
            Target {
                model: if is_here {
                    format!("{ZOO}{name}")
                } else {
                    args.file.clone()
                },
                head: entry.head.clone(),
                keys: zoo.resolve_keys(&entry.settings)?,
                is_known: is_here && entry.head.is_some(),
                path,
            }
        }
        None => Target {
            model: args.file.clone(),
            head: args.head.clone(),
            keys: Settings::default(),
            is_known: false,
            path,
        },
    })
}

/// Milliseconds by batch size.
fn measure(target: &Target, head: &str, keys: &Settings) -> anyhow::Result<Vec<(u32, f64)>> {
    let model = weir_operators::load(&LoadRequest {
        name: "inspected",
        file: ModelFile::Path(target.path.clone()),
        head,
        settings: keys,
        max_batch: BATCHES[BATCHES.len() - 1],
        dump: None,
    });
    let model = model.map_err(|error| UserError::new(error.to_string()))?;
    if model.generative().is_some() {
        return Err(UserError::new(
            "--time measures models with one answer for each item; a graph measures the steps of this one",
        )
        .into());
    }
    let measured = measure_profile(&model, DeviceKind::Cpu, &BATCHES, RUNS);
    let measured = measured.map_err(|error| UserError::new(error.to_string()))?;
    let points = measured.points.iter();
    Ok(points
        .map(|(size, span)| (*size, span.micros() as f64 / 1e3))
        .collect())
}

/// The lines of a graph that name the model.
fn table(target: &Target, found: &Inspection) -> Option<String> {
    let head = found.head.as_ref().filter(|_| found.problem.is_none())?;
    let text = |text: &str| toml::Value::String(text.to_owned());
    let mut table = format!(
        "[models.{}]\nmodel = {}\n",
        name(&target.path),
        text(&target.model)
    );
    if target.is_known {
        return Some(table);
    }
    // Writing to a string does not fail.
    let _ = writeln!(table, "head = {}", text(head));
    for (key, value) in &found.keys.0 {
        let value = match value {
            Value::Text(value) => text(value),
            Value::Number(number) => toml::Value::Float(*number),
            Value::Flag(flag) => toml::Value::Boolean(*flag),
            Value::Texts(texts) => toml::Value::Array(texts.iter().map(|value| text(value)).collect()),
            Value::Points(_) | Value::Durations(_) | Value::Pair(_) => continue,
        };
        let _ = writeln!(table, "{key} = {value}");
    }
    Some(table)
}

/// A name of a table for a file: its stem, of the characters that need no quotes.
fn name(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '_' {
            c
        } else {
            '-'
        }
    };
    let name: String = stem.chars().take(MAX_NAME).map(plain).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "model" } else { name }.to_owned()
}

fn as_json(
    target: &Target,
    found: &Inspection,
    table: Option<&str>,
    times: Option<&[(u32, f64)]>,
) -> anyhow::Result<String> {
    let mut all = match serde_json::to_value(found)? {
        Json::Object(all) => all,
        _ => Map::new(),
    };
    all.insert("file".to_owned(), json!(target.path.display().to_string()));
    all.insert("table".to_owned(), json!(table));
    if let Some(times) = times {
        let times: Map<String, Json> = times
            .iter()
            .map(|(size, ms)| (size.to_string(), json!(ms)))
            .collect();
        all.insert("ms_by_batch".to_owned(), Json::Object(times));
    }
    Ok(ascii(&serde_json::to_string_pretty(&Json::Object(all))?))
}

/// The JSON with all other characters escaped: a terminal obeys some of them, and shown otherwise it would be no JSON.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() && c != '\u{7f}' {
            text.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(text, "\\u{unit:04x}");
        }
    }
    text
}

fn as_text(target: &Target, found: &Inspection, table: Option<&str>, times: Option<&[(u32, f64)]>) -> String {
    let mut text = String::new();
    let mut facts = vec![Bytes(found.file_bytes).to_string()];
    if !found.producer.is_empty() {
        facts.push(format!("written by {}", found.producer));
    }
    facts.extend(found.ir_version.map(|version| format!("IR version {version}")));
    facts.extend(found.opsets.iter().cloned());
    let path = target.path.display().to_string();
    push(
        &mut text,
        &format!("{}: {}", printable::line(&path), facts.join(", ")),
    );
    ports(&mut text, "inputs", &found.inputs);
    ports(&mut text, "outputs", &found.outputs);
    pairs(&mut text, "metadata", &found.metadata);
    pairs(&mut text, "files beside it", &found.beside);
    if found.class_count > 0 {
        let shown: Vec<&str> = found
            .classes
            .iter()
            .take(SHOWN_CLASSES)
            .map(String::as_str)
            .collect();
        let more = match found.class_count.saturating_sub(shown.len()) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        text.push('\n');
        push(&mut text, &format!("classes: {}{more}", shown.join(", ")));
    }
    let heads: Vec<(String, String)> = found
        .heads
        .iter()
        .map(|head| {
            let said = head.reason.as_deref().map_or_else(
                || "reads it".to_owned(),
                |reason| format!("no: {}", short(reason)),
            );
            (head.name.clone(), said)
        })
        .collect();
    pairs(&mut text, "heads", &heads);
    if let Some(times) = times {
        let of = |(size, ms): &(u32, f64)| {
            (
                format!("batch {size}"),
                format!("{ms:.2} ms, {:.1} items/s", f64::from(*size) * 1e3 / ms.max(1e-3)),
            )
        };
        pairs(
            &mut text,
            "on one core of this machine",
            &times.iter().map(of).collect::<Vec<_>>(),
        );
    }
    if let Some(table) = table {
        text.push_str("\nin a graph\n\n");
        for remark in &found.remarks {
            push(&mut text, &format!("# {remark}"));
        }
        text.push_str(table);
    }
    text.trim_end().to_owned()
}

fn push(text: &mut String, line: &str) {
    text.push_str(&printable::line(line));
    text.push('\n');
}

fn ports(text: &mut String, title: &str, ports: &[InspectedPort]) {
    let pair = |port: &InspectedPort| {
        let size = |size: &Option<usize>| size.map_or_else(|| "?".to_owned(), |size| size.to_string());
        let sizes: Vec<String> = port.shape.iter().map(size).collect();
        let filled = if port.is_computed {
            ", filled by its size"
        } else {
            ""
        };
        (
            port.name.clone(),
            format!("{} [{}]{filled}", port.element, sizes.join(", ")),
        )
    };
    pairs(text, title, &ports.iter().map(pair).collect::<Vec<_>>());
}

/// Lines in two columns under a title.
fn pairs(text: &mut String, title: &str, pairs: &[(String, String)]) {
    if pairs.is_empty() {
        return;
    }
    text.push('\n');
    push(text, title);
    let wide = pairs
        .iter()
        .map(|(name, _)| name.chars().count())
        .max()
        .unwrap_or(0)
        .min(MAX_NAME);
    for (name, value) in pairs {
        push(text, &format!("  {name:wide$}  {value}"));
    }
}

/// The reason of a head without what was said of the outputs before.
fn short(reason: &str) -> &str {
    let said = reason.strip_prefix("outputs for one item are ");
    said.and_then(|rest| rest.split_once("; "))
        .map_or(reason, |(_, reason)| reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tables_need_no_quotes() {
        for (file, expected) in [
            ("runs/best.onnx", "best"),
            ("my model (2).onnx", "my-model--2"),
            ("\u{1b}[31m.onnx", "31m"),
            ("模型.onnx", "model"),
        ] {
            assert_eq!(name(Path::new(file)), expected, "{file}");
        }
    }

    #[test]
    fn json_has_no_character_that_a_terminal_obeys() {
        let text = ascii(&serde_json::to_string("\u{1b}[31m \u{202e} \u{9b} ä \u{1f697} \u{e0001}").unwrap());
        assert!(text.is_ascii() && !text.contains('\u{1b}'), "{text}");
        let read: String = serde_json::from_str(&text).unwrap();
        assert_eq!(read, "\u{1b}[31m \u{202e} \u{9b} ä \u{1f697} \u{e0001}");
    }
}
