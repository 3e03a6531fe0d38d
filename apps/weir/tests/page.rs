//! The page of `weir serve` in a real browser.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::browser::Browser;
use crate::common::service::{GRAPH, Service, folder};
use crate::common::{has_runtime, report, run_ffmpeg};

/// The text of the tile of a stream contains this.
pub(crate) fn tile_has(name: &str, text: &str) -> String {
    format!(
        "[...document.querySelectorAll('.tile')].some(tile => tile.ariaLabel === '{name}' && tile.innerText.includes('{text}'))"
    )
}

/// Chooses an option of a control, as a person does.
pub(crate) fn choose(browser: &Browser, id: &str, value: &str) {
    browser.value(&format!(
        "(() => {{ const control = document.getElementById('{id}'); control.value = '{value}'; \
         control.dispatchEvent(new Event('change')); }})()"
    ));
}

/// Chooses from the menu of a camera.
pub(crate) fn choose_from_menu(browser: &Browser, name: &str, label: &str) {
    browser.click(&format!("summary[aria-label='Menu of {name}']"));
    browser.click(&format!("button[aria-label='{label} {name}']"));
}

/// Opens a view by the navigation.
pub(crate) fn open_view(browser: &Browser, name: &str) {
    browser.click(&format!("#views a[href='#{name}']"));
    browser.wait_until(&format!("!document.getElementById('view-{name}').hidden"));
}

/// Keys as WebDriver writes them (W3C WebDriver, 17.4.2).
const ESCAPE: &str = "\u{e00c}";
pub(crate) const RIGHT: &str = "\u{e014}";
pub(crate) const ENTER: &str = "\u{e007}";

/// All that the browser asked for is of this service, and nothing went wrong in the page.
pub(crate) fn assert_clean(browser: &Browser, service: &Service) {
    let errors = browser.errors();
    assert!(errors.is_empty(), "{errors:#?}");
    let requests = browser.requests();
    let own = |url: &&String| {
        let own = [format!("http://{}/", service.at), format!("ws://{}/", service.at)];
        own.iter().any(|own| url.starts_with(own)) || url.starts_with("data:") || url.starts_with("blob:")
    };
    let foreign: Vec<&String> = requests.iter().filter(|url| !own(url)).collect();
    assert!(!requests.is_empty() && foreign.is_empty(), "{foreign:#?}");
}

#[test]
fn streams_are_seen_paused_resumed_added_and_removed() {
    let mut service = Service::start(&[]);
    let browser = Browser::start(1280, 900);
    browser.open(&format!("http://{}/", service.at));
    browser.wait_until(&tile_has("steady", "live"));
    assert_eq!(browser.accessibility(), [""; 0]);
    open_view(&browser, "engine");
    // Rates are those of the stream: 50 frames a second, all of them delivered.
    browser.wait_until("document.querySelector('#cameras td:nth-child(3)')?.innerText > 40");
    for id in ["graph", "modules", "latency"] {
        browser.wait_until(&format!(
            "document.getElementById('{id}').textContent.includes('find')"
        ));
    }
    browser.wait_until("document.getElementById('sinks').innerText.includes('events')");
    for theme in ["light", "dark", "system"] {
        choose(&browser, "theme", theme);
        assert_eq!(browser.accessibility(), [""; 0]);
    }

    open_view(&browser, "live");
    choose_from_menu(&browser, "steady", "Pause");
    browser.wait_until(&tile_has("steady", "paused"));
    service.wait_until(|list| list.contains("paused"));
    choose_from_menu(&browser, "steady", "Resume");
    browser.wait_until(&tile_has("steady", "live"));

    browser.click("#add");
    assert_eq!(browser.accessibility(), [""; 0]);
    browser.type_into("#add-form [name=name]", "guest");
    browser.type_into("#add-form [name=uri]", "/etc/hostname");
    browser.click("#add-form summary");
    browser.type_into("#add-form [name=group]", "yard");
    browser.click("#add-form button.primary");
    browser.wait_until("document.getElementById('add-error').innerText.includes('may name')");
    browser.value("document.querySelector('#add-form [name=uri]').value = ''");
    browser.type_into("#add-form [name=uri]", "emulated:uniform?rate=20");
    // That a stream was refused is on the console; nothing else is.
    let refused = browser.errors();
    assert!(
        refused.iter().all(|error| error.contains("/api/streams")),
        "{refused:?}"
    );
    browser.click("#add-form button.primary");
    browser.wait_until(&tile_has("guest", "live"));
    browser.wait_until("document.querySelector('.live-group').textContent.includes('yard: 1 of 1 live')");
    choose_from_menu(&browser, "guest", "Remove");
    browser.click("#remove-form button.danger");
    browser.wait_until("document.querySelectorAll('.tile').length === 1");
    service.wait_until(|list| !list.contains("guest"));
    assert_clean(&browser, &service);
    service.drain();
}

