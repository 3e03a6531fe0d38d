//! Variables of templates: the keys of an event line, and texts made of them for people.

use serde_json::{Map, Value, json};
use weir_analytics::transforms::{TimeZone, clock_text};

/// All variables, in the order of the documents. Those that an event lacks are none, or empty lists and maps.
pub(super) const NAMES: [&str; 27] = [
    "title",
    "text",
    "clock",
    "held_back",
    "incidents",
    "stream",
    "transform",
    "kind",
    "phase",
    "class",
    "score",
    "zones",
    "values",
    "attributes",
    "description",
    "time",
    "began",
    "last_seen",
    "pts_ms",
    "began_pts_ms",
    "last_pts_ms",
    "id",
    "track",
    "box",
    "best",
    "type",
    "event",
];

/// Variables for an event line; `clock` and `text` show its time in `zone`.
pub(super) fn variables(event: &Value, zone: &TimeZone) -> Value {
    let mut all: Map<String, Value> = NAMES
        .iter()
        .map(|name| ((*name).to_owned(), empty(name)))
        .collect();
    for (name, value) in event.as_object().into_iter().flatten() {
        if all.contains_key(name) {
            all.insert(name.clone(), value.clone());
        }
    }
    let clock = clock(event, zone);
    all.insert("title".to_owned(), title(event).into());
    all.insert("text".to_owned(), text(event, &clock).into());
    all.insert("clock".to_owned(), clock.into());
    all.insert("event".to_owned(), event.clone());
    Value::Object(all)
}

fn empty(name: &str) -> Value {
    match name {
        "zones" | "incidents" => json!([]),
        "values" | "attributes" => json!({}),
        "held_back" => json!(0),
        _ => Value::Null,
    }
}

fn clock(event: &Value, zone: &TimeZone) -> String {
    let time = event["time"].as_str().or(event["last_seen"].as_str());
    let time = time.and_then(|time| humantime::parse_rfc3339(time).ok());
    let since = time.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    since.map_or_else(String::new, |since| clock_text(since.as_millis() as u64, zone))
}

/// `<stream>: <transform>`.
fn title(event: &Value) -> String {
    let stream = event["stream"].as_str().unwrap_or_default();
    let of = event["transform"].as_str().or(event["type"].as_str());
    format!("{stream}: {}", of.unwrap_or_default())
}

/// Words of a model about the incident with the time, or such as `person (loitering), plate AB 12, 2026-11-30 22:13:05 CET; 3 alarms before it were held back`.
/// A message of several incidents has their number, too.
fn text(event: &Value, clock: &str) -> String {
    let known = |key: &str| event[key].as_str().filter(|text| !text.is_empty());
    let subject = match (known("description"), known("class"), known("kind")) {
        (Some(description), ..) => description.trim_end_matches('.').to_owned(),
        (_, Some(class), Some(kind)) => format!("{class} ({kind})"),
        (_, Some(one), None) | (_, None, Some(one)) => one.to_owned(),
        (None, None, None) => String::new(),
    };
    // What has no duration has one event alone, which ends it.
    let is_later = event["time"] != event["began"];
    let phase = known("phase").filter(|phase| is_later && *phase != "began");
    let subject = phase.map_or_else(|| subject.clone(), |phase| format!("{subject} {phase}"));
    let attributes = event["attributes"].as_object().into_iter().flatten();
    let attributes = attributes.filter_map(|(name, value)| {
        let keys = ["text", "class", "match"];
        let value = keys.iter().find_map(|key| value[*key].as_str())?;
        Some(format!("{name} {value}"))
    });
    let parts = std::iter::once(subject).chain(attributes);
    let parts = parts.chain(std::iter::once(clock.to_owned()));
    let parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
    let count = event["incidents"].as_array().map_or(1, Vec::len);
    let grouped = if count > 1 {
        format!("; {count} incidents in this message")
    } else {
        String::new()
    };
    let held = match event["held_back"].as_u64() {
        Some(1) => "; one alarm before it was held back".to_owned(),
        Some(held @ 2..) => format!("; {held} alarms before it were held back"),
        _ => String::new(),
    };
    format!("{}{grouped}{held}", parts.join(", "))
}

/// Events by which templates are checked: one with all keys, and one with the fewest.
pub(super) fn samples() -> [Value; 2] {
    let full = json!({
        "type": "incident", "stream": "north", "id": "north/gate/1", "transform": "gate", "kind": "loitering",
        "phase": "began", "time": "2026-11-30T21:13:05.000Z", "pts_ms": 12.5, "began": "2026-11-30T21:13:05.000Z",
        "began_pts_ms": 12.5, "track": 7, "class": "person", "score": 0.9, "box": [1.0, 2.0, 30.0, 40.0],
        "zones": ["gate", "yard"], "values": {"dwell_s": 12.5}, "attributes": {"plate": {"text": "AB \"12\"", "score": 0.8}},
        "best": {"frame": 3, "pts_ms": 12.5, "score": 0.9, "box": [1.0, 2.0, 30.0, 40.0]}, "held_back": 2,
        "incidents": ["north/gate/1", "north/gate/3"],
    });
    let least = json!({
        "type": "incident", "stream": "north", "id": "north/gate/2", "transform": "gate", "kind": "crowd",
        "phase": "ended", "time": "2026-11-30T21:13:05.000Z", "pts_ms": 12.5, "began": "2026-11-30T21:13:05.000Z",
        "began_pts_ms": 12.5, "track": null, "class": null, "score": 0.9, "box": null, "zones": [], "values": {},
        "attributes": {},
    });
    [full, least]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_name_what_was_seen_when_and_what_was_held_back() {
        let [full, least] = samples();
        let zone = weir_analytics::transforms::time_zone("Europe/Berlin").expect("a zone");
        let of = |event: &Value| variables(event, &zone);
        assert_eq!(of(&full)["title"], "north: gate");
        assert_eq!(
            of(&full)["text"],
            "person (loitering), plate AB \"12\", 2026-11-30 22:13:05 CET; 2 incidents in this message; 2 alarms before it were held back"
        );
        assert_eq!(of(&least)["text"], "crowd, 2026-11-30 22:13:05 CET");
        let described = json!({"type": "described", "stream": "north", "transform": "gate", "kind": "loitering", "class": "person",
            "description": "A man rings the bell.", "time": "2026-11-30T21:13:05.000Z", "began": "2026-11-30T21:13:00.000Z"});
        assert_eq!(
            of(&described)["text"],
            "A man rings the bell, 2026-11-30 22:13:05 CET"
        );
        let track = json!({"type": "track", "stream": "n\u{f6}rd", "class": "car", "last_seen": "2026-07-01T00:00:00Z"});
        assert_eq!(of(&track)["title"], "n\u{f6}rd: track");
        assert_eq!(of(&track)["text"], "car, 2026-07-01 02:00:00 CEST");
    }
}
