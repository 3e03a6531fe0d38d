//! TOML text as a tree with positions. What a key means is up to the reader of the document.

use std::collections::BTreeSet;

use toml::Spanned;
use toml::de::{DeTable, DeValue, Error};
use weir_flow::mask_credentials;

use crate::diagnostics::Diagnostics;
use crate::variables::{Environment, is_one_variable, substitute};

/// A value with its position.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Byte offset into the text.
    pub at: usize,
    /// The value as parsed from the text.
    pub content: Content,
    /// True if it is a text that is one variable, such as `"${PORT}"`: a key that needs a number or a flag takes it, too.
    pub is_variable: bool,
    /// True if that variable was left as written, as the variables of replaced sources that are not set.
    pub is_left: bool,
}

impl Node {
    /// A value that is no variable; `at` is a byte offset into the text.
    #[must_use]
    pub const fn new(at: usize, content: Content) -> Self {
        Self {
            at,
            content,
            is_variable: false,
            is_left: false,
        }
    }

    /// The text of a variable, if the value is one.
    fn variable(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) if self.is_variable => Some(text.trim()),
            _ => None,
        }
    }

    /// True for a variable that is empty or left as written: a number or a flag is absent then.
    #[must_use]
    pub fn is_unset(&self) -> bool {
        self.is_left || self.variable() == Some("")
    }

    /// The value as a number, if it is one.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self.content {
            Content::Float(number) => Some(number),
            Content::Integer(whole) => Some(whole as f64),
            _ => self.variable()?.parse().ok(),
        }
    }

    /// The value as a whole number, if it is one.
    #[must_use]
    pub fn integer(&self) -> Option<i64> {
        match self.content {
            Content::Integer(whole) => Some(whole),
            _ => self.variable()?.parse().ok(),
        }
    }

    /// The value as true or false, if it is one of them.
    #[must_use]
    pub fn flag(&self) -> Option<bool> {
        match self.content {
            Content::Bool(flag) => Some(flag),
            _ => self.variable()?.parse().ok(),
        }
    }
}

/// A value, by its kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// A text, with its variables substituted.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// A date or a time.
    Date,
    /// An array; each element has its own position.
    List(Vec<Node>),
    /// A table, in the order of the text.
    Table(Vec<Entry>),
    /// The text of the value could not be parsed; the problem has been reported.
    Broken,
}

/// A key with its value and position.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key as written.
    pub name: String,
    /// Byte offset of the key into the text.
    pub at: usize,
    /// The value of the key.
    pub node: Node,
}

impl Content {
    /// The kind with its article, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a text",
            Self::Integer(_) => "a whole number",
            Self::Float(_) => "a number",
            Self::Bool(_) => "true or false",
            Self::Date => "a date",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Broken => "unreadable",
        }
    }
}

/// The entries of a document, in the order of the text. What is not TOML is reported; the rest is still read.
pub fn parse(text: &str, environment: Environment<'_>, diagnostics: &mut Diagnostics) -> Vec<Entry> {
    parse_by_key(text, &|_| environment, diagnostics)
}

/// As [`parse`], with the variables to use under each top-level key.
pub fn parse_by_key<'a>(
    text: &str,
    environment_of: &dyn Fn(&str) -> Environment<'a>,
    diagnostics: &mut Diagnostics,
) -> Vec<Entry> {
    let (table, errors) = DeTable::parse_recoverable(text);
    report_errors(&errors, diagnostics);
    entries(table.get_ref(), environment_of, diagnostics)
}

