//! A live run and a simulated run of one graph have the same machines: what they decide differs only by what happens to them.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};
use weir_graph::Graph;
use weir_runtime::{Partitioning, RunOptions};
use weir_sim::control_spec;
use weir_sim::experiment::world_from_graph;

use crate::common::{Parts, assemble, at_own_pace, run, whole_catalog};

/// Names of the graphs that `make compare-live` runs, a line each.
const GRAPHS: &str = include_str!("../../config/compared-graphs.txt");

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../config/{name}.toml"))
}

fn load(name: &str) -> Graph {
    let loaded = weir_graph::load(&file(name), &whole_catalog(), &|_| None);
    loaded.unwrap_or_else(|problems| panic!("{problems}"))
}

/// Specification of the machines of a live run, from its event log.
fn live(name: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let options = RunOptions {
        duration: Some(Duration::from_millis(1)),
        ..at_own_pace(Some(&log))
    };
    let graph = load(name);
    let partitioning = Partitioning::new(&graph, None);
    let assembly = weir_runtime::Assembly {
        partitioning,
        ..assemble(graph, Parts::default())
    };
    run(assembly, &options);
    let text = std::fs::read_to_string(&log).unwrap();
    let mut header: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    header["control"].take()
}

fn simulated(name: &str) -> Value {
    let (world, _) = world_from_graph(&load(name)).unwrap();
    // Numbers as a log has them.
    let text = serde_json::to_string(&control_spec(&world)).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Leaves out what drivers number or keep for themselves: the ways of requests, the books, the plan of
/// reservations, and the slots of modules over pipelines, with instances of their own, or of which the workers follow the load.
fn shared_part(mut control: Value) -> Value {
    let all = control.as_object_mut().unwrap();
    for key in ["routes", "has_books", "plan"] {
        all.remove(key);
    }
    let grants = all["slots"]["placements"].as_array();
    if grants.is_none_or(Vec::is_empty) {
        all.remove("slots");
    }
    let are_scaled = all.contains_key("scaling");
    let generates = all["modules"]
        .as_array()
        .unwrap()
        .iter()
        .any(|module| module[0]["generate"].is_object());
    if generates && let Some(slots) = all.get_mut("slots") {
        // A live engine also counts the slots of devices whose instances are workers.
        slots.as_object_mut().unwrap().remove("slots");
    }
    for module in all["modules"].as_array_mut().unwrap() {
        let pool = &module[0]["pool"];
        if pool == "pipelines" || (pool == "own" && are_scaled) || module[0]["generate"].is_object() {
            module[0].as_object_mut().unwrap().remove("slots");
        }
    }
    control
}

/// The first value in which two differ, with its path.
fn difference(path: &str, one: &Value, other: &Value) -> Option<String> {
    match (one, other) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let value = |of: &Map<String, Value>, key: &str| of.get(key).cloned().unwrap_or_default();
            let mut keys = ours.keys().chain(theirs.keys());
            keys.find_map(|key| difference(&format!("{path}.{key}"), &value(ours, key), &value(theirs, key)))
        }
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => (0..)
            .zip(ours.iter().zip(theirs))
            .find_map(|(index, (one, other))| difference(&format!("{path}[{index}]"), one, other)),
        _ => (one != other).then(|| format!("{path}: live {one}, simulated {other}")),
    }
}

#[test]
fn live_and_simulated_machines_are_specified_alike() {
    for name in GRAPHS.lines() {
        let (live, simulated) = (shared_part(live(name)), shared_part(simulated(name)));
        let found = difference(name, &live, &simulated);
        assert!(found.is_none(), "{}", found.unwrap_or_default());
        assert!(
            live["modules"].as_array().is_some_and(|all| !all.is_empty()),
            "{name}"
        );
    }
}

/// Routing by the rule of the graph, not by the default.
#[test]
fn simulated_sequences_are_routed_by_the_rule_of_the_graph() {
    let control = simulated("emulated-routing");
    let router = &control["modules"][0][0]["generate"]["router"];
    assert_eq!(router["rule"]["rule"], "weir", "{router}");
}
