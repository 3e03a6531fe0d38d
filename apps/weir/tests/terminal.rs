//! Output on a terminal: no control characters from outside, each error once, and the progress of a run.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::print_stderr, reason = "a test that skips says so")]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::common::{refuses, stderr, stdout};

const PROGRAM: &str = env!("CARGO_BIN_EXE_weir");

/// Turns text red, in TOML; and the same as it is.
const RED: (&str, &str) = ("\\u001b[31m", "\u{1b}[31m");

fn place(graph: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("graph.toml"), graph).unwrap();
    folder
}

fn weir(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).current_dir(folder).env_remove("RUST_LOG");
    command.output().unwrap()
}

/// A graph on an emulated device.
fn graph(name: &str, uri: &str) -> String {
    format!(
        r#"
[app]
name = "{name}"
slo = "400ms"

[sources.north]
uri = "{uri}"

[models.detector]
device = "emulated:t4"
profile = {{ "1" = "8ms", "4" = "30ms" }}

[modules.detect]
operator = "emulate"
model = "detector"
inputs = ["north"]

[sinks.nowhere]
type = "null"
inputs = ["detect"]
"#
    )
}

const FIVE_FRAMES: &str = "emulated:uniform?rate=30&frames=5";

/// Nothing of what the output holds is obeyed by a terminal.
#[track_caller]
fn is_plain(said: &Output) {
    for text in [stdout(said), stderr(said)] {
        let obeyed = |c: char| c.is_control() && c != '\n' && c != '\t';
        assert!(!text.contains(obeyed) && !text.contains('\u{202e}'), "{text:?}");
    }
}

#[test]
fn names_that_a_terminal_would_obey_are_shown_instead() {
    let folder = place(&graph(RED.0, FIVE_FRAMES));
    for arguments in [&["check", "graph.toml"][..], &["run", "graph.toml"]] {
        let said = weir(folder.path(), arguments);
        assert!(said.status.success(), "{}", stderr(&said));
        is_plain(&said);
        assert!(stdout(&said).contains("\\u{1b}[31m"), "{}", stdout(&said));
    }
    for format in ["mermaid", "dot"] {
        is_plain(&weir(folder.path(), &["graph", "graph.toml", "--format", format]));
    }
}

#[test]
fn files_arguments_and_messages_that_a_terminal_would_obey_are_shown_instead() {
    let folder = place(&graph("app", &format!("nowhere{}", RED.0)));
    let nowhere = format!("no{}\u{202e}where", RED.1);
    std::fs::write(folder.path().join(format!("{nowhere}.toml")), "name = [\u{7}").unwrap();
    let with_bell = format!("{nowhere}.toml");
    for arguments in [
        &["check", "graph.toml"][..],
        &["check", &with_bell],
        &["check", &nowhere],
        &["replay", "graph.toml", &nowhere],
        &["profile", &nowhere],
        &["verify", &with_bell],
        &["models", "pull", &nowhere],
        &[&nowhere],
        &["check", "graph.toml", &nowhere],
        &["--settings", &nowhere, "models", "list"],
    ] {
        let said = weir(folder.path(), arguments);
        is_plain(&said);
        refuses(&said, &["error: "]);
    }
}

#[test]
fn a_stream_that_is_called_after_its_file_forges_no_line() {
    let folder = place(&graph("app", FIVE_FRAMES));
    let name = format!("{}\nERROR forged.png", RED.1);
    image::RgbImage::new(16, 16)
        .save(folder.path().join(&name))
        .unwrap();
    for level in ["error", "debug"] {
        let mut command = Command::new(PROGRAM);
        command
            .args(["replay", "graph.toml", &name])
            .current_dir(folder.path());
        let said = command.env("RUST_LOG", level).output().unwrap();
        assert!(said.status.success(), "{}", stderr(&said));
        is_plain(&said);
        let forged = |line: &str| line.trim_start().starts_with("ERROR");
        assert!(!stderr(&said).lines().any(forged), "{}", stderr(&said));
        assert!(!stdout(&said).lines().any(forged), "{}", stdout(&said));
    }
}

