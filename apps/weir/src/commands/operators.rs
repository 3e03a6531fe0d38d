//! `weir operators`: what graphs may name, from the very catalog that they are checked against.

use std::fmt::Write;

use weir_analytics::transforms::TRANSFORM_TYPES;
use weir_flow::{Catalog, HeadOutput, HeadSpec, KeyKind, KeySpec, OperatorInput, OperatorSpec};
use weir_graph::keys::{self, MODULE, SectionKey};

use super::keys::value_text;
use crate::output;
use crate::zoo::Zoo;

/// Prints operators, heads and sinks with their keys, as Markdown.
///
/// # Errors
/// Where standard output cannot be written.
pub(crate) fn operators(zoo: &Zoo) -> anyhow::Result<()> {
    output::say(page(&crate::catalog::catalog(zoo)).trim_end())?;
    Ok(())
}

fn page(catalog: &Catalog) -> String {
    let mut page =
        "# Operators, heads, sinks, options of sources\n\nPrinted by `weir operators` from the catalog that graphs are \
                    checked against.\n"
            .to_owned();
    operators_chapter(&mut page, &catalog.operators);
    page += "\n## Trackers\n\n`operator = \"track\"` of a module, beside `inputs`, the modules whose objects it follows, and `streams`, those that it is for; it \
             has no model and none of the keys above (docs/reference/tracking.md).\n";
    push_own_keys(&mut page, "tracker", catalog.tracker_keys, &[]);
    transforms_chapter(&mut page);
    heads_chapter(&mut page, &catalog.heads);
    page += "\n## Sinks\n\n`type = \"...\"` of a sink, beside `inputs`, `streams` and `when_slow`.\n";
    for sink in &catalog.sinks {
        let owner = format!("sink {}", sink.name);
        let since = entry_note(&owner);
        let _ = write!(page, "\n### `{}`\n\n{}.{since}\n", sink.name, sink.about);
        push_own_keys(&mut page, &owner, sink.keys, &[]);
    }
    page += "\n## Options of sources\n\n`options = { ... }` of a source: options of FFmpeg, by its names and in its units. \
             Options that do not apply to a stream are ignored.\n";
    push_own_keys(&mut page, "options", catalog.connection_options, &[]);
    page
}

fn operators_chapter(page: &mut String, operators: &[OperatorSpec]) {
    *page += "\n## Operators\n\n`operator = \"...\"` of a module. These keys are shared; what an operator has beside them \
              stands with it.\n";
    push_shared_header(page);
    for key in MODULE {
        let value = value_text(key.kind);
        let about = meaning(key) + &key_note("module", key.name);
        let _ = writeln!(page, "| `{}` | all | {value} | {about} |", key.name);
    }
    let keys: Vec<_> = operators.iter().map(|spec| (spec.name, &*spec.keys)).collect();
    let shared = shared_keys(&keys);
    push_shared_rows(page, "operator", &shared, (&keys, &[]));
    for operator in operators {
        let owner = format!("operator {}", operator.name);
        let models = if operator.heads.is_empty() {
            "has no model".to_owned()
        } else {
            format!("runs models with the heads {}", join_names(operator.heads))
        };
        let _ = write!(
            page,
            "\n### `{}`\n\n{}. Takes {}; {models}.{}\n",
            operator.name,
            operator.about,
            operator_input(operator.input),
            entry_note(&owner),
        );
        push_own_keys(page, &owner, &operator.keys, &shared);
    }
}

/// Meaning of a key with its default.
fn meaning(key: &SectionKey) -> String {
    match key.default {
        "none" => key.about.to_owned(),
        default if default.starts_with("required") => format!("{} ({default})", key.about),
        default => format!("{}; default: {default}", key.about),
    }
}

fn transforms_chapter(page: &mut String) {
    *page += "\n## Transforms\n\n`type = \"...\"` of a transform, beside `inputs`, the trackers whose objects it takes, and `streams`, those that it is for \
              (docs/reference/transforms.md). \
              These keys are shared; what a type has beside them stands with it.\n";
    push_shared_header(page);
    let keys: Vec<_> = TRANSFORM_TYPES
        .iter()
        .map(|kind| (kind.name, kind.keys))
        .collect();
    let shared = shared_keys(&keys);
    push_shared_rows(page, "transform", &shared, (&keys, &[]));
    for kind in TRANSFORM_TYPES {
        let owner = format!("transform {}", kind.name);
        let since = entry_note(&owner);
        let _ = write!(page, "\n### `{}`\n\n{}.{since}\n", kind.name, kind.about);
        push_own_keys(page, &owner, kind.keys, &shared);
    }
}