/// A service whose source `steady` shows a room, with further keys.
fn room(keys: &str) -> Service {
    let folder = tempfile::tempdir().unwrap();
    clip(folder.path(), "live-room.mp4");
    let source = format!("uri = \"clip.mp4\"\nmode = \"live\"\nloop = true\n{keys}");
    let graph = GRAPH.replace("uri = \"emulated:uniform?rate=50\"", &source);
    std::fs::write(folder.path().join("graph.toml"), graph).unwrap();
    Service::start_in(folder, "127.0.0.1:0", &[])
}

#[test]
fn a_camera_is_seen_with_what_was_found_in_it() {
    let mut service = room("");
    let browser = Browser::start(1280, 900);
    browser.open(&format!("http://{}/", service.at));
    // It plays on, with pictures of its size.
    browser.wait_until("(document.querySelector('video')?.currentTime ?? 0) > 1");
    let at = browser.value("document.querySelector('video').currentTime");
    browser.wait_until(&format!(
        "document.querySelector('video').currentTime > {at} + 0.5"
    ));
    assert_eq!(browser.value("document.querySelector('video').videoWidth"), 960);
    browser.click("#live-video");
    browser.wait_until(&tile_has("steady", "Video is switched off"));
    browser.wait_until("!document.querySelector('video').src");
    assert_clean(&browser, &service);
    service.drain();
    let report = report(&service.folder.path().join("report.json"));
    assert!(report["sinks"]["(page)"].is_null(), "{}", report["sinks"]);
}

#[test]
fn camera_outside_its_schedule_is_shown_and_says_so() {
    let mut service = room("active = { except = [\"1970-01-01..2999-12-31\"] }");
    let browser = Browser::start(1280, 900);
    browser.open(&format!("http://{}/", service.at));
    browser.wait_until(&tile_has("steady", "Not analysed now"));
    // Its next key frame is decoded for that. A recording is read ahead: that of a request may be due ten seconds later, and each request
    // waits six.
    let mut asked = (0..4).map(|_| service.ask("GET", "/api/streams/steady/picture", ""));
    let picture = asked.find(|(status, _)| *status == 200);
    assert!(picture.is_some_and(|(_, jpeg)| jpeg.contains("JFIF")));
    browser.wait_until("(document.querySelector('video')?.currentTime ?? 0) > 1");
    assert_eq!(browser.accessibility(), [""; 0]);
    assert_clean(&browser, &service);
    service.drain();
}

/// The street with what happens in it: a zone, a line, and the four points of `speed`.
const STREET: &str = r#"
[app]
name = "street"
slo = "2s"

[sources.street]
uri = "clip.mp4"
mode = "live"
loop = true
sample = "8fps"

[models.detector]
model = "embedded:street-detector"
batch = [1, 2, 4]

[modules.objects]
operator = "detect"
model = "detector"
inputs = ["street"]

[modules.tracks]
operator = "track"
inputs = ["objects"]

