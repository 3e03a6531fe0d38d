//! `/metrics` is what Prometheus reads, `docs/reference/metrics.md` has every name, and the dashboard and the alerts ask for no
//! other.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::service::Service;

/// Recorded only now and then: not by a service where nothing goes wrong, that traces no requests, describes nothing, or is in no fleet.
const RARE: [&str; 28] = [
    "weir_description_price_total",
    "weir_description_requests_total",
    "weir_description_tokens_total",
    "weir_descriptions_queued",
    "weir_descriptions_total",
    "weir_sink_events_total",
    "weir_sink_events_waiting",
    "weir_sink_free_bytes",
    "weir_sink_held_total",
    "weir_sink_lost_total",
    "weir_sink_packets_lost_total",
    "weir_sink_retries_total",
    "weir_batches_lost_total",
    "weir_batches_overdue_total",
    "weir_drops_total",
    "weir_fleet_capacity_frames_per_second",
    "weir_fleet_engine_up",
    "weir_fleet_moves_total",
    "weir_fleet_offered_frames_per_second",
    "weir_fleet_refused_total",
    "weir_fleet_streams",
    "weir_gear",
    "weir_incidents_total",
    "weir_invariant_violations_total",
    "weir_line_crossings_total",
    "weir_trace_spans_total",
    "weir_zone_entered_total",
    "weir_zone_occupancy",
];

fn doc(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(name);
    std::fs::read_to_string(path).unwrap()
}

/// The file of alerts.
fn alerts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/prometheus/alerts.yaml")
}

/// Families by name, with their kind. Each has a type before its series, and each series is there once.
fn families(text: &str) -> BTreeMap<String, String> {
    let (mut families, mut series) = (BTreeMap::<String, String>::new(), BTreeSet::new());
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("# HELP "))
    {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            let (name, kind) = family.split_once(' ').unwrap();
            let before = families.insert(name.to_owned(), kind.to_owned());
            assert!(before.is_none(), "{name} comes twice");
            continue;
        }
        let (labelled, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
        assert!(series.insert(labelled.to_owned()), "{line} comes twice");
        let name = labelled.split('{').next().unwrap();
        let is_of = |family: &str| {
            let end = name.strip_prefix(family);
            end.is_some_and(|end| match families[family].as_str() {
                "histogram" => ["_bucket", "_sum", "_count"].contains(&end),
                _ => end.is_empty(),
            })
        };
        assert!(families.keys().any(|family| is_of(family)), "{line} has no type");
    }
    families
}

/// Names of metrics in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words
        .filter(|word| word.starts_with("weir_") || word.starts_with("process_"))
        .collect()
}

#[test]
fn what_is_exported_is_described_and_what_the_dashboard_asks_for_is_exported() {
    let mut service = Service::start(&[]);
    let text = || service.ask("GET", "/metrics", "").1;
    // The module publishes its state about once a second.
    let has_all = (0..600).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        let text = text();
        [
            "weir_module_input_items_per_second",
            "weir_module_wait_seconds_bucket",
            "weir_request_seconds_bucket",
        ]
        .iter()
        .all(|name| text.contains(name))
    });
    let text = text();
    assert!(has_all, "{text}");
    let exported = families(&text);
    let described = doc("reference/metrics.md");
    let described: BTreeSet<&str> = names(&described);
    let own: BTreeSet<&str> = exported.keys().map(String::as_str).chain(RARE).collect();
    assert_eq!(own, described);

    let dashboard: Value = serde_json::from_str(&doc("grafana.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut queries: Vec<&str> = targets.map(|target| target["expr"].as_str().unwrap()).collect();
    assert!(queries.len() >= panels.len());
    let alerts = std::fs::read_to_string(alerts()).unwrap();
    queries.push(&alerts);
    for query in queries {
        for name in names(query) {
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| {
                let family = name.strip_suffix(end)?;
                (exported.get(family)? == "histogram").then_some(family)
            });
            assert!(own.contains(family.unwrap_or(name)), "{query} asks for {name}");
        }
    }
    service.drain();
}

#[test]
fn promtool_accepts_the_alerts() {
    let checked = Command::new("promtool")
        .args(["check", "rules"])
        .arg(alerts())
        .output();
    let checked = checked.unwrap_or_else(|error| panic!("promtool: {error}; make setup installs it"));
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
}

/// Prometheus' own check of the format and of names and kinds, which the package of Debian has.
#[test]
fn promtool_finds_nothing_wrong() {
    let mut service = Service::start(&[]);
    // As many series as there are once a module has published its state.
    let text = (0..600).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        let (_, text) = service.ask("GET", "/metrics", "");
        text.contains("weir_module_input_items_per_second")
            .then_some(text)
    });
    let promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut promtool = promtool.unwrap_or_else(|error| panic!("promtool: {error}; make setup installs it"));
    // Dropped after this: nothing follows.
    let written = promtool.stdin.take().unwrap().write_all(text.unwrap().as_bytes());
    let output = promtool.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    written.unwrap();
    service.drain();
}
