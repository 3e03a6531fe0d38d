//! A cascade of two real models on real plates: it reads more than either, in less time than the large one.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::print_stderr, reason = "a test that skips says so")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::common::{has_runtime, refuses, report, stderr};

/// The crops of the asset pack through LPRNet, PP-OCR, or both.
fn graph(assets: &Path, models: &str) -> String {
    let path = |name: &str| assets.join(name).display().to_string();
    let text = include_str!("data/plates.toml")
        .replace("{crops}", &path("images/plates"))
        .replace("{small}", &path("models/lprnet_plate_24x94.onnx"))
        .replace("{large}", &path("models/ppocr_v4_rec.onnx"));
    let is_cascade = |line: &&str| line.starts_with("cascade");
    let cascade = text.lines().find(is_cascade).unwrap();
    text.replace(cascade, models)
}

/// Number of plates that are read as in their file's name, and the report.
fn read(assets: &Path, models: &str) -> (usize, Value) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("graph.toml"), graph(assets, models)).unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["run", "graph.toml", "--report", "report.json"])
        .current_dir(folder.path())
        .env_remove("RUST_LOG")
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", stderr(&run));
    let events = std::fs::read_to_string(at("events.jsonl")).unwrap();
    let frames = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let frames: Vec<Value> = frames.filter(|event| event["type"] == "frame").collect();
    assert_eq!(frames.len(), 50);
    let is_right = |frame: &&Value| {
        let text = frame["objects"][0]["attributes"]["text"]["text"].as_str();
        let file = Path::new(frame["file"].as_str().unwrap());
        text == file.file_stem().and_then(|stem| stem.to_str())
    };
    (frames.iter().filter(is_right).count(), report(&at("report.json")))
}

#[test]
fn a_cascade_reads_more_plates_than_either_of_its_models() {
    let assets = std::env::var_os("WEIR_ASSETS").map(PathBuf::from);
    let Some(assets) = assets.filter(|folder| folder.is_dir()) else {
        eprintln!("skipped: WEIR_ASSETS names no folder");
        return;
    };
    if !has_runtime() {
        return;
    }
    let cascade = "cascade = [{ model = \"small\", certainty = 0.9 }, { model = \"large\" }]";
    let (right, report) = read(&assets, cascade);
    let stage = |name: &str, count: &str| report["modules"][name]["stage"][count].as_u64().unwrap();
    let (small, _) = read(&assets, "model = \"small\"");
    let (large, _) = read(&assets, "model = \"large\"");
    assert!(
        right >= 49 && right > small && right > large,
        "{right}, {small}, {large}"
    );
    let handed_on = stage("read/1", "handed_on");
    assert!((1..=17).contains(&handed_on), "{handed_on} of 50 are handed on");
    assert_eq!(stage("read/1", "accepted") + stage("read/2", "accepted"), 50);

    let backwards = "cascade = [{ model = \"large\", certainty = 0.9 }, { model = \"small\" }]";
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("graph.toml"), graph(&assets, backwards)).unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["run", "graph.toml"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(!run.status.success());
    let said = stderr(&run);
    assert!(
        said.contains("cascade \"read\": its model small cannot write"),
        "{said}"
    );
}

/// Stages whose models cannot answer for each other are refused before anything runs, by `weir run` as by `weir check`.
#[test]
fn stages_with_other_classes_are_refused_from_end_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let text = r#"
[app]
name = "street"
slo = "2s"
[sources.camera]
uri = "emulated:uniform?rate=5&frames=2&size=640x360"
[models.small]
model = "embedded:street-detector-small"
[models.large]
model = "embedded:street-detector"
labels = ["car", "lorry", "person", "plate"]
[modules.find]
operator = "detect"
cascade = [{ model = "small", certainty = 0.5 }, { model = "large" }]
inputs = ["camera"]
[sinks.events]
type = "jsonl"
path = "events.jsonl"
inputs = ["find"]
"#;
    std::fs::write(folder.path().join("graph.toml"), text).unwrap();
    for command in ["check", "run"] {
        let refused = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args([command, "graph.toml"])
            .current_dir(folder.path())
            .env_remove("RUST_LOG")
            .output()
            .unwrap();
        let said = [
            "the stages of \"find\" know different classes",
            "\"small\" knows \"bicycle\", \"large\" does not",
        ];
        refuses(&refused, &said);
    }
    assert!(!folder.path().join("events.jsonl").exists());
}

/// The alphabet of a recogniser is known when it is loaded, so a mismatch is an error before the run.
#[test]
fn a_second_stage_that_cannot_write_what_the_first_can_is_refused() {
    let assets = std::env::var_os("WEIR_ASSETS").map(PathBuf::from);
    let Some(assets) = assets.filter(|folder| folder.is_dir()) else {
        eprintln!("skipped: WEIR_ASSETS names no folder");
        return;
    };
    if !has_runtime() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let cascade = "cascade = [{ model = \"large\", certainty = 0.9 }, { model = \"small\" }]";
    std::fs::write(folder.path().join("graph.toml"), graph(&assets, cascade)).unwrap();
    let refused = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["run", "graph.toml"])
        .current_dir(folder.path())
        .env_remove("RUST_LOG")
        .output()
        .unwrap();
    refuses(&refused, &["cascade \"read\": its model small cannot write"]);
    assert!(!folder.path().join("events.jsonl").exists());
}
