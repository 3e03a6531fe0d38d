//! A site on the page from an empty graph to an export, and a page that is left open for an hour.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use serde_json::json;

use crate::access::private;
use crate::browser::{Browser, PageMemory};
use crate::common::service::Service;
use crate::common::{becomes, has_runtime, run_ffmpeg};
use crate::discover::camera::Camera;
use crate::page::{ENTER, RIGHT, choose_from_menu, clip, open_view, street, tile_has};
use crate::rtsp_camera;
use crate::soap_server::{Reply, Server};

/// A site without a camera. The transform is for the sink, which needs one; it reports nothing within a test.
const EMPTY: &str = r#"
[app]
name = "site"
slo = "2s"

[sources.cameras]
template = true

[models.detector]
model = "embedded:street-detector"
batch = [1, 2, 4]

[modules.objects]
operator = "detect"
model = "detector"
inputs = ["*"]

[modules.tracks]
operator = "track"
inputs = ["objects"]

[transforms.blocked]
type = "parked"
inputs = ["tracks"]
after = "24h"

[sinks.clips]
type = "clips"
path = "clips/{stream}"
before = "1s"
after = "1s"
inputs = ["blocked"]

[sinks.all]
type = "archive"
path = "archive"
segment = "2s"
keep = "1d"
inputs = ["objects"]
"#;

const ADMIN: &str = "admin-0123456789";
const VIEWER: &str = "viewer-0123456789";

/// Bodies that wait in [`alarms`].
const MAX_BODIES: usize = 64;

/// A web server on loopback that takes alarms: its address, and their bodies.
fn alarms() -> (String, Receiver<String>) {
    let (sender, bodies) = sync_channel(MAX_BODIES);
    let server = Server::start(move |request, _| {
        // Alarms that no test waits for are left out.
        let _ = sender.try_send(request.body.clone());
        Reply::with("200 OK", "", "")
    });
    (format!("http://{}/alarm", server.address()), bodies)
}

/// Clears a field, and types into it.
fn fill(browser: &Browser, selector: &str, text: &str) {
    browser.value(&format!("document.querySelector({}).value = ''", json!(selector)));
    browser.type_into(selector, text);
    browser.value(&format!(
        "document.querySelector({}).dispatchEvent(new Event('change', {{ bubbles: true }}))",
        json!(selector)
    ));
}

/// Five minutes of a street, without encoding.
fn long_clip(folder: &Path) -> PathBuf {
    clip(folder, "street-day.mp4");
    let arguments = "-loglevel error -stream_loop 14 -i clip.mp4 -c copy street.mp4";
    run_ffmpeg(
        Command::new("ffmpeg")
            .args(arguments.split(' '))
            .current_dir(folder),
    );
    folder.join("street.mp4")
}

fn sign_in(browser: &Browser, token: &str) {
    browser.wait_until("document.getElementById('token-dialog').open");
    browser.type_into("#token-form [name=token]", token);
    browser.click("#token-form button.primary");
    browser.wait_until("!document.getElementById('token-dialog').open");
}

/// Draws a shape of that kind by its corners.
fn draw(browser: &Browser, kind: &str, corners: &[(f64, f64)]) {
    browser.value("document.querySelector('.edit-canvas').scrollIntoView({ block: 'center' })");
    browser.click(&format!("[data-kind={kind}]"));
    for (x, y) in corners {
        browser.click_at(".edit-layer", *x, *y);
    }
    browser.type_into(".edit-layer", ENTER);
}

fn diff_has(text: &str) -> String {
    format!(
        "document.getElementById('edit-diff').innerText.includes({})",
        json!(text)
    )
}

/// Saves the text of the graph file.
fn save(browser: &Browser) {
    browser.wait_until("!document.getElementById('edit-save').disabled");
    browser.value("window.scrollTo(0, 0)");
    browser.click("#edit-save");
    browser.wait_until("!document.getElementById('edit-undo').disabled");
}

