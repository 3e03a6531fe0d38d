//! Answers of the API have exactly the keys of the API description.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use serde_json::Value;

use crate::common::service::Service;

/// Places at which a value violates its schema. An object schema without `properties` allows any.
fn departures(schema: &Value, value: &Value, at: &str, described: &Value) -> Vec<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let schema = described.pointer(reference.trim_start_matches('#')).unwrap();
        return departures(schema, value, at, described);
    }
    if schema["nullable"] == true && value.is_null() {
        return Vec::new();
    }
    let is_right = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("number") => value.is_number(),
        other => panic!("{at} is described as {other:?}"),
    };
    if !is_right {
        return vec![format!("{at} is {value}, not {}", schema["type"])];
    }
    let mut found = Vec::new();
    if schema["enum"].as_array().is_some_and(|all| !all.contains(value)) {
        found.push(format!("{at} is {value}"));
    }
    for item in value.as_array().into_iter().flatten() {
        found.extend(departures(&schema["items"], item, &format!("{at}[]"), described));
    }
    let (Some(keys), Some(properties)) = (value.as_object(), schema["properties"].as_object()) else {
        return found;
    };
    let required = schema["required"].as_array().into_iter().flatten();
    let missing = required.filter(|key| !keys.contains_key(key.as_str().unwrap()));
    found.extend(missing.map(|key| format!("{at} has no {key}")));
    for (key, value) in keys {
        let at = format!("{at}.{key}");
        match properties.get(key) {
            Some(schema) => found.extend(departures(schema, value, &at, described)),
            None => found.push(format!("{at} is not described")),
        }
    }
    found
}

#[test]
fn states_are_as_described() {
    let mut service = Service::start(&[]);
    let described: Value = serde_json::from_str(&service.ask("GET", "/api/openapi.json", "").1).unwrap();
    for path in [
        "/api/state",
        "/api/streams",
        "/api/drops",
        "/api/incidents",
        "/api/search",
        "/api/policy",
        "/api/graph",
    ] {
        let (status, body) = service.ask("GET", path, "");
        assert_eq!(status, 200, "{path}: {body}");
        let body: Value = serde_json::from_str(&body).unwrap();
        let schema =
            &described["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"];
        let found = departures(schema, &body, path, &described);
        assert!(found.is_empty(), "{found:#?}");
        if path == "/api/state" {
            let find = &body["modules"][0];
            assert_eq!(
                (&find["name"], &find["inputs"][0]),
                (&"find".into(), &"steady".into())
            );
            assert!(find["totals"]["requests"].as_u64().unwrap() > 0, "{find}");
            assert_eq!(body["sinks"][0]["inputs"][0], "find");
        }
    }
    let guest = "/api/streams/guest";
    let added = r#"{"name": "guest", "uri": "emulated:uniform?rate=50"}"#;
    for (method, path, body, status) in [
        ("POST", "/api/streams".to_owned(), added, 201),
        ("PATCH", guest.to_owned(), r#"{"weight": 2}"#, 200),
        ("POST", format!("{guest}/pause"), "", 200),
        ("POST", format!("{guest}/resume"), "", 200),
        ("DELETE", guest.to_owned(), "", 200),
    ] {
        let (answered, body) = service.ask(method, &path, body);
        assert_eq!(answered, status, "{method} {path}: {body}");
        let body: Value = serde_json::from_str(&body).unwrap();
        let kept = &described["components"]["schemas"]["Kept"];
        let found = departures(kept, &body["kept"], &path, &described);
        assert!(found.is_empty(), "{method}: {found:#?}");
    }
    service.drain();
}