[transforms.gate]
type = "line"
inputs = ["tracks"]
points = [[0.34, 0.70], [0.97, 0.38]]
directions = ["coming", "leaving"]

[transforms.junction]
type = "zone"
inputs = ["tracks"]
points = [[0.22, 0.25], [1.0, 0.25], [1.0, 0.36], [0.40, 0.36]]

[sinks.events]
type = "jsonl"
path = "events.jsonl"
inputs = ["gate", "junction"]
"#;

pub(crate) fn clip(folder: &Path, name: &str) {
    let clips = concat!(env!("CARGO_MANIFEST_DIR"), "/../../videos/");
    std::fs::copy(Path::new(clips).join(name), folder.join("clip.mp4")).unwrap();
}

/// A service of [`STREET`] with more tables.
pub(crate) fn street(more: &str) -> Service {
    let folder = tempfile::tempdir().unwrap();
    clip(folder.path(), "street-day.mp4");
    std::fs::write(folder.path().join("graph.toml"), STREET.to_owned() + more).unwrap();
    Service::start_in(folder, "127.0.0.1:0", &[])
}

/// More pixels of the canvas over a camera have about that colour than a letter has.
pub(crate) fn canvas_has(name: &str, [red, green, blue]: [u8; 3]) -> String {
    format!(
        "(() => {{ const canvas = document.querySelector('.tile[aria-label={name}] canvas'); \
         if (!canvas?.width) return false; \
         const {{ data }} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height); let count = 0; \
         for (let i = 0; i < data.length; i += 4) {{ \
           const off = Math.abs(data[i] - {red}) + Math.abs(data[i + 1] - {green}) + Math.abs(data[i + 2] - {blue}); \
           if (data[i + 3] > 200 && off < 60) count += 1; }} \
         return count > 60; }})()"
    )
}

#[test]
fn zones_lines_and_tracks_are_drawn_over_the_video() {
    if !has_runtime() {
        return;
    }
    let mut service = street("");
    // Models are opened first.
    service.wait_until(|list| list.contains(" live "));
    let browser = Browser::start(1280, 900);
    browser.open(&format!("http://{}/", service.at));
    for color in [ZONE, LINE, BOX] {
        browser.wait_until(&canvas_has("street", color));
    }
    browser.click("button[aria-label='Enlarge street']");
    browser.wait_until("document.querySelector('.tile').classList.contains('large')");
    browser.wait_until(&canvas_has("street", ZONE));
    browser.click("#live-zones");
    browser.wait_until(&format!("!{}", canvas_has("street", ZONE)));
    browser.wait_until(&canvas_has("street", BOX));
    assert_eq!(browser.accessibility(), [""; 0]);
    open_view(&browser, "engine");
    browser.wait_until("document.querySelector('#timeline .lane rect.lane-0') !== null || (document.getElementById('timeline').scrollIntoView(), false)");
    assert_eq!(browser.accessibility(), [""; 0]);
    assert_clean(&browser, &service);
    service.drain();
}

/// Colours of the drawing, as `engine/serve/page/drawing.js` has them.
const ZONE: [u8; 3] = [63, 214, 176];
const LINE: [u8; 3] = [255, 210, 74];
pub(crate) const BOX: [u8; 3] = [124, 192, 255];

