//! Operators in Python, with a real interpreter: results arrive in events, and failures cost their own frames alone.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;

use image::{Rgb, RgbImage};
use serde_json::Value;
use tempfile::TempDir;

use crate::common::{refuses, report, stderr, stdout};

const MODULE: &str = r#"
import os, sys, time
import weir

print("loaded")

@weir.operator
def halves(items):
    return [
        [weir.Found("half", 0.75, (0, 0, item.pixels.shape[1] / 2, item.pixels.shape[0]))] for item in items
    ]

@weir.operator
def colour(items):
    assert len(items) <= 4
    return [
        {
            "red": item.pixels[0, 0, 0],
            "side": item.pixels.shape[1],
            "is_dark": bool(item.pixels.mean() < 40),
            "of": (item.label, 0.5),
            "frame": f"{item.frame.stream}/{item.frame.sequence}",
        }
        for item in items
    ]

@weir.operator
def faulty(items):
    fault = os.environ["FAULT"] if items[0].frame.sequence == 1 else None
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
        return [{"bytes": len(bytearray(8 << 30))}]
    if fault == "returns too few":
        return []
    if fault == "returns nothing":
        return None
    if fault == "returns a number":
        return [3]
    if fault == "returns nan":
        return [{"size": float("nan")}]
    if fault == "returns an image":
        return [{"picture": items[0].pixels}]
    if fault == "finds outside":
        return [[{"label": "a", "score": 1, "box": (0, 0, 5000, 1)}]]
    if fault == "writes too much":
        return [{"text": "x" * 5000}]
    if fault == "writes to its streams":
        os.write(1, b"text\n" * 100_000)
        os.write(2, b"\xff" * 100_000)
    return [{"ok": True} for _ in items]

def plain(items):
    return [None for _ in items]
"#;

const GRAPH: &str = r#"
[app]
name = "python"
slo = "30s"
[sources.camera]
uri = "pictures"
mode = "lossless"
"#;

/// Search path with a `python3` that has NumPy.
fn search_path() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| {
        let path = std::env::var("PATH").unwrap_or_default();
        let with_own = format!("/usr/bin:{path}");
        let has_numpy = |path: &&String| {
            let mut python = Command::new("python3");
            let run = python.args(["-c", "import numpy"]).env("PATH", path).output();
            run.is_ok_and(|output| output.status.success())
        };
        let found = [path, with_own].iter().find(has_numpy).cloned();
        found.expect("python3 with NumPy is missing: `make setup` installs both")
    })
}

fn place(tables: &str) -> TempDir {
    place_with(MODULE, tables)
}

/// Three pictures, the Python module `mine`, and a graph with these tables.
pub(crate) fn place_with(module: &str, tables: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("graph.toml"), format!("{GRAPH}{tables}")).unwrap();
    std::fs::write(folder.path().join("mine.py"), module).unwrap();
    std::fs::create_dir(folder.path().join("pictures")).unwrap();
    for index in 0..3_u8 {
        let picture = RgbImage::from_pixel(64, 48, Rgb([index * 50; 3]));
        picture
            .save(folder.path().join(format!("pictures/{index}.png")))
            .unwrap();
    }
    folder
}

/// Runs the program in a folder, with a Python that has NumPy.
pub(crate) fn weir(folder: &Path, arguments: &[&str], fault: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(arguments)
        .current_dir(folder)
        .env("PATH", search_path())
        .env("FAULT", fault)
        .env("CALL_TIMEOUT", if fault == "sleeps" { "5s" } else { "60s" })
        .env_remove("RUST_LOG")
        .output()
        .unwrap()
}

const HALVES: &str = r#"
[modules.halves]
operator = "python:mine.halves"
inputs = ["camera"]
[modules.colour]
operator = "python:mine.colour"
inputs = ["halves"]
regions = ["half"]
max_batch = 4
workers = 1
"#;

