//! Trackers and transforms as documents show them are what graphs may have, and documents show every key that there is.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use toml::{Table, Value};

const OPERATORS: &str = include_str!("../../../docs/operators.md");
const ANALYTICS: &str = include_str!("../../../docs/analytics.md");
const TRACKING: &str = include_str!("../../../docs/tracking.md");

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// What examples take from, where they do not say it themselves.
const GRAPH: &str = r#"
[app]
slo = "10s"

[sources.camera]
uri = "CLIP"
mode = "lossless"

[models.detector]
model = "embedded:street-detector"

[models.plate-reader]
model = "embedded:plate-reader"

[models.face-embedder]
model = "embedded:street-faces"

[modules.objects]
operator = "detect"
model = "detector"
inputs = ["camera"]

[modules.detect]
operator = "detect"
model = "detector"
inputs = ["camera"]

[modules.plates]
operator = "read-text"
model = "plate-reader"
inputs = ["objects"]
regions = ["plate"]
attribute = "plate"

[modules.identities]
operator = "embed"
model = "face-embedder"
inputs = ["objects"]
regions = ["face"]
attribute = "identity"
vector = true

[modules.tracks]
operator = "track"
inputs = ["objects"]

[sinks.events]
type = "jsonl"
path = "events.jsonl"
inputs = ["plates", "identities", "tracks"]
"#;

/// The examples of a page.
fn examples(page: &str) -> Vec<Table> {
    let blocks = page.split("```toml\n").skip(1);
    let blocks = blocks.map(|rest| rest.split("```").next().unwrap());
    blocks.map(|block| block.parse().unwrap()).collect()
}

/// Keys of the table below a heading of the reference, and the next cell of each: the types that a shared key is of.
fn reference(heading: &str) -> BTreeMap<String, String> {
    let section = OPERATORS.split(&format!("\n{heading}\n")).nth(1).unwrap();
    let section = section.split("\n##").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split(" | ").collect();
        let key = cells[0].split('`').nth(1).unwrap();
        (key.to_owned(), cells[1].to_owned())
    })
    .collect()
}

/// Whether the cell of a shared key, such as "all", "`zone`, `line`" or "all but `line`", names a type.
fn is_of(cell: &str, kind: &str) -> bool {
    let is_named = cell.contains(&format!("`{kind}`"));
    cell.starts_with("all") != is_named
}

/// What `weir check` says against the graph with an example, whose tables take the place of those of their names.
fn check(example: &Table) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let clip = concat!(env!("CARGO_MANIFEST_DIR"), "/../../videos/street-day.mp4");
    let mut graph: Table = GRAPH.replace("CLIP", clip).parse().unwrap();
    for (section, tables) in example {
        let of_section = graph.entry(section).or_insert_with(|| Value::Table(Table::new()));
        let of_section = of_section.as_table_mut().unwrap();
        of_section.extend(tables.as_table().unwrap().clone());
    }
    std::fs::write(folder.path().join("graph.toml"), toml::to_string(&graph).unwrap()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let checked = command
        .arg("check")
        .arg(folder.path().join("graph.toml"))
        .current_dir(ROOT)
        .output()
        .unwrap();
    if checked.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&checked.stderr).into_owned())
}

#[test]
fn examples_of_trackers_are_graphs_and_show_every_key() {
    let (mut shown, mut per_track) = (BTreeSet::new(), BTreeSet::new());
    for example in examples(TRACKING) {
        check(&example).unwrap_or_else(|said| panic!("{said}\n{example}"));
        let modules = example.get("modules").and_then(Value::as_table);
        for module in modules.into_iter().flat_map(|modules| modules.values()) {
            let module = module.as_table().unwrap();
            if module["operator"].as_str() == Some("track") {
                shown.extend(module.keys().cloned());
            }
            let rule = module.get("per_track").and_then(Value::as_table);
            per_track.extend(rule.into_iter().flat_map(|rule| rule.keys().cloned()));
        }
    }
    let keys = reference("## Trackers");
    assert!(keys.len() > 10, "{keys:?}");
    for key in keys.keys() {
        assert!(shown.contains(key), "docs/tracking.md shows no {key}");
    }
    assert_eq!(per_track, ["every", "once", "until"].map(str::to_owned).into());
}

#[test]
fn examples_of_transforms_are_a_graph_and_show_every_key_of_every_type() {
    let (mut all, mut shown) = (Table::new(), BTreeMap::<String, BTreeSet<String>>::new());
    for example in examples(ANALYTICS) {
        for (section, tables) in example {
            let of_section = all.entry(section).or_insert_with(|| Value::Table(Table::new()));
            of_section
                .as_table_mut()
                .unwrap()
                .extend(tables.as_table().unwrap().clone());
        }
    }
    check(&all).unwrap_or_else(|said| panic!("{said}"));
    for transform in all["transforms"].as_table().unwrap().values() {
        let transform = transform.as_table().unwrap();
        let kind = transform["type"].as_str().unwrap().to_owned();
        shown.entry(kind).or_default().extend(transform.keys().cloned());
    }
    let shared = reference("## Transforms");
    assert!(shared.len() > 3 && shown.len() > 10, "{shared:?} {shown:?}");
    for (kind, keys) in &shown {
        for key in reference(&format!("### `{kind}`")).keys() {
            assert!(keys.contains(key), "docs/analytics.md shows no {key} of {kind}");
        }
        for (key, _) in shared.iter().filter(|(_, kinds)| is_of(kinds, kind)) {
            assert!(keys.contains(key), "docs/analytics.md shows no {key} of {kind}");
        }
    }
}
