//! `weir detect`: pictures by the models of a graph, as event lines and drawings.

use std::path::Path;
use std::process::{Command, Output};

use image::{Rgb, RgbImage};
use serde_json::Value;
use tempfile::TempDir;

use crate::common::{has_runtime, refuses, stderr, stdout};

const GRAPH: &str = r#"
[app]
name = "pictures"
slo = "10s"
[sources.camera]
uri = "rtsp://camera.invalid/never-opened"
[models.detector]
model = "embedded:street-detector-small"
[modules.objects]
operator = "detect"
model = "detector"
inputs = ["camera"]
[modules.tracks]
operator = "track"
inputs = ["objects"]
[sinks.events]
type = "jsonl"
path = "never-written.jsonl"
inputs = ["tracks"]
"#;

const EMULATED: &str = r#"
[app]
name = "pictures"
slo = "10s"
[sources.camera]
uri = "${NOT_SET}"
[models.any]
device = "emulated:a"
profile = { "1" = "1ms" }
[modules.look]
operator = "emulate"
model = "any"
inputs = ["camera"]
"#;

fn folder(graph: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("graph.toml"), graph).unwrap();
    std::fs::create_dir(folder.path().join("more")).unwrap();
    for (name, side) in [("more/10.png", 90), ("more/2.png", 180), ("single.png", 45)] {
        let picture = RgbImage::from_pixel(side * 2, side, Rgb([side as u8; 3]));
        picture.save(folder.path().join(name)).unwrap();
    }
    folder
}

fn detect(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .arg("detect")
        .arg("graph.toml")
        .args(arguments)
        .current_dir(folder)
        .env_remove("NOT_SET")
        .output()
        .unwrap()
}

fn lines(output: &Output) -> Vec<Value> {
    let lines = stdout(output);
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn pictures_are_printed_in_the_order_that_they_were_named_in() {
    let folder = folder(EMULATED);
    let output = detect(folder.path(), &["single.png", "more"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let lines = lines(&output);
    let printed: Vec<_> = lines
        .iter()
        .map(|line| {
            (
                line["frame"].as_u64(),
                line["file"].as_str(),
                line["height"].as_u64(),
            )
        })
        .collect();
    let expected = [("single.png", 45), ("2.png", 180), ("10.png", 90)];
    let expected = (0..).zip(expected);
    let expected: Vec<_> = expected
        .map(|(index, (name, height))| (Some(index), Some(name), Some(height)))
        .collect();
    assert_eq!(printed, expected);
    assert!(
        lines
            .iter()
            .all(|line| line["type"] == "frame" && line["stream"] == "images")
    );
}

#[test]
fn unreadable_picture_is_an_error_after_all_others() {
    let folder = folder(EMULATED);
    std::fs::write(folder.path().join("more/3.png"), "no picture").unwrap();
    let output = detect(folder.path(), &["more"]);
    refuses(&output, &["1 of 3 images cannot be read", "3.png"]);
    let frames: Vec<_> = lines(&output).iter().map(|line| line["frame"].as_u64()).collect();
    assert_eq!(frames, [Some(0), Some(2)]);
}

#[test]
fn all_paths_that_are_no_pictures_are_named() {
    let folder = folder(EMULATED);
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    let output = detect(folder.path(), &["none.png", "graph.toml", "empty", "single.png"]);
    refuses(&output, &["none.png", "graph.toml", "holds no"]);
    assert_eq!(stdout(&output), "");
}

#[test]
fn drawing_never_replaces_a_picture_that_is_read() {
    let folder = folder(EMULATED);
    let before = std::fs::read(folder.path().join("single.png")).unwrap();
    let output = detect(folder.path(), &["--draw", ".", "single.png"]);
    refuses(&output, &["single.png"]);
    assert_eq!(std::fs::read(folder.path().join("single.png")).unwrap(), before);
}

#[test]
fn pictures_run_through_models_and_are_drawn_but_not_tracked() {
    if !has_runtime() {
        return;
    }
    let folder = folder(GRAPH);
    // The same name in another folder: both are drawn.
    std::fs::copy(folder.path().join("more/2.png"), folder.path().join("2.png")).unwrap();
    let output = detect(folder.path(), &["--draw", "out/drawn", "2.png", "more"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(lines(&output).len(), 3);
    assert!(!stdout(&output).contains("\"track\""));
    assert!(!folder.path().join("never-written.jsonl").exists());
    for (name, height) in [("2.png", 180), ("2-2.png", 180), ("10.png", 90)] {
        let drawn = image::open(folder.path().join("out/drawn").join(name)).unwrap();
        assert_eq!(drawn.height(), height, "{name}");
    }
}
