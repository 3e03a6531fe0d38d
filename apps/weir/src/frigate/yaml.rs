//! YAML as a tree in which each value knows its line, and whether it was taken over.
//!
//! Anchors, aliases and merge keys (`<<`) are replaced by copies of what they stand for, so that a value that is taken over at one
//! place and not at another is listed for the other. Copies count like what is written: a file cannot grow beyond [`MAX_NODES`].

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

/// Largest number of values, copies by aliases included. A site of a hundred cameras has about ten thousand.
pub(super) const MAX_NODES: usize = 100_000;
/// Deepest nesting; Frigate's own keys are nine deep.
const MAX_DEPTH: usize = 32;
/// The key by which a table takes the entries of others.
const MERGE: &str = "<<";

/// A value of the file.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// Line of the file, from 1.
    pub(super) line: usize,
    pub(super) content: Content,
    taken: Cell<bool>,
    refusal: RefCell<Option<String>>,
}

#[derive(Debug, Clone)]
pub(super) enum Content {
    /// A scalar, and whether it stands without quotes.
    Scalar(String, bool),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

/// A key of a table with its value.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) name: String,
    /// Line of the key.
    pub(super) line: usize,
    pub(super) node: Node,
}

impl Node {
    fn new(line: usize, content: Content) -> Self {
        Self {
            line,
            content,
            taken: Cell::new(false),
            refusal: RefCell::new(None),
        }
    }

    /// The value of a key. An empty one counts as taken over: nothing is lost with it.
    pub(super) fn get(&self, name: &str) -> Option<&Self> {
        let found = self.entries().iter().find(|entry| entry.name == name)?;
        if found.node.is_empty() {
            found.node.take();
            return None;
        }
        Some(&found.node)
    }

    pub(super) fn entries(&self) -> &[Entry] {
        match &self.content {
            Content::Table(entries) => entries,
            Content::Scalar(..) | Content::List(_) => &[],
        }
    }

    pub(super) fn items(&self) -> &[Self] {
        match &self.content {
            Content::List(items) => items,
            Content::Scalar(..) | Content::Table(_) => &[],
        }
    }

    /// True for `key:` without a value, and for an empty list or table.
    fn is_empty(&self) -> bool {
        match &self.content {
            Content::Scalar(text, plain) => {
                *plain && matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL")
            }
            Content::List(items) => items.is_empty(),
            Content::Table(entries) => entries.is_empty(),
        }
    }

    /// Marks the value, and what it holds, as taken over.
    pub(super) fn take(&self) {
        self.taken.set(true);
        match &self.content {
            Content::Scalar(..) => {}
            Content::List(items) => items.iter().for_each(Self::take),
            Content::Table(entries) => entries.iter().for_each(|entry| entry.node.take()),
        }
    }

    /// Lists the value as not taken over, for this reason; the first reason counts.
    pub(super) fn refuse(&self, reason: impl Into<String>) {
        self.refusal.borrow_mut().get_or_insert(reason.into());
    }

    pub(super) fn refusal(&self) -> Option<String> {
        self.refusal.borrow().clone()
    }

    pub(super) fn is_taken(&self) -> bool {
        self.taken.get()
    }

    /// The text of a scalar.
    pub(super) fn scalar(&self) -> Option<&str> {
        match &self.content {
            Content::Scalar(text, _) => Some(text),
            Content::List(_) | Content::Table(_) => None,
        }
    }

    /// The text of a scalar, which is taken over with it.
    pub(super) fn text(&self) -> Option<&str> {
        let text = self.scalar();
        if text.is_some() {
            self.take();
        } else {
            self.refuse("it must be a text");
        }
        text
    }

    /// A finite number.
    pub(super) fn number(&self) -> Option<f64> {
        let number = self.scalar().and_then(|text| text.trim().parse::<f64>().ok());
        let number = number.filter(|number| number.is_finite());
        if number.is_some() {
            self.take();
        } else {
            self.refuse("it must be a number");
        }
        number
    }

    /// A truth value, in the words that Frigate accepts.
    pub(super) fn flag(&self) -> Option<bool> {
        let word = self.scalar().map(str::to_ascii_lowercase);
        let flag = match word.as_deref() {
            Some("true" | "yes" | "on" | "1" | "y" | "t") => Some(true),
            Some("false" | "no" | "off" | "0" | "n" | "f") => Some(false),
            _ => None,
        };
        if flag.is_some() {
            self.take();
        } else {
            self.refuse("it must be true or false");
        }
        flag
    }

