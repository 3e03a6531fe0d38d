//! Privacy through the whole program: annotated videos, best pictures and drawings show neither persons nor a region, and the
//! video of a private camera is not recorded.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use image::GrayImage;
use serde_json::Value;
use weir_flow::{Frame, PictureLimits, PictureTaker, Rect, StopFlag};
use weir_operators::ObjectPictures;
use weir_operators::media::{SourceOptions, source};

use crate::common::room::{self, clip};
use crate::common::{has_runtime, stderr, stdout};

const GRAPH: &str = r#"
[app]
name = "privacy"
slo = "10s"

[defaults]
privacy = { blackout = ["person"] }

[cameras.live-room]
uri = "CLIP"
mode = "lossless"
sample = "5fps"
privacy = { regions = [[0.8, 0.8], [1, 0.8], [1, 1], [0.8, 1]] }

[transforms.pictures]
type = "best-shot"
inputs = ["tracks"]
classes = ["person"]

[sinks.video]
type = "mp4"
path = "{stream}.mp4"
inputs = ["objects"]

[sinks.clips]
type = "clips"
path = "clips/{stream}"
inputs = ["here"]

[sinks.lines]
type = "jsonl"
path = "lines.jsonl"
inputs = ["objects"]
"#;

/// Luma below which a hidden place stays after H.264 or JPEG.
const DARK: u8 = 45;

fn weir(folder: &Path, arguments: &[&str]) -> Output {
    let ran = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(arguments)
        .current_dir(folder)
        .env_remove("RUST_LOG")
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", stderr(&ran));
    ran
}

/// A folder with the graph, in which `from` is `to`.
fn folder(from: &str, to: &str) -> tempfile::TempDir {
    assert!(GRAPH.contains(from));
    let folder = tempfile::tempdir().unwrap();
    let graph = room::graph(&GRAPH.replace(from, to), "live-room");
    std::fs::write(folder.path().join("graph.toml"), graph).unwrap();
    folder
}

fn replay(folder: &Path) {
    weir(
        folder,
        &["replay", "graph.toml", clip().to_str().unwrap(), "--speed", "max"],
    );
}

fn luma(frame: &Frame) -> GrayImage {
    let (samples, stride) = frame.image.planes.plane(0);
    GrayImage::from_fn(frame.image.width, frame.image.height, |x, y| {
        image::Luma([samples[y as usize * stride + x as usize]])
    })
}

/// The median of the middle half of a box, over which few labels and lines are drawn.
fn median(picture: &GrayImage, [x0, y0, x1, y1]: [f64; 4]) -> u8 {
    let middle = |low: f64, high: f64, side: u32| {
        let quarter = (high - low) / 4.0;
        let inside = |at: f64| at.clamp(0.0, f64::from(side)) as u32;
        inside(low + quarter)..inside(high - quarter)
    };
    let rows = middle(y0, y1, picture.height());
    let columns = middle(x0, x1, picture.width());
    let pixels = rows.flat_map(|y| columns.clone().map(move |x| (x, y)));
    let mut values: Vec<u8> = pixels.map(|(x, y)| picture.get_pixel(x, y).0[0]).collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

/// Boxes of the persons of a line.
fn persons(line: &Value) -> Vec<[f64; 4]> {
    let objects = line["objects"].as_array().unwrap().iter();
    let persons = objects.filter(|object| object["class"] == "person");
    persons
        .map(|object| serde_json::from_value(object["box"].clone()).unwrap())
        .collect()
}

fn with_ending(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect()
}

#[test]
fn videos_and_best_pictures_hide_persons_and_a_region() {
    if !has_runtime() {
        return;
    }
    let folder = folder("slo", "slo");
    replay(folder.path());
    let lines = std::fs::read_to_string(folder.path().join("lines.jsonl")).unwrap();
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut lines = lines.filter(|line| line["type"] == "frame");
    let video = folder.path().join("live-room.mp4");
    let factory = source(&video.to_string_lossy(), SourceOptions::default());
    let mut video = factory.open(&StopFlag::default()).unwrap();
    let mut seen = 0;
    while let Some(frame) = video.next().unwrap() {
        let picture = luma(&frame);
        let (width, height) = (f64::from(picture.width()), f64::from(picture.height()));
        let corner = [0.8 * width, 0.8 * height, width, height];
        assert!(median(&picture, corner) < DARK, "frame {}", frame.index);
        for person in persons(&lines.next().expect("a line for each frame")) {
            seen += 1;
            assert!(
                median(&picture, person) < DARK,
                "frame {}: {person:?}",
                frame.index
            );
        }
    }
    assert!(seen > 50, "{seen} persons");

    let pictures = with_ending(&folder.path().join("clips/live-room"), ".jpg");
    assert!(!pictures.is_empty());
    for path in pictures {
        let picture = image::open(&path).unwrap().to_luma8();
        let (width, height) = (f64::from(picture.width()), f64::from(picture.height()));
        assert!(
            median(&picture, [0.0, 0.0, width, height]) < DARK,
            "{}",
            path.display()
        );
    }
}

#[test]
fn drawings_of_single_pictures_hide_what_the_defaults_hide() {
    if !has_runtime() {
        return;
    }
    let folder = folder("slo", "slo");
    let factory = source(&clip().to_string_lossy(), SourceOptions::default());
    let mut video = factory.open(&StopFlag::default()).unwrap();
    let frame = (0..50).filter_map(|_| video.next().unwrap()).last().unwrap();
    let whole = Rect::new(0.0, 0.0, frame.image.width as f32, frame.image.height as f32);
    let limits = PictureLimits {
        max_side: frame.image.width,
        max_bytes: 4 << 20,
    };
    let picture = ObjectPictures::default().take(&frame, &whole, limits).unwrap();
    std::fs::write(folder.path().join("room.jpg"), picture.jpeg()).unwrap();
    let ran = weir(
        folder.path(),
        &["detect", "graph.toml", "room.jpg", "--draw", "drawn"],
    );
    let line: Value = serde_json::from_str(&stdout(&ran)).unwrap();
    let drawing = image::open(folder.path().join("drawn/room.png"))
        .unwrap()
        .to_luma8();
    let persons = persons(&line);
    assert!(!persons.is_empty(), "{line}");
    let picture = luma(&frame);
    assert!(persons.iter().any(|person| median(&picture, *person) > DARK));
    for person in persons {
        assert!(median(&drawing, person) < DARK, "{person:?}");
    }
}

#[test]
fn the_video_of_a_private_camera_is_not_recorded() {
    if !has_runtime() {
        return;
    }
    let folder = folder("sample = \"5fps\"", "sample = \"5fps\"\nprivate = true");
    replay(folder.path());
    let clips = folder.path().join("clips/live-room");
    assert!(with_ending(&clips, ".mp4").is_empty());
    let descriptions = with_ending(&clips, ".json");
    assert!(!descriptions.is_empty());
    for path in descriptions {
        let description: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert!(description["clip"].is_null(), "{description}");
    }
}
