//! Lines of every kind from one real run are what `docs/events.schema.json` says, and hold no key that it does not describe.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::json_schema::{check, undescribed};
use crate::common::{self, has_runtime, stderr};

/// A camera whose objects are tracked in a zone, with a branch that has time for a third of its frames, and another stream
/// that is too much for its module.
const GRAPH: &str = r#"
[app]
name = "kinds"
slo = "2s"

[sources.street]
uri = "${CLIP}"
mode = "live"
sample = "10fps"

[sources.load]
uri = "emulated:uniform?rate=100&frames=300"

[devices."emulated:a"]
slots = 1

[devices."emulated:b"]
slots = 1

[models.detector]
model = "embedded:street-detector"
score_threshold = 0.05
class_thresholds = ["car 0.6", "van 0.6", "person 0.6"]

[models.slow]
device = "emulated:a"
profile = { "1" = "300ms" }

[models.busy]
device = "emulated:b"
profile = { "1" = "25ms" }

[modules.objects]
operator = "detect"
model = "detector"
inputs = ["street"]

[modules.later]
operator = "emulate"
model = "slow"
inputs = ["objects"]
on_drop = "degrade"

[modules.much]
operator = "emulate"
model = "busy"
inputs = ["load"]

[modules.tracks]
operator = "track"
inputs = ["objects"]
lost_after = "500ms"

[transforms.area]
type = "zone"
inputs = ["tracks"]
points = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
every = "1s"

[sinks.events]
type = "jsonl"
path = "events.jsonl"
inputs = ["later", "tracks", "area", "much"]
drops = true
candidates = true
"#;

#[test]
fn lines_of_a_run_with_all_there_is_are_as_the_schema_says() {
    if !has_runtime() {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("graph.toml"), GRAPH).unwrap();
    let ran = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args("run graph.toml --duration 7s --report report.json".split(' '))
        .current_dir(folder.path())
        .env("CLIP", root.join("videos/street-day.mp4"))
        .env_remove("RUST_LOG")
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", stderr(&ran));
    common::report(&folder.path().join("report.json"));

    let schema = std::fs::read_to_string(root.join("docs/events.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let text = std::fs::read_to_string(folder.path().join("events.jsonl")).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for line in &lines {
        check(&schema, &schema, line).unwrap_or_else(|reason| panic!("{reason}: {line}"));
        let undescribed = undescribed(&schema, &schema, line);
        assert!(undescribed.is_empty(), "{undescribed:?}: {line}");
    }

    let has = |what: &str, is_so: &dyn Fn(&Value) -> bool| {
        assert!(lines.iter().any(is_so), "no line with {what} of {}", lines.len());
    };
    let any_object = |line: &Value, key: &str| {
        let objects = line["objects"].as_array();
        objects.is_some_and(|objects| objects.iter().any(|object| object.get(key).is_some()))
    };
    for kind in ["header", "frame", "dropped", "state", "track", "incident"] {
        has(kind, &|line| line["type"] == kind);
    }
    has("a track", &|line| any_object(line, "track"));
    has("a candidate", &|line| any_object(line, "candidate"));
    has("`without`", &|line| {
        line["without"] == serde_json::json!(["later"])
    });
    for phase in ["began", "updated", "ended"] {
        has(phase, &|line| line["phase"] == phase);
    }
}
