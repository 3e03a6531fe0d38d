//! Answers of scenes on incidents, recordings, tracks, and the graph file.

use serde_json::{Value, json};
use weir_serve::{ArchiveRange, IncidentQuery};

use super::clips::Clip;
use super::{BAD_LINE, CLIP, Condition, Scene, state};

const MINUTE_MS: u64 = 60_000;
const DAY_MS: u64 = 24 * 60 * MINUTE_MS;

/// Rules, their types, classes and attributes of incidents.
const KINDS: [(&str, &str, &str, &str); 6] = [
    ("entrance", "zone", "person", ""),
    ("gate", "line", "car", "HH-WX 4711"),
    ("gate", "line", "van", "B-AB 123"),
    ("night watch", "dwell", "person", ""),
    ("gate", "line", "bicycle", ""),
    ("loading-zone-no-stopping", "still", "bus", ""),
];

fn attributes(plate: &str) -> Value {
    if plate.is_empty() {
        json!({})
    } else {
        json!({ "plate": plate })
    }
}

/// Incidents of the last day, the newest first. One camera has many alike.
pub(super) fn incidents(names: &[String], now_ms: u64) -> Vec<Value> {
    if names.is_empty() {
        return Vec::new();
    }
    let incident = |index: u64| {
        let (rule, kind, class, plate) = KINDS[(index / 3) as usize % KINDS.len()];
        let name = &names[(index as usize * 5 / 3) % names.len()];
        // More by day than by night, and some close to each other.
        let began_ms = now_ms - 40_000 - index * 9 * MINUTE_MS - (index % 3) * 20_000;
        let lasts_ms = if kind == "line" { 0 } else { 7_400 + 900 * index };
        let values = match kind {
            "line" => json!({ "count": 40 + index, "direction": "in" }),
            "zone" => json!({ "occupancy": 2, "entered": 17 + index }),
            _ => json!({ "dwell_s": 12.4 + index as f64 }),
        };
        json!({
            "id": format!("{name}/{rule}/{index}"), "stream": name, "transform": rule, "type": kind, "class": class,
            "phase": if index == 0 { "began" } else { "ended" }, "is_over": index > 0, "score": 0.91, "track": index,
            "began_ms": began_ms, "time_ms": began_ms + lasts_ms, "has_clip": index % 4 != 3, "has_picture": index % 7 != 6,
            "seen": index > 5, "pinned": index == 4, "attributes": attributes(plate), "values": values,
            "zones": if kind == "line" { json!([]) } else { json!([rule]) },
        })
    };
    (0..120).map(incident).collect()
}

fn number(text: Option<&str>) -> Option<u64> {
    text?.parse::<f64>().ok().map(|number| number as u64)
}

pub(super) fn list(scene: &Scene, query: &IncidentQuery) -> Value {
    let to_ms = number(query.to.as_deref()).unwrap_or(scene.began_ms);
    let from_ms = number(query.from.as_deref()).unwrap_or(to_ms - DAY_MS);
    let is_asked = |incident: &&Value| {
        let began_ms = incident["began_ms"].as_u64().unwrap();
        let is_stream = query
            .stream
            .as_deref()
            .is_none_or(|stream| incident["stream"] == stream);
        is_stream && (from_ms..to_ms).contains(&began_ms)
    };
    let found: Vec<&Value> = scene.incidents.iter().filter(is_asked).collect();
    let names = |key: &str| {
        let mut names: Vec<&str> = found
            .iter()
            .filter_map(|incident| incident[key].as_str())
            .collect();
        names.sort_unstable();
        names.dedup();
        json!(names)
    };
    let kept = if scene.condition == Condition::DiskFull {
        json!({ "in": "state", "why": state::FULL })
    } else {
        json!({ "in": "state" })
    };
    let mut list = json!({
        "count": found.len(), "incidents": found, "kept": kept, "to_ms": to_ms,
        "names": {
            "streams": names("stream"), "classes": names("class"), "rules": names("transform"), "types": names("type"),
            "zones": ["entrance"],
        },
    });
    if let Some(count) = number(query.bins.as_deref()) {
        let span_ms = ((to_ms - from_ms) / count).max(1);
        let bin = |index: u64| {
            let begin_ms = from_ms + index * span_ms;
            let is_in = |incident: &&&Value| {
                (begin_ms..begin_ms + span_ms).contains(&incident["began_ms"].as_u64().unwrap())
            };
            let inside: Vec<&&Value> = found.iter().filter(is_in).collect();
            let mut bin = json!({ "count": inside.len() });
            if let Some(shown) = inside.iter().find(|incident| incident["has_picture"] == true) {
                bin["picture"] = shown["id"].clone();
            }
            bin
        };
        list["bins"] = (0..count).map(bin).collect();
    }
    list
}

