//! The keys of one table: which are allowed, and of which kind. What a value means is up to the reader.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use weir_types::Span;

use crate::bytes::parse_bytes;
use crate::diagnostics::Diagnostics;
use crate::document::{Content, Entry, Node};
use crate::spelling;

/// Frame rates: from one in a quarter of an hour, a time lapse, to more than any camera delivers.
const MIN_FRAME_RATE: f64 = 0.001;
const MAX_FRAME_RATE: f64 = 1000.0;

/// A value with its position.
#[derive(Debug, Clone, PartialEq)]
pub struct Spanned<T> {
    /// The parsed value, of the type that its key needs.
    pub value: T,
    /// Byte offset into the text.
    pub at: usize,
}

impl<T> Spanned<T> {
    /// `at` is a byte offset into the text.
    pub fn new(value: T, at: usize) -> Self {
        Self { value, at }
    }
}

/// The value of a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Field<T> {
    /// The key is absent.
    Absent,
    /// The key is present, but its value is of the wrong kind; the problem has been reported.
    Broken,
    /// The key is present with a value of the right kind.
    Given(Spanned<T>),
}

impl<T> Field<T> {
    /// The value with its position, if present.
    pub fn given(&self) -> Option<&Spanned<T>> {
        match self {
            Self::Given(spanned) => Some(spanned),
            Self::Absent | Self::Broken => None,
        }
    }

    /// The value, if present.
    pub fn into_value(self) -> Option<T> {
        match self {
            Self::Given(spanned) => Some(spanned.value),
            Self::Absent | Self::Broken => None,
        }
    }

    /// Whether the key is absent.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// Converts the value; `turn` reports why where it cannot.
    pub fn and_then<U>(self, turn: impl FnOnce(Spanned<T>) -> Option<U>) -> Field<U> {
        match self {
            Self::Absent => Field::Absent,
            Self::Broken => Field::Broken,
            Self::Given(spanned) => {
                let at = spanned.at;
                turn(spanned).map_or(Field::Broken, |value| Field::Given(Spanned::new(value, at)))
            }
        }
    }
}

/// The keys of one table.
pub struct Fields<'d> {
    /// Name of the table for messages: `module "plates"`.
    pub owner: String,
    /// Byte offset of the table's name.
    pub at: usize,
    /// Entries by the key each is read as.
    entries: Vec<(String, &'d Entry)>,
}

impl<'d> Fields<'d> {
    /// Opens the table of `entry`; `None`, reported, where it is not a table.
    pub fn open(owner: String, entry: &'d Entry, diagnostics: &mut Diagnostics) -> Option<Self> {
        match &entry.node.content {
            Content::Table(entries) => {
                let entries = entries.iter().map(|entry| (entry.name.clone(), entry)).collect();
                Some(Self {
                    owner,
                    at: entry.at,
                    entries,
                })
            }
            Content::Broken => None,
            other => {
                diagnostics.add(
                    entry.at,
                    format!("{owner} must be a table, not {}", other.kind()),
                    None,
                );
                None
            }
        }
    }

