//! Pictures of the page for people to look at, in `out/page`: each view, in several conditions of a site, with 1, 8 and 32 cameras,
//! 390, 1440 and 2560 pixels wide, light and dark, named `VIEW-CONDITION-CAMERAS-WIDTH-THEME.png`. Sheets have those of one view and
//! condition together: `sheet-VIEW-CONDITION-THEME.png`. The sites are [scenes](crate::scenes) without an engine; the picture of the
//! README, `docs/page.jpg`, is of a real one. Run by `make page-pictures`.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::print_stderr, reason = "it says what it made")]

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::browser::Browser;
use crate::common::run_ffmpeg;
use crate::common::service::Service;
use crate::page::{BOX, canvas_has, choose};
use crate::scenes::{Condition, Scene};

const GRAPH: &str = r#"
[app]
name = "site"
slo = "2s"

[sources.crossing]
uri = "street-day.mp4"
mode = "live"
loop = true
sample = "10fps"

[sources.crossing-dusk]
uri = "street-dusk.mp4"
mode = "live"
loop = true
sample = "10fps"

[models.detector]
model = "embedded:street-detector"
batch = [1, 2, 4]

[models.plate-reader]
model = "embedded:plate-reader"
batch = [1, 2, 4]

[modules.objects]
operator = "detect"
model = "detector"
inputs = ["crossing", "crossing-dusk"]

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

fn out() -> PathBuf {
    let out = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../out/page");
    std::fs::create_dir_all(&out).unwrap();
    out
}

/// Widths and heights of screens, and the width that a sheet has for each.
const SCREENS: [(u32, u32, u32); 3] = [(390, 844, 240), (1440, 900, 760), (2560, 1440, 1000)];

/// Height of a row of a sheet.
const ROW: u32 = 564;

/// Views by the names in their addresses.
const VIEWS: [&str; 6] = ["live", "incidents", "recordings", "search", "edit", "engine"];

/// A view has loaded: pictures and videos in sight have pixels, and nothing is awaited.
const LOADED: &str = "(() => { \
    const inSight = (node) => { const { top, bottom, width } = node.getBoundingClientRect(); return width > 0 && bottom > 0 && top < innerHeight; }; \
    const isShown = (video) => !inSight(video) || video.hidden || video.closest('.resting, .without') || video.readyState >= 2; \
    return !document.querySelector('[aria-busy=true]') \
      && [...document.querySelectorAll('img[src]')].every((image) => !inSight(image) || image.complete) \
      && [...document.querySelectorAll('.tile:not([hidden]) video, .recording-screen video')].every(isShown); })()";

/// Signs that a view has got its answers.
fn has_answers(view: &str, cameras: usize) -> &'static str {
    match view {
        "live" if cameras > 0 => "document.querySelectorAll('.tile').length > 0",
        "live" => "document.querySelector('.live-empty button').offsetParent !== null",
        "incidents" => {
            "document.querySelector('.incident-list > li, #view-incidents .nothing:not([hidden])') !== null"
        }
        "recordings" if cameras > 0 => "document.querySelector('.recording-slider rect.recorded') !== null",
        "recordings" => "document.querySelector('#view-recordings .nothing').innerText !== ''",
        "search" => "document.querySelector('.result, .search-empty p') !== null",
        "edit" => {
            "document.querySelector('.edit-status').innerText !== '' && !document.querySelector('.edit-tools button').disabled"
        }
        // Rates need two states.
        _ if cameras > 0 => "document.querySelector('#summary .value').innerText !== '–'",
        _ => "document.getElementById('run-line').innerText !== ''",
    }
}

/// Pictures of all views of a site with so many cameras, light and dark, on each screen.
fn take(condition: (&str, Condition), counts: &[usize]) {
    let (name, condition) = condition;
    for (width, height, _) in SCREENS {
        let browser = Browser::start(width, height);
        for cameras in counts {
            let server = Scene::serve(condition, *cameras);
            let address = format!("http://{}/", server.address());
            browser.open(&address);
            let paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime";
            browser.wait_until(&format!("{paint} > 0"));
            let painted = browser.value(paint);
            eprintln!("{name}, {cameras} cameras, {width} pixels: first paint after {painted} ms");
            for view in VIEWS {
                show(&browser, view, *cameras);
                for theme in ["light", "dark"] {
                    choose(&browser, "theme", theme);
                    save(&browser, &format!("{view}-{name}-{cameras}-{width}-{theme}"));
                }
            }
        }
    }
    for view in VIEWS {
        for theme in ["light", "dark"] {
            sheet(view, name, counts, theme);
        }
    }
}

fn file(name: &str) -> PathBuf {
    out().join(format!("{name}.png"))
}

/// Opens a view by its address, and waits until it has its answers.
fn show(browser: &Browser, view: &str, cameras: usize) {
    browser.value(&format!("(location.hash = '{view}', true)"));
    browser.wait_until(has_answers(view, cameras));
}

