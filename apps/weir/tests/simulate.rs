//! `weir simulate` as a user calls it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::common::{asks_to_stop, refuses, signal, stderr, wait_until_it_watches};

const EXPERIMENT: &str = r#"
[experiment]
seeds = [1, 2]
world = "world.toml"
[arrivals]
length = "5s"
load = [0.5, 1.5]
"#;

const WORLD: &str = r#"
[world]
slo = "200ms"
[modules.only]
profile = { "1" = "10ms" }
workers = 2
"#;

fn place(experiment: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("world.toml"), WORLD).unwrap();
    std::fs::write(folder.path().join("experiment.toml"), experiment).unwrap();
    folder
}

fn weir(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("simulate").args(arguments).current_dir(folder);
    command.env_remove("RUST_LOG").env_remove("WEIR_ASSETS");
    command.output().unwrap()
}

#[test]
fn an_experiment_gives_a_row_for_each_combination_and_the_same_report_again() {
    let folder = place(EXPERIMENT);
    let once = |name: &str, threads: &str| {
        let output = weir(
            folder.path(),
            &["experiment.toml", "--report", name, "--threads", threads],
        );
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(stderr(&output), "", "quiet in a pipe");
        let table = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(table.lines().next(), Some("policy pard"));
        assert_eq!(table.lines().count(), 5, "{table}");
        std::fs::read_to_string(folder.path().join(name)).unwrap()
    };
    let text = once("a.json", "1");
    assert_eq!(text, once("b.json", "2"));
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["experiment"], "experiment");
    let runs = report["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 4);
    for run in runs {
        let count = |name: &str| run["requests"][name].as_u64().unwrap();
        let ended = count("delivered") + count("late") + count("dropped") + count("in_flight");
        assert_eq!(count("arrived"), ended);
        assert!(run["bound"]["drop_rate"].as_f64() <= run["drop_rate"].as_f64());
    }
    assert_eq!(runs[3]["labels"]["load"], 1.5);
    assert_eq!(runs[3]["run"]["seed"], 2);
    assert_eq!(runs[3]["run"]["preset"], "pard");
    assert_eq!(runs[3]["run"]["departures"], serde_json::json!([]));
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 4, "nothing is left beside the reports");
}

#[test]
fn one_seed_may_be_asked_for() {
    let folder = place(EXPERIMENT);
    let output = weir(
        folder.path(),
        &["experiment.toml", "--seed", "7", "--report", "a.json"],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let text = std::fs::read_to_string(folder.path().join("a.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let seeds: Vec<&serde_json::Value> = report["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| &run["run"]["seed"])
        .collect();
    assert_eq!(seeds, [7, 7]);
}

#[test]
fn what_the_user_can_mend_is_reported_at_once_with_its_place_and_exit_code_2() {
    let refused = |arguments: &[&str], experiment: &str, words: &[&str]| {
        let folder = place(experiment);
        let output = weir(folder.path(), arguments);
        let said = refuses(&output, words);
        assert!(!said.contains("panicked"), "{said}");
    };
    refused(&["nowhere.toml"], EXPERIMENT, &["nowhere.toml", "cannot be read"]);
    refused(&["."], EXPERIMENT, &["it is a folder"]);
    refused(
        &["experiment.toml"],
        "[experiment]\nworld = \"wrold.toml\"\n[arrivals]\nlaod = 1\n",
        &[
            "experiment.toml:2:",
            "did you mean \"world.toml\"",
            "experiment.toml:4:",
            "did you mean \"load\"?",
        ],
    );
    refused(
        &["experiment.toml", "--report", "no/such.json"],
        EXPERIMENT,
        &["cannot write the report"],
    );
    refused(
        &["experiment.toml", "--report", "."],
        EXPERIMENT,
        &["cannot write the report", "folder"],
    );
    refused(&["experiment.toml", "--threads", "0"], EXPERIMENT, &["--threads"]);
}

#[test]
fn what_is_interrupted_reports_the_runs_that_it_finished() {
    let many: Vec<String> = (0..1_000).map(|seed| seed.to_string()).collect();
    let many = EXPERIMENT.replace("[1, 2]", &format!("[{}]", many.join(", ")));
    let folder = place(&many.replace("\"5s\"", "\"300s\""));
    for (asked, number) in asks_to_stop() {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(["simulate", "experiment.toml", "--report", "report.json"]);
        let run = command
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let run = run.spawn().unwrap();
        wait_until_it_watches(&run, number);
        signal(&run, asked);
        let output = run.wait_with_output().unwrap();
        assert!(output.status.success(), "{asked}: {}", stderr(&output));
        assert!(stderr(&output).contains("of 2000 runs"), "{}", stderr(&output));
        let report = std::fs::read_to_string(folder.path().join("report.json")).unwrap();
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        assert!(report["runs"].as_array().unwrap().len() < 2_000);
    }
}
