//! Keys of operators, heads and sinks against what the catalog says of them.

use std::path::{Path, PathBuf};

use weir_files::io_reason;
use weir_flow::{KeyKind, KeySpec, Settings, Value};
use weir_types::Span;

use crate::document::{Content, Node};
use crate::fields::{Fields, texts};
use crate::problem::Reports;
use crate::spelling;

/// The settings of one table, and whether all of them could be read.
pub(crate) struct ReadSettings {
    pub(crate) settings: Settings,
    pub(crate) whole: bool,
}

/// Reads the keys that `keys` names. A key that stands there twice may hold either kind.
pub(crate) fn read(
    fields: &Fields<'_>,
    keys: &[KeySpec],
    folder: &Path,
    reports: &mut Reports,
) -> ReadSettings {
    let mut read = ReadSettings {
        settings: Settings::default(),
        whole: true,
    };
    for (index, key) in keys.iter().enumerate() {
        let Some(entry) = fields.entry(key.name) else {
            continue;
        };
        if keys[..index].iter().any(|earlier| earlier.name == key.name) {
            continue;
        }
        let fits = |key: &&KeySpec| accepts(key.kind, &entry.node.content);
        let spec = keys
            .iter()
            .filter(|other| other.name == key.name)
            .find(fits)
            .unwrap_or(key);
        if is_left_out(spec.kind, &entry.node.content) {
            continue;
        }
        match value(spec, &entry.node, folder, reports) {
            Some(value) => {
                read.settings.0.insert(key.name.to_owned(), value);
            }
            None => read.whole = false,
        }
    }
    read
}

/// An empty path names nothing: a graph writes `gallery = "${GALLERY:-}"` for what a user may set or leave.
fn is_left_out(kind: KeyKind, content: &Content) -> bool {
    matches!(kind, KeyKind::File | KeyKind::Folder)
        && matches!(content, Content::Text(text) if text.is_empty())
}

/// A path made absolute: relative ones are relative to `folder`.
#[must_use]
pub fn absolute(folder: &Path, path: &str) -> PathBuf {
    folder.join(path).components().collect()
}

fn accepts(kind: KeyKind, content: &Content) -> bool {
    match kind {
        KeyKind::Number { .. } => matches!(content, Content::Number(_) | Content::Whole(_)),
        KeyKind::Integer { .. } => matches!(content, Content::Whole(_)),
        KeyKind::Text
        | KeyKind::OneOf(_)
        | KeyKind::File
        | KeyKind::Folder
        | KeyKind::Duration
        | KeyKind::Bytes => {
            matches!(content, Content::Text(_))
        }
        KeyKind::Texts => matches!(content, Content::List(_)),
        KeyKind::Flag => matches!(content, Content::Flag(_)),
    }
}

fn wanted(kind: KeyKind) -> &'static str {
    match kind {
        KeyKind::Number { .. } => "a number",
        KeyKind::Integer { .. } => "a whole number",
        KeyKind::Text | KeyKind::OneOf(_) => "a text",
        KeyKind::File => "the path of a file",
        KeyKind::Folder => "the path of a folder",
        KeyKind::Texts => "a list of texts, such as [\"a\", \"b\"]",
        KeyKind::Flag => "true or false",
        KeyKind::Duration => "a duration in quotes, such as \"24h\"",
        KeyKind::Bytes => "an amount of bytes in quotes, such as \"64MiB\"",
    }
}

