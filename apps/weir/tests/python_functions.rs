//! Heads, transforms and sinks in Python, with a real interpreter: what they give arrives, and failures cost their own result
//! alone.

use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{refuses, report, stderr};
use crate::python_operators::{place_with, weir};

const MODULE: &str = r#"
import json, os, sys, time
import weir

def once():
    # Two processes may decode at the same time.
    try:
        open("happened", "x").close()
    except FileExistsError:
        return False
    return True

def happens():
    fault = os.environ["FAULT"]
    if fault == "raises":
        raise ValueError("one is odd")
    if fault == "exits":
        print("leaving")
        sys.exit(7)
    if fault == "is killed":
        os.abort()
    if fault == "sleeps":
        time.sleep(600)
    if fault == "takes memory":
        return bytearray(8 << 30)
    if fault == "returns a number":
        return 3
    if fault == "returns nothing":
        return None
    return False

@weir.operator
def halves(items):
    return [
        [weir.Found("half", 0.75, (0, 0, item.pixels.shape[1] / 2, item.pixels.shape[0]))] for item in items
    ]

@weir.head
def decode(outputs, items):
    ((name, rows),) = outputs.items()
    assert rows.dtype == "float32" and rows.shape[0] == len(items), (name, rows.shape)
    results = [[weir.Found("whole", 0.5, item.box((0, 0, *item.input)))] for item in items]
    # The first call is of a blank picture.
    if items[0].frame == (64, 48) and os.environ["FAULT"] and once():
        fault = happens()
        if os.environ["FAULT"] == "returns nothing":
            return None
        if fault is not False:
            results[0] = fault
        if os.environ["FAULT"] == "finds outside":
            results[0] = [weir.Found("whole", 0.5, (0, 0, 500, 1))]
    return results

@weir.head
def attributes(outputs, items):
    return [{"mean": float(next(iter(outputs.values()))[row].mean()), "kind": "any"} for row in range(len(items))]

@weir.transform
class Watch:
    def __init__(self, stream):
        self.stream, self.frames = stream, 0

    def __call__(self, frame):
        self.frames += 1
        if frame["frame"] == 1 and os.environ["FAULT"] and once():
            fault = happens()
            if fault is not False:
                return fault
            if os.environ["FAULT"] == "names no object":
                return {"objects": [{"id": 9, "attributes": {"a": 1}}]}
            if os.environ["FAULT"] == "has no phase":
                return {"incidents": [{"phase": "odd", "key": "stay"}]}
        for found in frame["objects"]:
            found["attributes"]["seen"] = self.frames
            found["attributes"]["stream"] = (self.stream, 0.5)
        phase = {0: "begin", 2: "end"}.get(frame["frame"])
        incidents = [{"phase": phase, "key": "stay", "object": frame["objects"][0]}] if phase else []
        return {"objects": frame["objects"], "incidents": incidents}

@weir.sink
def keep(event):
    if event.get("frame") == 1 and os.environ["FAULT"] and once():
        happens()
    with open("kept.jsonl", "a") as file:
        file.write(json.dumps(event) + "\n")

def plain(event):
    pass
"#;

const HEAD: &str = r#"
[models.any]
model = "embedded:expression-small"
head = "python:mine.decode"
head_timeout = "${CALL_TIMEOUT:-60s}"
head_memory = "4GiB"
[modules.found]
operator = "detect"
model = "any"
inputs = ["camera"]
[sinks.events]
type = "jsonl"
path = "events.jsonl"
inputs = ["found"]
"#;

const TRANSFORM: &str = r#"
[modules.halves]
operator = "python:mine.halves"
inputs = ["camera"]
[transforms.watch]
type = "python:mine.Watch"
inputs = ["halves"]
timeout = "${CALL_TIMEOUT:-60s}"
memory = "4GiB"
[sinks.events]
type = "jsonl"
path = "events.jsonl"
inputs = ["halves", "watch"]
"#;

const SINK: &str = r#"
[modules.halves]
operator = "python:mine.halves"
inputs = ["camera"]
[sinks.kept]
type = "python:mine.keep"
inputs = ["halves"]
events = ["frame", "state"]
timeout = "${CALL_TIMEOUT:-60s}"
memory = "4GiB"
path = "lost.jsonl"
"#;

fn place(tables: &str) -> TempDir {
    place_with(MODULE, tables)
}

