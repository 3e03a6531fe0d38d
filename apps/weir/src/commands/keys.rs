//! `weir keys`: the keys of each section of the graph file, from the rows that graphs are checked against.

use std::fmt::Write;

use weir_graph::keys::{self, CAMERA, Mark, Section, SectionKey, ValueKind};
use weir_policy::{DropRule, Policy};

use super::operators::{join_names, kind_text};
use crate::output;

/// Prints the sections with their keys, as Markdown.
///
/// # Errors
/// Where standard output cannot be written.
pub(crate) fn keys() -> anyhow::Result<()> {
    output::say(page().trim_end())?;
    Ok(())
}

const HEAD: &str = "# Keys of the graph file

Printed by `weir keys` from the rows that graphs are checked against. Keys of operators, heads, trackers, transforms, sinks and `options` are
on the page of [operators](operators.md). The pages of the [graph file](graph.md) explain the keys with examples.

A default is the value of an absent key; `none` means that the key has no effect by itself. The column *since* names the first release with
the key; those of 0.2.0 may be older. The column *also in* names other places of a key:

- *cameras*: tables of `[cameras]` may have it.
- *defaults*: `[defaults]` may have it for all sources and cameras.
- *clients*: clients of the API may change it in the graph file, of `[defaults]` only `schedule`, `timezone` and `tracker`. They may also change
  `[policy]`, `[transforms]` and trackers as a whole. Other keys need `weir serve --allow-any-source` ([service](service.md)).
";

fn page() -> String {
    let mut page = HEAD.to_owned();
    for section in keys::sections() {
        let _ = write!(page, "\n## {}\n", section.place);
        push_keys(&mut page, &section);
    }
    page
}

fn push_keys(page: &mut String, section: &Section) {
    let keys: Vec<&SectionKey> = match section.name {
        "defaults" => {
            *page += "\nKeys of sources and cameras that have *defaults* in the column *also in*.\n";
            return;
        }
        "camera" => {
            *page += "\nKeys of [sources](#sourcesname) that have *cameras* in the column *also in*, where `uri` is required, and these:\n";
            CAMERA.iter().collect()
        }
        _ => section.keys.iter().collect(),
    };
    let has_places = keys.iter().any(|key| !places(key).is_empty());
    let (title, line) = if has_places {
        (" also in |", "---|")
    } else {
        ("", "")
    };
    let _ = writeln!(
        page,
        "\n| key | value | default |{title} since | meaning |\n|---|---|---|{line}---|---|"
    );
    for key in keys {
        let places = if has_places {
            format!(" {} |", places(key))
        } else {
            String::new()
        };
        let _ = writeln!(
            page,
            "| `{}` | {} | {} |{places} {} | {} |",
            key.name,
            value_text(key.kind),
            key.default,
            keys::since(section.name, key.name),
            key.about.replace('|', "\\|")
        );
    }
}

/// Other places of a key.
fn places(key: &SectionKey) -> String {
    let places = [
        (Mark::Camera, "cameras"),
        (Mark::Defaults, "defaults"),
        (Mark::Clients, "clients"),
    ];
    let places = places.iter().filter(|(mark, _)| key.has(*mark));
    let places: Vec<&str> = places.map(|(_, place)| *place).collect();
    places.join(", ")
}

