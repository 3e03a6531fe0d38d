//! Sources that a machine cannot keep up with, that never open, and that go away: the program ends in the documented
//! time and says what became of them.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use weir_runtime::Clock;
use weir_types::Span;

use crate::common::{self, refuses, signal, stderr, stdout};

/// Longest time until a run ends, after its duration or a signal (docs/reference/command-line.md).
const MAX_END: Span = Span::from_secs(30);

/// A graph of these sources through an emulated model to event lines.
fn graph(sources: &[(&str, &str)], sink: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut text = "[app]\nname = \"sources\"\nslo = \"10s\"\n".to_owned();
    for (name, keys) in sources {
        write!(text, "[sources.{name}]\n{keys}\n").unwrap();
    }
    let names: Vec<&str> = sources.iter().map(|(name, _)| *name).collect();
    write!(
        text,
        "[devices.\"emulated:a\"]\nslots = 2\n[models.any]\ndevice = \"emulated:a\"\nbatch = [1, 4]\n\
         profile = {{ \"1\" = \"1ms\", \"4\" = \"1ms\" }}\n[modules.look]\noperator = \"emulate\"\nmodel = \"any\"\n\
         inputs = {names:?}\n[sinks.events]\ntype = \"jsonl\"\npath = \"{sink}\"\ninputs = [\"look\"]\n",
    )
    .unwrap();
    std::fs::write(folder.path().join("graph.toml"), text).unwrap();
    folder
}

fn start(folder: &Path, arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["run", "graph.toml", "--report", "report.json"])
        .args(arguments)
        .current_dir(folder)
        .env_remove("RUST_LOG")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits for the end of `run`, which must come within the documented time after `beyond`.