fn heads_chapter(page: &mut String, heads: &[HeadSpec]) {
    *page += "\n## Heads\n\n`head = \"...\"` of a model: how its inputs are prepared and its outputs are read. A model's \
              keys stand beside `model`, `head`, `device`, `batch`, `workers`, `profile` and `plan`. These are shared; what \
              a head has beside them stands with it.\n";
    push_shared_header(page);
    let keys: Vec<_> = heads.iter().map(|spec| (spec.name, &*spec.keys)).collect();
    let finders = heads.iter().filter(|head| head.output != HeadOutput::Attribute);
    let finders: Vec<&str> = finders.map(|head| head.name).collect();
    let shared = shared_keys(&keys);
    push_shared_rows(page, "head", &shared, (&keys, &finders));
    for head in heads {
        let owner = format!("head {}", head.name);
        let _ = write!(
            page,
            "\n### `{}`\n\n{}. Gives {}.{}\n",
            head.name,
            head.about,
            head_output(head.output),
            entry_note(&owner)
        );
        push_own_keys(page, &owner, &head.keys, &shared);
    }
}

/// Keys that more than one has, in the order of their first.
fn shared_keys(of: &[(&str, &[KeySpec])]) -> Vec<KeySpec> {
    let mut shared = Vec::new();
    for key in of.iter().flat_map(|(_, keys)| *keys) {
        let having = of.iter().filter(|(_, keys)| keys.contains(key)).count();
        if having > 1 && !shared.contains(key) {
            shared.push(*key);
        }
    }
    shared
}

fn push_shared_header(page: &mut String) {
    page.push_str("\n| key | of | holds | meaning |\n|---|---|---|---|\n");
}

/// The release of an entry of the catalog, as a sentence; empty for those of the first release.
fn entry_note(owner: &str) -> String {
    match keys::entry_since(owner) {
        keys::FIRST_RELEASE => String::new(),
        release => format!(" Since {release}."),
    }
}

/// The release of a key that is newer than its owner, as the end of its meaning; otherwise empty.
fn key_note(owner: &str, key: &str) -> String {
    let release = keys::since(owner, key);
    if release == keys::entry_since(owner) {
        String::new()
    } else {
        format!("; since {release}")
    }
}

/// The shared keys and which have them; `finders` are those that give objects, `kind` is what all of them are in lists of releases.
fn push_shared_rows(
    page: &mut String,
    kind: &str,
    shared: &[KeySpec],
    (of, finders): (&[(&str, &[KeySpec])], &[&str]),
) {
    for key in shared {
        let names = |has: bool| -> Vec<&str> {
            let those = of.iter().filter(|(_, keys)| keys.contains(key) == has);
            those.map(|(name, _)| *name).collect()
        };
        let (having, lacking) = (names(true), names(false));
        // A row of several owners names a release only if the key came to all of them in it.
        let mut notes = having
            .iter()
            .map(|name| key_note(&format!("{kind} {name}"), key.name));
        let first = notes.next().unwrap_or_default();
        let note = if notes.all(|note| note == first) {
            first
        } else {
            String::new()
        };
        let of = match lacking.len() {
            0 => "all".to_owned(),
            1 => format!("all but {}", join_names(&lacking)),
            _ if !finders.is_empty() && finders.iter().all(|name| having.contains(name)) => {
                let others = having.iter().filter(|name| !finders.contains(name));
                let others: Vec<&str> = others.copied().collect();
                let gap = if others.is_empty() { "" } else { ", " };
                format!("those that give objects{gap}{}", join_names(&others))
            }
            _ => join_names(&having),
        };
        let about = key.about.replace('|', "\\|");
        let _ = writeln!(
            page,
            "| `{}` | {of} | {} | {about}{note} |",
            key.name,
            kind_text(key.kind)
        );
    }
}

/// The keys that stand nowhere else.
fn push_own_keys(page: &mut String, owner: &str, keys: &[KeySpec], shared: &[KeySpec]) {
    let mut own = keys.iter().filter(|key| !shared.contains(key)).peekable();
    if own.peek().is_none() {
        return;
    }
    page.push_str("\n| key | holds | meaning |\n|---|---|---|\n");
    for key in own {
        let about = key.about.replace('|', "\\|") + &key_note(owner, key.name);
        let _ = writeln!(page, "| `{}` | {} | {about} |", key.name, kind_text(key.kind));
    }
}

