//! Folders of crops: `items = "frame"` hands each image to a model that elsewhere reads crops of objects.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::print_stderr, reason = "a test that skips says so")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use image::RgbImage;
use serde_json::{Value, json};
use tempfile::TempDir;
use weir_flow::StopFlag;
use weir_operators::media::{SourceOptions, source};
use weir_operators::pixels::Sampler;

use crate::common::{self, has_runtime, refuses, stderr, stdout};

/// Plates of the clip that are as wide as their reader promises to read all of.
const LEGIBLE_PX: f64 = 80.0;

fn weir(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(arguments).current_dir(folder);
    command.env("XDG_CACHE_HOME", folder.join("cache"));
    command.output().unwrap()
}

/// A folder with a graph of one module on the images of `source`.
fn place(source: &Path, model: &str, module: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let graph = format!(
        r#"
[app]
name = "crops"
slo = "10s"

[sources.crops]
uri = "{}"

[models.model]
{model}
batch = [1, 4]

[modules.read]
model = "model"
inputs = ["crops"]
{module}

[sinks.events]
type = "jsonl"
path = "events.jsonl"
inputs = ["read"]
"#,
        source.display()
    );
    std::fs::write(folder.path().join("graph.toml"), graph).unwrap();
    folder
}

/// Runs the graph: its lines of frames, after the report has counted one item for each of them.
fn run(folder: &Path) -> Vec<Value> {
    let ran = weir(folder, &["run", "graph.toml", "--report", "report.json"]);
    assert!(ran.status.success(), "{}", stderr(&ran));
    let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let events = std::fs::read_to_string(folder.join("events.jsonl")).unwrap();
    let frames: Vec<Value> = events
        .lines()
        .map(json)
        .filter(|line| line["type"] == "frame")
        .collect();
    let report = common::report(&folder.join("report.json"));
    assert_eq!(report["modules"]["read"]["items"], frames.len(), "{report:#}");
    frames
}

/// Number of images whose text was read correctly; the true text is in the file's name, up to a `_`.
fn right(frames: &[Value]) -> usize {
    let is_right = |frame: &&Value| {
        let label = frame["file"].as_str().unwrap().split(['_', '.']).next().unwrap();
        let objects = frame["objects"].as_array().unwrap();
        assert!(objects.len() <= 1, "{frame:#}");
        let side = |key: &str| frame[key].as_f64().unwrap();
        let whole = json!([0.0, 0.0, side("width"), side("height")]);
        for object in objects {
            assert_eq!((&object["class"], &object["box"]), (&json!("frame"), &whole));
        }
        objects
            .first()
            .is_some_and(|object| object["attributes"]["text"]["text"] == label)
    };
    frames.iter().filter(is_right).count()
}

/// Cuts the legible plates of a shipped clip into a folder, by its truth; how many there are.
fn cut_plates(clip: &Path, folder: &Path) -> usize {
    let truth = std::fs::read_to_string(clip.with_extension("truth.jsonl")).unwrap();
    let truth = truth
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let frames = truth.filter(|line| line["frame"].is_u64());
    let mut video = source(
        clip.with_extension("mp4").to_str().unwrap(),
        SourceOptions::default(),
    )
    .open(&StopFlag::default())
    .unwrap();
    let (mut sampler, mut pixels, mut count) = (Sampler::default(), Vec::new(), 0);
    for line in frames {
        let frame = video.next().unwrap().unwrap();
        for plate in line["objects"].as_array().unwrap() {
            let side = |index: usize| plate["box"][index].as_f64().unwrap();
            let (width, height) = (side(2) - side(0), side(3) - side(1));
            let legible = plate["class"] == "plate" && plate["ignore"] != true && width >= LEGIBLE_PX;
            if !legible || plate["visible"] != 1.0 {
                continue;
            }
            sampler.rgb(&frame.image, &mut pixels);
            let picture = RgbImage::from_raw(frame.image.width, frame.image.height, pixels.clone()).unwrap();
            // As much wider as the reader was trained with.
            let (x, y) = (side(0) - 0.04 * width, side(1) - 0.04 * height);
            let [x, y, width, height] = [x, y, width * 1.08, height * 1.08].map(|side| side.round() as u32);
            let crop = image::imageops::crop_imm(&picture, x, y, width, height).to_image();
            let text = plate["attributes"]["plate"]["text"].as_str().unwrap();
            crop.save(folder.join(format!("{text}_{count}.png"))).unwrap();
            count += 1;
        }
    }
    count
}

