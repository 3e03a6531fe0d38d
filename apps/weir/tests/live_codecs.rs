//! Live view of many codecs and of odd streams: their video begins once, or pictures take its place for a reason in words.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::common::run_ffmpeg;
use crate::common::service::{GRAPH, Service};
use crate::common::socket::{LiveSocket, Message};
use crate::page::assert_clean;

/// Streams whose video browsers play: name, end of the file name, and how FFmpeg writes it. Cameras repeat parameter sets with key
/// frames (MPEG-TS), or with each picture.
const PLAYED: [(&str, &str, &str); 13] = [
    ("avc", "mp4", "-c:v libx264 -g 10"),
    ("avc-matroska", "mkv", "-c:v libx264 -g 10"),
    ("avc-flash", "flv", "-c:v libx264 -g 10 -f flv"),
    ("avc-sets", "ts", "-c:v libx264 -g 10"),
    (
        "avc-sets-each",
        "ts",
        "-c:v libx264 -g 10 -bsf:v dump_extra=freq=all",
    ),
    (
        "avc-sets-twice",
        "ts",
        "-c:v libx264 -g 10 -x264-params repeat-headers=1:aud=1 -bsf:v dump_extra=freq=keyframe",
    ),
    ("avc-slices", "ts", "-c:v libx264 -g 10 -x264-params slices=4"),
    (
        "avc-order",
        "ts",
        "-c:v libx264 -g 12 -bf 3 -x264-params open-gop=1",
    ),
    (
        "avc-pixels",
        "mp4",
        "-vf scale=132:144,setsar=4/3 -c:v libx264 -g 10",
    ),
    (
        "hevc",
        "mp4",
        "-c:v libx265 -x265-params log-level=none:keyint=10 -tag:v hvc1",
    ),
    (
        "hevc-sets",
        "ts",
        "-c:v libx265 -x265-params log-level=none:keyint=10:repeat-headers=1",
    ),
    (
        "hevc-sets-each",
        "ts",
        "-c:v libx265 -x265-params log-level=none:keyint=10 -bsf:v dump_extra=freq=all",
    ),
    (
        "hevc-matroska",
        "mkv",
        "-c:v libx265 -x265-params log-level=none:keyint=10",
    ),
];

/// Streams that are shown by pictures; the reason names the codec, or that they are interlaced.
const PICTURED: [(&str, &str, &str); 16] = [
    (
        "interlaced",
        "ts",
        "-c:v libx264 -g 10 -flags +ildct+ilme -x264-params tff=1",
    ),
    ("mjpeg", "avi", "-c:v mjpeg -pix_fmt yuvj420p"),
    ("mpeg4", "avi", "-c:v mpeg4 -g 10"),
    ("mpeg1video", "mpg", "-r 25 -c:v mpeg1video -g 10"),
    ("mpeg2video", "ts", "-c:v mpeg2video -g 10"),
    ("vp8", "webm", "-c:v libvpx -deadline realtime -cpu-used 8 -g 10"),
    (
        "vp9",
        "webm",
        "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 10",
    ),
    ("av1", "mkv", "-c:v libaom-av1 -usage realtime -cpu-used 8 -g 10"),
    ("theora", "ogv", "-c:v libtheora -g 10"),
    ("flv", "flv", "-c:v flv -g 10"),
    ("h263", "3gp", "-c:v h263 -g 10"),
    ("msmpeg4", "avi", "-c:v msmpeg4 -g 10"),
    ("wmv2", "asf", "-c:v wmv2 -g 10"),
    ("prores", "mov", "-c:v prores_ks -pix_fmt yuv422p10le"),
    (
        "dnxhd",
        "mov",
        "-vf scale=256:144 -c:v dnxhd -profile:v dnxhr_lb -pix_fmt yuv422p",
    ),
    ("ffv1", "mkv", "-c:v ffv1"),
];

/// Seconds and frames a second of each stream.
const SECONDS: &str = "6";
const RATE: &str = "10";

/// Writes a stream into a folder; gives its file name.
fn write(folder: &Path, (name, end, options): (&str, &str, &str)) -> String {
    let file = format!("{name}.{end}");
    let picture = format!("testsrc2=size=176x144:rate={RATE}");
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-loglevel", "error", "-f", "lavfi", "-i", &picture, "-t", SECONDS]);
    if !options.contains("-pix_fmt") {
        ffmpeg.args(["-pix_fmt", "yuv420p"]);
    }
    run_ffmpeg(ffmpeg.args(options.split(' ')).arg(&file).current_dir(folder));
    file
}

/// A service to which streams in its folder can be added.
fn serve(folder: tempfile::TempDir) -> Service {
    let graph = GRAPH.replace("inputs = [\"steady\"]", "inputs = [\"*\"]");
    std::fs::write(folder.path().join("graph.toml"), graph).unwrap();
    Service::start_in(folder, "127.0.0.1:0", &[])
}

/// Adds a stream that runs once, at its own speed.
fn add(service: &Service, name: &str, file: &str) {
    let request = json!({ "name": name, "uri": file, "mode": "live" }).to_string();
    let (status, answer) = service.ask("POST", "/api/streams", &request);
    assert_eq!(status, 201, "{name}: {answer}");
}

/// Messages of a stream, counted.
#[derive(Debug, Default)]
struct Came {
    begins: u32,
    refused: Vec<String>,
    /// Headers and fragments of MP4, and pictures.
    headers: u32,
    fragments: u32,
    pictures: u32,
}

