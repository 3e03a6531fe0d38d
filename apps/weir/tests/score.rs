//! `weir score` as its caller sees it: what it prints, what it writes, and how it refuses.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;
use weir_flow::{Delivery, Frame, Image, Settings, Value as Setting};
use weir_operators::sinks::sink;

/// One module on an emulated device: finds nothing, and needs no model.
const GRAPH: &str = r#"
[app]
name = "blind"
slo = "10s"

[sources.street]
uri = "street.mp4"

[models.any]
device = "emulated:any"
profile = { "1" = "1ms" }

[modules.look]
operator = "emulate"
model = "any"
inputs = ["street"]

[sinks.nowhere]
type = "null"
inputs = ["look"]
"#;

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn lines(&self, name: &str, lines: &[Value]) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(self.at(name), text).unwrap();
    }

    /// A car with a plate and a face in each of `frames` frames.
    fn truth(&self, name: &str, frames: u64) {
        let clip = json!({"truth": 1, "world": "street", "seed": 3, "width": 960, "height": 540, "fps": 25.0,
            "frames": frames});
        let frame = |frame: u64| {
            json!({"frame": frame, "pts_ms": frame * 40, "objects": [
                {"id": 1, "class": "car", "box": [10.0, 10.0, 210.0, 110.0], "visible": 1.0},
                {"id": 2, "class": "plate", "box": [50.0, 80.0, 150.0, 100.0], "visible": 1.0, "parent": 1,
                 "attributes": {"plate": {"text": "WR 123"}}},
                {"id": 3, "class": "face", "box": [300.0, 10.0, 350.0, 60.0], "visible": 1.0,
                 "attributes": {"gaze": {"yaw": 1.0, "pitch": 2.0}}},
                {"id": 4, "class": "car", "box": [900.0, 10.0, 910.0, 15.0], "visible": 0.1, "ignore": true}]})
        };
        let lines: Vec<Value> = std::iter::once(clip).chain((0..frames).map(frame)).collect();
        self.lines(name, &lines);
    }

    /// A clip of grey pictures.
    fn video(&self, name: &str, frames: u64) {
        let path = Setting::Text(self.at(name).display().to_string());
        let settings = Settings([("path".to_owned(), path)].into());
        let mut sink = sink("mp4", &settings).unwrap().open().unwrap();
        for index in 0..frames {
            let image = Image::from_rgb(64, 48, vec![index as u8; 64 * 48 * 3]);
            let delivery = Delivery::new("street", Frame::new(index, index as f64 * 40.0, image));
            sink.accept(&delivery).unwrap();
        }
        sink.finish().unwrap();
    }

    fn score(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.arg("score").args(arguments).current_dir(self.0.path());
        command
            .env("XDG_CACHE_HOME", self.at("cache"))
            .env_remove("RUST_LOG")
            .output()
            .unwrap()
    }

    fn json(&self, name: &str) -> Value {
        read_json(&self.at(name))
    }
}

fn read_json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The event of a frame in which all but the face was found.
fn event(stream: &str, frame: u64, plate: &str) -> Value {
    json!({"stream": stream, "frame": frame, "pts_ms": 0.0, "latency_ms": 30.0, "objects": [
        {"id": 0, "class": "car", "score": 0.9, "box": [12.0, 11.0, 208.0, 111.0], "parent": null, "attributes": {}},
        {"id": 1, "class": "plate", "score": 0.8, "box": [50.0, 80.0, 150.0, 100.0], "parent": 0,
         "attributes": {"plate": {"text": plate, "score": 0.9}}}]})
}

