//! A gears file that is written over while `weir run` or `weir replay` goes on comes into force; half of one does not.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{self, report, signal};

const GRAPH: &str = r#"
[app]
name = "street"
slo = "500ms"
gears = "gears.toml"
[sources.camera]
uri = "emulated:uniform?rate=100"
[devices."emulated:a"]
slots = 2
[models.small]
device = "emulated:a"
profile = { "1" = "1ms" }
[models.large]
device = "emulated:a"
profile = { "1" = "5ms" }
[modules.read]
operator = "emulate"
inputs = ["camera"]
cascade = [{ model = "small", certainty = 0.5 }, { model = "large" }]
[sinks.lines]
type = "jsonl"
path = "-"
inputs = ["read"]
"#;

/// The load is in the first gear of the first plan, and in the second of the later one.
fn gears(number: u32, up_to: u32) -> String {
    format!(
        r#"
graph = "street"
number = {number}
[[gears]]
up_to = {up_to}
[gears.cascades]
read = [{{ model = "small", certainty = 0.5 }}, {{ model = "large" }}]
[[gears]]
up_to = 1000
[gears.cascades]
read = [{{ model = "small" }}]
"#
    )
}

/// Reads lines until one has these words.
fn wait_for(lines: &mut impl BufRead, words: &str) {
    let mut line = String::new();
    while !line.contains(words) {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "\"{words}\" never came");
    }
}

fn written_over(command: &str, folder: &Path) {
    let at = |name: &str| folder.join(name);
    std::fs::write(at("graph.toml"), GRAPH).unwrap();
    std::fs::write(at("gears.toml"), gears(1, 500)).unwrap();
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    weir.args([
        command,
        "graph.toml",
        "--report",
        "report.json",
        "--record",
        "log",
    ]);
    weir.current_dir(folder).env("RUST_LOG", "info");
    let mut run = weir
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut events = BufReader::new(run.stdout.take().unwrap());
    let mut log = BufReader::new(run.stderr.take().unwrap());
    wait_for(&mut events, "camera");
    let events = std::thread::spawn(move || std::io::copy(&mut events, &mut std::io::sink()));

    let second = gears(2, 20);
    std::fs::write(at("gears.toml"), &second[..second.len() / 2]).unwrap();
    wait_for(&mut log, "the current gears stay active");
    std::fs::write(at("gears.toml"), second).unwrap();
    wait_for(&mut log, "other gears were written");
    wait_for(&mut log, "another gear is in force");
    signal(&run, "-INT");
    let mut rest = String::new();
    log.read_to_string(&mut rest).unwrap();
    assert!(run.wait().unwrap().success(), "{rest}");
    events.join().unwrap().unwrap();

    let report = report(&at("report.json"));
    assert_eq!(report["gears"]["plan"], 2, "{}", report["gears"]);
    assert_eq!(report["requests"]["dropped"], 0, "{}", report["requests"]);
    let verified = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["verify", "log"])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(verified.status.success(), "{}", common::stderr(&verified));
}

#[test]
fn gears_that_are_written_over_while_a_graph_runs_come_into_force() {
    for command in ["run", "replay"] {
        let folder = tempfile::tempdir().unwrap();
        written_over(command, folder.path());
    }
}
