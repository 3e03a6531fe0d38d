//! The view Incidents of the page in a real browser, and incidents over a restart of the engine.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::common::has_runtime;
use crate::common::service::Service;
use crate::kept_streams::restart;
use crate::page::{assert_clean, street};
use crate::reload::wait_for;

/// Best pictures, and clips of the incidents of one rule.
const MORE: &str = r#"
[transforms.pictures]
type = "best-shot"
inputs = ["tracks"]

[sinks.clips]
type = "clips"
path = "clips/{stream}"
before = "1s"
after = "1s"
inputs = ["gate"]
"#;

/// Answer to a request, which succeeds.
fn asked(service: &Service, method: &str, path: &str, body: &str) -> Value {
    let (status, answer) = service.ask(method, path, body);
    assert_eq!(status, 200, "{method} {path}: {answer}");
    serde_json::from_str(&answer).unwrap()
}

fn list(service: &Service, query: &str) -> Vec<Value> {
    let list = asked(service, "GET", &format!("/api/incidents?{query}"), "");
    list["incidents"].as_array().unwrap().clone()
}

fn path_of(incident: &Value) -> String {
    let id = incident["id"].as_str().unwrap();
    format!("/api/incidents/{}", id.replace('/', "%2F"))
}

/// An incident of the gate whose clip is complete.
fn with_clip(service: &Service) -> Value {
    let has_clip = |incident: &Value| incident["has_clip"] == true;
    wait_for(service, |_| list(service, "rule=gate").iter().any(has_clip));
    let mut incidents = list(service, "rule=gate").into_iter();
    incidents.find(has_clip).unwrap()
}

#[test]
fn incidents_are_found_opened_pinned_and_there_after_a_restart() {
    if !has_runtime() {
        return;
    }
    let service = street(MORE);
    let pinned = with_clip(&service);
    let id = pinned["id"].as_str().unwrap();
    let browser = Browser::start(1280, 900);
    browser.open(&format!("http://{}/#incidents?rule=gate", service.at));
    browser.wait_until("document.querySelectorAll('#view-incidents .incident').length > 0");
    browser.wait_until("document.querySelector('.incident-strip .strip-bars rect') !== null");
    // A filter is a part of the address, and an address opens an incident.
    let hash = format!("incidents?rule=gate&id={}", id.replace('/', "%2F"));
    browser.value(&format!("(location.hash = '{hash}', true)"));
    browser.wait_until("document.querySelector('.incident-dialog').open");
    browser.wait_until("document.querySelector('.incident-dialog .facts').innerText.includes('gate (line)')");
    assert_eq!(browser.accessibility(), [""; 0]);
    browser.click(".incident-dialog button.primary");
    browser.wait_until("document.querySelector('.incident-dialog video').currentTime > 0.2");
    browser.wait_until("document.querySelector('.moment-bar rect.moment') !== null");
    browser.click(".incident-dialog button[aria-pressed]");
    browser
        .wait_until("document.querySelector('.incident-dialog button[aria-pressed]').ariaPressed === 'true'");
    let marked = asked(&service, "GET", &path_of(&pinned), "");
    assert_eq!((&marked["seen"], &marked["pinned"]), (&json!(true), &json!(true)));
    let marks = std::fs::read_dir(service.folder.path().join("clips/street")).unwrap();
    let marks = marks.filter(|entry| {
        entry
            .as_ref()
            .unwrap()
            .path()
            .extension()
            .is_some_and(|end| end == "pinned")
    });
    assert_eq!(marks.count(), 1);
    assert_clean(&browser, &service);
    drop(browser);

    let service = restart(service, &[], |_| {});
    let kept = list(&service, "pinned=true");
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(
        (&kept[0]["id"], &kept[0]["is_over"]),
        (&pinned["id"], &json!(true))
    );
    if pinned["has_picture"] == true {
        assert_eq!(
            service.ask("GET", &format!("{}/picture", path_of(&pinned)), "").0,
            200
        );
    }
    asked(&service, "PATCH", &path_of(&pinned), "{\"pinned\": false}");
    assert!(list(&service, "pinned=true").is_empty());
    for wrong in [
        "from=yesterday",
        "limit=0",
        "limit=501",
        "seen=maybe",
        "before=x",
        "bins=4",
    ] {
        let (status, answer) = service.ask("GET", &format!("/api/incidents?{wrong}"), "");
        assert_eq!(status, 400, "{wrong}: {answer}");
    }
}
