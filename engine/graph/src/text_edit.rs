//! Edits of keys and tables in the text of a graph. An edit adds, replaces or removes the lines of its key; all other bytes, such
//! as comments and line ends, stay as they are.
//!
//! An edit is made at positions of the parsed text, and only if its result parses to the intended document.

use std::fmt::Write;
use std::ops::Range;

use thiserror::Error;
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

/// Keys that come first in a table, in this order.
const LEADING_KEYS: [&str; 5] = ["type", "operator", "uri", "inputs", "points"];

/// Reason why a text is not edited.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EditError {
    /// The text cannot be parsed.
    #[error("the text is not TOML; correct it first: {0}")]
    NotToml(String),
    /// The path is empty, or leads through a value that is not a table.
    #[error("`{0}` cannot be a key: a part of it is not a table")]
    NotTable(String),
    /// The text has the key in a form that edits leave alone.
    #[error("`{0}` is written in a form that is not edited here; change it in the text")]
    Form(String),
}

/// Sets the key at `path`. A table that has lines of its own is changed key by key, so that its comments stay.
///
/// # Errors
/// [`EditError`]; the text was not TOML, or the key cannot be written at this path.
pub fn set(text: &str, path: &[&str], value: &Value) -> Result<String, EditError> {
    let before = parse(text)?;
    let mut meant = before.clone();
    put(&mut meant, path, Some(value)).ok_or_else(|| EditError::NotTable(path.join(".")))?;
    if meant == before {
        return Ok(text.to_owned());
    }
    let edited = {
        let (document, _) = DeTable::parse_recoverable(text);
        let root = document.get_ref();
        match find(root, path).map(|(_, there)| there) {
            None => insertions(text, root, path, value)
                .into_iter()
                .map(|(at, lines)| format!("{}{lines}{}", &text[..at], &text[at..]))
                .find(|edited| is_meant(edited, &meant, &[])),
            Some(there) if !has_lines(text, there) => {
                let span = there.span();
                let new = value_text(value);
                Some(format!("{}{new}{}", &text[..span.start], &text[span.end..]))
            }
            Some(there) => match (there.get_ref(), value) {
                (DeValue::Table(old), Value::Table(new)) => Some(set_keys(text, path, old, new)?),
                _ => Some(set(&remove(text, path)?, path, value)?),
            },
        }
    };
    edited
        .filter(|edited| is_meant(edited, &meant, &[]))
        .ok_or_else(|| EditError::Form(path.join(".")))
}

/// Removes the key or table at `path`; an absent one is no error. Comments on lines of their own before it stay.
///
/// # Errors
/// As [`set`].
pub fn remove(text: &str, path: &[&str]) -> Result<String, EditError> {
    let mut meant = parse(text)?;
    put(&mut meant, path, None).ok_or_else(|| EditError::NotTable(path.join(".")))?;
    let (document, _) = DeTable::parse_recoverable(text);
    let root = document.get_ref();
    let Some((key, there)) = find(root, path) else {
        return Ok(text.to_owned());
    };
    let parent = path.split_last().and_then(|(_, parents)| find(root, parents));
    let mut ranges = Vec::new();
    if parent.is_some_and(|(_, parent)| is_inline(text, parent)) {
        ranges.push(item_of_inline(text, key.start..there.span().end));
    } else if has_lines(text, there) {
        let headers = headers(text, root);
        lines_of_table(text, there, &headers, &mut ranges);
    } else {
        ranges.push(lines_around(text, key.start..there.span().end));
    }
    ranges.sort_by_key(|range| range.start);
    let mut edited = String::with_capacity(text.len());
    let mut end = 0;
    for range in ranges {
        edited.push_str(text.get(end..range.start).unwrap_or_default());
        end = end.max(range.end);
    }
    let after = &text[end..];
    if after.is_empty() && !text.ends_with('\n') {
        edited.truncate(without_line_end(&edited).len());
    }
    edited.push_str(after);
    if is_meant(&edited, &meant, path) {
        Ok(edited)
    } else {
        Err(EditError::Form(path.join(".")))
    }
}

fn parse(text: &str) -> Result<Table, EditError> {
    text.parse()
        .map_err(|error: toml::de::Error| EditError::NotToml(weir_config::toml_error(text, &error)))
}

