//! The view Search of the page in a real browser.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use serde_json::json;

use crate::browser::Browser;
use crate::common::has_runtime;
use crate::common::service::Service;
use crate::page::{RIGHT, assert_clean, street, tile_has};

/// Objects by their words: the graph has no model that compares pictures.
const SEARCH: &str = r#"
[transforms.pictures]
type = "best-shot"
inputs = ["tracks"]

[sinks.search]
type = "search"
path = "tracks"
inputs = ["tracks", "gate", "pictures"]
"#;

/// Results that are shown and have this text.
fn results(text: &str) -> String {
    format!(
        "[...document.querySelectorAll('.result')].filter(result => result.innerText.includes('{text}')).length"
    )
}

#[test]
fn objects_are_found_by_words_and_open_their_incidents() {
    if !has_runtime() {
        return;
    }
    let mut service = street(SEARCH);
    let browser = Browser::start(1280, 900);
    browser.open(&format!("http://{}/", service.at));
    browser.wait_until(&tile_has("street", "live"));
    // Objects are kept when they have left the picture; the key opens the view from anywhere.
    browser.wait_until(
        "fetch('api/search?text=car').then(answer => answer.json()).then(({ results }) => results.length > 1)",
    );
    browser.wait_until(
        "fetch('api/search?class=car').then(answer => answer.json()).then(({ results }) => results.some(({ incidents }) => incidents.length > 0))",
    );
    browser.type_into("body", "/");
    browser.wait_until("location.hash === '#search'");
    browser.wait_until(&format!("{} > 0", results("street")));
    assert_eq!(browser.accessibility(), [""; 0]);
    assert_eq!(browser.value("document.activeElement.type"), "search");
    browser.type_into(".incident-filters input[placeholder^=red]", "car");
    browser.wait_until("location.hash === '#search?text=car'");
    browser.wait_until(&format!("{} > 0", results("The words match")));
    browser.wait_until(
        "document.querySelector('#view-search .hint').innerText.includes('Only texts, names and classes')",
    );
    browser
        .wait_until("[...document.querySelectorAll('.result img')].some(image => image.naturalWidth > 20)");
    browser.type_into(".result-shot", RIGHT);
    browser
        .wait_until("[...document.querySelectorAll('.result-shot')].indexOf(document.activeElement) === 1");

    // A link has the query; what cannot be done is explained.
    browser.open(&format!("http://{}/?again#search?text=zeppelin", service.at));
    browser
        .wait_until("document.querySelector('.search-empty').innerText.includes('Nothing was found among')");
    assert_clean(&browser, &service);
    let id = "fetch('api/search').then(answer => answer.json()).then(({ results }) => results[0].id)";
    let id = browser.value(id);
    browser.value(&format!(
        "(location.hash = `search?${{new URLSearchParams({{ like: {id} }})}}`, true)"
    ));
    browser.wait_until("!document.querySelector('.search-like').hidden");
    browser.wait_until("document.querySelector('.search-empty').innerText.length > 20");
    browser.errors();

    browser.value("(location.hash = 'search?class=car', true)");
    browser.wait_until("document.querySelector('.result-links a[href^=\"#incidents\"]') !== null");
    browser.click(".result-links a[href^='#incidents']");
    browser.wait_until("document.querySelector('.incident-dialog').open");
    // The incident asks for what looks like its object.
    browser.click(".incident-dialog a[href^='#search?like=']");
    browser.wait_until("!document.querySelector('.search-like').hidden");
    assert_eq!(
        browser.value("document.querySelector('.incident-dialog').open"),
        json!(false)
    );
    service.drain();
}

#[test]
fn search_without_a_sink_says_what_to_add() {
    let service = Service::start(&[]);
    let browser = Browser::start(390, 844);
    browser.open(&format!("http://{}/#search", service.at));
    browser.wait_until("document.querySelector('.search-empty').innerText.includes('Search is not set up')");
    browser.wait_until("document.querySelector('.search-empty').innerText.includes('search')");
    browser.wait_until("document.querySelector('#view-search .incident-filters').hidden");
    assert_eq!(browser.accessibility(), [""; 0]);
    assert_eq!(browser.value("document.documentElement.scrollWidth"), 390);
    assert_clean(&browser, &service);
}
