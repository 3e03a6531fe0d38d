//! Keys that streams which are added while a graph runs take from its text.

use std::collections::BTreeMap;

use weir_config::{Content, Entry, Node};

/// Keys of `[defaults]`, and by the names of streams the keys of their pictures, with variables substituted. Positions are 0:
/// the text of an added stream is another one.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct StreamDefaults {
    pub(crate) shared: Vec<Entry>,
    pub(crate) pictures: BTreeMap<String, Vec<Entry>>,
}

impl StreamDefaults {
    pub(crate) fn new(shared: Vec<Entry>, pictures: BTreeMap<String, Vec<Entry>>) -> Self {
        let pictures = pictures.into_iter().filter(|(_, keys)| !keys.is_empty());
        Self {
            shared: without_positions(shared),
            pictures: pictures
                .map(|(name, keys)| (name, without_positions(keys)))
                .collect(),
        }
    }
}

fn without_positions(entries: Vec<Entry>) -> Vec<Entry> {
    let entries = entries.into_iter();
    entries
        .map(|entry| Entry {
            at: 0,
            node: without_position(entry.node),
            name: entry.name,
        })
        .collect()
}

fn without_position(node: Node) -> Node {
    let content = match node.content {
        Content::List(nodes) => Content::List(nodes.into_iter().map(without_position).collect()),
        Content::Table(entries) => Content::Table(without_positions(entries)),
        content => content,
    };
    Node {
        at: 0,
        content,
        is_variable: node.is_variable,
        is_left: node.is_left,
    }
}