    /// Texts of a list, or of a single text; what is no text in it is refused.
    pub(super) fn texts(&self) -> Vec<&Self> {
        match &self.content {
            Content::Scalar(..) => vec![self],
            Content::List(items) => {
                let (texts, others): (Vec<_>, Vec<_>) =
                    items.iter().partition(|item| item.scalar().is_some());
                others.iter().for_each(|other| other.refuse("it must be a text"));
                texts
            }
            Content::Table(_) => {
                self.refuse("it must be a list");
                Vec::new()
            }
        }
    }

    /// Number of values in it, itself included.
    fn size(&self) -> usize {
        1 + match &self.content {
            Content::Scalar(..) => 0,
            Content::List(items) => items.iter().map(Self::size).sum(),
            Content::Table(entries) => entries.iter().map(|entry| entry.node.size()).sum(),
        }
    }
}

/// Reads the only document of a text.
///
/// # Errors
/// The line and what is wrong there.
pub(super) fn parse(text: &str) -> Result<Node, String> {
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let (line, column) = (error.marker().line(), error.marker().col() + 1);
            format!("line {line}, column {column}: it is not YAML: {}", error.info())
        })?;
        let line = span.start.line().max(1);
        builder
            .on(event, line)
            .map_err(|reason| format!("line {line}: {reason}"))?;
    }
    builder.root.ok_or_else(|| "it is empty".to_owned())
}

/// A list or a table that is not at its end yet.
struct Open {
    line: usize,
    anchor: usize,
    /// Values of a list, or keys and values of a table in turn.
    items: Vec<Node>,
    is_table: bool,
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    /// Values of anchors, by the number of the anchor.
    anchors: BTreeMap<usize, Node>,
    nodes: usize,
    root: Option<Node>,
}

impl Builder {
    fn on(&mut self, event: Event<'_>, line: usize) -> Result<(), String> {
        match event {
            Event::DocumentStart(_) if self.root.is_some() => {
                Err("a second document begins; Frigate has one".to_owned())
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
            Event::Scalar(text, style, anchor, tag) => {
                check_tag(tag.as_deref())?;
                let node = Node::new(
                    line,
                    Content::Scalar(text.into_owned(), style == ScalarStyle::Plain),
                );
                self.add(node, anchor)
            }
            Event::SequenceStart(anchor, tag) => self.begin(line, anchor, false, tag.as_deref()),
            Event::MappingStart(anchor, tag) => self.begin(line, anchor, true, tag.as_deref()),
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor) else {
                    return Err("an alias stands within what it stands for".to_owned());
                };
                self.count(node.size())?;
                let node = self.anchors[&anchor].clone();
                self.place(node)
            }
        }
    }

    fn begin(&mut self, line: usize, anchor: usize, is_table: bool, tag: Option<&Tag>) -> Result<(), String> {
        check_tag(tag)?;
        if self.open.len() == MAX_DEPTH {
            return Err(format!("it is nested more than {MAX_DEPTH} deep"));
        }
        let items = Vec::new();
        self.open.push(Open {
            line,
            anchor,
            items,
            is_table,
        });
        Ok(())
    }

    fn end(&mut self) -> Result<(), String> {
        let Some(open) = self.open.pop() else {
            return Ok(());
        };
        let content = if open.is_table {
            Content::Table(self.table(open.items)?)
        } else {
            Content::List(open.items)
        };
        self.add(Node::new(open.line, content), open.anchor)
    }

    /// Entries of a table, those of merge keys after its own.
    fn table(&mut self, items: Vec<Node>) -> Result<Vec<Entry>, String> {
        let (mut entries, mut merged) = (Vec::new(), Vec::new());
        let mut names = BTreeSet::new();
        let mut items = items.into_iter();
        while let (Some(key), Some(node)) = (items.next(), items.next()) {
            let Content::Scalar(name, plain) = key.content else {
                return Err(format!("the key of line {} must be a text", key.line));
            };
            if plain && name == MERGE {
                merged.push(node);
            } else if !names.insert(name.clone()) {
                return Err(format!("the key \"{name}\" of line {} is there twice", key.line));
            } else {
                entries.push(Entry {
                    name,
                    line: key.line,
                    node,
                });
            }
        }
        for node in merged {
            let tables = match node.content {
                Content::List(tables) => tables,
                Content::Scalar(..) | Content::Table(_) => vec![node],
            };
            for table in tables {
                let Content::Table(more) = table.content else {
                    return Err(format!("`<<` of line {} must stand for tables", table.line));
                };
                for entry in more {
                    if names.insert(entry.name.clone()) {
                        entries.push(entry);
                    }
                }
            }
        }
        Ok(entries)
    }

    fn add(&mut self, node: Node, anchor: usize) -> Result<(), String> {
        self.count(1)?;
        if anchor > 0 {
            self.count(node.size())?;
            self.anchors.insert(anchor, node.clone());
        }
        self.place(node)
    }

    fn place(&mut self, node: Node) -> Result<(), String> {
        match self.open.last_mut() {
            Some(open) => open.items.push(node),
            None if self.root.is_none() => self.root = Some(node),
            None => return Err("a second document begins; Frigate has one".to_owned()),
        }
        Ok(())
    }

    fn count(&mut self, nodes: usize) -> Result<(), String> {
        self.nodes += nodes;
        if self.nodes > MAX_NODES {
            return Err(format!(
                "it has more than {MAX_NODES} values, what aliases stand for included"
            ));
        }
        Ok(())
    }
}