/// Replays the three pictures; gives the output, the report and the lines of a file of events.
fn replay(folder: &Path, fault: &str, events: &str) -> (Output, Value, Vec<Value>) {
    for file in ["happened", events] {
        let _ = std::fs::remove_file(folder.join(file));
    }
    let arguments = [
        "replay",
        "graph.toml",
        "--speed",
        "max",
        "--python",
        ".",
        "--report",
        "report.json",
    ];
    let output = weir(folder, &arguments, fault);
    assert!(output.status.success(), "{fault}: {}", stderr(&output));
    let text = std::fs::read_to_string(folder.join(events)).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let lines = lines.collect();
    (output, report(&folder.join("report.json")), lines)
}

fn of_type<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == kind).collect()
}

#[test]
fn python_head_decodes_outputs_into_objects_of_the_frame() {
    let folder = place(HEAD);
    let (_, _, lines) = replay(folder.path(), "", "events.jsonl");
    let frames = of_type(&lines, "frame");
    assert_eq!(frames.len(), 3);
    for frame in frames {
        let object = &frame["objects"][0];
        assert_eq!(object["class"], "whole");
        assert_eq!(object["score"], 0.5);
        assert_eq!(
            object["box"],
            serde_json::json!([0.0, 0.0, 64.0, 48.0]),
            "{frame}"
        );
    }
    let graph = HEAD.replace("mine.decode", "mine.attributes");
    let folder = place(&graph.replace("operator = \"detect\"", "operator = \"classify\""));
    let (_, _, lines) = replay(folder.path(), "", "events.jsonl");
    let attributes = &of_type(&lines, "frame")[0]["objects"][0]["attributes"];
    assert_eq!(attributes["kind"]["class"], "any");
    assert!(attributes["mean"]["value"].is_number(), "{attributes}");
}

#[test]
fn failing_python_head_costs_its_own_frame_alone() {
    let folder = place(HEAD);
    for (fault, says) in [
        ("raises", "ValueError: one is odd"),
        ("exits", "exit status: 7"),
        ("is killed", "SIGABRT"),
        ("sleeps", "no answer within 5 s"),
        ("takes memory", "MemoryError"),
        ("returns nothing", "the head must return a list"),
        ("returns a number", "the result of item 0 must be a dict"),
        ("finds outside", "the box of object 0 of item 0 is (0, 0, 500, 1)"),
    ] {
        let (output, report, lines) = replay(folder.path(), fault, "events.jsonl");
        assert_eq!(report["requests"]["arrived"], 3, "{fault}: {report}");
        assert_eq!(report["requests"]["dropped"], 1, "{fault}: {report}");
        assert_eq!(of_type(&lines, "frame").len(), 2, "{fault}");
        let reason = report["modules"]["found"]["last_failure"]
            .as_str()
            .unwrap_or_default();
        assert!(reason.contains(says), "{fault}: {reason}");
        assert!(reason.contains("python:mine.decode"), "{fault}: {reason}");
        assert!(stderr(&output).contains(says), "{fault}: {}", stderr(&output));
    }
}

#[test]
fn python_transform_gives_attributes_and_incidents() {
    let folder = place(TRANSFORM);
    let (_, report, lines) = replay(folder.path(), "", "events.jsonl");
    let frames = of_type(&lines, "frame");
    assert_eq!(frames.len(), 3);
    for (number, frame) in (1..).zip(&frames) {
        let attributes = &frame["objects"][0]["attributes"];
        assert_eq!(attributes["seen"]["value"], f64::from(number), "{frame}");
        assert_eq!(attributes["stream"]["class"], "camera");
        assert_eq!(attributes["stream"]["score"], 0.5);
    }
    let incidents = of_type(&lines, "incident");
    let phases: Vec<&Value> = incidents.iter().map(|it| &it["phase"]).collect();
    assert_eq!(phases, ["began", "ended"]);
    assert_eq!(incidents[0]["id"], incidents[1]["id"]);
    assert_eq!(incidents[0]["kind"], "python");
    assert_eq!(incidents[0]["class"], "half");
    assert_eq!(report["transforms"]["watch"]["answered"], 3, "{report}");
}

/// The process by which the function is checked before the run is that of the run.
#[test]
fn python_transform_is_imported_once_for_a_run() {
    let module = r#"
import weir
with open("imports", "a") as file:
    file.write("x")

@weir.transform
def watch(frame):
    return None
"#;
    let folder = place(&TRANSFORM.replace("mine.Watch", "counted.watch"));
    std::fs::write(folder.path().join("counted.py"), module).unwrap();
    let (_, report, _) = replay(folder.path(), "", "events.jsonl");
    assert_eq!(report["transforms"]["watch"]["answered"], 3, "{report}");
    let imports = std::fs::read_to_string(folder.path().join("imports")).unwrap();
    assert_eq!(imports, "x");
}