#[test]
fn python_results_are_objects_and_attributes_of_events() {
    let folder = place(HALVES);
    let output = weir(
        folder.path(),
        &["detect", "graph.toml", "--python", ".", "pictures"],
        "",
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let lines = stdout(&output);
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    for (index, line) in lines.iter().enumerate() {
        let objects = line["objects"].as_array().unwrap();
        assert_eq!(objects.len(), 1, "{line}");
        let object = &objects[0];
        assert_eq!(object["class"], "half");
        assert_eq!(object["score"], 0.75);
        let attributes = &object["attributes"];
        assert_eq!(attributes["red"]["value"], index as f64 * 50.0, "{line}");
        assert_eq!(attributes["side"]["value"], 32.0);
        assert_eq!(
            attributes["is_dark"]["class"],
            if index == 0 { "true" } else { "false" }
        );
        assert_eq!(attributes["of"]["class"], "half");
        assert_eq!(attributes["of"]["score"], 0.5);
        assert_eq!(attributes["frame"]["class"], format!("images/{index}"));
    }
    assert!(
        stderr(&output).contains("python:halves: loaded"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn failing_python_operator_costs_its_own_frame_alone() {
    let folder = place(
        r#"
        [modules.faulty]
        operator = "python:mine.faulty"
        inputs = ["camera"]
        timeout = "${CALL_TIMEOUT:-60s}"
        memory = "4GiB"
        [sinks.events]
        type = "jsonl"
        path = "events.jsonl"
        inputs = ["faulty"]
        "#,
    );
    for (fault, says) in [
        ("raises", "ValueError: one is odd"),
        ("exits", "exit status: 7"),
        ("exits", "leaving"),
        ("is killed", "SIGABRT"),
        ("sleeps", "no answer within 5 s"),
        ("takes memory", "MemoryError"),
        ("returns too few", "0 results for 1 items"),
        ("returns nothing", "must return a list"),
        ("returns a number", "the result of item 0 must be a dict"),
        ("returns nan", "\"size\" of item 0 is nan"),
        (
            "returns an image",
            "\"picture\" of item 0 must be a text, a number",
        ),
        ("finds outside", "the box of object 0 of item 0"),
        ("writes too much", "\"text\" of item 0 has 5000 bytes"),
    ] {
        // Event files are added to.
        let _ = std::fs::remove_file(folder.path().join("events.jsonl"));
        let output = weir(
            folder.path(),
            &[
                "replay",
                "graph.toml",
                "--speed",
                "max",
                "--python",
                ".",
                "--report",
                "report.json",
            ],
            fault,
        );
        assert!(output.status.success(), "{fault}: {}", stderr(&output));
        let report = report(&folder.path().join("report.json"));
        let requests = &report["requests"];
        assert_eq!(requests["arrived"], 3, "{fault}: {report}");
        assert_eq!(requests["dropped"], 1, "{fault}: {report}");
        assert_eq!(requests["in_flight"], 0, "{fault}");
        assert_eq!(report["modules"]["faulty"]["failed"], 1, "{fault}: {report}");
        let reason = report["modules"]["faulty"]["last_failure"]
            .as_str()
            .unwrap_or_default();
        assert!(reason.contains(says), "{fault}: {reason}");
        assert!(stderr(&output).contains(says), "{fault}: {}", stderr(&output));
        let events = std::fs::read_to_string(folder.path().join("events.jsonl")).unwrap();
        assert_eq!(events.matches("\"ok\"").count(), 2, "{fault}: {events}");
    }
}

#[test]
fn output_of_python_operator_never_blocks_it() {
    let folder = place("[modules.faulty]\noperator = \"python:mine.faulty\"\ninputs = [\"camera\"]\n");
    let arguments = ["detect", "graph.toml", "--python", ".", "pictures"];
    let output = weir(folder.path(), &arguments, "writes to its streams");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output).matches("\"ok\"").count(), 3);
}

#[test]
fn python_operators_need_the_flag_and_stay_in_its_folder() {
    let folder = place(HALVES);
    let check = |arguments: &[&str]| weir(folder.path(), &[&["check", "graph.toml"], arguments].concat(), "");
    refuses(&check(&[]), &["graph.toml:10", "in Python", "--python FOLDER"]);
    refuses(&check(&["--python", "nowhere"]), &["--python nowhere"]);
    let output = check(&["--python", "."]);
    assert!(output.status.success(), "{}", stderr(&output));
    std::fs::create_dir(folder.path().join("other")).unwrap();
    refuses(
        &check(&["--python", "other"]),
        &["no Python module \"mine\"", "other"],
    );
    std::os::unix::fs::symlink(folder.path().join("mine.py"), folder.path().join("other/mine.py")).unwrap();
    refuses(&check(&["--python", "other"]), &["no Python module \"mine\""]);
    for (name, keys, says) in [
        ("os.system", "", "no Python module \"os\""),
        ("mine", "", "no function of a Python module"),
        ("..mine.halves", "", "no function of a Python module"),
        ("mine.plain", "", "write @weir.operator above it"),
        ("mine.nothing", "", "mine has no function nothing"),
        ("mine.halves", "model = \"m\"", "has no `model`"),
        ("mine.halves", "device = \"cuda:0\"", "run on \"cpu\""),
        (
            "mine.halves",
            "python = \"/bin/sh\"",
            "no interpreter \"/bin/sh\"",
        ),
        ("mine.halves", "python = \"../sh\"", "no interpreter \"../sh\""),
        ("mine.halves", "batch = [1]", "no key \"batch\""),
    ] {
        let module = format!("[modules.one]\noperator = \"python:{name}\"\ninputs = [\"camera\"]\n{keys}\n");
        std::fs::write(folder.path().join("graph.toml"), format!("{GRAPH}{module}")).unwrap();
        refuses(&check(&["--python", "."]), &[says]);
    }
}

#[test]
fn python_operator_that_fails_on_blank_pictures_is_reported_before_the_run() {
    let folder = place("[modules.one]\noperator = \"python:bad.bad\"\ninputs = [\"camera\"]\n");
    let bad = "import weir\n@weir.operator\ndef bad(items):\n    raise KeyError('always')\n";
    std::fs::write(folder.path().join("bad.py"), bad).unwrap();
    let output = weir(folder.path(), &["run", "graph.toml", "--python", "."], "");
    refuses(&output, &["KeyError: 'always'", "bad.py", "blank pictures"]);
}