#[test]
fn video_that_browsers_do_not_play_is_shown_by_pictures_over_the_same_socket() {
    let folder = tempfile::tempdir().unwrap();
    clip(folder.path(), "live-room.mp4");
    let sources: Vec<String> = [("hevc", "libx265", "mp4"), ("motion", "mjpeg", "avi")]
        .iter()
        .map(|(name, encoder, container)| {
            let mut ffmpeg = Command::new("ffmpeg");
            ffmpeg
                .current_dir(folder.path())
                .args([
                    "-loglevel",
                    "error",
                    "-i",
                    "clip.mp4",
                    "-t",
                    "2",
                    "-an",
                    "-vf",
                    "scale=320:-2",
                ])
                .args([
                    "-c:v",
                    encoder,
                    "-pix_fmt",
                    if *encoder == "mjpeg" {
                        "yuvj420p"
                    } else {
                        "yuv420p"
                    },
                ])
                .arg(format!("{name}.{container}"));
            run_ffmpeg(&mut ffmpeg);
            format!("[sources.{name}]\nuri = \"{name}.{container}\"\nmode = \"live\"\nloop = true\n")
        })
        .collect();
    let graph = GRAPH.replace(
        "[sources.steady]\nuri = \"emulated:uniform?rate=50\"\n",
        &sources.concat(),
    );
    let graph = graph.replace("inputs = [\"steady\"]", "inputs = [\"hevc\", \"motion\"]");
    std::fs::write(folder.path().join("graph.toml"), graph).unwrap();
    let mut service = Service::start_in(folder, "127.0.0.1:0", &[]);
    let browser = Browser::start(1280, 900);
    browser.open(&format!("http://{}/", service.at));
    for (name, codec) in [("hevc", "h265"), ("motion", "mjpeg")] {
        browser.wait_until(&tile_has(name, "Pictures instead of video"));
        browser.wait_until(&tile_has(name, codec));
        // Something is on the canvas; the room is neither black nor empty.
        browser.wait_until(&format!(
            "(() => {{ const canvas = document.querySelector('.tile[aria-label={name}] canvas'); \
             return canvas.getContext('2d').getImageData(canvas.width / 2, canvas.height / 2, 1, 1).data[3] === 255; }})()"
        ));
    }
    let requests = browser.requests();
    let sockets = requests.iter().filter(|url| url.starts_with("ws://")).count();
    assert_eq!(sockets, 1, "{requests:#?}");
    assert!(browser.errors().is_empty());
    service.drain();
}

/// A module that can do a fifth of what arrives.
fn overloaded() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let graph = GRAPH.replace("slo = \"20s\"", "slo = \"300ms\"");
    let graph = graph.replace("{ \"1\" = \"1ms\", \"8\" = \"4ms\" }", "{ \"1\" = \"100ms\" }");
    std::fs::write(folder.path().join("graph.toml"), graph).unwrap();
    folder
}

/// A camera that sends frames, and one behind a port that nothing listens at.
fn half_lost() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let sources = "[sources.steady]\nuri = \"emulated:uniform?rate=50\"\n";
    let lost = "[sources.yard]\nuri = \"rtsp://127.0.0.1:9/stream\"\n";
    let graph = GRAPH.replace(sources, &format!("{sources}\n{lost}"));
    let graph = graph.replace("inputs = [\"steady\"]", "inputs = [\"steady\", \"yard\"]");
    assert!(graph.contains("yard\"]"), "{graph}");
    std::fs::write(folder.path().join("graph.toml"), graph).unwrap();
    folder
}

#[test]
fn lost_cameras_are_named_with_their_reason() {
    let service = Service::start_in(half_lost(), "127.0.0.1:0", &[]);
    let browser = Browser::start(1280, 900);
    browser.open(&format!("http://{}/", service.at));
    let line = |text: &str| format!("document.querySelector('.live-line').innerText.includes('{text}')");
    browser.wait_until(&line("1 of 2 cameras has not been reachable since"));
    browser.click(".live-bar > button");
    browser.wait_until("document.getElementById('live-troubles').innerText.includes('refused')");
    // The address is known; the reason stands alone, and once.
    assert_eq!(
        browser.value("document.getElementById('live-troubles').innerText.includes('rtsp:')"),
        false
    );
    browser.wait_until(&tile_has("yard", "not reachable"));
    assert_eq!(browser.accessibility(), [""; 0]);
    // The loss counts from its beginning, the state from the last retry.
    browser.wait_until(
        "fetch('api/state').then(answer => answer.json()).then(({ streams }) => streams \
         .some(({ name, for_s, lost_s }) => name === 'yard' && lost_s > for_s + 1))",
    );
    browser.wait_until(&tile_has("yard", "not reachable"));
    // Reason and remedy of the engine are in the language of the page.
    browser.value("(localStorage.setItem('weir-language', 'de'), true)");
    browser.open(&format!("http://{}/?again", service.at));
    browser.wait_until(&tile_has("yard", "Die Verbindung wurde abgelehnt"));
    browser.wait_until(&tile_has("yard", "stimmt der Port?"));
    assert_clean(&browser, &service);
}

