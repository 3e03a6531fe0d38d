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

/// Name, head, size, licence, place on this machine, and task of a model.
type Row = [String; 6];

/// Prints the models that ship and the zoo as a table.
///
/// # Errors
/// Where standard output is closed.
pub(crate) fn list(zoo: &Zoo) -> anyhow::Result<()> {
    print(rows(zoo))
}

/// Prints the models of which a row has all `words`, in any case.
///
/// # Errors
/// If no model has them.
pub(crate) fn search(words: &[String], zoo: &Zoo) -> anyhow::Result<()> {
    let words: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let has_all = |row: &Row| {
        let [name, head, _, licence, _, about] = row;
        let text = format!("{name}\n{head}\n{licence}\n{about}").to_lowercase();
        words.iter().all(|word| text.contains(word.as_str()))
    };
    let found: Vec<Row> = rows(zoo).into_iter().filter(has_all).collect();
    if found.is_empty() {
        let words = words.join(" ");
        return Err(UserError::new(format!(
            "no model has \"{words}\" in its name, head, licence or task: `weir models list` shows all; a file of your own is described \
             by `weir models inspect FILE.onnx`"
        ))
        .into());
    }
    print(found)
}

fn rows(zoo: &Zoo) -> Vec<Row> {
    let shipped = weir_models::shipped().iter().map(|model| {
        let size = Bytes(model.onnx.len() as u64).to_string();
        let name = format!("{PREFIX}{}", model.name);
        [
            name,
            model.head.clone(),
            size,
            OURS.to_owned(),
            "ships".to_owned(),
            model.about.clone(),
        ]
    });
    let of_zoo = zoo.entries().map(|(name, entry)| {
        let here = match zoo.find(entry) {
            Some(path) if path.starts_with(zoo.cache()) => "cache",
            Some(_) => "mirror",
            None if zoo.is_present(entry) => "of a wrong size",
            None if matches!(entry.origin, Origin::Weights(_)) => "no, mirror only",
            None => "no",
        };
        let head = entry.head.as_deref().unwrap_or("-");
        let size = Bytes(entry.bytes).to_string();
        [
            name.to_owned(),
            head.to_owned(),
            size,
            entry.licence.clone(),
            here.to_owned(),
            entry.about.clone(),
        ]
    });
    shipped.chain(of_zoo).collect()
}

fn print(rows: Vec<Row>) -> anyhow::Result<()> {
    let mut table: Table = plain_table(&["name", "head", "size", "licence", "here", "what"]);
    if let Some(column) = table.column_mut(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.add_rows(rows);
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
