//! Archives through the whole program: played over the API and on the page, exported by the API and from the disk.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;
use weir_flow::StopFlag;
use weir_operators::media::index_pictures;

use crate::browser::Browser;
use crate::common::service::{GRAPH, Service, weir};
use crate::common::{refuses, run_ffmpeg, stderr, stdout};
use crate::recording;

/// The sink whose archive is played. Its segments are older than the usual age.
const ARCHIVE: &str = r#"
[sinks.all]
type = "archive"
path = "archive"
keep = "11000d"
inputs = ["find"]
"#;

/// Two segments that follow each other, and one after a gap.
const NAMES: [&str; 3] = [
    "20261123T213005.000Z.mp4",
    "20261123T213009.000Z.mp4",
    "20261123T213100.000Z.mp4",
];

/// Segments that the program recorded, by their order.
fn segments() -> &'static [Vec<u8>] {
    static SEGMENTS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    SEGMENTS.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let clip = concat!(env!("CARGO_MANIFEST_DIR"), "/../../videos/live-room.mp4");
        let graph = recording::GRAPH.replace("CLIP", clip).replace("PATH", "archive");
        let graph = graph.replace("camera", "steady").replace("4s", "3s");
        fs::write(folder.path().join("graph.toml"), graph).unwrap();
        let ran = weir(folder.path()).args(["run", "graph.toml"]).output().unwrap();
        assert!(ran.status.success(), "{}", stderr(&ran));
        let recorded = fs::read_dir(folder.path().join("archive/steady")).unwrap();
        let mut recorded: Vec<PathBuf> = recorded.map(|entry| entry.unwrap().path()).collect();
        recorded.sort();
        recorded.iter().map(|path| fs::read(path).unwrap()).collect()
    })
}

/// A folder with a graph, and an archive of its stream.
fn folder(graph: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("graph.toml"), graph).unwrap();
    let archive = folder.path().join("archive/steady");
    fs::create_dir_all(&archive).unwrap();
    assert_eq!(segments().len(), NAMES.len());
    for (name, bytes) in NAMES.iter().zip(segments()) {
        fs::write(archive.join(name), bytes).unwrap();
    }
    folder
}

fn serve(graph: &str) -> Service {
    let service = Service::start_in(folder(graph), "127.0.0.1:0", &[]);
    service.wait_until(|list| list.contains(" live "));
    service
}

/// `weir export` of a range on 23 November 2026.
fn export(folder: &Path, archive: &str, range: (&str, &str), more: &[&str]) -> Output {
    let time = |clock: &str| format!("2026-11-23T{clock}Z");
    weir(folder)
        .args([
            "export",
            archive,
            "--from",
            &time(range.0),
            "--to",
            &time(range.1),
        ])
        .args(["-o", "out.mp4"])
        .args(more)
        .output()
        .unwrap()
}

/// Number of pictures of a video that begins with a key frame.
fn pictures(path: &Path) -> usize {
    let index = index_pictures(path, &StopFlag::default()).unwrap();
    assert_eq!(index.pictures[0], (0.0, true));
    index.pictures.len()
}

#[test]
fn a_range_is_exported_from_the_disk_by_graph_or_folder() {
    let folder = folder(&format!("{GRAPH}{ARCHIVE}"));
    let at = folder.path();
    let ran = export(at, "graph.toml", ("21:30:07.500", "21:30:10"), &[]);
    assert!(ran.status.success(), "{}", stderr(&ran));
    assert!(
        stdout(&ran).contains("out.mp4: 2026-11-23T21:30:07.000Z to 2026-11-23T21:30:10.000Z"),
        "{}",
        stdout(&ran)
    );
    assert_eq!(pictures(&at.join("out.mp4")), 75);
    // What is there stays.
    let again = export(at, "graph.toml", ("21:30:05", "21:30:06"), &[]);
    refuses(&again, &["out.mp4 exists", "--overwrite"]);
    assert_eq!(pictures(&at.join("out.mp4")), 75);
    for archive in [&["archive", "--stream", "steady"][..], &["archive/steady"]] {
        let more = [&archive[1..], &["--overwrite"]].concat();
        let ran = export(at, archive[0], ("21:30:05", "21:40:00"), &more);
        assert!(ran.status.success(), "{}", stderr(&ran));
        assert_eq!(pictures(&at.join("out.mp4")), 300);
    }
    let left = fs::read_dir(at).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(
        !left
            .into_iter()
            .any(|name| name.to_string_lossy().contains(".part"))
    );
}

