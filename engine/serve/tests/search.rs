//! Search of tracks: queries, cameras of the client, and pictures.

use serde_json::{Value, json};

use crate::access::{LOBBY, bearer, start_with_tokens};
use crate::common::{ask, error, start};

#[test]
fn search_passes_its_query_to_the_backend() {
    let (server, memory) = start(None);
    let at = server.address();
    let query = "text=red%20van&cameras=north,yard&class=van&from=1&to=2026-11-30T06:00:00Z&limit=5";
    let (status, found) = ask(at, "GET", &format!("/api/search?{query}"), "", "");
    assert_eq!((status, found.contains("south/2")), (200, true), "{found}");
    assert_eq!(ask(at, "GET", "/api/search?like=north%2F1", "", "").0, 200);
    assert_eq!(ask(at, "GET", "/api/search", "", "").0, 200);
    let asked = memory.asked.lock().unwrap().join("\n");
    for value in [
        "\"red van\"",
        "\"north,yard\"",
        "\"van\"",
        "\"1\"",
        "\"2026-11-30T06:00:00Z\"",
        "\"5\"",
        "like: Some(\"north/1\")",
        "visible: None",
    ] {
        assert!(asked.contains(value), "{value}: {asked}");
    }
}

#[test]
fn search_refuses_a_query_that_contradicts_itself() {
    let (server, memory) = start(None);
    let at = server.address();
    let long = format!("text={}", "a".repeat(1_025));
    for wrong in [
        "text=a&like=north%2F1",
        "camera=north",
        "text=a&text=b",
        "visible=north",
        &long,
    ] {
        let (status, answer) = ask(at, "GET", &format!("/api/search?{wrong}"), "", "");
        assert_eq!(status, 400, "{wrong}: {answer}");
        assert!(!error(&answer).0.is_empty());
    }
    assert!(memory.asked.lock().unwrap().is_empty());
}

#[test]
fn picture_of_a_track_is_found_by_its_id() {
    let (server, memory) = start(None);
    let at = server.address();
    let answer = ask(at, "GET", "/api/search/north%2F1/picture", "", "");
    assert_eq!(answer, (200, "JPEG".to_owned()));
    assert_eq!(*memory.asked.lock().unwrap(), ["track picture of north"]);
    assert_eq!(ask(at, "GET", "/api/search/yard%2F1/picture", "", "").0, 404);
}

#[test]
fn viewer_of_some_cameras_finds_tracks_of_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let (server, memory) = start_with_tokens(&folder);
    let lobby = |path: &str| ask(server.address(), "GET", path, &bearer(LOBBY), "");
    let (status, found) = lobby("/api/search");
    let found: Value = serde_json::from_str(&found).unwrap();
    let own = json!([{ "id": "south/2", "stream": "south" }]);
    assert_eq!((status, &found["results"]), (200, &own));
    let asked = memory.asked.lock().unwrap().join("\n");
    assert!(asked.contains("visible: Some({\"south\"})"), "{asked}");
    assert_eq!(lobby("/api/search/south%2F2%2Fnorth%2F1/picture").0, 403);
}