pub(super) fn search(scene: &Scene) -> Value {
    if scene.names.is_empty() {
        return json!({
            "available": false, "results": [], "names": {}, "why": "the graph has no sink of type \"search\"",
            "hint": "add [sinks.search] with type = \"search\", path = \"FOLDER\" and inputs = [\"TRACKS\", \"PICTURES\"]",
        });
    }
    let track = |index: u64| {
        let (rule, _, class, plate) = KINDS[index as usize % KINDS.len()];
        let name = &scene.names[index as usize % scene.names.len()];
        let time_ms = scene.began_ms - 50_000 - index * 11 * MINUTE_MS;
        let incidents = if index.is_multiple_of(3) {
            json!([format!("{name}/{rule}/{index}")])
        } else {
            json!([])
        };
        json!({
            "id": format!("{name}/{index}"), "stream": name, "class": class, "attributes": attributes(plate), "by": "newest",
            "began_ms": time_ms - 4_000, "time_ms": time_ms, "picture_ms": time_ms - 2_000, "has_picture": index % 9 != 8,
            "incidents": incidents, "score": 0.9, "similarity": null, "track": index, "zones": [],
        })
    };
    json!({
        "available": true, "compared": 9_000, "other_model": 0, "results": (0..60).map(track).collect::<Vec<_>>(),
        "kept": { "tracks": 9_000, "bytes": 147_068 }, "like": { "available": true }, "meaning": { "available": true },
        "names": { "classes": ["bicycle", "bus", "car", "person", "van"], "streams": scene.names },
    })
}

/// Time up to which the archive of a camera goes: it ends before now if the disk is full, and for a camera that is gone.
fn end_ms(scene: &Scene, stream: &str) -> u64 {
    let minutes = match scene.condition {
        Condition::DiskFull => 18,
        _ if scene.is_lost(stream) => 42,
        _ => 0,
    };
    scene.began_ms - minutes * MINUTE_MS
}

pub(super) fn archives(scene: &Scene) -> Value {
    let camera = |name: &String| {
        let to_ms = end_ms(scene, name);
        json!({ "stream": name, "from_ms": to_ms - 2 * DAY_MS, "to_ms": to_ms, "segments": 576 })
    };
    json!({ "cameras": scene.names.iter().map(camera).collect::<Vec<_>>() })
}

/// Segments of five minutes with a gap; the page opens one minute before the end, where a clip is.
pub(super) fn segments(scene: &Scene, clip: &Clip, stream: &str, range: &ArchiveRange) -> Value {
    let clip_ms = u64::try_from(CLIP.as_millis()).unwrap();
    let end_ms = end_ms(scene, stream);
    let from_ms = number(range.from.as_deref()).unwrap_or(end_ms - DAY_MS);
    let to_ms = number(range.to.as_deref()).unwrap_or(end_ms);
    let clip_at = end_ms - MINUTE_MS - clip_ms / 2;
    let before = |index: u64| clip_at - index * 5 * MINUTE_MS;
    let mut bounds: Vec<(u64, u64)> = (1..570).map(|index| (before(index), before(index - 1))).collect();
    // Half an hour is missing.
    bounds.retain(|(from, _)| !(before(11)..before(5)).contains(from));
    bounds.extend([(clip_at, clip_at + clip_ms), (clip_at + clip_ms, end_ms)]);
    bounds.sort_unstable();
    let bytes = std::fs::metadata(&clip.file).unwrap().len();
    let segment = |(from, to): &(u64, u64)| {
        json!({
            "id": from.to_string(), "from_ms": from, "to_ms": to, "type": clip.mime, "frame_ms": 100.0, "unfinished": false,
            "bytes": bytes,
        })
    };
    let inside = bounds.iter().filter(|(from, to)| *to > from_ms && *from < to_ms);
    let found: Vec<Value> = inside.map(segment).collect();
    json!({ "stream": stream, "from_ms": from_ms, "to_ms": to_ms, "segments": found, "gaps": [] })
}

/// Objects and shapes of a frame.
pub(super) fn frame(index: usize) -> Value {
    let step = index as f64 * 0.004;
    let object = |class: &str, track: u64, [x, y, w, h]: [f64; 4]| json!({ "class": class, "score": 0.9, "track": track, "box": [x + step, y, x + step + w, y + h] });
    json!({
        "type": "frame", "frame": index, "pts_ms": 100.0 * index as f64, "latency_ms": 210.0, "late": false,
        "objects": [object("car", 17, [0.12, 0.52, 0.2, 0.2]), object("person", 18, [0.62, 0.36, 0.06, 0.22])],
        "shapes": [
            { "name": "entrance", "kind": "zone", "closed": true, "text": "2", "points": [[0.5, 0.3], [0.9, 0.3], [0.95, 0.7], [0.55, 0.7]] },
            { "name": "gate", "kind": "line", "closed": false, "text": "41 in", "points": [[0.1, 0.8], [0.6, 0.9]] },
        ],
    })
}

/// The table of a camera in the graph file.
pub(super) fn table(name: &str) -> String {
    format!(
        "\n[cameras.\"{name}\"]\nuri = \"rtsp://192.0.2.7/stream\"\nignore = [[0.0, 0.0], [0.3, 0.0], [0.3, 0.12], [0.0, 0.12]]\n\n\
         [cameras.\"{name}\".zones]\nentrance = [[0.5, 0.3], [0.9, 0.3], [0.95, 0.7], [0.55, 0.7]]\n\n\
         [cameras.\"{name}\".lines]\ngate = [[0.1, 0.8], [0.6, 0.9]]\n"
    )
}

/// Tables and problems of a text.
pub(super) fn check(scene: &Scene, text: &str) -> Value {
    let document: Value = toml::from_str(text).unwrap();
    let is_bad = scene.condition == Condition::BadFile;
    let problems = if is_bad {
        json!([{
            "severity": "error", "line": BAD_LINE, "message": "zone \"entrance\": a zone needs at least three points",
            "hint": "write at least three corners, such as [[0, 0], [1, 0], [1, 1]]",
        }])
    } else {
        json!([])
    };
    json!({ "text": text, "document": document, "diagnostics": problems, "is_valid": !is_bad })
}
