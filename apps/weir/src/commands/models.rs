//! `weir models`: what ships with the program, and the zoo on this machine.

use comfy_table::{CellAlignment, Table};
use weir_models::PREFIX;

use crate::error::UserError;
use crate::output;
use crate::report::plain_table;
use crate::settings::Bytes;
use crate::zoo::{Origin, PullSource, Zoo};

/// Licence of the models that ship.
const OURS: &str = "MIT OR Apache-2.0";

/// Prints the models that ship and the zoo as a table.
///
/// # Errors
/// Where standard output is closed.
pub(crate) fn list(zoo: &Zoo) -> anyhow::Result<()> {
    let mut table: Table = plain_table(&["name", "head", "size", "licence", "here", "what"]);
    if let Some(column) = table.column_mut(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for model in weir_models::shipped() {
        let size = Bytes(model.onnx.len() as u64).to_string();
        let name = format!("{PREFIX}{}", model.name);
        table.add_row([&name, &model.head, &size, OURS, "ships", &model.about]);
    }
    for (name, entry) in zoo.entries() {
        let here = match zoo.find(entry) {
            Some(path) if path.starts_with(zoo.cache()) => "cache",
            Some(_) => "mirror",
            None if zoo.is_present(entry) => "of a wrong size",
            None if matches!(entry.origin, Origin::Weights(_)) => "no, mirror only",
            None => "no",
        };
        let size = Bytes(entry.bytes).to_string();
        let head = entry.head.as_deref().unwrap_or("-");
        table.add_row([name, head, &size, &entry.licence, here, &entry.about]);
    }
    output::say(&table.trim_fmt())
}

/// Brings models into the cache: those named, else all that can be had.
///
/// # Errors
/// The first model that could not be had, once all others were tried.
pub(crate) fn pull(names: &[String], zoo: &Zoo) -> anyhow::Result<()> {
    let can_be_had = |origin: &Origin| zoo.mirror().is_some() || matches!(origin, Origin::Url(_));
    let wanted: Vec<&str> = if names.is_empty() {
        zoo.entries()
            .filter(|(_, entry)| can_be_had(&entry.origin))
            .map(|(name, _)| name)
            .collect()
    } else {
        names.iter().map(String::as_str).collect()
    };
    let mut failures: Vec<anyhow::Error> = Vec::new();
    for name in &wanted {
        if let Some(model) = weir_models::find(name) {
            output::say(&format!("{PREFIX}{}: ships with the program", model.name))?;
            continue;
        }
        match zoo.pull(name) {
            Ok(pulled) => {
                let how = match pulled.source {
                    PullSource::Kept => "is here",
                    PullSource::Copied => "copied from the mirror",
                    PullSource::Fetched => "fetched",
                };
                output::say(&format!("{name}: {how}: {}", pulled.path.display()))?;
            }
            Err(error) => failures.push(error),
        }
    }
    let more = failures.len().saturating_sub(1);
    match failures.into_iter().next() {
        None => Ok(()),
        Some(error) if more == 0 => Err(error),
        Some(error) => {
            let all = format!("{error:#} (and {more} more of {} models)", wanted.len());
            Err(if error.is::<UserError>() {
                UserError::new(all).into()
            } else {
                anyhow::anyhow!(all)
            })
        }
    }
}