fn wait(mut run: Child, beyond: Span) -> Output {
    let clock = Clock::start();
    let began = clock.now();
    while run.try_wait().unwrap().is_none() {
        if clock.now().since(began) > beyond + MAX_END {
            run.kill().unwrap();
            panic!("it did not end:\n{}", stderr(&run.wait_with_output().unwrap()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    run.wait_with_output().unwrap()
}

fn report(folder: &Path) -> Value {
    common::report(&folder.join("report.json"))
}

fn fifo(folder: &Path, name: &str) {
    let made = Command::new("mkfifo").arg(folder.join(name)).status();
    assert!(made.unwrap().success());
}

fn clip(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../videos")
        .join(name)
}

#[test]
fn a_hundred_and_fifty_streams_end_when_their_time_is_up() {
    let uri = format!("uri = \"{}\"\nloop = true", clip("street-day.mp4").display());
    let names: Vec<String> = (0..150).map(|stream| format!("s{stream}")).collect();
    let sources: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), uri.as_str())).collect();
    let folder = graph(&sources, "events.jsonl");
    let output = wait(start(folder.path(), &["--duration", "1s"]), Span::from_secs(1));
    // Where the machine did not even come to open them all, it says so.
    assert!(matches!(output.status.code(), Some(0 | 2)), "{}", stderr(&output));
    let report = report(folder.path());
    assert_eq!(report["requests"]["in_flight"], 0);
    assert_eq!(report["streams"].as_object().unwrap().len(), 150);
}

#[test]
fn a_fifo_without_a_writer_is_a_stream_that_never_came() {
    let folder = graph(
        &[
            ("pipe", "uri = \"pipe.fifo\""),
            ("other", "uri = \"emulated:uniform?rate=50&frames=20\""),
        ],
        "events.jsonl",
    );
    fifo(folder.path(), "pipe.fifo");
    let output = wait(start(folder.path(), &["--duration", "500ms"]), Span::from_secs(1));
    refuses(&output, &["stream pipe"]);
    let report = report(folder.path());
    assert_eq!(report["streams"]["pipe"]["health"]["state"], "never-reached");
    assert_eq!(report["streams"]["other"]["requests"]["delivered"], 20);
}

#[test]
fn a_fifo_without_a_reader_is_a_sink_that_does_not_open() {
    let folder = graph(&[("one", "uri = \"emulated:uniform?rate=50\"")], "events.fifo");
    fifo(folder.path(), "events.fifo");
    let output = wait(start(folder.path(), &["--duration", "500ms"]), Span::from_secs(1));
    refuses(&output, &["event"]);
}

#[test]
fn cameras_that_are_away_are_waited_for_and_named() {
    let folder = graph(
        &[
            ("rtsp", "uri = \"rtsp://127.0.0.1:1/one\""),
            ("web", "uri = \"http://127.0.0.1:1/two\""),
        ],
        "events.jsonl",
    );
    let mut run = start(folder.path(), &["--duration", "60s"]);
    // It says so once both were tried, and goes on.
    let mut words = BufReader::new(run.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("no source delivers") {
        assert!(words.read_line(&mut said).unwrap() > 0, "it ended: {said}");
    }
    assert!(run.try_wait().unwrap().is_none(), "it waits for them");
    signal(&run, "-INT");
    let mut output = wait(run, Span::ZERO);
    words.read_to_string(&mut said).unwrap();
    output.stderr = said.into_bytes();
    let complaint = refuses(
        &output,
        &["stream rtsp", "stream web", "no frame was received", "refused"],
    );
    assert!(complaint.contains("no source delivers"), "{complaint}");
    for name in ["rtsp", "web"] {
        let health = &report(folder.path())["streams"][name]["health"];
        assert_eq!(
            (&health["state"], &health["outages"]),
            (&"never-reached".into(), &1.into())
        );
        assert!(health["down_s"].as_f64().unwrap() > 0.0, "{health}");
    }
}

/// A camera over TCP that sends its clip to each caller and hangs up; from the second caller on it keeps the connection.
struct CameraServer {
    address: String,
    callers: Arc<Mutex<Vec<TcpStream>>>,
    _thread: JoinHandle<()>,
}

impl CameraServer {
    fn start(clip: &Path) -> Self {
        let bytes = std::fs::read(clip).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("tcp://{}", listener.local_addr().unwrap());
        let callers: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let held = Arc::clone(&callers);
        let thread = std::thread::spawn(move || {
            for (call, stream) in listener.incoming().enumerate() {
                let Ok(mut stream) = stream else { return };
                // A caller that hangs up early is not our concern.
                let _ = stream.write_all(&bytes);
                if call > 0 {
                    held.lock().unwrap().push(stream);
                }
            }
        });
        Self {
            address,
            callers,
            _thread: thread,
        }
    }
}

/// Numbers and media times of the frames in the event lines so far.
fn frames(folder: &Path) -> Vec<(u64, f64)> {
    let text = std::fs::read_to_string(folder.join("events.jsonl")).unwrap_or_default();
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let frames = lines.filter_map(|line| Some((line["frame"].as_u64()?, line["pts_ms"].as_f64()?)));
    frames.collect()
}

#[test]
fn a_camera_that_hangs_up_is_called_again_and_its_absence_is_a_gap() {
    let server = CameraServer::start(&clip("live-evening.mp4"));
    let folder = graph(
        &[("cam", &format!("uri = \"{}\"", server.address))],
        "events.jsonl",
    );
    let run = start(folder.path(), &[]);
    let clock = Clock::start();
    // The second caller keeps its connection, receives nothing more, and connects again.
    while server.callers.lock().unwrap().len() < 2 {
        assert!(clock.now().micros() < 60_000_000, "it never came back");
        std::thread::sleep(Duration::from_millis(50));
    }
    signal(&run, "-INT");
    let output = wait(run, Span::ZERO);
    let report = report(folder.path());
    let health = &report["streams"]["cam"]["health"];
    assert!(health["outages"].as_u64().unwrap() >= 2, "{health}");
    assert!(health["reconnects"].as_u64().unwrap() >= 1, "{health}");
    assert!(health["silent_s"].as_f64().unwrap() >= 2.0, "{health}");
    assert!(
        health["first_outage"].as_str().unwrap().contains("ended"),
        "{health}"
    );
    let running = health["state"] == "running";
    assert_eq!(
        output.status.code(),
        Some(if running { 0 } else { 2 }),
        "{}",
        stderr(&output)
    );
    assert!(stdout(&output).is_empty(), "a report was asked for");

    let (frames, first) = (frames(folder.path()), frames_of(&clip("live-evening.mp4")));
    assert!(
        frames
            .windows(2)
            .all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1)
    );
    let last = frames.iter().rfind(|(frame, _)| *frame < first).unwrap();
    let next = frames.iter().find(|(frame, _)| *frame >= first).unwrap();
    let (missing, ms) = ((next.0 - last.0) as f64, next.1 - last.1);
    assert!(
        ms >= 100.0,
        "the shortest wait before a new call is a gap: {ms} ms"
    );
    assert!((missing - ms / 40.0).abs() <= 2.0, "{missing} frames in {ms} ms");
    drop(server.callers.lock().unwrap().drain(..));
}

/// Number of frames in the clip.
fn frames_of(clip: &Path) -> u64 {
    let truth = clip.with_extension("truth.jsonl");
    let text = std::fs::read_to_string(truth).unwrap();
    text.lines().filter(|line| line.contains("\"frame\"")).count() as u64
}