#[test]
fn cameras_of_a_group_are_shown_and_others_are_not_forgotten() {
    let folder = half_lost();
    let path = folder.path().join("graph.toml");
    let graph = std::fs::read_to_string(&path).unwrap();
    let graph = graph.replace(
        "rate=50\"\n",
        "rate=50\"\ngroup = [\"inside\", \"night round\"]\n",
    );
    std::fs::write(
        &path,
        graph.replace("[sources.yard]\n", "[sources.yard]\ngroup = \"outside\"\n"),
    )
    .unwrap();
    let service = Service::start_in(folder, "127.0.0.1:0", &[]);
    let browser = Browser::start(1280, 900);
    browser.open(&format!("http://{}/#live?group=inside", service.at));
    let line = |text: &str| format!("document.querySelector('.live-line').innerText.includes('{text}')");
    browser.wait_until(&line("inside: The camera is live."));
    browser.wait_until(&line("Other cameras: The camera has not been reachable since"));
    browser.wait_until("document.querySelector('.tile[aria-label=yard]').hidden");
    let group = "document.querySelector('.live-group')";
    for words in [
        "All cameras: 1 of 2 live",
        "night round: 1 of 1 live",
        "outside: 0 of 1 live",
    ] {
        browser.wait_until(&format!("{group}.textContent.includes('{words}')"));
    }
    assert_eq!(browser.accessibility(), [""; 0]);
    // The browser keeps the choice, and the address has it.
    browser.open(&format!("http://{}/#engine", service.at));
    open_view(&browser, "live");
    browser.wait_until("location.hash === '#live?group=inside'");
    browser.value(&format!(
        "(({group}.value = ''), {group}.dispatchEvent(new Event('change')))"
    ));
    browser
        .wait_until("location.hash === '#live' && !document.querySelector('.tile[aria-label=yard]').hidden");
    browser.wait_until(&line("1 of 2 cameras has not been reachable since"));
    assert_clean(&browser, &service);

    // Another group in the file is in force at once, and the stream goes on.
    let path = service.folder.path().join("graph.toml");
    let streams =
        || -> serde_json::Value { serde_json::from_str(&service.ask("GET", "/api/streams", "").1).unwrap() };
    let id = streams()[0]["id"].clone();
    let graph = std::fs::read_to_string(&path)
        .unwrap()
        .replace("inside", "indoors");
    std::fs::write(&path, graph).unwrap();
    service.hang_up();
    browser.wait_until(&format!("{group}.textContent.includes('indoors: 1 of 1 live')"));
    assert_eq!(
        (&streams()[0]["id"], &streams()[0]["groups"][0]),
        (&id, &"indoors".into())
    );
}

#[test]
fn cameras_are_reached_by_keyboard_and_texts_are_in_german() {
    let service = Service::start_in(half_lost(), "127.0.0.1:0", &[]);
    let browser = Browser::start(1280, 900);
    browser.open(&format!("http://{}/", service.at));
    let focus = |name: &str| format!("document.activeElement.ariaLabel === '{name}'");
    let tile = |name: &str| format!(".tile[aria-label={name}]");
    browser.wait_until(&tile_has("steady", "live"));
    browser.type_into(&tile("steady"), RIGHT);
    browser.wait_until(&focus("yard"));
    browser.type_into(&tile("yard"), ENTER);
    browser.wait_until("location.hash === '#live?camera=yard'");
    browser.wait_until("document.querySelector('.tile[aria-label=steady]').hidden");
    browser.type_into(&tile("yard"), ESCAPE);
    browser.wait_until("document.querySelectorAll('.tile:not([hidden])').length === 2");

    // The page stands where it stood, in another language, also at the next visit.
    open_view(&browser, "engine");
    choose(&browser, "language", "de");
    for _ in ["after the choice", "at the next visit"] {
        browser.wait_until("document.documentElement.lang === 'de'");
        browser.wait_until("document.getElementById('view-engine').innerText.includes('Latenz je Modul')");
        assert_eq!(browser.accessibility(), [""; 0]);
        browser.value("location.reload()");
    }
    assert_clean(&browser, &service);
}

