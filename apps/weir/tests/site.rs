//! A site of cameras through the whole program: what one camera's table says holds on that camera alone.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "a test that skips says so")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::common::{has_runtime, stderr, stdout};

/// Two cameras that see the same. On the clock of the first it is now the time of its rule; the second looks at the right half.
const SITE: &str = r#"
[app]
slo = "20s"

[defaults]
mode = "lossless"
sample = "5fps"
schedule = { hours = "HOURS" }

[cameras.whole]
uri = "CLIP"
timezone = "Asia/Tokyo"
zones.all = [[0, 0], [1, 0], [1, 1], [0, 1]]
rules.now = { zones = ["all"] }

[cameras.half]
uri = "CLIP"
ignore = [[0, 0], [0.5, 0], [0.5, 1], [0, 1]]
zones.all = [[0, 0], [1, 0], [1, 1], [0, 1]]
rules.now = { zones = ["all"] }

[models.detector]
model = "embedded:street-detector"

[models.plate-reader]
model = "embedded:plate-reader"

[modules.objects]
operator = "detect"
model = "detector"
inputs = ["*"]

[modules.plates]
operator = "read-text"
model = "plate-reader"
inputs = ["objects"]
regions = ["plate"]
streams = ["whole"]

[modules.tracks]
operator = "track"
inputs = ["objects"]

[sinks.events]
type = "jsonl"
path = "{stream}.jsonl"
inputs = ["plates", "*"]
"#;

/// Variables of `config/site.toml` for the addresses of its cameras but the first.
const CAMERAS: [&str; 11] = [
    "YARD", "CORNER", "DOOR", "HALL", "STAIRS", "DOCK", "RAMP", "GARAGE", "FENCE", "BICYCLES", "OFFICE",
];

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn clip(name: &str) -> PathBuf {
    Path::new(ROOT).join("videos").join(name)
}

fn weir(arguments: &[&str], folder: &Path) -> Output {
    let done = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(arguments)
        .current_dir(folder)
        .env("GATE", clip("street-day.mp4"))
        .envs(CAMERAS.map(|camera| (camera, clip("street-dusk.mp4"))))
        .env_remove("RUST_LOG")
        .output()
        .unwrap();
    assert!(done.status.success(), "{}{}", stdout(&done), stderr(&done));
    done
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// An hour before and an hour after now, on the clock of Tokyo.
#[expect(
    clippy::disallowed_methods,
    reason = "the rule of the run goes by the clock of this machine"
)]
fn hours_of_tokyo() -> String {
    let minutes = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 60 + 9 * 60;
    let clock = |minutes: u64| format!("{:02}:{:02}", minutes / 60 % 24, minutes % 60);
    format!("{}-{}", clock(minutes - 60), clock(minutes + 60))
}

#[test]
fn masks_schedules_and_modules_hold_on_their_camera_alone() {
    if !has_runtime() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let graph = SITE.replace("CLIP", clip("street-dusk.mp4").to_str().unwrap());
    let graph = graph.replace("HOURS", &hours_of_tokyo());
    std::fs::write(folder.path().join("site.toml"), graph).unwrap();
    weir(&["run", "site.toml"], folder.path());
    let of = |stream: &str| lines(&folder.path().join(format!("{stream}.jsonl")));
    let (whole, half) = (of("whole"), of("half"));
    let objects = |lines: &[Value]| -> Vec<Value> {
        let frames = lines.iter().filter(|line| line["type"] == "frame");
        frames
            .flat_map(|line| line["objects"].as_array().unwrap().clone())
            .collect()
    };
    let middle = |object: &Value| {
        let side = |index: usize| object["box"][index].as_f64().unwrap();
        (side(0) + side(2)) / 2.0 / 960.0
    };
    let (all, right) = (objects(&whole), objects(&half));
    assert!(
        all.iter().any(|object| middle(object) < 0.45),
        "something is on the left"
    );
    assert!(!right.is_empty() && right.iter().all(|object| middle(object) >= 0.49));
    let expected = all.iter().filter(|object| middle(object) > 0.51).count();
    assert!(right.len() >= expected, "{} of {expected}", right.len());
    // Plates are read on one camera.
    let has_text =
        |object: &Value| object.get("text").is_some() || object["attributes"].get("text").is_some();
    assert!(all.iter().any(has_text) && !right.iter().any(has_text));
    let found = |lines: &[Value], name: &str| {
        let mut incidents = lines.iter().filter(|line| line["type"] == "incident");
        incidents.any(|line| line["transform"] == name)
    };
    assert!(found(&whole, "whole.all") && found(&half, "half.all"));
    assert!(
        found(&whole, "whole.now") && !found(&half, "half.now"),
        "it is not that time in UTC"
    );
    assert!(!found(&whole, "half.all"));

    weir(&["zones", "site.toml", "--stream", "half"], folder.path());
    let drawn = image::open(folder.path().join("half.zones.png"))
        .unwrap()
        .to_rgb8();
    weir(&["zones", "site.toml", "--stream", "whole"], folder.path());
    let plain = image::open(folder.path().join("whole.zones.png"))
        .unwrap()
        .to_rgb8();
    let reds = |picture: &image::RgbImage| {
        let is_red = |pixel: &image::Rgb<u8>| {
            let apart = pixel.0.iter().zip([255_u8, 90, 90]);
            apart.map(|(a, b)| a.abs_diff(b)).max() <= Some(12)
        };
        picture.pixels().filter(|pixel| is_red(pixel)).count()
    };
    let (drawn, plain) = (reds(&drawn), reds(&plain));
    assert!(
        drawn > plain + 100,
        "the mask is drawn: {drawn} and {plain} pixels"
    );
}

/// The short form of `make soak-site`: two rounds of failures.
#[test]
fn incidents_of_a_site_arrive_once_while_cameras_the_broker_and_the_disk_fail() {
    if !has_runtime() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let done = Command::new("/usr/bin/python3")
        .arg(Path::new(ROOT).join("benches/soak/site.py"))
        .arg(env!("CARGO_BIN_EXE_weir"))
        .arg(folder.path().join("soak"))
        .env("SOAK_SECONDS", "28")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env_remove("RUST_LOG")
        .output()
        .unwrap();
    let said = stderr(&done);
    if said.contains("make setup installs") {
        println!("skipped: {said}");
        return;
    }
    assert!(done.status.success(), "{}{said}", stdout(&done));
}

#[test]
fn the_site_that_ships_passes_the_check_and_runs() {
    if !has_runtime() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let shipped = Path::new(ROOT).join("config/site.toml");
    let checked = weir(&["check", shipped.to_str().unwrap()], folder.path());
    assert!(!stdout(&checked).contains("warning"), "{}", stdout(&checked));
    // At half a frame a second, and as fast as it can.
    let text = std::fs::read_to_string(shipped).unwrap();
    assert!(text.lines().count() <= 150, "a site is short");
    let text = text.replace("sample = \"5fps\"", "sample = \"0.5fps\"\nmode = \"lossless\"");
    let config = folder.path().join("config");
    std::fs::create_dir(&config).unwrap();
    std::fs::write(config.join("site.toml"), text).unwrap();
    weir(&["run", "config/site.toml"], folder.path());
    let lines = lines(&folder.path().join("out/site/events.jsonl"));
    for camera in ["GATE"].iter().chain(&CAMERAS) {
        let camera = camera.to_lowercase();
        let mut frames = lines.iter().filter(|line| line["type"] == "frame");
        assert!(frames.any(|line| line["stream"] == *camera), "{camera}");
    }
}
