//! The graph file over the API, without an engine.

use serde_json::{Value, json};

use crate::common::{ask, start};

#[test]
fn texts_reach_the_backend_and_refusals_have_diagnostics() {
    let (server, memory) = start(None);
    let at = server.address();
    let (status, file) = ask(at, "GET", "/api/graph/file", "", "");
    let file: Value = serde_json::from_str(&file).unwrap();
    assert_eq!((status, &file["version"]), (200, &json!("1")));

    let check =
        json!({ "text": "[app]", "edits": [{ "path": ["app", "slo"], "value": "1s" }, { "path": ["a"] }] });
    assert_eq!(ask(at, "POST", "/api/graph/check", "", &check.to_string()).0, 200);
    let save = |text: &str, version: &str| {
        let body = json!({ "text": text, "version": version }).to_string();
        ask(at, "PUT", "/api/graph/file", "", &body)
    };
    assert_eq!(save("[app]", "1").0, 200);
    assert_eq!(save("[app]", "0").0, 409, "another version");
    let (status, refused) = save("", "1");
    let refused: Value = serde_json::from_str(&refused).unwrap();
    assert_eq!(
        (status, &refused["diagnostics"][0]["message"]),
        (400, &json!("`app` is missing"))
    );
    assert_eq!(
        ask(at, "POST", "/api/graph/file/undo", "", r#"{"version": "2"}"#).0,
        200
    );
    assert_eq!(
        *memory.asked.lock().unwrap(),
        ["check [app] and 2 edits", "save [app]", "undo 2"]
    );
}

#[test]
fn graph_texts_are_longer_than_other_bodies_and_bounded() {
    let (server, _) = start(None);
    let at = server.address();
    let body = |length: usize| json!({ "text": "#".repeat(length) }).to_string();
    assert_eq!(ask(at, "POST", "/api/graph/check", "", &body(200 << 10)).0, 200);
    assert_eq!(ask(at, "PUT", "/api/graph", "", &body(200 << 10)).0, 200);
    let plain = "Content-Type: Text/Plain\r\n";
    assert_eq!(ask(at, "PUT", "/api/graph", plain, &"#".repeat(200 << 10)).0, 200);
    let status = ask(at, "POST", "/api/graph/check", "", &body(1 << 20)).0;
    assert!(matches!(status, 0 | 413), "{status}");
}

#[test]
fn schema_and_pictures_are_served() {
    let (server, _) = start(None);
    let at = server.address();
    let (status, schema) = ask(at, "GET", "/api/graph/schema", "", "");
    let schema: Value = serde_json::from_str(&schema).unwrap();
    assert!(status == 200 && schema["definitions"]["camera"].is_object());
    assert_eq!(
        ask(at, "GET", "/api/streams/north/picture", "", ""),
        (200, "JPEG".to_owned())
    );
    assert_eq!(ask(at, "GET", "/api/streams/south/picture", "", "").0, 404);
}