/// Sets or removes a key of a document; `None` if a part of the path is not a table.
fn put(document: &mut Table, path: &[&str], value: Option<&Value>) -> Option<()> {
    let (last, parents) = path.split_last()?;
    let mut table = document;
    for name in parents {
        let entry = table.entry((*name).to_owned());
        table = entry.or_insert_with(|| Table::new().into()).as_table_mut()?;
    }
    match value {
        Some(value) => _ = table.insert((*last).to_owned(), value.clone()),
        None => _ = table.remove(*last),
    }
    Some(())
}

/// True if the text parses to the document. Tables along `path` that are empty in one of them may be absent in the other.
fn is_meant(text: &str, meant: &Table, path: &[&str]) -> bool {
    let pruned = |table: &Table| {
        let mut table = table.clone();
        prune(&mut table, path);
        table
    };
    text.parse::<Table>()
        .is_ok_and(|parsed| pruned(&parsed) == pruned(meant))
}

fn prune(table: &mut Table, path: &[&str]) {
    let Some((first, rest)) = path.split_first() else {
        return;
    };
    if let Some(Value::Table(inner)) = table.get_mut(*first) {
        prune(inner, rest);
        if inner.is_empty() {
            table.remove(*first);
        }
    }
}

/// The value at a path, with the span of its key.
fn find<'d>(root: &'d DeTable<'d>, path: &[&str]) -> Option<(Range<usize>, &'d Spanned<DeValue<'d>>)> {
    let (last, parents) = path.split_last()?;
    let mut table = root;
    for name in parents {
        table = table.get(*name)?.get_ref().as_table()?;
    }
    let (key, value) = table.get_key_value(*last)?;
    Some((key.span(), value))
}

fn is_inline(text: &str, value: &Spanned<DeValue<'_>>) -> bool {
    text[value.span().start..].starts_with('{')
}

fn has_header(text: &str, value: &Spanned<DeValue<'_>>) -> bool {
    value.get_ref().is_table() && text[value.span().start..].starts_with('[')
}

/// True for a table with a header, or whose keys are dotted: it has lines of its own.
fn has_lines(text: &str, value: &Spanned<DeValue<'_>>) -> bool {
    value.get_ref().is_table() && !is_inline(text, value)
}

/// Changes a table key by key.
fn set_keys(text: &str, path: &[&str], old: &DeTable<'_>, new: &Table) -> Result<String, EditError> {
    let mut edited = text.to_owned();
    for (key, value) in new {
        edited = set(&edited, &[path, &[key]].concat(), value)?;
    }
    for (key, _) in old.iter() {
        if !new.contains_key(key.get_ref().as_ref()) {
            edited = remove(&edited, &[path, &[key.get_ref()]].concat())?;
        }
    }
    Ok(edited)
}

/// Beginnings of all headers of the text, in order.
fn headers(text: &str, root: &DeTable<'_>) -> Vec<usize> {
    fn collect(text: &str, value: &Spanned<DeValue<'_>>, starts: &mut Vec<usize>) {
        match value.get_ref() {
            DeValue::Table(table) => {
                if has_header(text, value) {
                    starts.push(value.span().start);
                }
                table.iter().for_each(|(_, value)| collect(text, value, starts));
            }
            DeValue::Array(list) => list.iter().for_each(|value| collect(text, value, starts)),
            _ => {}
        }
    }
    let mut starts = Vec::new();
    root.iter()
        .for_each(|(_, value)| collect(text, value, &mut starts));
    starts.sort_unstable();
    starts
}

/// Spans from key to value of all keys of a table whose values have no lines of their own, without those of inner headers.
fn leaves(text: &str, table: &DeTable<'_>, found: &mut Vec<Range<usize>>) {
    for (key, value) in table.iter() {
        match value.get_ref() {
            DeValue::Table(_) if has_header(text, value) => {}
            DeValue::Table(inner) if !is_inline(text, value) => leaves(text, inner, found),
            _ => found.push(key.span().start..value.span().end),
        }
    }
}