#[test]
fn sound_is_exported_in_step_with_the_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive/steady");
    fs::create_dir_all(&archive).unwrap();
    let clip = concat!(env!("CARGO_MANIFEST_DIR"), "/../../videos/live-room.mp4");
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg
        .args([
            "-v",
            "error",
            "-i",
            clip,
            "-f",
            "lavfi",
            "-i",
            "sine=duration=12",
            "-c:v",
            "copy",
            "-c:a",
            "aac",
        ])
        .args(["-movflags", "frag_keyframe+empty_moov+default_base_moof"])
        .arg(archive.join(NAMES[0]));
    run_ffmpeg(&mut ffmpeg);
    let ran = export(folder.path(), "archive/steady", ("21:30:07.500", "21:30:11"), &[]);
    assert!(ran.status.success(), "{}", stderr(&ran));
    let out = folder.path().join("out.mp4");
    assert_eq!(pictures(&out), 100);
    let probed = Command::new("ffprobe")
        .args([
            "-v",
            "error",
            "-show_entries",
            "stream=codec_type,start_time,duration",
            "-of",
            "json",
        ])
        .arg(&out)
        .output();
    let probed = probed.unwrap();
    assert!(probed.stderr.is_empty(), "{}", stderr(&probed));
    let probed: Value = serde_json::from_slice(&probed.stdout).unwrap();
    let streams = probed["streams"].as_array().unwrap();
    let kinds: Vec<&str> = streams
        .iter()
        .filter_map(|stream| stream["codec_type"].as_str())
        .collect();
    assert_eq!(kinds, ["video", "audio"]);
    let number = |text: &Value| text.as_str().unwrap().parse::<f64>().unwrap();
    for stream in streams {
        assert!(number(&stream["start_time"]).abs() < 0.05, "{stream}");
        assert!((number(&stream["duration"]) - 4.0).abs() < 0.05, "{stream}");
    }
}

#[test]
fn exports_that_cannot_be_say_why() {
    let folder = folder(&format!("{GRAPH}{ARCHIVE}"));
    let at = folder.path();
    let hour = ("21:30:05", "22:30:05");
    let refused = |archive: &str, range: (&str, &str), more: &[&str], words: &[&str]| {
        refuses(&export(at, archive, range, more), words);
        assert!(!at.join("out.mp4").exists());
    };
    refused(
        "graph.toml",
        ("21:30:20", "21:30:30"),
        &[],
        &[
            "nothing was recorded in the range",
            "2026-11-23T21:30:09.000Z to 2026-11-23T21:30:13.000Z",
        ],
    );
    refused(
        "graph.toml",
        ("21:30:20", "21:30:10"),
        &[],
        &["--to is not after --from"],
    );
    refused(
        "graph.toml",
        hour,
        &["--stream", "yard"],
        &["nothing was recorded"],
    );
    refused("archive", hour, &[], &["name a stream by --stream"]);
    refused(
        "archive",
        hour,
        &["--stream", "../archive/steady"],
        &["nothing is recorded at all"],
    );
    refused("none.toml", hour, &[], &["none.toml"]);
    let ran = weir(at)
        .args([
            "export",
            "archive/steady",
            "--from",
            "dawn",
            "--to",
            "1",
            "-o",
            "out.mp4",
        ])
        .output();
    refuses(&ran.unwrap(), &["RFC 3339"]);
    // The camera is private now.
    let private = GRAPH.replace("rate=50\"", "rate=50\"\nprivate = true");
    fs::write(at.join("graph.toml"), format!("{private}{ARCHIVE}")).unwrap();
    refused("graph.toml", hour, &[], &["the camera is private"]);
}