/// Asks the device at an address for its streams, and adds the main one as the camera `street`.
fn add_found_camera(browser: &Browser, address: &str) {
    browser.wait_until("!document.querySelector('.live-empty').hidden");
    browser.click(".live-empty a");
    browser.wait_until("document.querySelector('.edit-status').textContent === 'As in the file'");
    let field = |name: &str| format!("#edit-camera-form [name={name}]");
    browser.type_into(&field("uri"), address);
    browser.click("#edit-find");
    browser.click(".edit-found button");
    fill(browser, &field("name"), "street");
    browser.click("#edit-camera-form button.primary");
    browser.wait_until(&diff_has("[cameras.street]"));
    save(browser);
    // The picture comes by itself once the camera is live.
    browser.click("[data-pane=draw]");
    browser.wait_until("(document.querySelector('.edit-canvas img')?.naturalWidth ?? 0) > 100");
    open_view(browser, "live");
    browser.wait_until(&tile_has("street", "live"));
    // The page asked before it had a session, and for a picture before the camera ran.
    let errors = browser.errors();
    let is_known = |error: &String| error.contains("401") || error.contains("/picture");
    assert!(errors.iter().all(is_known), "{errors:#?}");
}

/// Draws a zone of nearly the whole picture, a mask in its corner, and a rule with an alarm, and saves them.
fn set_up_alarm(browser: &Browser, address: &str) {
    open_view(browser, "edit");
    browser.click("[data-pane=draw]");
    browser.wait_until("(document.querySelector('.edit-canvas img')?.naturalWidth ?? 0) > 100");
    assert_eq!(
        browser.value("document.getElementById('edit-camera').value"),
        "street"
    );
    browser.wait_until("!document.querySelector('[data-kind=zone]').disabled");
    draw(
        browser,
        "ignore",
        &[(0.01, 0.01), (0.15, 0.01), (0.15, 0.1), (0.01, 0.1)],
    );
    browser.wait_until(&diff_has("+ ignore = "));
    draw(
        browser,
        "zone",
        &[(0.01, 0.15), (0.99, 0.15), (0.99, 0.99), (0.01, 0.99)],
    );
    browser.wait_until(&diff_has("zone-1"));
    browser.wait_until("document.querySelector('.edit-rule') !== null");
    assert_eq!(browser.accessibility(), [""; 0]);
    browser.click(".edit-rule summary");
    fill(browser, ".edit-rule label:nth-of-type(1) input", "yard-alarm");
    browser.value("document.querySelector('.edit-rule label:nth-of-type(2) input').value = ''");
    fill(browser, ".edit-rule label:nth-of-type(3) input", "200ms");
    browser.click(".edit-rule input[value=clips]");
    browser.click(".edit-rule button.primary");
    browser.wait_until(&diff_has("yard-alarm"));

    browser.value("window.scrollTo(0, 0)");
    browser.click("[data-pane=add]");
    browser.type_into("#edit-alarm-form [name=name]", "guard");
    browser.value(
        "(() => { const preset = document.querySelector('#edit-alarm-form [name=preset]'); preset.value = ''; \
         preset.dispatchEvent(new Event('change')); })()",
    );
    browser.type_into("#edit-alarm-form [name=url]", address);
    browser.click("#edit-alarm-form input[value='street.yard-alarm']");
    browser.click("#edit-alarm-form button.primary");
    browser.wait_until(&diff_has("guard"));
    save(browser);
}

/// Incidents of the rule that fit, as the page asks for them.
fn some_incident(holds: &str) -> String {
    format!(
        "fetch('api/incidents?rule=street.yard-alarm').then(answer => answer.json())\
         .then(({{ incidents }}) => incidents.some({holds}))"
    )
}

/// Opens the first incident that the list shows, in its group if it is in one.
const OPEN_FIRST: &str = "(() => { if (document.querySelector('.incident-dialog').open) return true; \
    const cards = [...document.querySelectorAll('.incident-list .incident')].filter(card => card.offsetParent); \
    (cards.find(card => !card.hasAttribute('aria-expanded')) ?? cards[0])?.click(); return false; })()";

