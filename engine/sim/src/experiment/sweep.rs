//! Sweeps: a list in place of a single value creates a variant for each of its elements. This works on the
//! syntax tree, before values are interpreted, so every key of an experiment can be swept.

use weir_config::{Content, Diagnostics, Entry, Node};

/// More variants than anybody looks at were meant otherwise.
const MAX_VARIANTS: usize = 10_000;
/// Keys of an experiment, which each variant has a copy of.
const MAX_KEYS: usize = 2_000;

/// Swept value as tables and reports show it.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub enum Label {
    /// Text; a path is shortened to its file name.
    Text(String),
    /// Number as written in the experiment file.
    Number(f64),
    /// Boolean as written in the experiment file.
    Flag(bool),
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => write!(f, "{number}"),
            Self::Flag(flag) => write!(f, "{flag}"),
        }
    }
}

/// Choice of one value for every list.
#[derive(Debug, Clone)]
pub(super) struct Variant {
    /// Swept keys with the values chosen, in the order of the text.
    pub(super) labels: Vec<(String, Label)>,
    /// The document with these values.
    pub(super) document: Vec<Entry>,
}

/// All choices; the last list varies fastest. `plain` tells which keys (`section.key`) are lists by nature.
pub(super) fn expand(
    document: &[Entry],
    plain: &dyn Fn(&str) -> bool,
    diagnostics: &mut Diagnostics,
) -> Vec<Variant> {
    let keys = keys(document);
    if keys > MAX_KEYS {
        let message = format!("the experiment has {keys} keys; {MAX_KEYS} are the most");
        diagnostics.add(0, message, Some("make several experiments of it".to_owned()));
        return Vec::new();
    }
    let mut variants = vec![(Vec::new(), Vec::new())];
    for entry in document {
        variants = joined(
            variants,
            &each(entry, "", plain, diagnostics),
            |entries, entry| {
                entries.push(entry);
            },
        );
        if variants.len() > MAX_VARIANTS {
            let message = format!("the lists make more than {MAX_VARIANTS} combinations");
            diagnostics.add(entry.at, message, Some("make two experiments of it".to_owned()));
            return Vec::new();
        }
    }
    let variant = |(labels, document)| Variant { labels, document };
    variants.into_iter().map(variant).collect()
}

fn keys(entries: &[Entry]) -> usize {
    let within = entries.iter().map(|entry| keys_within(&entry.node));
    entries.len() + within.sum::<usize>()
}

fn keys_within(node: &Node) -> usize {
    match &node.content {
        Content::Table(entries) => keys(entries),
        Content::List(list) => list.iter().map(keys_within).sum(),
        _ => 0,
    }
}

type Labelled<T> = (Vec<(String, Label)>, T);

fn joined<T: Clone, U: Clone>(
    begun: Vec<Labelled<T>>,
    next: &[Labelled<U>],
    add: impl Fn(&mut T, U),
) -> Vec<Labelled<T>> {
    let one = |(labels, value): Labelled<T>| {
        let add = &add;
        next.iter().take(MAX_VARIANTS + 1).map(move |(more, part)| {
            let (mut labels, mut value) = (labels.clone(), value.clone());
            labels.extend(more.iter().cloned());
            add(&mut value, part.clone());
            (labels, value)
        })
    };
    begun.into_iter().flat_map(one).take(MAX_VARIANTS + 1).collect()
}

fn each(
    entry: &Entry,
    under: &str,
    plain: &dyn Fn(&str) -> bool,
    diagnostics: &mut Diagnostics,
) -> Vec<Labelled<Entry>> {
    let path = if under.is_empty() {
        entry.name.clone()
    } else {
        format!("{under}.{}", entry.name)
    };
    let of = |(labels, node)| {
        let (name, at) = (entry.name.clone(), entry.at);
        (labels, Entry { name, at, node })
    };
    nodes(&entry.node, &path, plain, diagnostics)
        .into_iter()
        .map(of)
        .collect()
}

fn nodes(
    node: &Node,
    path: &str,
    plain: &dyn Fn(&str) -> bool,
    diagnostics: &mut Diagnostics,
) -> Vec<Labelled<Node>> {
    let at = node.at;
    match &node.content {
        Content::Table(entries) => {
            let mut tables = vec![(Vec::new(), Vec::new())];
            for entry in entries {
                tables = joined(
                    tables,
                    &each(entry, path, plain, diagnostics),
                    |entries, entry| {
                        entries.push(entry);
                    },
                );
            }
            let table = |(labels, entries)| (labels, Node::new(at, Content::Table(entries)));
            tables.into_iter().map(table).collect()
        }
        Content::List(list) if !plain(path) => {
            if list.is_empty() {
                let hint = Some("give one value, or a list of values to run each".to_owned());
                diagnostics.add(at, "an empty list leaves nothing to run", hint);
                return vec![(Vec::new(), Node::new(at, Content::Broken))];
            }
            let mut all = Vec::new();
            for item in list {
                let label = (key(path), label(item));
                for (labels, node) in nodes(item, path, plain, diagnostics) {
                    all.push((std::iter::once(label.clone()).chain(labels).collect(), node));
                }
            }
            all
        }
        _ => vec![(Vec::new(), node.clone())],
    }
}

