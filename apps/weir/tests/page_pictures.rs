//! Pictures of the page for people to look at, in `out/page`: of an idle run, of overload, of cameras that are gone, and of
//! incidents, 1280 and 390 pixels wide, light and dark; and the picture of the README, `docs/page.jpg`. Run by
//! `make page-pictures`.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::print_stderr, reason = "it says what it made")]

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::browser::Browser;
use crate::common::service::Service;
use crate::page::{BOX, canvas_has, choose};

const HEAD: &str = r#"
[app]
name = "NAME"
slo = "SLO"
"#;

const STREET: &str = r#"
[models.detector]
model = "embedded:street-detector"
batch = [1, 2, 4]

[models.plate-reader]
model = "embedded:plate-reader"
batch = [1, 2, 4]

[modules.objects]
operator = "detect"
model = "detector"
inputs = [NAMES]

[modules.plates]
operator = "read-text"
model = "plate-reader"
inputs = ["objects"]
regions = ["plate"]
attribute = "plate"
widen = 0.08
min_side = 6

[modules.tracks]
operator = "track"
inputs = ["objects"]
parts = ["plate of car, van, bus"]

[transforms.gate]
type = "line"
inputs = ["tracks"]
classes = ["car", "van", "bus", "bicycle"]
points = [[0.34, 0.70], [0.97, 0.38]]
directions = ["coming", "leaving"]

[transforms.junction]
type = "zone"
inputs = ["tracks"]
points = [[0.22, 0.25], [1.0, 0.25], [1.0, 0.36], [0.40, 0.36]]

[transforms.pictures]
type = "best-shot"
inputs = ["tracks"]

[sinks.clips]
type = "clips"
path = "clips/{stream}"
before = "1s"
after = "1s"
inputs = ["gate"]

[sinks.events]
type = "jsonl"
path = "events.jsonl"
inputs = ["plates", "gate", "junction"]
"#;

/// A source with the keys in their order.
fn source(name: &str, uri: &str, more: &str) -> String {
    format!("\n[sources.{name}]\nuri = \"{uri}\"\nmode = \"live\"\n{more}\n")
}

/// A service of sources in a folder with the clips.
fn serve(name: &str, slo: &str, sources: &[(&str, &str, &str)]) -> Service {
    let folder: TempDir = tempfile::tempdir().unwrap();
    let videos = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../videos");
    for clip in ["street-day.mp4", "street-dusk.mp4"] {
        std::fs::copy(videos.join(clip), folder.path().join(clip)).unwrap();
    }
    let names: Vec<String> = sources.iter().map(|(name, ..)| format!("\"{name}\"")).collect();
    let all: String = sources
        .iter()
        .map(|(name, uri, more)| source(name, uri, more))
        .collect();
    let head = HEAD.replace("NAME", name).replace("SLO", slo);
    let graph = head + &all + &STREET.replace("NAMES", &names.join(", "));
    std::fs::write(folder.path().join("graph.toml"), graph).unwrap();
    Service::start_in(folder, "127.0.0.1:0", &[])
}

fn out() -> PathBuf {
    let out = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../out/page");
    std::fs::create_dir_all(&out).unwrap();
    out
}

/// Pictures of three views in a state, wide and narrow, light and dark, and when the page was painted first.
fn take(service: &Service, name: &str, ready: &str) {
    for (width, height) in [(1280, 900), (390, 844)] {
        let browser = Browser::start(width, height);
        browser.open(&format!("http://{}/", service.at));
        browser.wait_until(ready);
        // Each waits for a key frame, which clips have now and then.
        browser.wait_until(
            "[...document.querySelectorAll('.tile')].filter(tile => tile.getBoundingClientRect().top < 700 \
             && tile.dataset.state === 'live').every(tile => tile.querySelector('video').currentTime > 0.5)",
        );
        let painted = browser.value("performance.getEntriesByName('first-contentful-paint')[0].startTime");
        eprintln!("{name} at {width} pixels: first paint after {painted} ms");
        take_view(&browser, name, width, "live");
        browser.value("location.hash = 'incidents'");
        std::thread::sleep(std::time::Duration::from_secs(3));
        take_view(&browser, name, width, "incidents");
        browser.value("location.hash = 'engine'");
        // Rates are over ten seconds, and parts that load in sight have been in sight.
        for id in ["timeline-section", "dropped-section", "main"] {
            browser.value(&format!("document.getElementById('{id}').scrollIntoView()"));
            std::thread::sleep(std::time::Duration::from_secs(3));
        }
        take_view(&browser, name, width, "engine");
    }
}

/// A view, light and dark.
fn take_view(browser: &Browser, name: &str, width: u32, view: &str) {
    for theme in ["light", "dark"] {
        choose(browser, "theme", theme);
        let file = out().join(format!("{name}-{view}-{width}-{theme}.png"));
        std::fs::write(file, browser.picture()).unwrap();
    }
    let wrong = browser.accessibility();
    assert!(wrong.is_empty(), "{name}, {view} at {width} pixels: {wrong:#?}");
}

const LIVE: &str = "(document.querySelector('video')?.currentTime ?? 0) > 1";

#[test]
#[ignore = "for people to look at"]
fn an_idle_run() {
    let service = serve(
        "idle",
        "1s",
        &[("north-gate", "street-day.mp4", "loop = true\nsample = \"4fps\"")],
    );
    take(&service, "idle", LIVE);
}

#[test]
#[ignore = "for people to look at"]
fn picture_of_the_readme() {
    let more = "loop = true\nsample = \"10fps\"";
    let cameras = [
        ("crossing", "street-day.mp4", more),
        ("crossing-dusk", "street-dusk.mp4", more),
    ];
    let service = serve("site", "2s", &cameras);
    let browser = Browser::start(1180, 450);
    browser.open(&format!("http://{}/", service.at));
    choose(&browser, "theme", "light");
    for (name, ..) in cameras {
        browser.wait_until(&canvas_has(name, BOX));
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/page.jpg");
    std::fs::write(file, browser.photo()).unwrap();
}

#[test]
#[ignore = "for people to look at"]
fn overload() {
    let names = [
        "north-gate",
        "south-gate",
        "car-park",
        "loading-bay",
        "ramp",
        "yard",
    ];
    let sources = names.map(|name| (name, "street-day.mp4", "loop = true"));
    let service = serve("overload", "300ms", &sources);
    take(
        &service,
        "overload",
        "!document.getElementById('dropped-section').hidden",
    );
}

#[test]
#[ignore = "for people to look at"]
fn cameras_that_are_gone() {
    let service = serve(
        "gone",
        "1s",
        &[
            ("north-gate", "street-day.mp4", "loop = true\nsample = \"4fps\""),
            (
                "south-gate",
                "rtsp://127.0.0.1:9/a-camera-with-a-rather-long-address/stream?profile=main",
                "",
            ),
            ("emulated", "emulated:uniform?rate=5&frames=20", ""),
        ],
    );
    take(&service, "gone", LIVE);
}

#[test]
#[ignore = "for people to look at"]
fn incidents() {
    let service = serve(
        "incidents",
        "2s",
        &[("north-gate", "street-day.mp4", "loop = true\nsample = \"10fps\"")],
    );
    take(
        &service,
        "incidents",
        "fetch('api/incidents').then(answer => answer.json()).then(({ incidents }) => incidents.length > 2)",
    );
}