/// Finds an incident by a part of its text, opens it, and plays the clip of one that has one.
fn find_and_play(browser: &Browser) {
    open_view(browser, "incidents");
    browser.wait_until(&some_incident("() => true"));
    browser.type_into(".incident-filters input[type=search]", "alarm");
    browser.wait_until("location.hash.includes('text=alarm')");
    browser.wait_until(OPEN_FIRST);
    browser.wait_until("document.querySelector('.incident-dialog .facts').innerText.includes('yard-alarm')");
    browser.wait_until(&some_incident("({ has_clip }) => has_clip"));
    browser.wait_until(
        "fetch('api/incidents?text=alarm').then(answer => answer.json()).then(({ incidents }) => { \
         const { id } = incidents.find(({ has_clip }) => has_clip); \
         location.hash = `incidents?${new URLSearchParams({ text: 'alarm', id })}`; return true; })",
    );
    browser.wait_until("document.querySelector('.incident-dialog button.primary').offsetParent !== null");
    browser.click(".incident-dialog button.primary");
    browser.wait_until("document.querySelector('.incident-dialog video').currentTime > 0.2");
}

/// Goes from an open incident to its recording, moves in it, and exports a part of it into `folder`.
fn scrub_and_export(browser: &Browser, folder: &Path) {
    browser.click(".incident-dialog a[href^='#recordings']");
    browser.wait_until("!document.getElementById('view-recordings').hidden");
    let video = "document.querySelector('.recording-view video')";
    browser.wait_until(&format!("{video}?.readyState >= 2 && !{video}.hidden"));
    let at = browser.value("new URLSearchParams(location.hash.split('?')[1]).get('at')");
    let at = at.as_str().unwrap();
    // The part to export is in segments that are complete.
    browser.wait_until(&format!(
        "fetch(`api/archive/street?from=${{Date.parse('{at}')}}&to=${{Date.parse('{at}') + 1000}}`).then(answer => answer.json())\
         .then(({{ segments, gaps }}) => segments.every(({{ unfinished }}) => !unfinished) && gaps.length === 0)"
    ));
    let now = "document.querySelector('.recording-controls .now').textContent";
    let before = browser.value(now);
    browser.click("button[title$='begins here (i)']");
    browser.type_into(".recording-slider", RIGHT);
    browser.wait_until(&format!("{now} !== {before}"));
    browser.value(&format!(
        "(location.hash = 'recordings?camera=street&at={at}', true)"
    ));
    browser.wait_until(&format!("{now} === {before} && {video}.readyState >= 2"));
    for _ in 0..10 {
        browser.click("button[aria-label^='Next picture']");
    }
    browser.click("button[title$='ends here (o)']");
    browser.click(".recording-controls .export");
    browser.wait_until("document.getElementById('said').textContent.includes('is being saved')");
    let saved = becomes(|| {
        let mut files = fs::read_dir(folder).unwrap().flatten();
        files.any(|file| file.path().extension().is_some_and(|end| end == "mp4"))
    });
    assert!(saved, "{:?}", fs::read_dir(folder).unwrap().collect::<Vec<_>>());
}

#[test]
fn site_is_set_up_watched_and_exported_from_the_page_alone() {
    if !has_runtime() || !rtsp_camera::are_available() {
        return;
    }
    let videos = tempfile::tempdir().unwrap();
    let stream = rtsp_camera::Camera::start(&long_clip(videos.path()), &[]);
    let camera = Camera::with_stream(stream.port).start();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("graph.toml"), EMPTY).unwrap();
    let text = format!(
        "[tokens.admin]\nrole = \"edit\"\ntoken = \"{ADMIN}\"\n\n[tokens.viewer]\nrole = \"view\"\ntoken = \"{VIEWER}\"\n"
    );
    let tokens = private(folder.path(), "tokens.toml", &text);
    // A new sink may name any file or address.
    let args = ["--tokens-file", &tokens, "--allow-any-source"];
    let mut service = Service::start_in(folder, "127.0.0.1:0", &args);
    let (address, bodies) = alarms();
    let downloads = tempfile::tempdir().unwrap();
    let browser = Browser::start(1280, 900);
    browser.download_into(downloads.path());
    browser.open(&format!("http://{}/", service.at));
    sign_in(&browser, ADMIN);

    add_found_camera(&browser, &camera.address());
    set_up_alarm(&browser, &address);
    find_and_play(&browser);
    let body = bodies.recv_timeout(Duration::from_secs(60));
    assert!(body.unwrap().contains("yard-alarm"));
    scrub_and_export(&browser, downloads.path());
    open_view(&browser, "live");
    choose_from_menu(&browser, "street", "Pause");
    browser.wait_until(&tile_has("street", "paused"));
    let errors = browser.errors();
    // The page asked before it had a session.
    assert!(errors.iter().all(|error| error.contains("401")), "{errors:#?}");

    browser.click("#sign-out");
    sign_in(&browser, VIEWER);
    browser.wait_until(&tile_has("street", "paused"));
    assert_eq!(
        browser.value("document.getElementById('add').offsetParent"),
        json!(null)
    );
    open_view(&browser, "edit");
    browser.wait_until("document.querySelector('#view-edit .error').innerText.includes('the role edit')");
    assert_eq!(
        browser.value("document.getElementById('edit-save').disabled"),
        true
    );
    service.drain();
}