    /// The text of the key `name`, or of one that is probably a misspelling of it. Reports nothing.
    pub fn peek(&self, name: &str) -> Option<Spanned<&'d str>> {
        let slip = || {
            self.entries
                .iter()
                .find(|(key, _)| spelling::nearest(key, [name]).is_some())
        };
        let (_, entry) = self.entries.iter().find(|(key, _)| key == name).or_else(slip)?;
        match &entry.node.content {
            Content::Text(text) => Some(Spanned::new(text, entry.node.at)),
            _ => None,
        }
    }

    /// Reports unknown keys. A misspelling of a known key is read as that key, so that it is not also reported as
    /// missing. Where `open_ended`, only misspellings are reported: which other keys are allowed is not known.
    pub fn expect(&mut self, known: &[&str], open_ended: bool, diagnostics: &mut Diagnostics) {
        let present: BTreeSet<&str> = self.entries.iter().map(|(_, entry)| &*entry.name).collect();
        let free: Vec<&str> = known
            .iter()
            .copied()
            .filter(|known| !present.contains(known))
            .collect();
        for (name, entry) in &mut self.entries {
            if known.contains(&name.as_str()) {
                continue;
            }
            if diagnostics.is_full() {
                return;
            }
            let meant = spelling::nearest(name, free.iter().copied());
            if open_ended && meant.is_none() {
                continue;
            }
            let hint = meant
                .map(|meant| format!("did you mean \"{meant}\"?"))
                .or_else(|| spelling::list("keys", known.iter().copied()));
            diagnostics.add(entry.at, format!("{} has no key \"{name}\"", self.owner), hint);
            if let Some(meant) = meant {
                *name = meant.to_owned();
            }
        }
    }

    /// The entry of a key.
    pub fn entry(&self, name: &str) -> Option<&'d Entry> {
        self.entries
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, entry)| *entry)
    }

    /// Reads a key by `read`, whose error says what the value must be.
    pub fn read<T>(
        &self,
        name: &str,
        diagnostics: &mut Diagnostics,
        read: impl FnOnce(&'d Node) -> Result<T, String>,
    ) -> Field<T> {
        let Some(entry) = self.entry(name) else {
            return Field::Absent;
        };
        if matches!(entry.node.content, Content::Broken) {
            return Field::Broken;
        }
        match read(&entry.node) {
            Ok(value) => Field::Given(Spanned::new(value, entry.node.at)),
            Err(wanted) => {
                let got = entry.node.content.kind();
                diagnostics.add(
                    entry.node.at,
                    format!("`{name}` must be {wanted}, not {got}"),
                    None,
                );
                Field::Broken
            }
        }
    }

    /// A non-empty text.
    pub fn text(&self, name: &str, diagnostics: &mut Diagnostics) -> Field<String> {
        let field = self.read(name, diagnostics, |node| match &node.content {
            Content::Text(text) => Ok(text.clone()),
            _ => Err("a text".to_owned()),
        });
        field.and_then(|spanned| {
            if spanned.value.trim().is_empty() {
                diagnostics.add(spanned.at, format!("`{name}` is empty"), None);
                return None;
            }
            Some(spanned.value)
        })
    }

    /// Reads a number or a flag; `wanted` says what the value must be. A variable that is not set leaves the key absent.
    fn scalar<T>(
        &self,
        name: &str,
        value: fn(&Node) -> Option<T>,
        wanted: impl FnOnce() -> String,
        diagnostics: &mut Diagnostics,
    ) -> Field<T> {
        if self.entry(name).is_some_and(|entry| entry.node.is_unset()) {
            return Field::Absent;
        }
        self.read(name, diagnostics, |node| value(node).ok_or_else(wanted))
    }

    /// True or false.
    pub fn flag(&self, name: &str, diagnostics: &mut Diagnostics) -> Field<bool> {
        self.scalar(name, Node::flag, || "true or false".to_owned(), diagnostics)
    }

    /// A number above zero.
    pub fn positive(&self, name: &str, diagnostics: &mut Diagnostics) -> Field<f64> {
        let field = self.scalar(name, Node::number, || "a number".to_owned(), diagnostics);
        field.and_then(|spanned| {
            if spanned.value > 0.0 && spanned.value.is_finite() {
                return Some(spanned.value);
            }
            diagnostics.add(spanned.at, format!("`{name}` must be above zero"), None);
            None
        })
    }

    /// A number within bounds; `hint` is the advice for one outside.
    pub fn number(
        &self,
        name: &str,
        bounds: RangeInclusive<f64>,
        hint: Option<&str>,
        diagnostics: &mut Diagnostics,
    ) -> Field<f64> {
        let (min, max) = (bounds.start(), bounds.end());
        let wanted = || format!("a number from {min} to {max}");
        let field = self.scalar(name, Node::number, wanted, diagnostics);
        field.and_then(|spanned| {
            if bounds.contains(&spanned.value) {
                return Some(spanned.value);
            }
            let message = format!("`{name}` must lie between {min} and {max}, not {}", spanned.value);
            diagnostics.add(spanned.at, message, hint.map(str::to_owned));
            None
        })
    }

    /// A whole number within bounds.
    pub fn whole(
        &self,
        name: &str,
        bounds: RangeInclusive<u32>,
        diagnostics: &mut Diagnostics,
    ) -> Field<u32> {
        let (min, max) = (bounds.start(), bounds.end());
        let wanted = || format!("a whole number from {min} to {max}");
        let field = self.scalar(name, Node::integer, wanted, diagnostics);
        field.and_then(|spanned| match u32::try_from(spanned.value) {
            Ok(whole) if bounds.contains(&whole) => Some(whole),
            _ => {
                let message = format!("`{name}` must lie between {min} and {max}, not {}", spanned.value);
                diagnostics.add(spanned.at, message, None);
                None
            }
        })
    }

    /// A whole number from 1 to `max`.
    pub fn count(&self, name: &str, max: u32, diagnostics: &mut Diagnostics) -> Field<u32> {
        self.whole(name, 1..=max, diagnostics)
    }

    /// An amount of memory above zero, such as `"96MiB"`, in bytes.
    pub fn bytes(&self, name: &str, diagnostics: &mut Diagnostics) -> Field<u64> {
        self.text(name, diagnostics).and_then(|spanned| {
            let bytes = parse_bytes(&spanned.value);
            if bytes.is_none() {
                let message = format!("`{name}`: \"{}\" is not an amount of memory", spanned.value);
                let hint =
                    "write a whole number with a unit in quotes, such as \"96MiB\" or \"2GiB\"".to_owned();
                diagnostics.add(spanned.at, message, Some(hint));
            }
            bytes
        })
    }

    /// A duration above zero.
    pub fn span(&self, name: &str, diagnostics: &mut Diagnostics) -> Field<Span> {
        let hint =
            || Some("write a number with a unit in quotes, such as \"400ms\", \"2.5s\" or \"1m\"".to_owned());
        let Some(entry) = self.entry(name) else {
            return Field::Absent;
        };
        let text = match &entry.node.content {
            Content::Text(text) => text,
            Content::Broken => return Field::Broken,
            other => {
                let message = format!("`{name}` must be a duration in quotes, not {}", other.kind());
                diagnostics.add(entry.node.at, message, hint());
                return Field::Broken;
            }
        };
        match text.parse::<Span>() {
            Ok(span) if span > Span::ZERO => Field::Given(Spanned::new(span, entry.node.at)),
            Ok(_) => {
                diagnostics.add(entry.node.at, format!("`{name}` must be above zero"), None);
                Field::Broken
            }
            Err(_) => {
                diagnostics.add(
                    entry.node.at,
                    format!("`{name}`: \"{text}\" is not a duration"),
                    hint(),
                );
                Field::Broken
            }
        }
    }

    /// A frame rate such as `"5fps"`, in frames a second.
    pub fn frame_rate(&self, name: &str, diagnostics: &mut Diagnostics) -> Field<f64> {
        let hint =
            || Some("write a number with its unit in quotes, such as \"5fps\" or \"0.5fps\"".to_owned());
        let Some(entry) = self.entry(name) else {
            return Field::Absent;
        };
        let text = match &entry.node.content {
            Content::Text(text) => text,
            Content::Broken => return Field::Broken,
            other => {
                let message = format!("`{name}` must be a rate in quotes, not {}", other.kind());
                diagnostics.add(entry.node.at, message, hint());
                return Field::Broken;
            }
        };
        let number = text.trim().strip_suffix("fps");
        let Some(fps) = number.and_then(|number| number.trim_end().parse::<f64>().ok()) else {
            diagnostics.add(
                entry.node.at,
                format!("`{name}`: \"{text}\" is not a rate of frames"),
                hint(),
            );
            return Field::Broken;
        };
        if (MIN_FRAME_RATE..=MAX_FRAME_RATE).contains(&fps) {
            return Field::Given(Spanned::new(fps, entry.node.at));
        }
        let message =
            format!("`{name}` must lie between {MIN_FRAME_RATE}fps and {MAX_FRAME_RATE}fps, not \"{text}\"");
        diagnostics.add(entry.node.at, message, None);
        Field::Broken
    }

    /// One of a few words.
    pub fn word<T: Copy>(&self, name: &str, words: &[(&str, T)], diagnostics: &mut Diagnostics) -> Field<T> {
        self.text(name, diagnostics).and_then(|spanned| {
            let found = words
                .iter()
                .find(|(word, _)| *word == spanned.value)
                .map(|(_, value)| *value);
            if found.is_none() {
                let hint = spelling::hint(&spanned.value, "one of", words.iter().map(|(word, _)| *word));
                diagnostics.add(
                    spanned.at,
                    format!("`{name}` cannot be \"{}\"", spanned.value),
                    hint,
                );
            }
            found
        })
    }

    /// A list of texts, each with its position.
    pub fn texts(&self, name: &str, diagnostics: &mut Diagnostics) -> Field<Vec<Spanned<String>>> {
        let field = self.read(name, diagnostics, |node| match &node.content {
            Content::List(list) => Ok(list),
            _ => Err("a list of texts, such as [\"a\", \"b\"]".to_owned()),
        });
        field.and_then(|spanned| texts(name, spanned.value, diagnostics))
    }
}