/// Names between backticks.
pub(super) fn join_names(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

fn operator_input(input: OperatorInput) -> &'static str {
    match input {
        OperatorInput::FrameOrBoxes => "whole frames, or crops of the objects in `regions`",
        OperatorInput::Boxes => "crops of the objects in `regions`",
        OperatorInput::Faces => "faces with their five points",
        OperatorInput::Quads => "flat things by their four corners, or crops of the objects in `regions`",
    }
}

fn head_output(output: HeadOutput) -> &'static str {
    match output {
        HeadOutput::Boxes => "objects",
        HeadOutput::Faces => "objects with the five points of a face",
        HeadOutput::Quads => "objects with four corners",
        HeadOutput::Attribute => "an attribute of the object",
    }
}

/// Type and bounds of a value, as the reference has them.
pub(super) fn kind_text(kind: KeyKind) -> String {
    match kind {
        KeyKind::Number { min, max } => format!("a number, {min} to {max}"),
        KeyKind::Integer { min, max } => format!("a whole number, {min} to {max}"),
        KeyKind::Text => "text".to_owned(),
        KeyKind::OneOf(words) => join_names(words),
        KeyKind::Texts => "a list of texts".to_owned(),
        KeyKind::File => "a file".to_owned(),
        KeyKind::Folder => "a folder".to_owned(),
        KeyKind::Flag => "`true` or `false`".to_owned(),
        KeyKind::Points => "a list of points, such as `[[0.1, 0.5], [0.9, 0.5]]`".to_owned(),
        KeyKind::Pair { min, max } => format!("two whole numbers, {min} to {max}, such as `[3, 2]`"),
        KeyKind::Duration => "a duration, such as `\"24h\"`".to_owned(),
        KeyKind::Bytes => "an amount of bytes, such as `\"64MiB\"`".to_owned(),
        KeyKind::Space => "an amount of bytes or a share, such as `\"20GB\"` or `\"10%\"`".to_owned(),
        KeyKind::Durations => "a table of durations, such as `{ person = \"30d\" }`".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCS: &str = include_str!("../../../../docs/reference/operators.md");

    fn catalog() -> Catalog {
        Catalog {
            operators: weir_operators::operators(),
            tracker_keys: weir_analytics::TRACKER_KEYS,
            heads: weir_operators::heads(),
            sinks: weir_operators::sinks::catalog(),
            connection_options: weir_operators::media::CONNECTION_OPTIONS,
            ..Catalog::default()
        }
    }

    /// List of the keys of a release, in the form of the files in `engine/graph/src/keys/releases`.
    fn release_list(catalog: &Catalog) -> String {
        let names = |keys: &[KeySpec]| keys.iter().map(|key| key.name).collect::<Vec<_>>();
        let sections = keys::sections().into_iter().map(|section| {
            let keys: Vec<&str> = section.keys.iter().map(|key| key.name).collect();
            (section.name.to_owned(), keys)
        });
        let heads = catalog.heads.iter();
        let heads = heads.map(|head| (format!("head {}", head.name), names(&head.keys)));
        let operators = catalog.operators.iter();
        let operators = operators.map(|spec| (format!("operator {}", spec.name), names(&spec.keys)));
        let transforms = TRANSFORM_TYPES.iter();
        let transforms = transforms.map(|spec| (format!("transform {}", spec.name), names(spec.keys)));
        let sinks = catalog.sinks.iter();
        let sinks = sinks.map(|sink| (format!("sink {}", sink.name), names(sink.keys)));
        let others = [
            ("operator emulate".to_owned(), Vec::new()),
            ("tracker".to_owned(), names(catalog.tracker_keys)),
            ("options".to_owned(), names(catalog.connection_options)),
        ];
        let owners = sections.chain(heads).chain(operators);
        let owners = owners.chain(transforms).chain(sinks).chain(others);
        owners
            .map(|(owner, keys)| format!("{owner}: {}\n", keys.join(" ")))
            .collect()
    }

    #[test]
    fn release_of_this_version_has_a_list_of_its_keys() {
        let version = env!("CARGO_PKG_VERSION");
        assert!(
            keys::is_listed(version),
            "write engine/graph/src/keys/releases/{version}.txt, and name it in since.rs:\n{}",
            release_list(&catalog())
        );
    }

    /// Text from a heading to the next of its level; what stands before the first deeper one where `until` is that.
    fn section<'a>(text: &'a str, heading: &str, until: &str) -> &'a str {
        let (_, rest) = text
            .split_once(&format!("\n{heading}\n"))
            .unwrap_or_else(|| panic!("\"{heading}\" is missing"));
        rest.split(until).next().unwrap_or_default()
    }

    /// Cells of the column `of` in the rows of a key; empty if the table has no such row.
    fn rows<'a>(table: &'a str, key: &str) -> Vec<&'a str> {
        let cells = |line: &'a str| line.strip_prefix(&format!("| `{key}` | "));
        let rows = table.lines().filter_map(cells);
        rows.map(|cells| cells.split(" | ").next().unwrap_or_default())
            .collect()
    }

    /// Number of rows that give `name` the key, in the shared table of its chapter and in its own section.
    fn mention_count(chapter: &str, name: &str, key: &str, finds: bool) -> usize {
        let table = chapter.split("\n### ").next().unwrap_or_default();
        let quoted = format!("`{name}`");
        let has = |of: &str| match of.strip_prefix("all") {
            Some(but) => !but.contains(&quoted),
            None => of.contains(&quoted) || finds && of.contains("give objects"),
        };
        let shared = rows(table, key).into_iter().filter(|of| has(of)).count();
        let own = section(chapter, &format!("### {quoted}"), "\n### ");
        shared + rows(own, key).len()
    }

    #[test]
    fn the_page_in_docs_is_what_is_printed() {
        assert_eq!(
            DOCS.trim_end(),
            page(&catalog()).trim_end(),
            "write it anew: weir operators > docs/reference/operators.md"
        );
    }

    #[test]
    fn every_key_that_a_graph_may_have_is_in_docs_once() {
        let catalog = catalog();
        let chapter = |heading| section(DOCS, heading, "\n## ");
        let operators = chapter("## Operators");
        for operator in &catalog.operators {
            let keys = operator.keys.iter().map(|key| key.name);
            for key in keys.chain(MODULE.iter().map(|key| key.name)) {
                assert_eq!(
                    mention_count(operators, operator.name, key, false),
                    1,
                    "{}: {key}",
                    operator.name
                );
            }
        }
        for key in catalog.tracker_keys {
            assert_eq!(rows(chapter("## Trackers"), key.name).len(), 1, "{}", key.name);
        }
        for kind in TRANSFORM_TYPES {
            for key in kind.keys {
                let count = mention_count(chapter("## Transforms"), kind.name, key.name, false);
                assert_eq!(count, 1, "{}: {}", kind.name, key.name);
            }
        }
        for head in &catalog.heads {
            let finds = head.output != HeadOutput::Attribute;
            for key in &*head.keys {
                let times = mention_count(chapter("## Heads"), head.name, key.name, finds);
                assert_eq!(times, 1, "{}: {}", head.name, key.name);
            }
        }
        for sink in &catalog.sinks {
            for key in sink.keys {
                assert_eq!(
                    mention_count(chapter("## Sinks"), sink.name, key.name, false),
                    1,
                    "{}: {}",
                    sink.name,
                    key.name
                );
            }
        }
    }

    #[test]
    fn a_key_of_several_is_said_once_and_of_which() {
        const KEYS: &[KeySpec] = &[
            KeySpec {
                name: "a",
                kind: KeyKind::Flag,
                about: "for all",
            },
            KeySpec {
                name: "b",
                kind: KeyKind::Flag,
                about: "for two",
            },
            KeySpec {
                name: "c",
                kind: KeyKind::Flag,
                about: "for one",
            },
        ];
        let of = [
            ("x", KEYS),
            ("y", &KEYS[..2]),
            ("z", &KEYS[..1]),
            ("w", &KEYS[..1]),
        ];
        let shared = shared_keys(&of);
        let mut page = String::new();
        push_shared_rows(&mut page, "operator", &shared, (&of, &[]));
        assert_eq!(
            page,
            "| `a` | all | `true` or `false` | for all |\n| `b` | `x`, `y` | `true` or `false` | for two |\n"
        );
        let mut page = String::new();
        push_own_keys(&mut page, "operator x", KEYS, &shared);
        assert!(
            page.ends_with("|---|\n| `c` | `true` or `false` | for one |\n"),
            "{page}"
        );
        let (two, mut page) = (
            [("x", KEYS), ("y", KEYS), ("z", &KEYS[..1]), ("w", &KEYS[..1])],
            String::new(),
        );
        push_shared_rows(&mut page, "operator", &KEYS[1..2], (&two, &["x"]));
        assert!(
            page.starts_with("| `b` | those that give objects, `y` |"),
            "{page}"
        );
    }
}