/// Type and bounds of a value, as the reference has them.
pub(super) fn value_text(kind: ValueKind) -> String {
    match kind {
        ValueKind::Plain(plain) => kind_text(plain),
        ValueKind::Above(min) => format!("a number above {min}"),
        ValueKind::AtLeast(min) => format!("a number of at least {min}"),
        ValueKind::FrameRate => "a rate of frames, such as `\"5fps\"`".to_owned(),
        ValueKind::Bandwidth => "a bandwidth, such as `\"10Gbps\"`".to_owned(),
        ValueKind::DurationIn(min, max) => format!("a duration, {min} to {max}"),
        ValueKind::TextOrTexts(max) => format!("text, or a list of at most {max} texts"),
        ValueKind::Polygon => "a polygon, such as `[[0, 0], [1, 0], [1, 0.2]]`".to_owned(),
        ValueKind::Polygons(max) => format!("a polygon, or a list of at most {max}"),
        ValueKind::FourPoints => "four points".to_owned(),
        ValueKind::Regions(max) => format!("a polygon, or a list of at most {max} polygons and tables"),
        ValueKind::Table(_) | ValueKind::Options => "a table".to_owned(),
        ValueKind::Tables(_) | ValueKind::Parts(_) => "tables by name".to_owned(),
        ValueKind::TableList { min, max, .. } => format!("a list of {min} to {max} tables"),
        ValueKind::Batches(max) => format!("a list of whole numbers, 1 to {max}, such as `[1, 2, 4]`"),
        ValueKind::Profile => "a table of durations by batch size, or a file".to_owned(),
        ValueKind::Profiles => "tables of durations by device".to_owned(),
        ValueKind::DropRule => format!("a table, or one of {}", join_names(DropRule::NAMES)),
        ValueKind::Preset => join_names(&Policy::presets()),
        ValueKind::Operations => {
            "a list of `pull`, `evict`, `swap`, `balance`, `warm-start` and `reorder`, with `pull`".to_owned()
        }
        ValueKind::Strategy => "a name, `true` or `false`, or a table".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use weir_flow::KeyKind;

    use super::*;

    const DOCS: &str = include_str!("../../../../docs/reference/keys.md");

    /// Pages that explain the keys of a section.
    const PAGES: [(&str, &[&str]); 8] = [
        ("app", &[include_str!("../../../../docs/reference/graph.md")]),
        ("policy", &[include_str!("../../../../docs/reference/policy.md")]),
        (
            "source",
            &[
                include_str!("../../../../docs/reference/sources.md"),
                include_str!("../../../../docs/reference/jobs.md"),
            ],
        ),
        (
            "camera",
            &[
                include_str!("../../../../docs/reference/cameras.md"),
                include_str!("../../../../docs/reference/sources.md"),
            ],
        ),
        ("device", &[include_str!("../../../../docs/reference/devices.md")]),
        ("worker", &[include_str!("../../../../docs/reference/devices.md")]),
        ("model", &[include_str!("../../../../docs/reference/models.md")]),
        ("module", &[include_str!("../../../../docs/reference/modules.md")]),
    ];

    #[test]
    fn page_in_docs_is_printed_page() {
        assert_eq!(
            DOCS.trim_end(),
            page().trim_end(),
            "write it anew: weir keys > docs/reference/keys.md"
        );
    }

    /// A client that may add a stream with a key may also change that key in the file.
    #[test]
    fn clients_may_edit_the_keys_of_streams_that_they_may_add() {
        let api: Value = serde_json::from_str(weir_serve::openapi()).unwrap();
        let stream = api["components"]["schemas"]["NewStream"]["properties"].as_object();
        for name in stream.unwrap().keys().filter(|name| *name != "name") {
            let key = keys::SOURCE.iter().find(|key| key.name == name);
            assert!(key.is_some_and(|key| key.has(Mark::Clients)), "{name}");
        }
    }

    #[test]
    fn streams_of_the_api_have_the_bounds_of_their_keys() {
        let api: Value = serde_json::from_str(weir_serve::openapi()).unwrap();
        for name in ["NewStream", "StreamPatch"] {
            let keys = api["components"]["schemas"][name]["properties"].as_object();
            for (key, schema) in keys.unwrap() {
                let row = keys::SOURCE.iter().find(|row| row.name == key);
                match row.map(|row| row.kind) {
                    Some(ValueKind::Plain(KeyKind::Number { min, max })) => {
                        let bounds = (schema["minimum"].as_f64(), schema["maximum"].as_f64());
                        assert_eq!(bounds, (Some(min), Some(max)), "{name}: {key}");
                    }
                    Some(ValueKind::Plain(KeyKind::OneOf(words))) => {
                        let described = schema["enum"].as_array().unwrap().iter();
                        let mut described = described.filter_map(Value::as_str);
                        assert!(described.all(|word| words.contains(&word)), "{name}: {key}");
                    }
                    Some(ValueKind::Plain(KeyKind::Flag)) => {
                        assert_eq!(schema["type"], "boolean", "{name}: {key}");
                    }
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn pages_explain_every_key_of_their_section() {
        for (name, pages) in PAGES {
            for key in keys::section(name) {
                // Tables by name are written as `zones.NAME`.
                let forms = [format!("`{}`", key.name), format!("`{}.NAME`", key.name)];
                let mut texts = pages
                    .iter()
                    .flat_map(|page| forms.iter().map(move |form| page.contains(form)));
                assert!(
                    texts.any(|is_there| is_there),
                    "{name}: no page explains {}",
                    key.name
                );
            }
        }
    }
}
