//! `detect_uri`: frames come from the smaller stream of a camera, its main stream is not opened, and what is wrong with
//! either is said of that one.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::net::TcpListener;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use weir_operators::media::{Encoding, Rgb, VideoFile};

use crate::common::service::{GRAPH, Service, folder, weir};
use crate::common::{refuses, report, stderr, stdout};

/// Writes a clip of that size: ten pictures at 25 a second.
fn write_clip(path: &Path, (width, height): (u32, u32)) {
    let samples = vec![90; (width * height * 3) as usize];
    let mut video = VideoFile::create(path, (width, height), Encoding::live(30.0)).unwrap();
    for index in 0..10 {
        let picture = Rgb {
            width,
            height,
            samples: &samples,
        };
        video.write(picture, f64::from(index) * 40.0).unwrap();
    }
    video.finish().unwrap();
}

/// The graph of the service on such a source.
fn with_source(keys: &str) -> String {
    GRAPH.replace("uri = \"emulated:uniform?rate=50\"", keys)
}

fn run(folder: &Path, command: &[&str]) -> Output {
    let mut weir = weir(folder);
    weir.args(command).output().unwrap()
}

/// Event lines of the stream of [`GRAPH`].
fn events(folder: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("steady.jsonl")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// An address that must not be called, and who waits there.
fn uncalled() -> (String, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    (
        format!("rtsp://admin:S3CR3T@127.0.0.1:{port}/main?token=T0K3N"),
        listener,
    )
}

#[test]
fn frames_have_the_size_of_the_smaller_stream_and_the_main_one_is_not_called() {
    let folder = folder();
    let folder = folder.path();
    write_clip(&folder.join("sub.mp4"), (64, 48));
    let (main, listener) = uncalled();
    let keys = format!("uri = \"{main}\"\ndetect_uri = \"sub.mp4\"\nmode = \"lossless\"");
    std::fs::write(folder.join("graph.toml"), with_source(&keys)).unwrap();
    let checked = run(folder, &["check", "graph.toml"]);
    assert!(checked.status.success(), "{}", stderr(&checked));

    let ran = run(folder, &["run", "graph.toml", "--report", "report.json"]);
    assert!(ran.status.success(), "{}", stderr(&ran));
    assert_eq!(report(&folder.join("report.json"))["requests"]["delivered"], 10);
    let events = events(folder);
    let stream = &events[0]["streams"][0];
    let shown = main.replace("admin:S3CR3T", "***").replace("T0K3N", "***");
    assert_eq!(stream["source"], shown.as_str());
    assert!(stream["detect_source"].as_str().unwrap().ends_with("/sub.mp4"));
    let sizes = events[1..]
        .iter()
        .map(|event| (&event["width"], &event["height"]));
    assert!(
        sizes.clone().all(|size| size == (&64.into(), &48.into())),
        "{events:?}"
    );
    assert_eq!(sizes.count(), 10);
    assert!(listener.accept().is_err(), "the main stream was called");
}

#[test]
fn a_smaller_stream_that_cannot_be_read_is_named_without_its_secrets() {
    let folder = folder();
    let folder = folder.path();
    write_clip(&folder.join("main.mp4"), (64, 48));
    let write = |keys: &str| std::fs::write(folder.join("graph.toml"), with_source(keys)).unwrap();
    std::fs::write(folder.join("sub.mp4"), "no video").unwrap();
    write("uri = \"main.mp4\"\ndetect_uri = \"sub.mp4\"");
    for command in [&["check", "graph.toml"], &["run", "graph.toml"]] {
        let said = refuses(&run(folder, command), &["sub.mp4", "finds no video"]);
        assert!(!said.contains("main.mp4"), "{said}");
    }
    write("uri = \"sub.mp4\"\ndetect_uri = \"main.mp4\"");
    refuses(
        &run(folder, &["check", "graph.toml"]),
        &["sub.mp4", "finds no video"],
    );
    write("uri = \"main.mp4\"\ndetect_uri = \"rtsp://admin:${SUB_PASSWORD}@127.0.0.1:1/sub?token=T0K3N\"");
    refuses(&run(folder, &["check", "graph.toml"]), &["SUB_PASSWORD"]);
    let mut command = weir(folder);
    command.args([
        "run",
        "graph.toml",
        "--duration",
        "500ms",
        "--report",
        "report.json",
    ]);
    let ran = command.env("SUB_PASSWORD", "S3CR3T").output().unwrap();
    let shown = "rtsp://***@127.0.0.1:1/sub?token=***";
    let said = refuses(&ran, &["stream steady", shown]);
    let report = report(&folder.join("report.json"));
    let health = report["streams"]["steady"]["health"].to_string();
    assert!(health.contains(shown), "{health}");
    let events = std::fs::read_to_string(folder.join("steady.jsonl")).unwrap();
    for text in [said, report.to_string(), events] {
        assert!(!text.contains("S3CR3T") && !text.contains("T0K3N"), "{text}");
    }
}

#[test]
fn clients_add_streams_with_two_addresses_and_a_changed_one_reconnects() {
    let folder = folder();
    let place = folder.path().to_owned();
    for (name, size) in [("first.mp4", (64, 48)), ("second.mp4", (32, 24))] {
        write_clip(&place.join(name), size);
    }
    let (main, listener) = uncalled();
    let keys = |sub: &str| {
        let main = main.as_str();
        with_source(&format!("uri = \"{main}\"\ndetect_uri = \"{sub}\"\nloop = true"))
    };
    std::fs::write(place.join("graph.toml"), keys("first.mp4")).unwrap();
    let mut service = Service::start_in(folder, "127.0.0.1:0", &[]);
    service.wait_until(|list| list.contains(" live ") && list.contains("first.mp4)"));
    let outside = tempfile::NamedTempFile::new().unwrap();
    let outside = outside.path().display().to_string();
    let add = |name: &str, detect: &str| {
        let main = &*main;
        service.streams(&["add", name, main, "--detect-uri", detect, "--loop"])
    };
    refuses(&add("guest", &outside), &["not one that clients may name"]);
    refuses(&add("guest", "missing.mp4"), &["`detect_uri`", "missing.mp4"]);
    let added = add("guest", "second.mp4");
    assert_eq!(stdout(&added), "added guest\n", "{}", stderr(&added));
    let (_, text) = service.ask("GET", "/api/graph", "");
    assert!(text.contains("first.mp4") && !text.contains("S3CR3T") && !text.contains("T0K3N"));

    std::fs::write(place.join("graph.toml"), keys("second.mp4")).unwrap();
    service
        .wait_until(|list| list.matches(" live ").count() == 2 && list.matches("second.mp4)").count() == 2);
    service.drain();
    let widths: Vec<u64> = events(&place)
        .iter()
        .filter_map(|line| line["width"].as_u64())
        .collect();
    let smaller = widths.iter().position(|width| *width == 32).unwrap();
    assert!(smaller > 0 && widths[..smaller].iter().all(|width| *width == 64));
    assert!(widths[smaller..].iter().all(|width| *width == 32));
    assert!(listener.accept().is_err(), "the main stream was called");
}
