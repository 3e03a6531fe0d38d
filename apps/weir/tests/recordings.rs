//! Recordings and addresses through the whole program: what is lost is said, what is secret is not.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{self, refuses, run_ffmpeg, stderr, stdout};

/// One module on an emulated device and event lines: needs no model.
const GRAPH: &str = r#"
[app]
name = "recordings"
slo = "10s"

[sources.camera]
uri = "${CLIP:-camera.mp4}"

[models.any]
device = "emulated:any"
profile = { "1" = "1ms" }

[modules.look]
operator = "emulate"
model = "any"
inputs = ["camera"]

[sinks.events]
type = "jsonl"
path = "out/events.jsonl"
inputs = ["look"]
"#;

/// A clip that ships with the program: 300 frames at 25 a second.
fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../videos/live-room.mp4")
}

struct Place(TempDir);

impl Place {
    fn new(graph: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("graph.toml"), graph).unwrap();
        Self(folder)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn weir(&self, arguments: &[&str], clip: Option<&str>) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command
            .args(arguments)
            .current_dir(self.0.path())
            .env_remove("RUST_LOG");
        if let Some(clip) = clip {
            command.env("CLIP", clip);
        }
        command.output().unwrap()
    }

    fn replay(&self, video: &str, more: &[&str]) -> Output {
        let arguments = ["replay", "graph.toml", video, "--report", "report.json"];
        self.weir(&[&arguments, more].concat(), None)
    }

    fn report(&self) -> Value {
        common::report(&self.at("report.json"))
    }

    fn arrived(&self) -> u64 {
        self.report()["requests"]["arrived"].as_u64().unwrap()
    }

    /// Numbers and times of the frames that came out.
    fn frames(&self) -> Vec<(u64, f64)> {
        let lines = std::fs::read_to_string(self.at("out/events.jsonl")).unwrap();
        let lines = lines
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let frames = lines.filter_map(|line| Some((line["frame"].as_u64()?, line["pts_ms"].as_f64()?)));
        frames.collect()
    }
}

fn ffmpeg(arguments: &[&str]) {
    run_ffmpeg(Command::new("ffmpeg").args(["-v", "error", "-y"]).args(arguments));
}

