//! Declared durations by batch size, the key `profile`: inline, or in a file of its own under `[durations]`.

use std::path::Path;

use weir_types::Span;

use crate::diagnostics::Diagnostics;
use crate::document::{self, Content, Entry, Node};
use crate::paths::{absolute, report_missing};
use crate::text::read_text;
use crate::variables::Environment;

/// Batch sizes, ascending, with the duration of one batch of each: from a table, or from the file that `node` names,
/// relative to `folder`. `None` where something was reported.
pub fn durations(
    node: &Node,
    folder: &Path,
    environment: Environment<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<Vec<(u32, Span)>> {
    match &node.content {
        Content::Broken => None,
        Content::Table(entries) => from_table(entries, node.at, diagnostics),
        Content::Text(name) => {
            let path = absolute(folder, name);
            if !path.exists() {
                let message = format!("`profile`: there is no file \"{name}\"");
                report_missing(&message, &path, node.at, diagnostics);
                return None;
            }
            from_file(name, &path, node.at, environment, diagnostics)
        }
        other => {
            let hint =
                Some("profile = { \"1\" = \"8ms\", \"4\" = \"30ms\" }, or the path of a file".to_owned());
            diagnostics.add(node.at, format!("`profile` cannot be {}", other.kind()), hint);
            None
        }
    }
}

fn from_file(
    name: &str,
    path: &Path,
    at: usize,
    environment: Environment<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<Vec<(u32, Span)>> {
    let text = match read_text(path) {
        Ok(text) => text,
        Err(reason) => {
            diagnostics.add(at, format!("`profile`: cannot read \"{name}\": {reason}"), None);
            return None;
        }
    };
    let mut inner = Diagnostics::new(path, &text);
    let document = document::parse(&text, environment, &mut inner);
    let table = document.iter().find(|entry| entry.name == "durations");
    let found = match table.map(|entry| (&entry.node.content, entry.at)) {
        Some((Content::Table(entries), at)) => from_table(entries, at, &mut inner),
        Some(_) | None => {
            let hint = Some("[durations], then \"1\" = \"8ms\" and so on".to_owned());
            inner.add_if_parsed(0, "a profile needs its table [durations]", hint);
            None
        }
    };
    diagnostics.absorb(inner);
    found
}

fn from_table(entries: &[Entry], at: usize, diagnostics: &mut Diagnostics) -> Option<Vec<(u32, Span)>> {
    let mut profile = Vec::with_capacity(entries.len());
    let mut complete = true;
    for entry in entries {
        let size = entry.name.parse::<u32>().ok().filter(|size| *size > 0);
        if size.is_none() {
            let message = format!("\"{}\" is not a batch size", entry.name.escape_debug());
            diagnostics.add(
                entry.at,
                message,
                Some("\"4\" = \"30ms\": a batch of 4 takes 30 ms".to_owned()),
            );
        }
        let span = match &entry.node.content {
            Content::Text(text) => text.parse::<Span>().ok().filter(|span| *span > Span::ZERO),
            _ => None,
        };
        if span.is_none() && !matches!(entry.node.content, Content::Broken) {
            let hint = Some("write a number with a unit in quotes, such as \"8ms\"".to_owned());
            let message = match &entry.node.content {
                Content::Text(text) => format!("\"{text}\" is not a duration above zero"),
                other => format!("a duration must be a text, not {}", other.kind()),
            };
            diagnostics.add(entry.node.at, message, hint);
        }
        match size.zip(span) {
            Some(point) => profile.push(point),
            None => complete = false,
        }
    }
    if entries.is_empty() {
        diagnostics.add(
            at,
            "the profile is empty",
            Some("at least \"1\" = \"8ms\"".to_owned()),
        );
        return None;
    }
    profile.sort_unstable();
    if let Some(pair) = profile.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        // "1" and "01" are two keys to TOML.
        diagnostics.add(at, format!("batch size {} is given twice", pair[0].0), None);
        complete = false;
    }
    complete.then_some(profile)
}