/// Keeps the picture of the view, once it has loaded.
fn save(browser: &Browser, name: &str) {
    browser.wait_until(LOADED);
    std::fs::write(file(name), browser.picture()).unwrap();
}

/// Puts the pictures of a view in a condition into one: a row for each number of cameras, from the top of the page on.
fn sheet(view: &str, condition: &str, counts: &[usize], theme: &str) {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-loglevel", "error", "-y"]);
    let (mut filters, mut rows, mut input) = (String::new(), String::new(), 0);
    for (row, cameras) in counts.iter().enumerate() {
        let mut cells = String::new();
        for (width, _, cell) in SCREENS {
            let picture = file(&format!("{view}-{condition}-{cameras}-{width}-{theme}"));
            ffmpeg.arg("-i").arg(picture);
            filters += &format!(
                "[{input}]scale={cell}-8:-2,crop=iw:min(ih\\,{ROW}):0:0,pad={cell}:{ROW}+8:0:0:gray[c{input}];"
            );
            cells += &format!("[c{input}]");
            input += 1;
        }
        filters += &format!("{cells}hstack=inputs={}[r{row}];", SCREENS.len());
        rows += &format!("[r{row}]");
    }
    filters += &match counts.len() {
        1 => "[r0]null[all]".to_owned(),
        count => format!("{rows}vstack=inputs={count}[all]"),
    };
    ffmpeg.args(["-filter_complex", &filters, "-map", "[all]", "-frames:v", "1"]);
    run_ffmpeg(ffmpeg.arg(file(&format!("sheet-{view}-{condition}-{theme}"))));
}

const COUNTS: [usize; 3] = [1, 8, 32];

#[test]
#[ignore = "for people to look at"]
fn empty() {
    take(("empty", Condition::Healthy), &[0]);
}

#[test]
#[ignore = "for people to look at"]
fn healthy() {
    take(("healthy", Condition::Healthy), &COUNTS);
}

#[test]
#[ignore = "for people to look at"]
fn overloaded() {
    take(("overloaded", Condition::Overloaded), &COUNTS);
}

#[test]
#[ignore = "for people to look at"]
fn half_of_the_cameras_gone() {
    take(("half-gone", Condition::HalfGone), &COUNTS);
}

#[test]
#[ignore = "for people to look at"]
fn disk_full() {
    take(("disk-full", Condition::DiskFull), &COUNTS);
}

#[test]
#[ignore = "for people to look at"]
fn bad_file() {
    take(("bad-file", Condition::BadFile), &COUNTS);
}

/// Each view in each condition, light and dark, has no serious fault that keeps people from using it.
#[test]
#[ignore = "it takes minutes"]
fn accessibility() {
    let conditions = [
        Condition::Healthy,
        Condition::Overloaded,
        Condition::HalfGone,
        Condition::DiskFull,
        Condition::BadFile,
    ];
    let browser = Browser::start(1440, 900);
    let mut wrong = Vec::new();
    for condition in conditions {
        let server = Scene::serve(condition, 8);
        browser.open(&format!("http://{}/", server.address()));
        for view in VIEWS {
            show(&browser, view, 8);
            for theme in ["light", "dark"] {
                choose(&browser, "theme", theme);
                let found = browser.accessibility();
                wrong.extend(
                    found
                        .iter()
                        .map(|found| format!("{condition:?}, {view}, {theme}: {found}")),
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// German texts are longer; the page stands in German at the next visit.
#[test]
#[ignore = "for people to look at"]
fn german() {
    for (width, height, _) in SCREENS {
        let browser = Browser::start(width, height);
        let server = Scene::serve(Condition::HalfGone, 8);
        let address = format!("http://{}/", server.address());
        browser.open(&address);
        browser.value("(localStorage.setItem('weir-language', 'de'), true)");
        browser.open(&format!("{address}?again"));
        browser.wait_until("document.documentElement.lang === 'de'");
        choose(&browser, "theme", "light");
        for view in VIEWS {
            show(&browser, view, 8);
            save(&browser, &format!("{view}-german-8-{width}-light"));
        }
    }
    for view in VIEWS {
        sheet(view, "german", &[8], "light");
    }
}

#[test]
#[ignore = "for people to look at"]
fn picture_of_the_readme() {
    let folder = tempfile::tempdir().unwrap();
    let videos = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../videos");
    for clip in ["street-day.mp4", "street-dusk.mp4"] {
        std::fs::copy(videos.join(clip), folder.path().join(clip)).unwrap();
    }
    std::fs::write(folder.path().join("graph.toml"), GRAPH).unwrap();
    let service = Service::start_in(folder, "127.0.0.1:0", &[]);
    let browser = Browser::start(1180, 450);
    browser.open(&format!("http://{}/", service.at));
    choose(&browser, "theme", "light");
    for name in ["crossing", "crossing-dusk"] {
        browser.wait_until(&canvas_has(name, BOX));
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/page.jpg");
    std::fs::write(file, browser.photo()).unwrap();
}
