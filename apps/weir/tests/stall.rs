//! A process that stands still for a while, as on a machine that is too busy or was put to sleep: it goes on where it was
//! and accounts for every request.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{self, signal, stderr};

/// Live, two streams, 400 requests in all, on an emulated device that has nothing to do most of the time.
const GRAPH: &str = r#"
[app]
name = "stall"
slo = "20s"

[sources.camera]
uri = "emulated:uniform?rate=50&frames=200"

[sources.other]
uri = "emulated:uniform?rate=50&frames=200"

[devices."emulated:a"]
slots = 2

[models.any]
device = "emulated:a"
batch = [1, 2, 4]
profile = { "1" = "1ms", "4" = "2ms" }

[modules.first]
operator = "emulate"
model = "any"
inputs = ["camera", "other"]

[modules.second]
operator = "emulate"
model = "any"
inputs = ["first"]

[sinks.events]
type = "jsonl"
path = "events.jsonl"
inputs = ["second"]
"#;

/// Length of the stall: much longer than batches, ticks and hops.
const STALL: Duration = Duration::from_millis(1_500);

fn lines(path: &Path) -> usize {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .filter(|line| line.contains(r#""type":"frame""#))
        .count()
}

#[test]
fn a_process_that_stood_still_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("graph.toml"), GRAPH).unwrap();
    let mut run = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args("run graph.toml --report report.json --record record.jsonl".split(' '))
        .current_dir(folder.path())
        .env_remove("RUST_LOG")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while lines(&at("events.jsonl")) < 20 {
        assert!(run.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(Duration::from_millis(10));
    }
    signal(&run, "-STOP");
    std::thread::sleep(STALL);
    signal(&run, "-CONT");
    let output = run.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));

    let report = common::report(&at("report.json"));
    let count = |name: &str| report["requests"][name].as_u64().unwrap();
    assert_eq!((count("arrived"), count("in_flight")), (400, 0), "{report}");
    assert_eq!(count("dropped"), 0, "no deadline was at risk: {report}");
    assert_eq!(
        lines(&at("events.jsonl")) as u64,
        count("delivered") + count("late")
    );
    let verified = weir_runtime::verify(&at("record.jsonl")).unwrap();
    assert!(verified.steps > 0);
}
