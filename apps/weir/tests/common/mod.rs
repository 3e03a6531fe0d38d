//! Helpers for tests of the program: its output as text, its errors, and signals to it.

pub(crate) mod json_schema;
pub(crate) mod place;
pub(crate) mod room;
pub(crate) mod service;
pub(crate) mod socket;

use std::path::Path;
use std::process::{Child, Command, Output};

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The report of a run at `path`. No run may break an invariant: the program counts what would panic in other tests.
pub(crate) fn report(path: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(path).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert!(report.get("invariants").is_none(), "{text}");
    report
}

/// The program must fail as the user's mistake, with a complaint that has these words, which is given back.
pub(crate) fn refuses(output: &Output, words: &[&str]) -> String {
    let complaint = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{complaint}");
    for word in words {
        assert!(complaint.contains(word), "\"{word}\" is not in\n{complaint}");
    }
    complaint
}

/// Runs FFmpeg's program, which comes with what a build needs, with these arguments; it must succeed.
pub(crate) fn run_ffmpeg(ffmpeg: &mut Command) {
    let made = ffmpeg
        .output()
        .unwrap_or_else(|error| panic!("ffmpeg: {error}; make setup installs it"));
    assert!(made.status.success(), "{ffmpeg:?}: {}", stderr(&made));
}

/// Sends a process a signal, such as `-INT`.
pub(crate) fn signal(run: &Child, signal: &str) {
    let sent = Command::new("kill")
        .args([signal, &run.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
}

/// Signals that ask the program to stop, with their numbers: Ctrl-C, a service manager, a closed terminal.
/// The last one is left out if it is ignored, as under `nohup`, because the program then ignores it too.
pub(crate) fn asks_to_stop() -> Vec<(&'static str, u32)> {
    let ignored = signal_mask("self", "SigIgn:");
    let all = [("-INT", 2), ("-TERM", 15), ("-HUP", 1)];
    all.into_iter()
        .filter(|(_, number)| *number != 1 || ignored & 1 == 0)
        .collect()
}

/// Waits until the program takes a signal itself, as the kernel says: from then on it asks it to stop.
pub(crate) fn wait_until_it_watches(run: &Child, number: u32) {
    for _ in 0..3_000 {
        if signal_mask(&run.id().to_string(), "SigCgt:") >> (number - 1) & 1 == 1 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("it never watched for signals");
}

fn signal_mask(process: &str, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix(name));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

/// True where ONNX Runtime is installed. Without it, writes that the calling test is skipped, and why.
#[allow(clippy::print_stderr, reason = "a test that skips says so")]
pub(crate) fn has_runtime() -> bool {
    let found = weir_operators::find_runtime();
    if let Err(reason) = &found {
        eprintln!("skipped: {reason}");
    }
    found.is_ok()
}

/// Whether a condition holds within thirty seconds.
pub(crate) fn becomes(holds: impl Fn() -> bool) -> bool {
    (0..1_500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        holds()
    })
}