/// Tags of YAML's own types change nothing here; others need a program that knows them.
fn check_tag(tag: Option<&Tag>) -> Result<(), String> {
    match tag {
        Some(tag) if !tag.is_yaml_core_schema() => {
            let (handle, suffix) = (&tag.handle, &tag.suffix);
            Err(format!("the tag {handle}{suffix} is not known"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(node: &Node) -> Vec<String> {
        match &node.content {
            Content::Scalar(text, _) => vec![text.clone()],
            Content::List(items) => items.iter().flat_map(texts).collect(),
            Content::Table(entries) => entries.iter().flat_map(|entry| texts(&entry.node)).collect(),
        }
    }

    #[test]
    fn values_know_their_lines() {
        let root = parse("a:\n  b: 1\n  c: [x, y]\n\nd: \"null\"\n").unwrap();
        let a = root.get("a").unwrap();
        assert_eq!((a.get("b").unwrap().line, a.get("c").unwrap().line), (2, 3));
        assert_eq!(root.get("d").unwrap().text(), Some("null"));
        assert_eq!(texts(&root), ["1", "x", "y", "null"]);
    }

    #[test]
    fn aliases_and_merge_keys_are_copies() {
        let root = parse("base: &base\n  a: 1\n  b: 2\none:\n  <<: *base\n  b: 3\ntwo: *base\n").unwrap();
        let [one, two] = ["one", "two"].map(|name| root.get(name).unwrap());
        assert_eq!(one.get("a").unwrap().number(), Some(1.0));
        assert_eq!(one.get("b").unwrap().number(), Some(3.0));
        assert!(!two.get("a").unwrap().is_taken());
        let merged = parse("x: &x {a: 1}\ny: &y {a: 2, b: 3}\nz:\n  <<: [*x, *y]\n").unwrap();
        assert_eq!(texts(merged.get("z").unwrap()), ["1", "3"]);
    }

    #[test]
    fn laughs_and_nesting_are_bounded() {
        let mut laughs = "a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha]\n".to_owned();
        for level in 1..12 {
            let before = format!("*a{}, ", level - 1).repeat(9);
            laughs += &format!("a{level}: &a{level} [{}]\n", before.trim_end_matches(", "));
        }
        assert!(parse(&laughs).unwrap_err().contains("more than 100000 values"));
        let deep = "[".repeat(200) + &"]".repeat(200);
        assert!(parse(&deep).is_err());
        assert!(parse("a: &a [*a]\n").is_err());
        let long = "- x\n".repeat(MAX_NODES + 1);
        assert!(parse(&long).unwrap_err().contains("more than"));
    }

    #[test]
    fn what_is_no_document_is_refused() {
        for (text, words) in [
            ("", "empty"),
            ("# nothing\n", "empty"),
            ("a: b: c\n", "line 1"),
            ("a: 1\na: 2\n", "twice"),
            ("a: 1\n---\nb: 2\n", "second document"),
            ("a: !include other.yml\n", "!include"),
            ("? [x]\n: 1\n", "must be a text"),
            ("a: *nothing\n", "line 1"),
            ("a: \"open\n", "line"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(words), "{text:?}: {error}");
        }
    }
}