#[test]
fn a_folder_of_plates_is_read() {
    if !has_runtime() {
        return;
    }
    let clip = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../videos/street-day");
    let crops = tempfile::tempdir().unwrap();
    let count = cut_plates(&clip, crops.path());
    assert!(count >= 20, "{count} plates in the clip");
    let model = "model = \"embedded:plate-reader\"";
    let folder = place(crops.path(), model, "operator = \"read-text\"\nitems = \"frame\"");
    let frames = run(folder.path());
    assert_eq!(frames.len(), count);
    let right = right(&frames);
    assert!(right * 100 >= count * 95, "{right} of {count}: {frames:#?}");
}

#[test]
fn the_plates_of_the_asset_pack_are_read() {
    let assets = std::env::var_os("WEIR_ASSETS").map(PathBuf::from);
    let Some(assets) = assets.filter(|folder| folder.is_dir()) else {
        eprintln!("skipped: WEIR_ASSETS names no folder");
        return;
    };
    if !has_runtime() {
        return;
    }
    let file = assets.join("models/lprnet_plate_24x94.onnx");
    let model = format!("model = \"{}\"\nhead = \"ctc\"", file.display());
    let module = "operator = \"read-text\"\nitems = \"frame\"";
    let folder = place(&assets.join("images/plates"), &model, module);
    let frames = run(folder.path());
    let right = right(&frames);
    assert!(frames.len() == 50 && right >= 43, "{right} of {}", frames.len());
}

#[test]
fn recognisers_of_faces_and_icons_take_folders_too() {
    if !has_runtime() {
        return;
    }
    let gallery = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../videos/gallery");
    // The pictures of one person, of whom the gallery has them: each is its own nearest.
    let gallery_key = format!("gallery = \"{}\"", gallery.display());
    let embed = format!("operator = \"embed\"\nitems = \"frame\"\nattribute = \"identity\"\n{gallery_key}");
    let folder = place(&gallery.join("p03"), "model = \"embedded:street-faces\"", &embed);
    let frames = run(folder.path());
    assert!(!frames.is_empty());
    for frame in &frames {
        assert_eq!(
            frame["objects"][0]["attributes"]["identity"]["match"], "p03",
            "{frame:#}"
        );
    }
    let icons = "operator = \"classify\"\nitems = \"frame\"";
    let folder = place(&gallery.join("p03"), "model = \"embedded:icon\"", icons);
    for frame in run(folder.path()) {
        assert_eq!(frame["objects"][0]["attributes"], json!({}), "{frame:#}");
    }
}

#[test]
fn what_contradicts_itself_is_said_with_its_line() {
    let images = tempfile::tempdir().unwrap();
    let checked = |module: &str| {
        let folder = place(images.path(), "model = \"embedded:plate-reader\"", module);
        weir(folder.path(), &["check", "graph.toml"])
    };
    let reads = |lines: &str| checked(&format!("operator = \"read-text\"\n{lines}"));
    refuses(
        &reads("regions = [\"plate\"]\nitems = \"frame\""),
        &[
            "graph.toml:17: module \"read\" has both `items` and `regions`",
            "hint: leave out `items` for crops",
        ],
    );
    refuses(
        &reads("items = \"frames\""),
        &[
            "graph.toml:17: `items` cannot be \"frames\"",
            "hint: did you mean \"frame\"?",
        ],
    );
    refuses(
        &reads(""),
        &[
            "graph.toml:16: operator \"read-text\" takes flat things",
            "items = \"frame\"",
        ],
    );
    let quick = reads("items = \"frame\"\nwiden = 0.1");
    let said = stderr(&quick) + &stdout(&quick);
    assert!(
        said.contains("takes whole frames, which leaves `widen` without effect"),
        "{said}"
    );
}