/// Short form of a key, without sections that are obvious in the context of an experiment.
fn key(path: &str) -> String {
    let short = ["experiment.", "arrivals.", "policy."]
        .iter()
        .find_map(|section| path.strip_prefix(section));
    short.unwrap_or(path).to_owned()
}

fn label(node: &Node) -> Label {
    match &node.content {
        Content::Text(text) => Label::Text(name(text).to_owned()),
        Content::Integer(whole) => Label::Number(*whole as f64),
        Content::Float(number) => Label::Number(*number),
        Content::Bool(flag) => Label::Flag(*flag),
        // A rule with its parameters; those that are swept in their turn have labels of their own.
        Content::Table(entries) => {
            let rule = entries.iter().filter(|entry| entry.name == "rule");
            let rest = entries.iter().filter(|entry| entry.name != "rule");
            let rest =
                rest.filter(|entry| !matches!(entry.node.content, Content::List(_) | Content::Table(_)));
            let words = rule.map(|entry| label(&entry.node).to_string());
            let words = words.chain(rest.map(|entry| format!("{}={}", entry.name, label(&entry.node))));
            Label::Text(words.collect::<Vec<_>>().join(" "))
        }
        Content::List(_) | Content::Date | Content::Broken => Label::Text(String::new()),
    }
}

/// File name of a path; other texts are unchanged.
fn name(text: &str) -> &str {
    let stem = text.strip_suffix(".toml").or_else(|| text.strip_suffix(".csv"));
    stem.map_or(text, |stem| stem.rsplit(['/', '\\']).next().unwrap_or(stem))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn check(text: &str, expected: &[&str]) {
        let mut diagnostics = Diagnostics::new(Path::new("x.toml"), text);
        let document = weir_config::parse(text, &|_| None, &mut diagnostics);
        let variants = expand(&document, &|path| path == "experiment.seeds", &mut diagnostics);
        let shown: Vec<String> = variants
            .iter()
            .map(|variant| {
                let words = variant.labels.iter().map(|(key, label)| format!("{key}={label}"));
                words.collect::<Vec<_>>().join(", ")
            })
            .collect();
        assert_eq!(shown, expected);
        assert!(diagnostics.is_clean());
    }

    #[test]
    fn lists_make_a_variant_for_each_value_the_last_fastest() {
        check("[experiment]\nseeds = [1, 2]", &[""]);
        check(
            "[experiment]\nworld = [\"a/tm.toml\", \"lv.toml\"]\n[arrivals]\nload = [0.8, 2]\n",
            &[
                "world=tm, load=0.8",
                "world=tm, load=2",
                "world=lv, load=0.8",
                "world=lv, load=2",
            ],
        );
    }

    #[test]
    fn lists_within_an_item_of_a_list_belong_to_it_alone() {
        check(
            "[policy]\ndrop = [\"none\", { rule = \"pard\", queueing = \"recent\", quantile = [0.1, 0.5] }]\n",
            &[
                "drop=none",
                "drop=pard queueing=recent, drop.quantile=0.1",
                "drop=pard queueing=recent, drop.quantile=0.5",
            ],
        );
    }

    #[test]
    fn more_keys_than_could_be_copied_are_reported() {
        let keys: String = (0..250_000).map(|key| format!("k{key} = 1\n")).collect();
        let mut diagnostics = Diagnostics::new(Path::new("x.toml"), &keys);
        let document = weir_config::parse(&keys, &|_| None, &mut diagnostics);
        assert!(expand(&document, &|_| false, &mut diagnostics).is_empty());
        let problems = diagnostics.finish().expect_err("too many");
        assert!(problems.to_string().contains("2000 are the most"), "{problems}");
    }

    #[test]
    fn what_makes_nothing_or_too_much_is_reported() {
        let numbers: Vec<String> = (0..200).map(|n| n.to_string()).collect();
        let list = numbers.join(", ");
        for text in [
            "[arrivals]\nload = []\n".to_owned(),
            format!("[a]\nx = [{list}]\n[b]\ny = [{list}]\n"),
        ] {
            let mut diagnostics = Diagnostics::new(Path::new("x.toml"), &text);
            let document = weir_config::parse(&text, &|_| None, &mut diagnostics);
            expand(&document, &|_| false, &mut diagnostics);
            assert!(!diagnostics.is_clean(), "{text}");
        }
    }
}