#[test]
fn what_went_wrong_is_said_once() {
    let text =
        graph("app", FIVE_FRAMES).replace("[models.", "[sources.south]\nuri = \"south.mp4\"\n\n[models.");
    let text = text.replace("inputs = [\"north\"]", "inputs = [\"north\", \"south\"]");
    let folder = place(&text);
    std::fs::write(folder.path().join("south.mp4"), "this is no video").unwrap();
    for level in ["error", "info"] {
        let mut command = Command::new(PROGRAM);
        command.args(["run", "graph.toml"]).current_dir(folder.path());
        let said = command.env("RUST_LOG", level).output().unwrap();
        refuses(&said, &["stream south", "no video in it"]);
        let times = (stdout(&said) + &stderr(&said)).matches("no video in it").count();
        assert_eq!(times, 1, "{}{}", stdout(&said), stderr(&said));
    }
}

/// The program as a user without root's rights; `None` where this test is not run by root.
fn unprivileged(folder: &Path, arguments: &[&str]) -> Option<Output> {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|file| {
        use std::os::unix::fs::MetadataExt;
        file.uid() == 0
    });
    let mut command = if is_root {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
            .arg(program(folder));
        command
    } else {
        Command::new(PROGRAM)
    };
    match command.args(arguments).current_dir(folder).output() {
        // What `env` and its like say where the program cannot be run: temporary files are in a folder of root's own.
        Ok(said) if matches!(said.status.code(), Some(126 | 127)) => {
            eprintln!("skipped: {}", stderr(&said));
            None
        }
        Ok(said) => Some(said),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

/// The program where every user may run it: the build folder may be readable by its owner alone.
fn program(folder: &Path) -> PathBuf {
    let copy = folder.join("weir");
    if !copy.exists() {
        std::fs::copy(PROGRAM, &copy).unwrap();
    }
    copy
}

#[test]
fn what_permissions_forbid_is_named_so() {
    let folder = place(&graph("app", FIVE_FRAMES));
    let at = |name: &str| folder.path().join(name);
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::create_dir(at("closed")).unwrap();
    for name in [
        "secret.toml",
        "secret.mp4",
        "closed/graph.toml",
        "closed/clip.mp4",
    ] {
        std::fs::copy(at("graph.toml"), at(name)).unwrap();
        std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    std::fs::write(at("clip.toml"), graph("app", "closed/clip.mp4")).unwrap();
    std::fs::set_permissions(at("closed"), std::fs::Permissions::from_mode(0o000)).unwrap();
    for (arguments, name) in [
        (&["check", "secret.toml"][..], "secret.toml"),
        (&["check", "closed/graph.toml"], "closed/graph.toml"),
        (&["check", "clip.toml"], "closed/clip.mp4"),
        (&["replay", "graph.toml", "secret.mp4"], "secret.mp4"),
        (&["replay", "graph.toml", "closed/clip.mp4"], "closed/clip.mp4"),
        (&["run", "graph.toml", "--report", "report.json"], "report.json"),
        (&["replay", "graph.toml", "--out", "out"], "out"),
        (&["run", "graph.toml", "--record", "record.jsonl"], "record.jsonl"),
        (&["verify", "secret.toml"], "secret.toml"),
        (&["plan", "secret.toml"], "secret.toml"),
        (&["--settings", "secret.toml", "models", "list"], "secret.toml"),
        (&["score", "graph.toml", "--truth", "secret.mp4"], "secret.mp4"),
    ] {
        let Some(said) = unprivileged(folder.path(), arguments) else {
            return;
        };
        let complaint = refuses(&said, &["not permitted", name]);
        assert!(!complaint.contains("os error"), "{complaint}");
    }
    std::fs::set_permissions(at("closed"), std::fs::Permissions::from_mode(0o700)).unwrap();
}

/// The program on a terminal of its own; gives all that was drawn.
fn on_terminal(folder: &Path, arguments: &str) -> Option<String> {
    let command = format!("stty rows 24 cols 80; exec {PROGRAM} {arguments}");
    let mut script = Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).current_dir(folder);
    match script.env("TERM", "xterm").output() {
        Ok(said) => Some(stdout(&said)),
        Err(error) => {
            eprintln!("skipped: no `script` here: {error}");
            None
        }
    }
}

#[test]
fn a_terminal_shows_how_far_a_run_is_and_a_pipe_does_not() {
    let folder = place(&graph("app", "emulated:uniform?rate=50&frames=150"));
    let Some(drawn) = on_terminal(folder.path(), "run graph.toml --duration 2s") else {
        return;
    };
    for part in ["0:02 left", "streams 1/1", "/s delivered", "drop rate"] {
        assert!(drawn.contains(part), "{part} is not in\n{drawn}");
    }
    let piped = weir(folder.path(), &["run", "graph.toml", "--duration", "1s"]);
    assert!(
        piped.status.success() && piped.stderr.is_empty(),
        "{}",
        stderr(&piped)
    );
}

#[test]
fn slips_are_answered_with_what_was_meant() {
    let folder = place(&graph("app", FIVE_FRAMES));
    let refused = |arguments: &[&str], words: &[&str]| {
        refuses(&weir(folder.path(), arguments), words);
    };
    refused(
        &["check", "grph.toml"],
        &["there is no such file", "did you mean \"graph.toml\""],
    );
    std::fs::write(folder.path().join("clip.mp4"), [0, 159, 146, 150]).unwrap();
    refused(
        &["replay", "clip.mp4", "graph.toml"],
        &["clip.mp4", "a graph, a TOML file, before any video"],
    );
    refused(
        &["models", "pull", "yolox-nan"],
        &["did you mean \"yolox-nano\"?"],
    );
    refused(
        &["run", "graph.toml", "--duration", "-5s"],
        &["\"-5s\" is not a duration"],
    );
    refused(
        &["run", "graph.toml", "--duration", "0s"],
        &["the time must be above zero"],
    );
    std::fs::write(folder.path().join("mine.toml"), "frame_memroy = \"1MiB\"\n").unwrap();
    refused(
        &["--settings", "mine.toml", "doctor"],
        &[
            "mine.toml",
            "no key `frame_memroy`",
            "did you mean \"frame_memory\"?",
        ],
    );
}

#[test]
fn variables_that_are_no_text_are_ignored_but_a_setting_is_refused() {
    let folder = place(&graph("app", FIVE_FRAMES));
    let check = |name: &[u8]| {
        let mut command = Command::new(PROGRAM);
        command.args(["check", "graph.toml"]).current_dir(folder.path());
        command
            .env(OsStr::from_bytes(name), OsStr::from_bytes(b"\xff"))
            .output()
            .unwrap()
    };
    for name in [&b"FOO"[..], b"FOO\xff"] {
        let said = check(name);
        assert!(said.status.success(), "{}", stderr(&said));
    }
    refuses(
        &check(b"WEIR_FRAME_MEMORY"),
        &["frame_memory", "is not an amount of memory"],
    );
}

#[test]
fn a_library_that_is_none_is_named() {
    let folder = place(&graph("app", FIVE_FRAMES));
    let library = folder.path().join("library.so");
    std::fs::write(&library, "this is no library").unwrap();
    let mut command = Command::new(PROGRAM);
    command.arg("doctor").current_dir(folder.path());
    let said = command.env("ORT_DYLIB_PATH", &library).output().unwrap();
    refuses(&said, &["missing: ONNX Runtime"]);
    let state = stdout(&said);
    let line = state.lines().find(|line| line.contains("ONNX Runtime")).unwrap();
    for part in [
        "MISSING",
        "cannot load ONNX Runtime",
        "library.so",
        "unset ORT_DYLIB_PATH",
    ] {
        assert!(line.contains(part), "{line}");
    }
}

#[test]
fn what_a_run_came_to_is_not_lost_with_its_report() {
    let folder = place(&graph("app", FIVE_FRAMES));
    if !Path::new("/dev/full").exists() {
        eprintln!("skipped: no /dev/full here");
        return;
    }
    let said = weir(folder.path(), &["run", "graph.toml", "--report", "/dev/full"]);
    refuses(&said, &["the disk is full", "delivered", "north"]);
}
