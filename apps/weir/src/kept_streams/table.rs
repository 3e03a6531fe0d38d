//! Tables of added streams in the text of a graph. Each is written behind all others, below a [`MARK`]; only tables with it are
//! changed or removed. All other bytes of the text stay as they are.
//!
//! An edit is made by positions of the parsed text, and given only where the result parses to what was meant.

use std::ops::Range;

use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};
use weir_graph::text_edit::{
    key_text, line_end, lines_around, table_keys, value_text, without_empty_line, without_line_end,
};

/// The comment above the table of an added stream.
const MARK: &str = "# Added while weir serve ran.";

/// The section of streams.
const SECTION: &str = "sources";

/// The table of a stream as text, a line for each key.
pub(crate) fn table_lines(name: &str, keys: &Table) -> Vec<String> {
    std::iter::once(format!("[{SECTION}.{}]", key_text(name)))
        .chain(table_keys(keys))
        .collect()
}

/// The text with the table of another stream at its end; `None` where it cannot be added there.
pub(crate) fn with_table(text: &str, name: &str, keys: &Table) -> Option<String> {
    let end = line_end(text);
    let mut lines = vec![MARK.to_owned()];
    lines.extend(table_lines(name, keys));
    let table = lines.join(end);
    let edited = if text.is_empty() || text.ends_with('\n') {
        format!("{text}{end}{table}{end}")
    } else {
        // The text has no line end after it, and so does its last table.
        format!("{text}{end}{end}{table}")
    };
    let mut meant: Table = text.parse().ok()?;
    let sources = meant
        .entry(SECTION)
        .or_insert_with(|| Value::Table(Table::new()))
        .as_table_mut()?;
    if sources.insert(name.to_owned(), keys.clone().into()).is_some() {
        return None;
    }
    parses_to(edited, &meant)
}

/// The text without the table of an added stream; `None` where it has no such table by itself.
pub(crate) fn without_table(text: &str, name: &str) -> Option<String> {
    let (document, _) = DeTable::parse_recoverable(text);
    let found = MarkedTable::find(text, document.get_ref(), name)?;
    let before = &text[..found.start];
    let after = &text[found.end..];
    let before = without_empty_line(before);
    let edited = if after.is_empty() && !text.ends_with('\n') {
        format!("{}{after}", without_line_end(before))
    } else {
        format!("{before}{after}")
    };
    let mut meant: Table = text.parse().ok()?;
    let sources = meant.get_mut(SECTION)?.as_table_mut()?;
    sources.remove(name)?;
    let is_empty = sources.is_empty();
    parses_to(edited.clone(), &meant).or_else(|| {
        meant.remove(SECTION).filter(|_| is_empty)?;
        parses_to(edited, &meant)
    })
}

/// The text with other values of keys in the table of an added stream, `None` for a key that is taken out; `None` where it has
/// no such table.
pub(crate) fn with_keys(text: &str, name: &str, changes: &[(&str, Option<Value>)]) -> Option<String> {
    let (document, _) = DeTable::parse_recoverable(text);
    let found = MarkedTable::find(text, document.get_ref(), name)?;
    let mut meant: Table = text.parse().ok()?;
    let keys = meant.get_mut(SECTION)?.get_mut(name)?.as_table_mut()?;
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    for (key, value) in changes {
        let there = found.keys.get_key_value(*key);
        match (there, value) {
            (Some((_, there)), Some(value)) => edits.push((there.span(), value_text(value))),
            (Some((there, _)), None) => edits.push((lines_around(text, there.span()), String::new())),
            (None, Some(value)) => {
                let line = format!("{key} = {}{}", value_text(value), line_end(text));
                edits.push((found.header_end..found.header_end, line));
            }
            (None, None) => {}
        }
        match value {
            Some(value) => _ = keys.insert((*key).to_owned(), value.clone()),
            None => _ = keys.remove(*key),
        }
    }
    edits.sort_by_key(|(range, _)| range.start);
    let mut edited = text.to_owned();
    for (range, replacement) in edits.into_iter().rev() {
        edited.replace_range(range, &replacement);
    }
    parses_to(edited, &meant)
}

fn parses_to(text: String, meant: &Table) -> Option<String> {
    let parsed: Table = text.parse().ok()?;
    (parsed == *meant).then_some(text)
}

/// A table below a mark, by its place in the text.
struct MarkedTable<'d> {
    /// Beginning of the line of its mark.
    start: usize,
    /// Beginning of the line after its header.
    header_end: usize,
    /// End of its last line, with the line end.
    end: usize,
    keys: &'d DeTable<'d>,
}

impl<'d> MarkedTable<'d> {
    fn find(text: &str, document: &'d DeTable<'d>, name: &str) -> Option<Self> {
        let sources = document.get(SECTION)?.get_ref().as_table()?;
        let value = sources.get(name)?;
        let keys = value.get_ref().as_table()?;
        let header = lines_around(text, value.span());
        let is_header = text.get(header.clone())?.trim_end() == format!("[{SECTION}.{}]", key_text(name));
        let mark = lines_around(text, header.start.checked_sub(1)?..header.start - 1);
        if !is_header || text.get(mark.clone())?.trim_end() != MARK {
            return None;
        }
        let last = last_end(value);
        Some(Self {
            start: mark.start,
            header_end: header.end,
            end: lines_around(text, last..last).end,
            keys,
        })
    }
}

/// The end of the last value of a table.
fn last_end(value: &Spanned<DeValue<'_>>) -> usize {
    let inner = match value.get_ref() {
        DeValue::Table(table) => table.iter().map(|(_, value)| last_end(value)).max(),
        DeValue::Array(list) => list.iter().map(last_end).max(),
        _ => None,
    };
    inner.unwrap_or(0).max(value.span().end)
}

#[cfg(test)]
mod tests;