/// The last line of a table within a section: of its own keys, or of the header.
fn end_of_section(text: &str, table: &DeTable<'_>, section: &Range<usize>) -> usize {
    let mut found = Vec::new();
    leaves(text, table, &mut found);
    let ends = found.iter().filter(|leaf| section.contains(&leaf.start));
    let last = ends.map(|leaf| leaf.end).max();
    match last {
        Some(last) => lines_around(text, last..last).end,
        None if section.start == 0 => 0,
        None => lines_around(text, section.start..section.start).end,
    }
}

/// The part of the text from a header to the next one.
fn section_at(text: &str, start: usize, headers: &[usize]) -> Range<usize> {
    let next = headers.iter().find(|header| **header > start);
    start..next.copied().unwrap_or(text.len())
}

/// Places where an absent key could be written, the best first, each with its text.
fn insertions(text: &str, root: &DeTable<'_>, path: &[&str], value: &Value) -> Vec<(usize, String)> {
    let headers = headers(text, root);
    let mut places = Vec::new();
    if let (Value::Table(keys), 1 | 2) = (value, path.len()) {
        places.push(new_section(text, root, (path, keys), &headers));
    }
    let (parents, last) = path.split_at(path.len().saturating_sub(1));
    let nearest = find(root, parents).and_then(|(_, parent)| parent.get_ref().as_table());
    for depth in (1..path.len()).rev() {
        let Some((_, parent)) = find(root, &path[..depth]) else {
            continue;
        };
        let Some(table) = parent.get_ref().as_table() else {
            continue;
        };
        let item = format!("{} = {}", keys_text(&path[depth..]), value_text(value));
        if is_inline(text, parent) {
            places.push(insertion_of_inline(text, table, (parent.span().end, item)));
        } else if has_header(text, parent) {
            let section = section_at(text, parent.span().start, &headers);
            // Beside its siblings, if they are in this section.
            let beside = nearest.map(|nearest| end_of_section(text, nearest, &section));
            let header = lines_around(text, section.start..section.start).end;
            let at = beside.filter(|at| *at > header);
            let at = at.unwrap_or_else(|| end_of_section(text, table, &section));
            places.push(at_line(text, at, &item));
        }
    }
    if path.len() == 1 {
        let section = 0..headers.first().copied().unwrap_or(text.len());
        let item = format!("{} = {}", key_text(path[0]), value_text(value));
        places.push(at_line(text, end_of_section(text, root, &section), &item));
    } else if let [last] = last {
        let keys = Table::from_iter([((*last).to_owned(), value.clone())]);
        places.push(new_section(text, root, (parents, &keys), &headers));
    }
    places
}

/// A line at the beginning of another one, or behind a last line that has no line end.
fn at_line(text: &str, at: usize, line: &str) -> (usize, String) {
    let end = line_end(text);
    if at == 0 || text[..at].ends_with('\n') {
        (at, format!("{line}{end}"))
    } else {
        (at, format!("{end}{line}"))
    }
}

/// A table with a header behind the last one of its kind, or at the end of the text.
fn new_section(
    text: &str,
    root: &DeTable<'_>,
    (path, keys): (&[&str], &Table),
    headers: &[usize],
) -> (usize, String) {
    let end = line_end(text);
    let mut lines = vec![format!("[{}]", keys_text(path))];
    lines.extend(table_keys(keys));
    let siblings = path.first().and_then(|first| root.get(*first));
    let last = siblings.and_then(|siblings| last_section(text, siblings, headers));
    let at = last.unwrap_or(text.len());
    let table = lines.join(end);
    if at == 0 {
        (at, format!("{table}{end}"))
    } else if text[..at].ends_with('\n') {
        (at, format!("{end}{table}{end}"))
    } else {
        (at, format!("{end}{end}{table}"))
    }
}

/// End of the last section with a header at or below a table.
fn last_section(text: &str, value: &Spanned<DeValue<'_>>, headers: &[usize]) -> Option<usize> {
    let table = value.get_ref().as_table()?;
    let own = has_header(text, value).then(|| {
        let section = section_at(text, value.span().start, headers);
        end_of_section(text, table, &section)
    });
    let inner = table
        .iter()
        .filter_map(|(_, value)| last_section(text, value, headers));
    inner.chain(own).max()
}

