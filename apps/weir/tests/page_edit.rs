//! The view Edit of the page in a real browser.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::fs;

use crate::browser::Browser;
use crate::common::has_runtime;
use crate::common::service::Service;
use crate::discover::camera::{Camera, PASSWORD, USER, Wants};
use crate::page::{assert_clean, clip};

/// A camera with a comment at each place that an edit could lose.
const CAMERA: &str = r#"# The street.
[app]
slo = "2s"                       # for all

[cameras.street]
uri = "clip.mp4"                 # shipped
mode = "live"
loop = true
sample = "4fps"
# The junction, drawn by hand.
zones.junction = [[0.22, 0.25], [1.0, 0.25], [1.0, 0.36], [0.40, 0.36]]

# What looks at it.
[models.detector]
model = "embedded:street-detector"

[modules.objects]
operator = "detect"
model = "detector"
inputs = ["street"]

[modules.tracks]
operator = "track"
inputs = ["objects"]

[sinks.events]
type = "jsonl"
path = "events.jsonl"
inputs = ["*"]
"#;

#[test]
fn drawn_zone_is_saved_into_the_file_and_undone() {
    if !has_runtime() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    clip(folder.path(), "street-day.mp4");
    fs::write(folder.path().join("graph.toml"), CAMERA).unwrap();
    let mut service = Service::start_in(folder, "127.0.0.1:0", &[]);
    service.wait_until(|list| list.contains(" live "));
    let file = service.folder.path().join("graph.toml");
    let browser = Browser::start(1280, 900);
    browser.open(&format!("http://{}/#edit?camera=street", service.at));
    browser.wait_until("(document.querySelector('.edit-canvas img')?.naturalWidth ?? 0) > 100");
    browser.wait_until("document.querySelectorAll('.edit-shapes li').length === 1");
    assert_eq!(browser.accessibility(), [""; 0]);

    // By keyboard: a zone in the middle of the picture, one of whose points is moved.
    browser.click("[data-kind=zone]");
    browser.type_into(".edit-layer", "\u{e007}");
    browser.wait_until("document.getElementById('edit-diff').innerText.includes('+ zones.zone-1 = ')");
    browser.wait_until("document.querySelectorAll('.edit-layer .corner').length === 4");
    browser.type_into(".edit-layer .corner[data-corner='0']", "\u{e014}");
    browser.wait_until("document.getElementById('edit-diff').innerText.includes('[[0.355, 0.4]')");
    assert_eq!(browser.accessibility(), [""; 0]);
    browser.wait_until("!document.getElementById('edit-save').disabled");
    browser.click("#edit-save");
    browser.wait_until("!document.getElementById('edit-undo').disabled");
    let junction = "[1.0, 0.36], [0.40, 0.36]]\n";
    let drawn = "zones.zone-1 = [[0.355, 0.4], [0.65, 0.4], [0.65, 0.8], [0.35, 0.8]]\n";
    let meant = CAMERA.replace(junction, &format!("{junction}{drawn}"));
    assert_eq!(fs::read_to_string(&file).unwrap(), meant);
    browser.click("#edit-undo");
    browser.wait_until("document.querySelectorAll('.edit-shapes li').length === 1");
    assert_eq!(fs::read_to_string(&file).unwrap(), CAMERA);

    // A problem in the text is shown at its line, and keeps the text from being saved.
    browser.click("[data-pane=text]");
    browser.value(
        "(() => { const area = document.getElementById('edit-text'); area.value = area.value.replace('\"tracks\"', '\"none\"')\
         .replace('operator = \"track\"', 'operator = \"trak\"'); area.dispatchEvent(new Event('input')); })()",
    );
    browser.wait_until("document.querySelector('.edit-gutter .error') !== null");
    assert_eq!(
        browser.value("document.getElementById('edit-save').disabled"),
        true
    );
    assert_eq!(browser.accessibility(), [""; 0]);
    browser.click("#edit-discard");
    browser.wait_until("document.getElementById('edit-problems').hidden");
    let errors = browser.errors();
    assert!(errors.is_empty(), "{errors:#?}");
    service.drain();
}

#[test]
fn dollar_signs_of_forms_are_doubled_unless_they_begin_a_variable() {
    let service = Service::start(&[]);
    let browser = Browser::start(1280, 900);
    browser.open(&format!("http://{}/#edit?pane=text", service.at));
    browser.wait_until("document.querySelector('.edit-status').textContent === 'As in the file'");
    let call = |function: &str, text: &str| {
        browser.value(&format!(
            "import('http://{}/page/edit_variables.js').then(module => module.{function}({}))",
            service.at,
            serde_json::json!(text)
        ))
    };
    for (form, file) in [
        ("a$2", "a$$2"),
        ("$$", "$$$$"),
        ("${TOKEN}", "${TOKEN}"),
        ("${TOKEN:-x y}$", "${TOKEN:-x y}$$"),
        ("${TOKEN:-a$b}", "${TOKEN:-a$b}"),
        ("$${TOKEN}", "$${TOKEN}"),
        ("${5}", "$${5}"),
    ] {
        assert_eq!(call("toFile", form), file);
        assert_eq!(call("fromFile", file), form);
    }
    // A device on the network must not read variables of the engine.
    assert_eq!(call("literal", "rtsp://x/${HOME}?$2"), "rtsp://x/$${HOME}?$2");
}

#[test]
fn camera_that_is_found_fills_the_form() {
    let camera = Camera::new(Wants::Token).start();
    let service = Service::start(&["--allow-any-source"]);
    let browser = Browser::start(1280, 900);
    browser.open(&format!("http://{}/#edit?pane=add", service.at));
    let field = |name: &str| format!("#edit-camera-form [name={name}]");
    browser.type_into(&field("uri"), &camera.address());
    browser.type_into(&field("user"), USER);
    browser.click("#edit-find");
    let note = "document.querySelector('#edit-camera-form [role=status]').textContent";
    browser.wait_until(&format!("{note}.includes('Enter the password')"));
    browser.type_into(&field("password"), PASSWORD);
    browser.click("#edit-find");
    browser.click(".edit-found button");
    let value = |name: &str| browser.value(&format!("document.querySelector('{}').value", field(name)));
    assert_eq!(value("name"), "front-door");
    assert_eq!(value("uri"), "rtsp://127.0.0.1:554/main?a=1&b=$2");
    assert_eq!(browser.accessibility(), [""; 0]);
    browser.click("#edit-camera-form button.primary");
    browser.wait_until("document.getElementById('edit-diff').innerText.includes('/main?a=1&b=$$2')");
    browser.value("window.scrollTo(0, 0)");
    browser.click("#edit-discard");
    browser.wait_until("document.getElementById('edit-discard').disabled");
    // An emulated stream has no picture to draw on, which is on the console; nothing else is.
    let missing = browser.errors();
    assert!(
        missing.iter().all(|error| error.contains("/picture")),
        "{missing:?}"
    );
    assert_clean(&browser, &service);

    // Clients that may name some sources only may not search.
    let service = Service::start(&[]);
    let (status, answer) = service.ask("POST", "/api/discover", "{}");
    assert!(status == 403 && answer.contains("--allow-any-source"), "{answer}");
}