fn report_errors(errors: &[Error], diagnostics: &mut Diagnostics) {
    let mut twice = Vec::new();
    for error in errors {
        if diagnostics.is_full() {
            return;
        }
        let at = error.span().map_or(0, |span| span.start);
        if error.message() == "duplicate key" {
            twice.push(at);
        } else {
            let hint = quotes_hint(diagnostics.line_text(diagnostics.line(at)));
            diagnostics.add_syntax_error(at, format!("not TOML: {}", error.message()), hint);
        }
    }
    let is_header =
        |diagnostics: &Diagnostics, line: usize| diagnostics.line_text(line).trim_start().starts_with('[');
    let lines: BTreeSet<usize> = twice.iter().map(|at| diagnostics.line(*at)).collect();
    let last = lines.last().copied().unwrap_or(0);
    let headers: BTreeSet<usize> = (1..=last).filter(|line| is_header(diagnostics, *line)).collect();
    for at in twice {
        let line = diagnostics.line(at);
        // A duplicate table is reported once, not again for each of its keys.
        let header = headers.range(..=line).next_back().copied();
        let hint = if header == Some(line) {
            Some("join the two tables, or rename one".to_owned())
        } else if header.is_some_and(|header| lines.contains(&header)) {
            continue;
        } else {
            Some("leave one of them".to_owned())
        };
        let name = key_at(diagnostics.line_text(line));
        diagnostics.add(at, format!("{name} is given twice"), hint);
    }
}

/// Returns the quoted key, or the table header, that a line defines: `` `uri` `` or `[sources.north]`.
fn key_at(line: &str) -> String {
    let line = line.trim();
    if line.starts_with('[') {
        line.split_inclusive(']').next().unwrap_or(line).to_owned()
    } else {
        format!("`{}`", line.split('=').next().unwrap_or(line).trim())
    }
}

/// The commonest mistake: a text, mostly a duration, without its quotes.
fn quotes_hint(line: &str) -> Option<String> {
    let (_, value) = line.split_once('=')?;
    let value = value.split('#').next()?.trim();
    let bare = value.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '$'))
        && !value.contains(['"', '\'']);
    // The line may hold a camera's address.
    let shown = mask_credentials(value);
    bare.then(|| format!("texts and durations stand in quotes: \"{shown}\""))
}

/// `environment_of` returns the variables for the values under a key.
fn entries<'a>(
    table: &DeTable<'_>,
    environment_of: &dyn Fn(&str) -> Environment<'a>,
    diagnostics: &mut Diagnostics,
) -> Vec<Entry> {
    let mut entries: Vec<Entry> = table
        .iter()
        .map(|(key, value)| Entry {
            name: key.get_ref().to_string(),
            at: key.span().start,
            node: node(value, environment_of(key.get_ref()), diagnostics),
        })
        .collect();
    entries.sort_by_key(|entry| entry.at);
    entries
}

fn node(value: &Spanned<DeValue<'_>>, environment: Environment<'_>, diagnostics: &mut Diagnostics) -> Node {
    let (at, content) = (value.span().start, value.get_ref());
    // The placeholder of a value that could not be parsed is empty; its line has been reported.
    if value.span().is_empty() && !matches!(content, DeValue::Table(_)) {
        return Node::new(at, Content::Broken);
    }
    let is_variable = matches!(content, DeValue::String(text) if is_one_variable(text));
    let mut is_left = false;
    let content = match content {
        DeValue::String(text) => match substitute(text, environment) {
            Ok(filled) => {
                is_left = is_variable && filled == **text;
                Content::Text(filled)
            }
            Err(bad) => {
                bad.into_iter()
                    .for_each(|bad| diagnostics.add(at, bad.message, Some(bad.hint)));
                Content::Broken
            }
        },
        DeValue::Integer(whole) => match i64::from_str_radix(whole.as_str(), whole.radix()) {
            Ok(whole) => Content::Integer(whole),
            Err(_) => {
                diagnostics.add(at, format!("{} is out of range", whole.as_str()), None);
                Content::Broken
            }
        },
        DeValue::Float(number) => match number.as_str().parse() {
            Ok(number) => Content::Float(number),
            Err(_) => {
                diagnostics.add(at, format!("{} is not a number", number.as_str()), None);
                Content::Broken
            }
        },
        DeValue::Boolean(flag) => Content::Bool(*flag),
        DeValue::Datetime(_) => Content::Date,
        DeValue::Array(list) => Content::List(
            list.iter()
                .map(|value| node(value, environment, diagnostics))
                .collect(),
        ),
        DeValue::Table(table) => Content::Table(entries(table, &|_| environment, diagnostics)),
    };
    Node {
        at,
        content,
        is_variable,
        is_left,
    }
}