#[test]
fn failing_python_transform_costs_its_own_result_alone() {
    let folder = place(TRANSFORM);
    for (fault, name, says) in [
        ("raises", "failed", "ValueError: one is odd"),
        ("exits", "ended", "exit status: 7"),
        ("is killed", "ended", "SIGABRT"),
        ("sleeps", "late", "no answer within 5 s"),
        ("takes memory", "ended", "MemoryError"),
        ("returns a number", "failed", "must return None, or a dict"),
        ("names no object", "failed", "object 0 is object 9 of the frame"),
        ("has no phase", "failed", "the phase of incident 0"),
    ] {
        let (output, report, lines) = replay(folder.path(), fault, "events.jsonl");
        assert_eq!(report["requests"]["dropped"], 0, "{fault}: {report}");
        assert_eq!(of_type(&lines, "frame").len(), 3, "{fault}");
        let transform = &report["transforms"]["watch"];
        assert_eq!(transform["unchanged"][name], 1, "{fault}: {transform}");
        let reason = transform["last_failure"].as_str().unwrap_or_default();
        assert!(reason.contains(says), "{fault}: {reason}");
        assert!(reason.contains("python:mine.Watch"), "{fault}: {reason}");
        assert!(stderr(&output).contains(says), "{fault}: {}", stderr(&output));
        let incidents = of_type(&lines, "incident");
        let phases: Vec<&Value> = incidents.iter().map(|it| &it["phase"]).collect();
        assert_eq!(phases[..2], ["began", "ended"], "{fault}");
        assert_eq!(incidents[0]["id"], incidents[1]["id"], "{fault}");
    }
}

#[test]
fn python_sink_gets_the_event_lines_that_it_asks_for() {
    let folder = place(SINK);
    let (_, report, lines) = replay(folder.path(), "", "kept.jsonl");
    assert_eq!(of_type(&lines, "frame").len(), 3);
    assert!(!of_type(&lines, "state").is_empty(), "{lines:?}");
    assert!(
        lines
            .iter()
            .all(|line| line["type"] == "frame" || line["type"] == "state")
    );
    let counts = &report["sinks"]["kept"]["counts"];
    assert_eq!(counts["delivered"], lines.len(), "{report}");
    assert_eq!(counts["raised"], 0);
    assert_eq!(counts["lost"], 0);
}

#[test]
fn failing_python_sink_counts_its_event_by_reason() {
    let folder = place(SINK);
    for (fault, name) in [
        ("raises", "raised"),
        ("exits", "ended"),
        ("is killed", "ended"),
        ("sleeps", "late"),
        ("takes memory", "ended"),
    ] {
        let _ = std::fs::remove_file(folder.path().join("lost.jsonl"));
        let (_, report, lines) = replay(folder.path(), fault, "kept.jsonl");
        let counts = &report["sinks"]["kept"]["counts"];
        assert_eq!(counts[name], 1, "{fault}: {report}");
        // One that ended its process is tried again in another, unless the run ends before that one has started.
        let given_up = counts["dead_letters"].as_u64().unwrap();
        assert!(fault != "raises" || given_up == 1, "{fault}: {report}");
        let kept = of_type(&lines, "frame").len() + of_type(&lines, "state").len();
        assert_eq!(counts["events"], kept as u64 + given_up, "{fault}: {report}");
        assert_eq!(counts["lost"], 0, "{fault}: {report}");
    }
}

#[test]
fn python_heads_transforms_and_sinks_need_the_flag_and_their_mark() {
    for (tables, owner, function, mark) in [
        (HEAD, "the head of model", "mine.decode", "@weir.head"),
        (
            TRANSFORM,
            "the type of transform",
            "mine.Watch",
            "@weir.transform",
        ),
        (SINK, "the type of sink", "mine.keep", "@weir.sink"),
    ] {
        let folder = place(tables);
        let check =
            |arguments: &[&str]| weir(folder.path(), &[&["check", "graph.toml"], arguments].concat(), "");
        refuses(
            &check(&[]),
            &["graph.toml:", owner, "in Python", "--python FOLDER"],
        );
        let output = check(&["--python", "."]);
        assert!(output.status.success(), "{}", stderr(&output));
        for (other, says) in [
            ("mine.plain", mark),
            ("mine.missing", "mine has no function missing"),
            ("other.keep", "no Python module \"other\""),
            ("mine", "no function of a Python module"),
        ] {
            let text = std::fs::read_to_string(folder.path().join("graph.toml")).unwrap();
            let named = text.replace(&format!("python:{function}"), &format!("python:{other}"));
            std::fs::write(folder.path().join("graph.toml"), named).unwrap();
            refuses(&check(&["--python", "."]), &[says]);
            std::fs::write(folder.path().join("graph.toml"), text).unwrap();
        }
    }
}