#[test]
fn dropped_frames_say_what_they_needed_and_had() {
    let mut service = Service::start_in(overloaded(), "127.0.0.1:0", &[]);
    let browser = Browser::start(390, 844);
    browser.open(&format!("http://{}/#engine", service.at));
    browser.wait_until("!document.getElementById('dropped-section').hidden");
    browser.value("document.getElementById('dropped-section').scrollIntoView()");
    browser.wait_until("document.getElementById('dropped').innerText.includes('needed')");
    browser.wait_until("document.getElementById('dropped').innerText.includes('infeasible')");
    assert_eq!(browser.accessibility(), [""; 0]);
    assert_eq!(browser.value("document.documentElement.scrollWidth"), 390);
    assert_clean(&browser, &service);

    let (status, drops) = service.ask("GET", "/api/streams/steady/drops", "");
    assert_eq!(status, 200, "{drops}");
    let drops: serde_json::Value = serde_json::from_str(&drops).unwrap();
    let drops = drops.as_array().unwrap();
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or_default();
    let mut explained = 0;
    for drop in drops.iter().filter(|drop| drop["reason"] == "infeasible") {
        let needed = &drop["needed_ms"];
        let sum = number(&needed["wait"]) + number(&needed["execution"]) + number(&needed["downstream"]);
        assert!(sum > number(&drop["remaining_ms"]), "{drop}");
        assert_eq!(drop["module"], "find");
        explained += 1;
    }
    assert!(explained > 0, "{drops:?}");
    assert_eq!(service.ask("GET", "/api/streams/nobody/drops", "").0, 404);
    let (_, timeline) = service.ask("GET", "/api/timeline", "");
    let timeline: serde_json::Value = serde_json::from_str(&timeline).unwrap();
    let lane = &timeline["lanes"][0];
    assert_eq!(
        (&lane["kind"], &lane["name"]),
        (&"slot".into(), &"slot 0".into()),
        "{timeline}"
    );
    assert_eq!(timeline["modules"][0], "find");
    let takes = number(&lane["spans"][0][2]);
    assert!((0.09..1.0).contains(&takes), "{timeline}");
    service.drain();
}

#[test]
fn a_token_is_asked_for_once() {
    let folder = folder();
    let token = folder.path().join("token");
    std::fs::write(&token, "0123456789abcdef\n").unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    let token = token.display().to_string();
    let service = Service::start_in(folder, "127.0.0.1:0", &["--token-file", &token]);
    let browser = Browser::start(390, 844);
    let page = format!("http://{}/", service.at);
    browser.open(&page);
    browser.wait_until("document.getElementById('token-dialog').open");
    browser.type_into("#token-form [name=token]", "0123456789abcdee");
    browser.click("#token-form button.primary");
    browser.wait_until("document.getElementById('token-error').innerText.includes('not the one')");
    browser.type_into("#token-form [name=token]", "0123456789abcdef");
    browser.click("#token-form button.primary");
    browser.wait_until(&tile_has("steady", "live"));
    browser.errors();
    browser.open(&page);
    browser.wait_until(&tile_has("steady", "live"));
    assert_eq!(
        browser.value("document.getElementById('token-dialog').open"),
        false
    );
    // Nothing is wider than a phone.
    assert_eq!(browser.value("document.documentElement.scrollWidth"), 390);
    assert_clean(&browser, &service);
}