/// Lines of a table and of all tables below it, with the empty line before a header.
fn lines_of_table(
    text: &str,
    value: &Spanned<DeValue<'_>>,
    headers: &[usize],
    ranges: &mut Vec<Range<usize>>,
) {
    let Some(table) = value.get_ref().as_table() else {
        return;
    };
    if has_header(text, value) {
        let section = section_at(text, value.span().start, headers);
        let start = lines_around(text, section.start..section.start).start;
        let start = without_empty_line(&text[..start]).len();
        ranges.push(start..end_of_section(text, table, &section));
    } else {
        let mut found = Vec::new();
        leaves(text, table, &mut found);
        ranges.extend(found.into_iter().map(|leaf| lines_around(text, leaf)));
    }
    let tables = table.iter().filter(|(_, value)| has_lines(text, value));
    tables.for_each(|(_, value)| lines_of_table(text, value, headers, ranges));
}

/// An item of an inline table with its comma.
fn item_of_inline(text: &str, item: Range<usize>) -> Range<usize> {
    let after = &text[item.end..];
    let rest = after.trim_start();
    if let Some(rest) = rest.strip_prefix(',') {
        return item.start..text.len() - rest.trim_start().len();
    }
    let before = text[..item.start].trim_end();
    let start = before.strip_suffix(',').map_or(item.start, str::len);
    start..item.end
}

/// An item behind the last one of an inline table that ends at `end`.
fn insertion_of_inline(text: &str, table: &DeTable<'_>, (end, item): (usize, String)) -> (usize, String) {
    let mut found = Vec::new();
    leaves(text, table, &mut found);
    match found.iter().map(|leaf| leaf.end).max() {
        Some(at) => (at, format!(", {item}")),
        None => (end.saturating_sub(1), format!(" {item} ")),
    }
}

/// The lines that hold a range, with the line end of the last one.
#[must_use]
pub fn lines_around(text: &str, range: Range<usize>) -> Range<usize> {
    let before = text.get(..range.start).unwrap_or_default();
    let after = text.get(range.end..).unwrap_or_default();
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let end = after.find('\n').map_or(text.len(), |at| range.end + at + 1);
    start..end
}

/// The text without a line end at its end.
#[must_use]
pub fn without_line_end(text: &str) -> &str {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.strip_suffix('\r').unwrap_or(text)
}

/// The lines before the last one, if that one is empty.
#[must_use]
pub fn without_empty_line(lines: &str) -> &str {
    let before = without_line_end(lines);
    if before.len() < lines.len() && (before.is_empty() || before.ends_with('\n')) {
        before
    } else {
        lines
    }
}

/// The line end of a text: that of its first line.
#[must_use]
pub fn line_end(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// The keys of a table with their values, as lines.
pub fn table_keys(keys: &Table) -> impl Iterator<Item = String> {
    let mut lines: Vec<_> = keys.iter().collect();
    let rank = |key: &str| LEADING_KEYS.iter().position(|leading| *leading == key);
    lines.sort_by_key(|(key, _)| rank(key).unwrap_or(LEADING_KEYS.len()));
    let lines = lines.into_iter();
    lines.map(|(key, value)| format!("{} = {}", key_text(key), value_text(value)))
}

/// A dotted key.
fn keys_text(path: &[&str]) -> String {
    let keys: Vec<String> = path.iter().map(|key| key_text(key)).collect();
    keys.join(".")
}

/// A key as it is written: letters, digits, `-` and `_` of ASCII need no quotes.
#[must_use]
pub fn key_text(key: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if !key.is_empty() && key.chars().all(is_bare) {
        key.to_owned()
    } else {
        quoted(key)
    }
}

/// A value on one line.
#[must_use]
pub fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(list) => {
            let items: Vec<String> = list.iter().map(value_text).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Table(table) if table.is_empty() => "{}".to_owned(),
        Value::Table(table) => {
            let items: Vec<String> = table_keys(table).collect();
            format!("{{ {} }}", items.join(", "))
        }
        value => value.to_string(),
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            // Writing to a text does not fail.
            c if c.is_control() => _ = write!(quoted, "\\u{:04X}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
