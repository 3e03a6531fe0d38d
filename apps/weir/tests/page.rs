//! The page of `weir serve` in a real browser.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod browser;
mod common;

use std::os::unix::fs::PermissionsExt;

use browser::Browser;
use common::report;
use common::service::{GRAPH, Service, folder};

/// The text of the tile of a stream contains this.
fn tile_has(name: &str, text: &str) -> String {
    format!(
        "[...document.querySelectorAll('.tile')].some(tile => tile.ariaLabel === '{name}' && tile.innerText.includes('{text}'))"
    )
}

/// All that the browser asked for is of this service, and nothing went wrong in the page.
fn assert_clean(browser: &Browser, service: &Service) {
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
    // Rates are those of the stream: 50 frames a second, all of them delivered.
    browser.wait_until("document.querySelector('.tile .value').innerText > 40");
    for id in ["graph", "modules", "latency"] {
        browser.wait_until(&format!(
            "document.getElementById('{id}').textContent.includes('find')"
        ));
    }
    browser.wait_until("document.getElementById('sinks').innerText.includes('events')");

    browser.click("button[aria-label='Pause steady']");
    browser.wait_until(&tile_has("steady", "paused"));
    service.wait_until(|list| list.contains("paused"));
    browser.click("button[aria-label='Resume steady']");
    browser.wait_until(&tile_has("steady", "live"));

    browser.click("#add");
    browser.type_into("#add-form [name=name]", "guest");
    browser.type_into("#add-form [name=uri]", "/etc/hostname");
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
    browser.click("button[aria-label='Remove guest']");
    browser.click("#remove-form button.danger");
    browser.wait_until("document.querySelectorAll('.tile').length === 1");
    service.wait_until(|list| !list.contains("guest"));
    assert_clean(&browser, &service);
    service.drain();
}

#[test]
fn a_camera_is_seen_with_what_was_found_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let clip = concat!(env!("CARGO_MANIFEST_DIR"), "/../../videos/live-room.mp4");
    std::fs::copy(clip, folder.path().join("clip.mp4")).unwrap();
    let source = "uri = \"clip.mp4\"\nmode = \"live\"\nloop = true";
    let graph = GRAPH.replace("uri = \"emulated:uniform?rate=50\"", source);
    std::fs::write(folder.path().join("graph.toml"), graph).unwrap();
    let mut service = Service::start_in(folder, "127.0.0.1:0", &[]);
    let browser = Browser::start(1280, 900);
    browser.open(&format!("http://{}/", service.at));
    // It plays on, with pictures of its size.
    browser.wait_until("(document.querySelector('video')?.currentTime ?? 0) > 1");
    let at = browser.value("document.querySelector('video').currentTime");
    browser.wait_until(&format!(
        "document.querySelector('video').currentTime > {at} + 0.5"
    ));
    assert_eq!(browser.value("document.querySelector('video').videoWidth"), 960);
    browser.click("#video");
    browser.wait_until("document.querySelector('.view').hidden && !document.querySelector('video').src");
    assert_clean(&browser, &service);
    service.drain();
    let report = report(&service.folder.path().join("report.json"));
    assert!(report["sinks"]["(page)"].is_null(), "{}", report["sinks"]);
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