/// Messages of the streams until all of them have ended.
fn watch(service: &Service, socket: &mut LiveSocket) -> BTreeMap<String, Came> {
    let mut came = BTreeMap::<String, Came>::new();
    let mut current = String::new();
    loop {
        match socket.next() {
            Message::Text(text) if text["type"] == "stream" => {
                current = text["stream"].as_str().unwrap().to_owned();
            }
            Message::Text(text) => {
                let of = came.entry(current.clone()).or_default();
                match text["type"].as_str().unwrap() {
                    "video" => of.begins += 1,
                    "refused" => of.refused.push(text["reason"].as_str().unwrap().to_owned()),
                    "frame" => {}
                    other => panic!("{current}: {other}: {text}"),
                }
            }
            Message::Bytes(bytes) => {
                let of = came.entry(current.clone()).or_default();
                match bytes.get(4..8) {
                    Some(b"ftyp") => of.headers += 1,
                    Some(b"moof") => of.fragments += 1,
                    _ => {
                        assert_eq!(bytes[..2], [0xff, 0xd8], "{current}: no JPEG");
                        of.pictures += 1;
                        socket.ask("next", &current);
                    }
                }
            }
            // Nothing else came for ten seconds.
            Message::Ping if is_over(service) => return came,
            Message::Ping => {}
        }
    }
}

/// True if the streams that were added have ended.
fn is_over(service: &Service) -> bool {
    let streams: Value = serde_json::from_str(&service.ask("GET", "/api/streams", "").1).unwrap();
    let added = |stream: &&Value| stream["name"] != "steady";
    let streams = streams.as_array().unwrap();
    streams
        .iter()
        .filter(added)
        .all(|stream| stream["state"] == "gone")
}

#[test]
fn live_view_of_each_codec_begins_once_or_shows_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let all = PLAYED.iter().chain(&PICTURED);
    let files: Vec<(&str, String)> = all
        .map(|stream| (stream.0, write(folder.path(), *stream)))
        .collect();
    let mut service = serve(folder);
    let mut socket = LiveSocket::open(&service.at);
    for (name, file) in &files {
        add(&service, name, file);
        socket.ask("watch", name);
    }
    let came = watch(&service, &mut socket);
    let is_played = |of: &Came| {
        (of.begins, of.headers, of.pictures) == (1, 1, 0) && of.refused.is_empty() && of.fragments > 20
    };
    let is_pictured = |name: &str, of: &Came| {
        (of.begins, of.headers, of.fragments) == (0, 0, 0)
            && matches!(&of.refused[..], [reason] if reason.contains(name))
    };
    let played = PLAYED.iter().filter(|(name, ..)| !is_played(&came[*name]));
    let pictured = PICTURED
        .iter()
        .filter(|(name, ..)| !is_pictured(name, &came[*name]));
    let wrong: Vec<String> = played
        .chain(pictured)
        .map(|(name, ..)| format!("{name}: {:?}", came[*name]))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    // All share the encoders, so that a slow machine shows few pictures of each.
    let pictures: u32 = came.values().map(|of| of.pictures).sum();
    assert!(pictures > 0, "{came:?}");
    service.drain();
}

/// A minute with a single key frame, as of a camera that refreshes parts of each picture instead.
const SINGLE_KEY: (&str, &str, &str) = ("single-key", "mp4", "-c:v libx264 -g 999 -sc_threshold 0 -t 60");

#[test]
fn watcher_after_the_only_key_frame_is_shown_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let (name, file) = (SINGLE_KEY.0, write(folder.path(), SINGLE_KEY));
    let mut service = serve(folder);
    add(&service, name, &file);
    let is_live = |line: &str| line.contains(name) && line.contains(" live ");
    service.wait_until(|list| list.lines().any(is_live));
    let mut socket = LiveSocket::open(&service.at);
    socket.ask("watch", name);
    let mut reason = None;
    loop {
        match socket.next() {
            Message::Text(text) if text["type"] == "refused" => reason = Some(text["reason"].clone()),
            Message::Text(text) => assert_ne!(text["type"], "video"),
            Message::Bytes(bytes) => {
                assert_eq!(bytes[..2], [0xff, 0xd8], "no JPEG");
                break;
            }
            Message::Ping => panic!("nothing came for ten seconds"),
        }
    }
    let reason = reason.expect("a reason before the first picture").to_string();
    assert!(reason.contains("no key frame"), "{reason}");
    service.drain();
}

/// Counts players, and notes the cameras whose video went on.
const COUNTS: &str = "window.players = 0; window.played = new Set(); \
    window.MediaSource = class extends window.MediaSource { constructor() { super(); window.players += 1; } }; \
    document.addEventListener('timeupdate', ({ target }) => { if (target.currentTime > 1) window.played.add(target.ariaLabel); }, true);";

#[test]
fn browser_plays_repeated_parameter_sets_from_one_beginning() {
    let folder = tempfile::tempdir().unwrap();
    let played = PLAYED.iter().filter(|(name, ..)| name.starts_with("avc"));
    let files: Vec<(&str, String)> = played
        .map(|stream| (stream.0, write(folder.path(), *stream)))
        .collect();
    let mut service = serve(folder);
    let browser = Browser::start(1600, 1000);
    browser.inject(COUNTS);
    browser.open(&format!("http://{}/", service.at));
    for (name, file) in &files {
        add(&service, name, file);
    }
    // Emulated streams show nothing.
    browser.wait_until(&format!("window.played.size === {}", files.len()));
    browser.wait_until(&format!(
        "[...document.querySelectorAll('.tile[data-state=gone], .tile[data-state=lost]')].length === {}",
        files.len()
    ));
    assert_eq!(browser.value("window.players"), files.len());
    assert_clean(&browser, &service);
    service.drain();
}