/// Factor by which the clock of a page that is left open runs ahead.
const SPEED: u32 = 60;

/// Minutes that the page is open by its own clock, and minutes before, in which it fills what it keeps.
const OPEN_MINUTES: u32 = 60;
const FIRST_MINUTES: u32 = 10;

/// Lets timers and clocks of the page run faster, and gives each message of a frame many times.
const FAST: &str = "(() => { \
    const [later, every, now, date] = [window.setTimeout, window.setInterval, performance.now.bind(performance), Date.now]; \
    const [began, beganAt] = [now(), date()]; \
    window.setTimeout = (run, ms, ...rest) => later(run, (ms ?? 0) / SPEED, ...rest); \
    window.setInterval = (run, ms, ...rest) => every(run, (ms ?? 0) / SPEED, ...rest); \
    performance.now = () => began + (now() - began) * SPEED; \
    Date.now = () => beganAt + (date() - beganAt) * SPEED; \
    const json = Response.prototype.json; \
    Response.prototype.json = async function () { \
        const value = await json.call(this); \
        if (value?.report?.run) value.report.run.duration_s *= SPEED; \
        return value; }; \
    const Socket = window.WebSocket; \
    window.WebSocket = class extends Socket { \
        set onmessage(take) { \
            super.onmessage = (event) => { \
                const isFrame = typeof event.data === 'string' && event.data.includes('\"frame\"'); \
                for (let time = 0; time < (isFrame ? SPEED : 1); time++) take(event); }; } }; })()";

/// Looks at each view of the page, for so many minutes of its clock in all.
fn watch_views(browser: &Browser, minutes: u32) {
    let views = ["live", "incidents", "recordings", "search", "engine"];
    let each_ms = minutes * 60_000 / views.len() as u32;
    for view in views {
        open_view(browser, view);
        let due = browser.value(&format!("performance.now() + {each_ms}"));
        browser.wait_until(&format!("performance.now() > {due}"));
        // The driver of the browser keeps its notes of the network until they are read.
        browser.requests();
    }
    open_view(browser, "live");
}

#[test]
fn page_left_open_for_an_hour_does_not_grow() {
    if !has_runtime() {
        return;
    }
    let archive = "\n[sinks.all]\ntype = \"archive\"\npath = \"archive\"\ninputs = [\"objects\"]\n";
    let mut service = street(archive);
    service.wait_until(|list| list.contains(" live "));
    let browser = Browser::start(1280, 900);
    browser.inject(&FAST.replace("SPEED", &SPEED.to_string()));
    browser.open(&format!("http://{}/", service.at));
    browser.wait_until("(document.querySelector('video')?.currentTime ?? 0) > 1");
    watch_views(&browser, FIRST_MINUTES);
    let before = browser.memory();
    watch_views(&browser, OPEN_MINUTES);
    let after = browser.memory();
    let grows = |of: fn(&PageMemory) -> f64, least: f64| of(&after) > of(&before) * 1.25 + least;
    assert!(
        !grows(|memory| memory.nodes, 500.0)
            && !grows(|memory| memory.listeners, 50.0)
            && !grows(|memory| memory.heap, 3e6),
        "{before:?} {after:?}"
    );
    assert_eq!(browser.errors(), [""; 0]);
    service.drain();
}