fn stdout(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The program must fail as the user's mistake, by one line that has these words.
fn refuses(output: &Output, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    for word in words {
        assert!(said.contains(word), "\"{word}\" is not in\n{said}");
    }
}

#[test]
fn candidates_count_for_the_curve_and_for_nothing_else() {
    let place = Place::new();
    place.truth("truth.jsonl", 4);
    let candidate = json!({"id": 2, "class": "car", "score": 0.3, "box": [600.0, 300.0, 700.0, 400.0], "parent": null,
        "candidate": true, "attributes": {}});
    let events = (0..4).map(|frame| {
        let mut event = event("street", frame, "WR 123");
        event["objects"].as_array_mut().unwrap().push(candidate.clone());
        event
    });
    place.lines("events.jsonl", &events.collect::<Vec<Value>>());
    let asked = [
        "--truth",
        "truth.jsonl",
        "--events",
        "events.jsonl",
        "--report",
        "score.json",
        "--curve",
        "curve.svg",
    ];
    stdout(&place.score(&asked));
    let accuracy = &place.json("score.json")["accuracy"];
    let car = &accuracy["all"]["classes"]["car"];
    assert_eq!((&car["detections"], &car["precision"]), (&json!(4), &json!(1.0)));
    let curve = &accuracy["curves"]["classes"]["car"];
    let points = curve["points"].as_array().unwrap();
    assert_eq!(points.len(), 2, "{curve}");
    assert_eq!(points[0]["precision"], json!(0.5), "the candidates are wrong");
    assert_eq!(curve["best"], points[1]);
    assert_eq!(curve["operating"], points[1]);
    let drawing = std::fs::read_to_string(place.at("curve.svg")).unwrap();
    assert!(
        drawing.contains("precision") && drawing.contains("car, "),
        "{drawing}"
    );
}

#[test]
fn events_of_a_file_are_scored() {
    let place = Place::new();
    place.truth("truth.jsonl", 4);
    // Frame 3 was not delivered, and one plate is read wrong.
    let events: Vec<Value> = (0..3)
        .map(|frame| event("a", frame, if frame == 1 { "WR 128" } else { "WR 123" }))
        .collect();
    place.lines("events.jsonl", &events);
    let table = stdout(&place.score(&["--events", "events.jsonl", "--truth", "truth.jsonl"]));
    for words in [
        "over all 4 frames",
        "over the 3 delivered",
        "car",
        "66.7 %",
        "CER 5.6 %",
        "not looked for: gaze",
    ] {
        assert!(table.contains(words), "{words} is not in\n{table}");
    }
    let quiet = place.score(&[
        "--events",
        "events.jsonl",
        "--truth",
        "a=truth.jsonl",
        "--report",
        "score.json",
    ]);
    assert_eq!(stdout(&quiet), "");
    let accuracy = &place.json("score.json")["accuracy"];
    assert_eq!(accuracy["all"]["classes"]["car"]["recall"], 0.75);
    assert_eq!(accuracy["delivered"]["classes"]["car"]["ap"], 1.0);
    assert_eq!(accuracy["all"]["classes"]["face"]["ap"], 0.0);
    let plate = &accuracy["all"]["attributes"]["plate"];
    assert_eq!(plate["form"], "text");
    assert_eq!(plate["from_80_px"]["exact"]["of_all"], 0.5);
    assert!(accuracy["all"].get("tracking").is_none());
}

#[test]
fn every_stream_of_a_loop_is_held_against_the_same_truth() {
    let place = Place::new();
    place.truth("truth.jsonl", 2);
    let streams = ["a", "a-2"].into_iter();
    let events: Vec<Value> = streams
        .flat_map(|stream| (0..5).map(move |frame| event(stream, frame, "WR 123")))
        .collect();
    place.lines("events.jsonl", &events);
    let arguments = ["--events", "events.jsonl", "--truth", "truth.jsonl"];
    refuses(
        &place.score(&arguments),
        &["stream a has no frame 2 and 2 others", "--loop"],
    );
    let looped = [&arguments[..], &["--loop", "--report", "score.json"]].concat();
    stdout(&place.score(&looped));
    let accuracy = &place.json("score.json")["accuracy"];
    assert_eq!(accuracy["all"]["frames"], 10);
    assert_eq!(accuracy["all"]["classes"]["plate"]["recall"], 1.0);
}

#[test]
fn a_run_is_scored_beside_its_report() {
    let place = Place::new();
    place.truth("truth.jsonl", 6);
    place.video("street.mp4", 6);
    std::fs::write(place.at("graph.toml"), GRAPH).unwrap();
    let arguments = ["graph.toml", "--truth", "truth.jsonl", "--speed", "max"];
    let table = stdout(&place.score(&arguments));
    assert!(table.contains("blind, policy"), "{table}");
    assert!(
        table.contains("mAP@0.5 0.000 over all 6 frames, 0.000 over the 6 delivered"),
        "{table}"
    );
    let written = [
        &arguments[..],
        &["street.mp4", "--streams", "2", "--report", "report.json"],
    ]
    .concat();
    stdout(&place.score(&written));
    let report = place.json("report.json");
    assert_eq!(report["requests"]["arrived"], 12);
    assert_eq!(report["accuracy"]["all"]["frames"], 12);
    assert_eq!(report["accuracy"]["delivered"]["frames"], 12);
    assert_eq!(report["accuracy"]["all"]["classes"]["car"]["truths"], 12);
    let sinks: Vec<&String> = report["sinks"].as_object().unwrap().keys().collect();
    assert_eq!(sinks, ["nowhere"]);

    // A truth of another clip: the run is reported, and then the mistake.
    place.truth("truth.jsonl", 4);
    let output = place.score(&arguments);
    refuses(&output, &["truth of stream street has no frame 4 and 1 other"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("blind, policy"));
}

#[test]
fn files_that_are_wrong_are_one_line() {
    let place = Place::new();
    place.truth("truth.jsonl", 2);
    place.lines("events.jsonl", &[event("a", 0, "x")]);
    let check = |truth: &str, events: &str, words: &[&str]| {
        refuses(&place.score(&["--truth", truth, "--events", events]), words);
    };
    check(
        "none.jsonl",
        "events.jsonl",
        &["truth none.jsonl: cannot be read"],
    );
    check(
        "truth.jsonl",
        "none.jsonl",
        &["events none.jsonl: cannot be read"],
    );
    // One for the other.
    check(
        "events.jsonl",
        "events.jsonl",
        &["truth events.jsonl: line 1: missing field"],
    );
    check(
        "truth.jsonl",
        "truth.jsonl",
        &["events truth.jsonl: line 1 is no event: missing field"],
    );
    std::fs::write(place.at("empty.jsonl"), "").unwrap();
    check("empty.jsonl", "events.jsonl", &["truth empty.jsonl: is empty"]);
    let mut torn = event("a", 0, "x").to_string();
    torn.push_str("\n{\"stream\": \"a\", \"frame\": 1, \"obj");
    std::fs::write(place.at("torn.jsonl"), torn).unwrap();
    check(
        "truth.jsonl",
        "torn.jsonl",
        &["events torn.jsonl: line 2 is no event"],
    );
    std::fs::write(place.at("binary.jsonl"), [0xff, 0xfe, 0x0a]).unwrap();
    check(
        "truth.jsonl",
        "binary.jsonl",
        &["events binary.jsonl: cannot be read"],
    );
    check(
        "b=truth.jsonl",
        "events.jsonl",
        &["stream a has no ground truth: give --truth a=FILE"],
    );
    // No event at all is a run that delivered nothing.
    let nothing = stdout(&place.score(&["--truth", "truth.jsonl", "--events", "empty.jsonl"]));
    assert!(nothing.contains("over the 0 delivered"), "{nothing}");
}

#[test]
fn options_that_do_not_go_together_are_refused() {
    let place = Place::new();
    place.truth("truth.jsonl", 2);
    place.video("street.mp4", 2);
    place.lines("events.jsonl", &[event("a", 0, "x")]);
    std::fs::write(place.at("graph.toml"), GRAPH).unwrap();
    let code = |arguments: &[&str]| place.score(arguments).status.code();
    assert_eq!(code(&["graph.toml"]), Some(2));
    assert_eq!(code(&["--truth", "truth.jsonl"]), Some(2));
    let with_speed = [
        "--truth",
        "truth.jsonl",
        "--events",
        "events.jsonl",
        "--speed",
        "max",
    ];
    assert_eq!(code(&with_speed), Some(2));
    refuses(
        &place.score(&["graph.toml", "--truth", "yard=truth.jsonl"]),
        &["--truth names the stream yard; the streams are street"],
    );
    refuses(
        &place.score(&["graph.toml", "--truth", "truth.jsonl", "--truth", "truth.jsonl"]),
        &["--truth is given twice for all streams"],
    );
}

#[test]
fn results_of_a_coco_sink_are_scored_against_annotations() {
    let place = Place::new();
    let write = |name: &str, value: &Value| std::fs::write(place.at(name), value.to_string()).unwrap();
    write(
        "annotations.json",
        &json!({"images": [{"id": 139, "width": 640, "height": 426}], "categories": [{"id": 3, "name": "car"}],
            "annotations": [
                {"id": 1, "image_id": 139, "category_id": 3, "bbox": [10, 10, 50, 40], "area": 2000, "iscrowd": 0},
                {"id": 2, "image_id": 139, "category_id": 3, "bbox": [200, 10, 50, 40], "area": 2000, "iscrowd": 0}]}),
    );
    write(
        "results.json",
        &json!([{"image_id": 139, "category_id": 3, "bbox": [10.0, 10.0, 50.0, 40.0], "score": 0.9}]),
    );
    let score = |more: &[&str]| {
        let files = ["--truth", "annotations.json"];
        place.score(&[&files[..], more].concat())
    };
    let ran = score(&["--events", "results.json"]);
    let text = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success() && text.contains("boxes") && text.contains("0.505"),
        "{text}"
    );
    let ran = score(&["--events", "results.json", "--report", "score.json"]);
    assert!(ran.status.success());
    let report: Value =
        serde_json::from_str(&std::fs::read_to_string(place.at("score.json")).unwrap()).unwrap();
    assert_eq!(report["coco"]["shapes"]["boxes"]["ar"], json!(0.5));
    for (more, word) in [
        (&["graph.toml"][..], "--events"),
        (&["--events", "annotations.json"], "annotations.json"),
        (&["--events", "results.json", "--curve", "curve.svg"], "--curve"),
    ] {
        let ran = score(more);
        let error = String::from_utf8_lossy(&ran.stderr);
        assert!(
            ran.status.code() == Some(2) && error.contains(word),
            "{more:?}: {error}"
        );
    }
}
