//! Files without an end, and limits of the system: each is one clear error, in good time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::Command;

use crate::common::place::{Place, refused};
use crate::common::stderr;

#[cfg(unix)]
#[test]
fn files_without_an_end_are_refused() {
    let place = Place::new();
    let made = Command::new("mkfifo").arg(place.at("fifo")).status().unwrap();
    assert!(made.success());
    let check = |arguments: &[&str], words: &[&str]| refused(&place.weir(arguments), words);
    check(&["check", "/dev/zero"], &["/dev/zero", "it is a device"]);
    check(&["check", "fifo"], &["fifo", "it is a FIFO"]);
    check(&["check", "/dev/stdin"], &["/dev/stdin", "no modules"]);
    check(&["plan", "/dev/zero"], &["it is a device"]);
    check(&["simulate", "fifo"], &["it is a FIFO"]);
    check(&["verify", "fifo"], &["it is a FIFO"]);
    check(
        &["--settings", "/dev/zero", "models", "list"],
        &["it is a device"],
    );
    check(
        &["score", "--events", "fifo", "--truth", "/dev/zero"],
        &["it is a device"],
    );
    // Half a line of megabytes is no event, nor a recording.
    std::fs::write(place.at("line.jsonl"), vec![b'x'; (64 << 20) + 1]).unwrap();
    check(&["verify", "line.jsonl"], &["a line is longer than 64 MiB"]);
    check(&["check", "line.jsonl"], &["it holds more than 4 MiB"]);
}

#[cfg(target_os = "linux")]
#[test]
fn too_few_file_handles_are_one_error() {
    let place = Place::new();
    place.clip("clip.mp4", 10);
    let limited = |handles: u32, arguments: &str| {
        // Both limits: the soft one alone is raised by the program itself.
        let script = format!("ulimit -n {handles} && exec \"$0\" {arguments}");
        Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_weir")])
            .current_dir(place.at(""))
            .env("ORT_DYLIB_PATH", env!("CARGO_MANIFEST_PATH"))
            .output()
            .unwrap()
    };
    for handles in [8, 12, 20] {
        let run = limited(handles, "replay graph.toml clip.mp4 --speed max");
        refused(
            &run,
            &["file handles", &format!("may have {handles}"), "ulimit -n 1024"],
        );
        let streams = limited(64, "replay graph.toml clip.mp4 --streams 100");
        refused(&streams, &["file handles", "ulimit -n 1024"]);
        let worker = limited(handles, "worker --listen 127.0.0.1:0");
        refused(&worker, &["a worker may need", "ulimit -n"]);
    }
    // A sink of clips has a file for each incident; the service does not say before that it listens.
    let clips = "\n[sinks.clips]\ntype = \"clips\"\npath = \"clips/{stream}\"\ninputs = [\"look\"]\n";
    let graph = std::fs::read_to_string(place.at("graph.toml")).unwrap();
    let graph = graph.replace("${CLIP:-not-there.mp4}", "clip.mp4");
    std::fs::write(place.at("clips.toml"), graph + clips).unwrap();
    let served = limited(64, "serve clips.toml --listen 127.0.0.1:0");
    refused(&served, &["file handles", "may have 64", "ulimit -n 1024"]);
    assert!(
        served.stdout.is_empty(),
        "{}",
        String::from_utf8_lossy(&served.stdout)
    );
    assert!(!place.at("out").exists(), "nothing was begun");
    // A soft limit is the program's own to raise.
    let soft = Command::new("sh")
        .args([
            "-c",
            "ulimit -S -n 20 && exec \"$0\" replay graph.toml clip.mp4 --speed max",
        ])
        .arg(env!("CARGO_BIN_EXE_weir"))
        .current_dir(place.at(""))
        .output()
        .unwrap();
    assert!(soft.status.success(), "{}", stderr(&soft));
}