/// The texts of a list, each with its position; the first item that is not a text is reported.
pub fn texts(name: &str, list: &[Node], diagnostics: &mut Diagnostics) -> Option<Vec<Spanned<String>>> {
    let mut texts = Vec::with_capacity(list.len());
    for node in list {
        match &node.content {
            Content::Text(text) => texts.push(Spanned::new(text.clone(), node.at)),
            Content::Broken => return None,
            other => {
                diagnostics.add(
                    node.at,
                    format!("`{name}` must hold texts, not {}", other.kind()),
                    None,
                );
                return None;
            }
        }
    }
    Some(texts)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::document::parse;

    const TEXT: &str = r#"[table]
port = "${PORT}"
share = "${SHARE:-0.25}"
on = "${ON}"
word = "${PORT}"
unset = "${UNSET:-}"
plain = "1884"
joined = "${PORT}0"
many = "${MANY}"
left = "${LEFT}"
"#;

    fn environment(name: &str) -> Option<String> {
        let value = match name {
            "PORT" => "1884",
            "ON" => "true",
            "MANY" => "SECRET",
            "LEFT" => "${LEFT}",
            _ => return None,
        };
        Some(value.to_owned())
    }

    #[test]
    fn numbers_and_flags_may_be_variables() {
        let mut diagnostics = Diagnostics::new(Path::new("a.toml"), TEXT);
        let document = parse(TEXT, &environment, &mut diagnostics);
        let fields = Fields::open("table".to_owned(), &document[0], &mut diagnostics).unwrap();
        let found = &mut diagnostics;
        assert_eq!(fields.whole("port", 1..=65_535, found).into_value(), Some(1884));
        assert_eq!(fields.positive("port", found).into_value(), Some(1884.0));
        assert_eq!(
            fields.number("share", 0.0..=1.0, None, found).into_value(),
            Some(0.25)
        );
        assert_eq!(fields.flag("on", found).into_value(), Some(true));
        // A password may have digits alone.
        assert_eq!(fields.text("word", found).into_value().as_deref(), Some("1884"));
        assert!(fields.flag("unset", found).is_absent());
        assert!(fields.whole("unset", 1..=2, found).is_absent());
        assert!(fields.whole("left", 1..=2, found).is_absent());
        for name in ["plain", "joined", "many"] {
            assert_eq!(fields.whole(name, 1..=65_535, found), Field::Broken, "{name}");
        }
        let problems = diagnostics.finish().unwrap_err();
        let lines: Vec<usize> = problems.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [7, 8, 9]);
        assert!(!problems.to_string().contains("SECRET"), "{problems}");
    }
}
