//! Best pictures through the whole program: the net that ships finds persons in the clip that ships, and incidents, clips and
//! lines have the picture in which each is seen best.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::common::{has_runtime, room};

const GRAPH: &str = r#"
[transforms.pictures]
type = "best-shot"
inputs = ["tracks"]
classes = ["person"]
max_side = 200
max_bytes = "16KiB"

[sinks.clips]
type = "clips"
path = "clips/{stream}"
before = "1s"
after = "1s"
inputs = ["here"]

[sinks.lines]
type = "jsonl"
path = "lines.jsonl"
inputs = ["here", "pictures"]
"#;

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|it| it == extension))
        .collect()
}

#[test]
fn clips_and_lines_of_incidents_have_the_best_pictures_of_their_objects() {
    if !has_runtime() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("graph.toml"), room::of_room(GRAPH)).unwrap();
    let ran = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["replay", "graph.toml"])
        .arg(room::clip())
        .args(["--speed", "max"])
        .current_dir(folder.path())
        .env_remove("RUST_LOG")
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));

    let clips = folder.path().join("clips/live-room");
    let descriptions = files(&clips, "json");
    assert!(!descriptions.is_empty(), "persons are in the room");
    for path in descriptions {
        let text = std::fs::read_to_string(&path).unwrap();
        let description: Value = serde_json::from_str(&text).unwrap();
        assert!(path.with_extension("mp4").is_file(), "{text}");
        let bounds = description["best"]["box"].as_array().expect("a picture");
        let side = |low: usize, high: usize| bounds[high].as_f64().unwrap() - bounds[low].as_f64().unwrap();
        let jpeg = std::fs::read(path.with_extension("jpg")).unwrap();
        assert!(jpeg.len() <= 16 << 10, "{}", jpeg.len());
        let picture = image::load_from_memory(&jpeg).unwrap();
        assert!(picture.width().max(picture.height()) <= 200);
        // The object with a margin, unless the frame ends there.
        let shown = f64::from(picture.width()) / f64::from(picture.height());
        let ratio = side(0, 2) / side(1, 3);
        assert!((0.4..2.5).contains(&(shown / ratio)), "{shown} {ratio}");
    }

    let lines = std::fs::read_to_string(folder.path().join("lines.jsonl")).unwrap();
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let incidents: Vec<Value> = lines.filter(|line| line["type"] == "incident").collect();
    let mut quality: BTreeMap<String, f64> = BTreeMap::new();
    for incident in incidents.iter().filter(|line| line["kind"] == "best-shot") {
        assert!(incident["best"]["frame"].as_u64().unwrap() <= 300);
        let now = incident["values"]["quality"].as_f64().unwrap();
        let before = quality.insert(incident["id"].to_string(), now);
        assert!(before.is_none_or(|before| before <= now), "{incident}");
    }
    assert!(!quality.is_empty());
    let mut visits = incidents
        .iter()
        .filter(|line| line["kind"] == "zone" && line["phase"] == "ended");
    assert!(visits.all(|line| line["best"]["frame"].is_u64()));
}
