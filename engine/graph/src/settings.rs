//! Settings of operators, heads and sinks, checked against the keys that the catalog declares.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;

use weir_config::{
    Content, Diagnostics, Entry, Fields, Node, absolute, parse_bytes, report_missing, spelling, texts,
};
use weir_flow::{KeyKind, KeySpec, Settings, Value};
use weir_types::Span;

/// The settings of one table, and whether all of them are valid.
pub(crate) struct ReadSettings {
    pub(crate) settings: Settings,
    pub(crate) whole: bool,
}

/// Reads the keys that `keys` lists. A key that is listed twice may be of either kind.
pub(crate) fn read(
    fields: &Fields<'_>,
    keys: &[KeySpec],
    folder: &Path,
    diagnostics: &mut Diagnostics,
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
        let fits = |key: &&KeySpec| accepts(key.kind, &entry.node);
        let spec = keys
            .iter()
            .filter(|other| other.name == key.name)
            .find(fits)
            .unwrap_or(key);
        if is_unset(spec.kind, &entry.node) {
            continue;
        }
        match value(spec, &entry.node, folder, diagnostics) {
            Some(value) => {
                read.settings.0.insert(key.name.to_owned(), value);
            }
            None => read.whole = false,
        }
    }
    read
}

/// An empty path counts as absent: a graph writes `gallery = "${GALLERY:-}"` for an optional setting. So does an empty variable for a
/// number or a flag.
fn is_unset(kind: KeyKind, node: &Node) -> bool {
    match kind {
        KeyKind::File | KeyKind::Folder => matches!(&node.content, Content::Text(text) if text.is_empty()),
        KeyKind::Number { .. } | KeyKind::Integer { .. } | KeyKind::Flag => node.is_unset(),
        _ => false,
    }
}

fn accepts(kind: KeyKind, node: &Node) -> bool {
    let content = &node.content;
    match kind {
        KeyKind::Number { .. } => node.number().is_some(),
        KeyKind::Integer { .. } => node.integer().is_some(),
        KeyKind::Text
        | KeyKind::OneOf(_)
        | KeyKind::File
        | KeyKind::Folder
        | KeyKind::Duration
        | KeyKind::Bytes
        | KeyKind::Space => {
            matches!(content, Content::Text(_))
        }
        KeyKind::Durations => matches!(content, Content::Table(_)),
        KeyKind::Texts | KeyKind::Points | KeyKind::Pair { .. } => matches!(content, Content::List(_)),
        KeyKind::Flag => node.flag().is_some(),
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
        KeyKind::Points => "a list of points, such as [[0.1, 0.5], [0.9, 0.5]]",
        KeyKind::Pair { .. } => "two whole numbers, such as [3, 2]",
        KeyKind::Duration => "a duration in quotes, such as \"24h\"",
        KeyKind::Bytes => "an amount of bytes in quotes, such as \"64MiB\"",
        KeyKind::Space => "an amount of bytes or a share in quotes, such as \"20GB\" or \"10%\"",
        KeyKind::Durations => "a table of durations, such as { person = \"30d\", default = \"7d\" }",
    }
}