#[test]
fn archives_are_listed_sent_and_exported_over_the_api() {
    let mut service = serve(&format!("{GRAPH}{ARCHIVE}"));
    let get = |path: &str| -> (u16, Value) {
        let (status, body) = service.ask("GET", path, "");
        (
            status,
            serde_json::from_str(&body).unwrap_or_else(|_| panic!("{path}: {body}")),
        )
    };
    let (status, list) = get("/api/archive");
    assert_eq!(status, 200, "{list}");
    let camera = &list["cameras"][0];
    assert_eq!(
        (&camera["stream"], &camera["segments"]),
        (&"steady".into(), &3.into())
    );
    assert_eq!(
        camera["to_ms"].as_u64().unwrap() - camera["from_ms"].as_u64().unwrap(),
        59_000
    );
    let (status, list) = get("/api/archive/steady?from=2026-11-23T21:30:00Z&to=2026-11-23T22:32:00%2B01:00");
    assert_eq!(status, 200, "{list}");
    assert_eq!(list["segments"].as_array().unwrap().len(), 3);
    assert_eq!(list["gaps"].as_array().unwrap().len(), 3, "{list}");
    let first = &list["segments"][0];
    assert_eq!(first["unfinished"], false);
    assert!(first["type"].as_str().unwrap().contains("avc1."), "{first}");
    for (path, status, words) in [
        (
            "steady?from=2026-11-23T21:30:20Z&to=2026-11-23T21:30:30Z",
            404,
            "2026-11-23T21:30:09.000Z",
        ),
        ("steady?from=dawn", 400, "RFC 3339"),
        ("steady?from=5&to=4", 400, "not after"),
        ("yard?from=1&to=2", 404, "GET /api/archive"),
        ("steady/export?from=1", 400, "`to`"),
        (
            "steady/export?from=2026-11-23T00:00:00Z&to=2026-11-23T22:00:00Z",
            400,
            "6 hours",
        ),
        ("steady/segments/20261123T213006.000Z", 404, "no such segment"),
        (
            "steady/segments/..%2Fsteady%2F20261123T213005.000Z",
            404,
            "no such segment",
        ),
        (
            "..%2F..%2Fgraph.toml/segments/20261123T213005.000Z",
            404,
            "no archive",
        ),
    ] {
        let (found, body) = get(&format!("/api/archive/{path}"));
        assert_eq!(found, status, "{path}: {body}");
        assert!(body.to_string().contains(words), "{path}: {body}");
    }
    let url = |path: &str| format!("http://{}/api/archive/steady/{path}", service.at);
    let whole = |url: &str| ureq::get(url).call().unwrap().body_mut().read_to_vec().unwrap();
    assert_eq!(whole(&url("segments/20261123T213009.000Z")), segments()[1]);
    let exported = whole(&url("export?from=2026-11-23T21:30:07Z&to=2026-11-23T21:30:10Z"));
    let path = service.folder.path().join("exported.mp4");
    fs::write(&path, exported).unwrap();
    assert_eq!(pictures(&path), 75);
    service.drain();
}

#[test]
fn what_is_private_or_hides_something_is_not_shown() {
    for (key, reason) in [
        ("private = true", "the camera is private"),
        (
            "privacy.regions = [[0, 0], [0.3, 0], [0.3, 0.6]]",
            "hides nothing",
        ),
    ] {
        let graph = GRAPH.replace("rate=50\"", &format!("rate=50\"\n{key}"));
        let mut service = serve(&format!("{graph}{ARCHIVE}"));
        let (_, list) = service.ask("GET", "/api/archive", "");
        assert!(
            list.contains("withheld") && list.contains(reason) && !list.contains("from_ms"),
            "{list}"
        );
        let range = "from=2026-11-23T21:30:05Z&to=2026-11-23T21:30:09Z";
        for path in [
            format!("steady?{range}"),
            format!("steady/export?{range}"),
            "steady/segments/20261123T213005.000Z".to_owned(),
        ] {
            let (status, body) = service.ask("GET", &format!("/api/archive/{path}"), "");
            assert_eq!(status, 403, "{path}: {body}");
            assert!(body.contains(reason), "{body}");
        }
        service.drain();
    }
}

#[test]
fn a_recording_plays_on_the_page_jumps_over_gaps_and_stops_at_its_end() {
    let mut service = serve(&format!("{GRAPH}{ARCHIVE}"));
    let browser = Browser::start(1280, 900);
    let at = format!("http://{}/", service.at);
    browser.open(&format!("{at}#recordings?camera=steady&at=2026-11-23T21:30:07Z"));
    let video = "document.querySelector('.recording-view video')";
    // The picture of that time, and no other.
    browser.wait_until(&format!(
        "{video}?.readyState >= 2 && Math.abs({video}.currentTime - 2) < 0.1"
    ));
    assert_eq!(browser.value(&format!("{video}.videoWidth")), 960);
    assert_eq!(browser.accessibility(), [""; 0]);
    browser.click("button[aria-label^='Next picture']");
    browser.wait_until(&format!("Math.abs({video}.currentTime - 2.04) < 0.01"));
    browser.click(".recording-controls .play");
    // Over the gap, into the last segment, to its end.
    browser.wait_until("document.querySelector('.recording-controls .now').textContent.includes(':31:0')");
    browser.wait_until(&format!(
        "{video}.hidden && document.querySelector('.play').textContent === '▶'"
    ));
    assert_eq!(browser.accessibility(), [""; 0]);
    let errors = browser.errors();
    assert!(errors.is_empty(), "{errors:#?}");
    service.drain();
}