/// Bytes of an amount with its unit, `"64MiB"`; `None` for what is no whole amount above zero.
#[must_use]
pub fn bytes(text: &str) -> Option<u64> {
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = trimmed.split_at(split);
    let unit: u64 = match unit {
        "B" => 1,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    let number: u64 = number.trim().parse().ok()?;
    number.checked_mul(unit).filter(|bytes| *bytes > 0)
}

fn value(spec: &KeySpec, node: &Node, folder: &Path, reports: &mut Reports) -> Option<Value> {
    let (name, at) = (spec.name, node.at);
    match (spec.kind, &node.content) {
        (_, Content::Broken) => None,
        (KeyKind::Number { min, max }, Content::Number(_) | Content::Whole(_)) => {
            let number = match node.content {
                Content::Number(number) => number,
                Content::Whole(whole) => whole as f64,
                _ => return None,
            };
            if (min..=max).contains(&number) {
                return Some(Value::Number(number));
            }
            reports.add(
                at,
                format!("`{name}` must lie between {min} and {max}, not {number}"),
                None,
            );
            None
        }
        (KeyKind::Integer { min, max }, Content::Whole(whole)) => {
            if (min..=max).contains(whole) {
                return Some(Value::Number(*whole as f64));
            }
            reports.add(
                at,
                format!("`{name}` must lie between {min} and {max}, not {whole}"),
                None,
            );
            None
        }
        (KeyKind::Text, Content::Text(text)) => Some(Value::Text(text.clone())),
        (KeyKind::OneOf(words), Content::Text(text)) => {
            if words.contains(&text.as_str()) {
                return Some(Value::Text(text.clone()));
            }
            let hint = spelling::hint(text, "one of", words.iter().copied());
            reports.add(at, format!("`{name}` cannot be \"{text}\""), hint);
            None
        }
        (KeyKind::File | KeyKind::Folder, Content::Text(text)) => path(spec, text, at, folder, reports),
        (KeyKind::Texts, Content::List(list)) => {
            let texts = texts(name, list, reports)?;
            Some(Value::Texts(texts.into_iter().map(|spot| spot.value).collect()))
        }
        (KeyKind::Flag, Content::Flag(flag)) => Some(Value::Flag(*flag)),
        (KeyKind::Duration | KeyKind::Bytes, Content::Text(text)) => {
            let read = match spec.kind {
                KeyKind::Duration => text.parse::<Span>().ok().map(Span::as_secs_f64),
                _ => bytes(text).map(|bytes| bytes as f64),
            };
            let read = read.filter(|amount| *amount > 0.0);
            if read.is_none() {
                let message = format!("`{name}` must be {}, not \"{text}\"", wanted(spec.kind));
                reports.add(at, message, None);
            }
            read.map(Value::Number)
        }
        (kind, other) => {
            reports.add(
                at,
                format!("`{name}` must be {}, not {}", wanted(kind), other.kind()),
                None,
            );
            None
        }
    }
}

fn path(spec: &KeySpec, text: &str, at: usize, folder: &Path, reports: &mut Reports) -> Option<Value> {
    let path = absolute(folder, text);
    let (there, what) = match spec.kind {
        KeyKind::Folder => (path.is_dir(), "folder"),
        _ => (path.exists() && !path.is_dir(), "file"),
    };
    if !there {
        missing(
            &format!("`{}`: there is no {what} \"{text}\"", spec.name),
            &path,
            at,
            reports,
        );
        return None;
    }
    reports.note_file(&path);
    let Some(path) = path.to_str() else {
        reports.add(at, format!("`{}`: the path is no UTF-8", spec.name), None);
        return None;
    };
    Some(Value::Text(path.to_owned()))
}

/// Reports a path that is not there, with a file beside it that may be meant.
pub fn missing(message: &str, path: &Path, at: usize, reports: &mut Reports) {
    if reports.is_full() {
        return reports.add(at, message, None);
    }
    let (parent, meant) = (path.parent(), meant_beside(path));
    if let Err(error) = path.try_exists() {
        return reports.add(
            at,
            message,
            Some(format!("{}: {}", path.display(), io_reason(&error))),
        );
    }
    let hint = match (meant, parent) {
        (Some(meant), _) => format!("did you mean \"{meant}\" beside it?"),
        (None, Some(parent)) if !parent.is_dir() => format!("there is no folder {} either", parent.display()),
        _ => format!(
            "looked for {}; relative paths are relative to the file that names them",
            path.display()
        ),
    };
    reports.add(at, message, Some(hint));
}

/// The file beside a missing one whose name is nearest to it.
pub(crate) fn meant_beside(path: &Path) -> Option<String> {
    if path.exists() {
        return None;
    }
    let name = path.file_name()?.to_str()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let beside: Vec<String> = std::fs::read_dir(folder.unwrap_or(Path::new(".")))
        .ok()?
        .take(BESIDE)
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    spelling::nearest(name, beside.iter().map(String::as_str)).map(str::to_owned)
}

/// How many files beside a missing one are looked at for a likely name.
const BESIDE: usize = 1_000;
