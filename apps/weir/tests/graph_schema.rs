//! `docs/graph.schema.json` takes every graph that `weir check` takes, and refuses what it refuses of single keys.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use weir::graph::Sources;
use weir_config::ConfigError;

use crate::common::json_schema::check;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn schema() -> Value {
    let text = std::fs::read_to_string(root().join("docs/graph.schema.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// True if the graph is valid by the schema.
fn fits(schema: &Value, graph: &Value) -> Result<(), String> {
    check(schema, schema, graph)
}

fn parse(text: &str) -> Value {
    toml::from_str(text).unwrap()
}

/// Every graph that ships.
fn shipped() -> Vec<PathBuf> {
    let folders = [
        "apps/traffic-monitoring",
        "apps/live-video",
        "apps/game-analysis",
        "config",
    ];
    let files = folders.iter().flat_map(|folder| {
        let entries = std::fs::read_dir(root().join(folder)).unwrap();
        entries.map(|entry| entry.unwrap().path())
    });
    let is_graph = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension == "toml")
            && std::fs::read_to_string(path).unwrap().contains("\n[app]\n")
    };
    let graphs: Vec<PathBuf> = files.filter(is_graph).collect();
    assert!(graphs.len() > 10, "{graphs:?}");
    graphs
}

/// Problems that `weir check --quick` reports for a graph in a folder of its own.
fn problems(folder: &Path, graph: &Value) -> Result<(), ConfigError> {
    let path = folder.join("graph.toml");
    std::fs::write(&path, toml::to_string(graph).unwrap()).unwrap();
    let zoo = weir::Zoo::in_folder(folder).unwrap();
    let catalog = weir::catalog(&zoo);
    let environment = |name: &str| (name != "UNSET").then(|| "x".to_owned());
    weir::graph::load_for(Sources::Replaced, &path, &catalog, &environment).map(drop)
}

#[test]
fn every_graph_that_ships_fits() {
    let schema = schema();
    for path in shipped() {
        let graph = parse(&std::fs::read_to_string(&path).unwrap());
        fits(&schema, &graph).unwrap_or_else(|reason| panic!("{}: {reason}", path.display()));
    }
}

/// A graph with a table of every kind.
const GRAPH: &str = r#"
[app]
slo = "1s"
[policy]
drop = { rule = "pard", quantile = 0.2 }
order = "lbf"
slack = true
fair = false
[sources.a]
uri = "clip.mp4"
sample = "5fps"
weight = 2
options = { probesize = 100000, tls_verify = true }
[devices.cpu]
slots = 1
[models.detector]
model = "embedded:street-detector"
batch = [1, 2]
score_threshold = 0.2
[models.any]
device = "emulated:any"
profile = { "1" = "1ms" }
[modules.objects]
operator = "detect"
model = "detector"
inputs = ["a"]
[modules.tracks]
operator = "track"
inputs = ["objects"]
lost_after = "2s"
high = 0.5
[modules.last]
operator = "emulate"
model = "any"
inputs = ["objects"]
on_drop = "degrade"
[transforms.area]
type = "zone"
inputs = ["tracks"]
points = [[0.1, 0.1], [0.9, 0.1], [0.5, 0.9]]
classes = ["car"]
[sinks.events]
type = "jsonl"
path = "events.jsonl"
inputs = ["tracks", "area", "last"]
drops = true
rotate_age = "24h"
when_slow = "skip"
"#;

/// Places of single values: tables, and keys in them.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    for (key, below) in value.as_object().into_iter().flatten() {
        let at = format!("{at}/{key}");
        found.push(at.clone());
        places(below, &at, found);
    }
}

#[test]
fn unknown_keys_and_wrong_kinds_are_refused_by_the_schema_where_check_refuses_them() {
    let (schema, good) = (schema(), parse(GRAPH));
    let folder = tempfile::tempdir().unwrap();
    fits(&schema, &good).unwrap();
    problems(folder.path(), &good).unwrap();
    let mut found = Vec::new();
    places(&good, "", &mut found);
    let mut refused = 0;
    for at in &found {
        let mut bad = Vec::new();
        // Parameters of a rule are not described.
        let is_described = at != "/policy/drop" && !at.starts_with("/policy/drop/quantile");
        if good.pointer(at).unwrap().is_object() {
            let mut graph = good.clone();
            graph.pointer_mut(at).unwrap()["zzzzzzzzzz"] = json!([[true]]);
            bad.push((graph, is_described));
        }
        // What a text means is for `weir check`.
        for (wrong, is_for_both) in [
            (json!([[true]]), is_described),
            (json!(-1), false),
            (json!("\u{1}"), false),
        ] {
            let mut graph = good.clone();
            *graph.pointer_mut(at).unwrap() = wrong;
            bad.push((graph, is_for_both));
        }
        for (graph, is_for_both) in bad {
            let schema_refuses = fits(&schema, &graph).is_err();
            let check_refuses = problems(folder.path(), &graph).is_err();
            let value = &graph.pointer(at).unwrap();
            assert!(
                check_refuses || !schema_refuses,
                "the schema alone refuses {at} = {value}"
            );
            assert!(
                schema_refuses || !check_refuses || !is_for_both,
                "check alone refuses {at} = {value}"
            );
            refused += u32::from(schema_refuses);
        }
    }
    assert!(refused > 60, "{refused}");
}

#[test]
fn numbers_and_flags_may_be_variables() {
    let (schema, good) = (schema(), parse(GRAPH));
    let folder = tempfile::tempdir().unwrap();
    for (at, text, fits_both) in [
        ("/sources/a/weight", "${UNSET:-2}", true),
        ("/modules/tracks/high", "${UNSET:-0.5}", true),
        ("/models/detector/score_threshold", "${UNSET:-}", true),
        ("/policy/slack", "${UNSET:-true}", true),
        ("/sinks/events/drops", "${UNSET:-false}", true),
        ("/sinks/events/drops", "false", false),
        ("/modules/tracks/high", "0.5", false),
    ] {
        let mut graph = good.clone();
        *graph.pointer_mut(at).unwrap() = json!(text);
        let (by_schema, by_check) = (fits(&schema, &graph), problems(folder.path(), &graph));
        let both = (by_schema.is_ok(), by_check.is_ok());
        assert_eq!(
            both,
            (fits_both, fits_both),
            "{at} = {text}: {by_schema:?} {by_check:?}"
        );
    }
}

#[test]
fn keys_of_another_type_are_refused() {
    let (schema, good) = (schema(), parse(GRAPH));
    for (at, key, value) in [
        ("/modules/objects", "lost_after", json!("2s")),
        ("/modules/tracks", "model", json!("detector")),
        ("/transforms/area", "ground", json!([[0, 0]])),
        ("/sinks/events", "host", json!("broker")),
        ("/models/detector", "head", json!("yolox-giga")),
        ("", "sink", json!({})),
    ] {
        let mut graph = good.clone();
        let table = if at.is_empty() {
            &mut graph
        } else {
            graph.pointer_mut(at).unwrap()
        };
        table[key] = value;
        assert!(fits(&schema, &graph).is_err(), "{at}: {key}");
    }
}
