//! Streams of a graph that come, go and change while it is simulated.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use weir_config::ConfigError;
use weir_graph::Catalog;
use weir_sim::experiment::{Experiment, load};

/// Two streams of 40 frames a second each through one module that does a hundred.
const STREAMS: &str = r#"
[app]
name = "changing"
slo = "100ms"
[sources.steady]
uri = "emulated:uniform?rate=40"
[sources.guest]
uri = "emulated:uniform?rate=40"
[devices."emulated:a"]
slots = 1
[models.first]
device = "emulated:a"
profile = { "1" = "10ms" }
[modules.one]
operator = "emulate"
model = "first"
inputs = ["steady", "guest"]
"#;

const WORLD: &str = r#"
[world]
slo = "200ms"
[modules.first]
profile = { "1" = "10ms" }
workers = 2
"#;

/// A folder with an experiment and the graph that it names.
fn folder(experiment: &str, graph: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("world.toml"), WORLD).unwrap();
    std::fs::write(folder.path().join("graph.toml"), graph).unwrap();
    let path = folder.path().join("experiment.toml");
    std::fs::write(&path, experiment).unwrap();
    (folder, path)
}

fn read(path: &Path) -> Result<Experiment, ConfigError> {
    load(path, &Catalog::default(), &|_| None, None)
}

fn changing(changes: &str) -> Result<Experiment, ConfigError> {
    let text = format!("[experiment]\ngraph = \"graph.toml\"\n[arrivals]\nlength = \"60s\"\n{changes}");
    let (_folder, path) = folder(&text, STREAMS);
    read(&path)
}

fn change(at: &str, change: &str) -> String {
    format!("[[changes]]\nstream = \"guest\"\nat = \"{at}\"\nchange = {change}\n")
}

#[test]
fn streams_come_and_go_in_a_simulation_and_each_frame_is_accounted_for() {
    let arrived = |changes: &str| {
        let experiment = changing(changes).unwrap();
        let report = experiment.runs()[0].simulate().report;
        let of = |stream: &str| {
            let requests = report.streams[stream].requests;
            let ended = requests.delivered + requests.late + requests.dropped;
            assert_eq!((requests.arrived, requests.in_flight), (ended, 0), "{stream}");
            requests.arrived
        };
        assert_eq!(of("stream-0"), 2_400);
        of("stream-1")
    };
    assert_eq!(arrived(""), 2_400);
    assert_eq!(arrived(&change("15s", "\"remove\"")), 600);
    assert_eq!(arrived(&change("45s", "\"add\"")), 600);
    let paused = [change("20s", "\"resume\""), change("10s", "\"pause\"")].concat();
    assert_eq!(arrived(&paused), 2_000);
    let visit = [change("10s", "\"add\""), change("20s", "\"remove\"")].concat();
    assert_eq!(arrived(&visit), 400);
}

#[test]
fn objectives_and_shares_change_in_a_simulation_as_they_do_live() {
    let report = |changes: &str| {
        let text = changes.to_owned();
        changing(&text).unwrap().runs()[0].simulate().report
    };
    // From then on every frame is late: it takes ten milliseconds on an idle system.
    let late = report(&change("29990ms", "\"slo\"\nslo = \"5ms\""));
    let guest = &late.streams["stream-1"];
    assert_eq!(guest.slo_ms, Some(5.0));
    assert_eq!(guest.requests.delivered, 1_200);
    assert_eq!(late.streams["stream-0"].requests.delivered, 2_400);
    // Under overload the weight of the second half shows.
    let heavy = STREAMS.replace("rate=40", "rate=100");
    let text = format!(
        "[experiment]\ngraph = \"graph.toml\"\n[arrivals]\nlength = \"60s\"\n{}",
        change("30s", "\"share\"\nweight = 9.0")
    );
    let (_folder, path) = folder(&text, &heavy);
    let report = read(&path).unwrap().runs()[0].simulate().report;
    let [steady, guest] = ["stream-0", "stream-1"].map(|name| report.streams[name].requests.delivered as f64);
    // Half of the time alike, then one to nine: 30 and 70 of a hundred.
    let share = guest / (steady + guest);
    assert!((0.66..0.74).contains(&share), "{steady} and {guest}");
}

#[test]
fn changes_that_could_not_happen_live_are_refused_with_what_to_do() {
    let check = |changes: &str, word: &str| {
        let error = changing(changes).unwrap_err().to_string();
        assert!(error.contains(word), "{changes}: {error}");
    };
    check(
        &change("1s", "\"remove\"").replace("guest", "gest"),
        "there is no stream \"gest\"",
    );
    check(&change("1s", "\"vanish\""), "vanish");
    check(&change("1s", "\"resume\""), "it is not paused");
    check(&change("1s", "\"remove\"\nweight = 2"), "`weight` has no meaning");
    check(
        &change("1s", "\"share\"\nweight = 0"),
        "`weight` must lie between",
    );
    check("[[changes]]\nat = \"1s\"\nchange = \"add\"\n", "has no `stream`");
    let twice = [change("1s", "\"remove\""), change("2s", "\"add\"")].concat();
    check(&twice, "it is not added yet");
    let text = format!(
        "[experiment]\nworld = \"world.toml\"\n{}",
        change("1s", "\"add\"")
    );
    let (_folder, path) = folder(&text, STREAMS);
    let error = read(&path).unwrap_err().to_string();
    assert!(
        error.contains("of a graph that keep their own arrivals"),
        "{error}"
    );
}