#[test]
fn a_recording_with_a_jump_of_an_hour_takes_its_own_time() {
    let place = Place::new(GRAPH);
    let shipped = shipped();
    let parts = ["0", "3600"].map(|offset| {
        let path = place.at(&format!("{offset}.ts"));
        let from = ["-t", "0.4", "-i", shipped.to_str().unwrap(), "-c", "copy"];
        ffmpeg(&[&from[..], &["-output_ts_offset", offset, path.to_str().unwrap()]].concat());
        std::fs::read(path).unwrap()
    });
    std::fs::write(place.at("joined.ts"), parts.concat()).unwrap();
    // At its own pace: it would be at it for an hour.
    let output = place.replay("joined.ts", &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!((18..=20).contains(&place.arrived()), "{}", place.arrived());
    let times: Vec<f64> = place.frames().iter().map(|(_, pts_ms)| *pts_ms).collect();
    assert!(
        times
            .windows(2)
            .all(|pair| pair[0] < pair[1] && pair[1] < pair[0] + 1000.0),
        "{times:?}"
    );
}

#[test]
fn a_matroska_recording_that_was_cut_off_ends_with_an_error() {
    let place = Place::new(GRAPH);
    let whole = place.at("whole.mkv");
    ffmpeg(&[
        "-i",
        shipped().to_str().unwrap(),
        "-c",
        "copy",
        whole.to_str().unwrap(),
    ]);
    let whole = std::fs::read(whole).unwrap();
    std::fs::write(place.at("cut.mkv"), &whole[..whole.len() / 2]).unwrap();
    let output = place.replay("cut.mkv", &["--speed", "max"]);
    refuses(
        &output,
        &["stream cut:", "was cut off", "record or download it again"],
    );
    assert_eq!(place.frames().len() as u64, place.arrived());
    assert!(place.arrived() > 50);
}

#[test]
fn a_folder_of_images_is_whole_or_names_what_is_missing() {
    let place = Place::new(GRAPH);
    std::fs::create_dir(place.at("images")).unwrap();
    for index in 0..6 {
        let path = place.at(&format!("images/{index}.png"));
        image(&path);
    }
    // Nothing says the mode: an archive. A graph that says live means it.
    let drawn = stdout(&place.weir(&["graph", "graph.toml"], Some("images")));
    assert!(drawn.contains("images<br/>lossless"), "{drawn}");
    let live = GRAPH.replace("[models.any]", "mode = \"live\"\n\n[models.any]");
    let drawn = stdout(&Place::new(&live).weir(&["graph", "graph.toml"], Some("/")));
    assert!(drawn.contains("<br/>live"), "{drawn}");
    let output = place.replay("images", &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    std::fs::write(place.at("images/2.png"), "no image").unwrap();
    std::fs::remove_dir_all(place.at("out")).unwrap();
    let output = place.replay("images", &[]);
    refuses(
        &output,
        &["stream images:", "1 of 6 images cannot be read: 2.png ("],
    );
    let numbers: Vec<u64> = place.frames().iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [0, 1, 3, 4, 5]);
}

/// A small image, as a folder of an archive holds.
fn image(path: &Path) {
    ffmpeg(&[
        "-f",
        "lavfi",
        "-i",
        "color=red:s=16x16",
        "-frames:v",
        "1",
        path.to_str().unwrap(),
    ]);
}

#[test]
fn a_sample_holds_for_the_videos_that_take_the_place_of_a_source() {
    let place = Place::new(&GRAPH.replace("[models.any]", "sample = \"5fps\"\n\n[models.any]"));
    let output = place.replay(shipped().to_str().unwrap(), &["--speed", "max"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(place.arrived(), 60);
    let health = &place.report()["streams"]["live-room"]["health"];
    assert_eq!(health["not_sampled"], 240, "{health}");
    let frames: Vec<(u64, f64)> = (0..300)
        .step_by(5)
        .map(|frame| (frame, frame as f64 * 40.0))
        .collect();
    assert_eq!(place.frames(), frames);
}

#[test]
fn a_pipe_without_a_writer_does_not_outlast_the_run() {
    let place = Place::new(GRAPH);
    let made = Command::new("mkfifo").arg(place.at("pipe")).status().unwrap();
    assert!(made.success());
    let output = place.replay("pipe", &["--duration", "200ms"]);
    assert!(!stderr(&output).contains("hangs"), "{}", stderr(&output));
    assert_eq!(place.arrived(), 0);
}

#[test]
fn credentials_are_shown_nowhere() {
    let place = Place::new(GRAPH);
    let uri = "rtsp://admin:hunter2@127.0.0.1:1/north?token=abcdef";
    let report = || std::fs::read_to_string(place.at("report.json")).unwrap_or_default();
    for output in [
        place.replay(uri, &["--duration", "300ms"]),
        place.weir(
            &[
                "run",
                "graph.toml",
                "--duration",
                "300ms",
                "--report",
                "report.json",
            ],
            Some(uri),
        ),
        place.weir(&["check", "graph.toml"], Some(uri)),
        place.weir(&["graph", "graph.toml"], Some(uri)),
        place.weir(&["graph", "graph.toml", "--format", "dot"], Some(uri)),
        place.weir(
            &["check", "graph.toml"],
            Some("rtsp:/admin:hunter2@127.0.0.1/north"),
        ),
    ] {
        let said = stdout(&output) + &stderr(&output) + &report();
        assert!(!said.contains("hunter2") && !said.contains("abcdef"), "{said}");
        assert!(said.contains("rtsp:/"), "{said}");
    }
}