fn value(spec: &KeySpec, node: &Node, folder: &Path, diagnostics: &mut Diagnostics) -> Option<Value> {
    let (name, at) = (spec.name, node.at);
    match (spec.kind, &node.content) {
        (_, Content::Broken) => None,
        (KeyKind::Number { min, max }, _) if node.number().is_some() => {
            let number = node.number()?;
            if (min..=max).contains(&number) {
                return Some(Value::Number(number));
            }
            diagnostics.add(
                at,
                format!("`{name}` must lie between {min} and {max}, not {number}"),
                None,
            );
            None
        }
        (KeyKind::Integer { min, max }, _) if node.integer().is_some() => {
            let whole = node.integer()?;
            if (min..=max).contains(&whole) {
                return Some(Value::Number(whole as f64));
            }
            diagnostics.add(
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
            diagnostics.add(at, format!("`{name}` cannot be \"{text}\""), hint);
            None
        }
        (KeyKind::File | KeyKind::Folder, Content::Text(text)) => path(spec, text, at, folder, diagnostics),
        (KeyKind::Texts, Content::List(list)) => {
            let texts = texts(name, list, diagnostics)?;
            Some(Value::Texts(
                texts.into_iter().map(|spanned| spanned.value).collect(),
            ))
        }
        (KeyKind::Flag, _) if node.flag().is_some() => node.flag().map(Value::Flag),
        (KeyKind::Points, Content::List(list)) => points(name, list, diagnostics).map(Value::Points),
        (KeyKind::Pair { min, max }, Content::List(list)) => {
            let pair = pair(list, min..=max);
            if pair.is_none() {
                let message = format!("`{name}` must be two whole numbers, each from {min} to {max}");
                diagnostics.add(at, message, Some(format!("{name} = [3, 2]")));
            }
            pair.map(Value::Pair)
        }
        (KeyKind::Durations, Content::Table(entries)) => {
            durations(name, entries, diagnostics).map(Value::Durations)
        }
        (KeyKind::Duration | KeyKind::Bytes | KeyKind::Space, Content::Text(text)) => {
            let read = match spec.kind {
                KeyKind::Duration => text.parse::<Span>().ok().map(Span::as_secs_f64),
                KeyKind::Space if text.trim_end().ends_with('%') => share(text),
                _ => parse_bytes(text).map(|bytes| bytes as f64),
            };
            let read = read.filter(|amount| *amount > 0.0);
            if read.is_none() {
                let message = format!("`{name}` must be {}, not \"{text}\"", wanted(spec.kind));
                diagnostics.add(at, message, None);
            }
            read.map(Value::Number)
        }
        (kind, other) => {
            diagnostics.add(
                at,
                format!("`{name}` must be {}, not {}", wanted(kind), other.kind()),
                None,
            );
            None
        }
    }
}

/// The two whole numbers of a list, if it holds just these.
fn pair(list: &[Node], bounds: RangeInclusive<u32>) -> Option<[u32; 2]> {
    let number = |node: &Node| match node.content {
        Content::Integer(whole) => u32::try_from(whole).ok().filter(|whole| bounds.contains(whole)),
        _ => None,
    };
    match list {
        [first, second] => Some([number(first)?, number(second)?]),
        _ => None,
    }
}

/// A share in percent, from 1 to 99, as a fraction.
fn share(text: &str) -> Option<f64> {
    let percent: u8 = text.trim().strip_suffix('%')?.trim().parse().ok()?;
    (1..=99).contains(&percent).then(|| f64::from(percent) / 100.0)
}

/// The durations of a table in seconds; each entry that is none is reported.
fn durations(name: &str, entries: &[Entry], diagnostics: &mut Diagnostics) -> Option<BTreeMap<String, f64>> {
    let mut durations = BTreeMap::new();
    for Entry { name: of, at, node } in entries {
        let seconds = match &node.content {
            Content::Text(text) => text.parse::<Span>().ok().map(Span::as_secs_f64),
            _ => None,
        };
        let Some(seconds) = seconds.filter(|seconds| *seconds > 0.0) else {
            let message = format!("`{name}.{of}` must be {}", wanted(KeyKind::Duration));
            diagnostics.add(*at, message, None);
            continue;
        };
        durations.insert(of.clone(), seconds);
    }
    (durations.len() == entries.len()).then_some(durations)
}

/// The points of a list; the first that is none is reported.
pub(crate) fn points(name: &str, list: &[Node], diagnostics: &mut Diagnostics) -> Option<Vec<[f64; 2]>> {
    let number = |node: &Node| match node.content {
        Content::Float(number) => Some(number),
        Content::Integer(whole) => Some(whole as f64),
        _ => None,
    };
    let point = |node: &Node| match &node.content {
        Content::List(pair) => match pair.as_slice() {
            [x, y] => Some([number(x)?, number(y)?]),
            _ => None,
        },
        _ => None,
    };
    let mut points = Vec::with_capacity(list.len());
    for node in list {
        let Some(read) = point(node).filter(|point| point.iter().all(|number| number.is_finite())) else {
            let hint = Some(format!("{name} = [[0.1, 0.5], [0.9, 0.5]]"));
            diagnostics.add(
                node.at,
                format!("`{name}` must hold points, each of two numbers"),
                hint,
            );
            return None;
        };
        points.push(read);
    }
    Some(points)
}

fn path(
    spec: &KeySpec,
    text: &str,
    at: usize,
    folder: &Path,
    diagnostics: &mut Diagnostics,
) -> Option<Value> {
    let path = absolute(folder, text);
    let (there, what) = match spec.kind {
        KeyKind::Folder => (path.is_dir(), "folder"),
        _ => (path.exists() && !path.is_dir(), "file"),
    };
    if !there {
        report_missing(
            &format!("`{}`: there is no {what} \"{text}\"", spec.name),
            &path,
            at,
            diagnostics,
        );
        return None;
    }
    diagnostics.record_file(&path);
    let Some(path) = path.to_str() else {
        diagnostics.add(at, format!("`{}`: the path is not UTF-8", spec.name), None);
        return None;
    };
    Some(Value::Text(path.to_owned()))
}
