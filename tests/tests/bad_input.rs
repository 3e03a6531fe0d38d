//! Videos that are not as they should be, from the file to the sinks, through a model that is emulated.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::path::Path;

use weir_flow::{Catalog, Delivery, Frame, Image, Settings, SinkFactory, SourceFactory, StopFlag, Value};
use weir_operators::media::{SourceOptions, source};
use weir_operators::sinks;
use weir_policy::Report;
use weir_runtime::{Pace, RunError, RunOptions};

use crate::common::{Parts, assemble, check_books, graph};

const GRAPH: &str = r#"
    [app]
    name = "bad-input"
    slo = "60s"
    [sources.camera]
    uri = "emulated:uniform?rate=1"
    mode = "lossless"
    [models.any]
    device = "emulated:a"
    profile = { "1" = "1ms" }
    [modules.look]
    operator = "emulate"
    model = "any"
    inputs = ["camera"]
    [sinks.events]
    type = "jsonl"
    path = "events.jsonl"
    inputs = ["look"]
    [sinks.video]
    type = "mp4"
    path = "video.mp4"
    inputs = ["look"]
"#;

fn sink(kind: &str, path: &Path) -> Box<dyn SinkFactory> {
    let path = Value::Text(path.to_str().unwrap().to_owned());
    sinks::sink(kind, &Settings([("path".to_owned(), path)].into())).unwrap()
}

fn open(path: &Path) -> Box<dyn SourceFactory> {
    source(path.to_str().unwrap(), SourceOptions::default())
}

/// Plays `video` to sinks in `folder`.
fn play(folder: &Path, video: &Path) -> Report {
    try_play(folder, video).unwrap()
}

fn try_play(folder: &Path, video: &Path) -> Result<Report, RunError> {
    let catalog = Catalog {
        sinks: sinks::catalog(),
        ..Catalog::default()
    };
    let parts = Parts {
        sources: vec![("camera", open(video))],
        sinks: vec![
            ("events", sink("jsonl", &folder.join("events.jsonl"))),
            ("video", sink("mp4", &folder.join("video.mp4"))),
        ],
        ..Parts::default()
    };
    let options = RunOptions {
        pace: Pace::Max,
        ..RunOptions::default()
    };
    let assembly = assemble(graph(GRAPH, &catalog), parts);
    let report = weir_runtime::run(assembly, &options, &StopFlag::default())?;
    check_books(&report);
    assert_eq!(report.requests.in_flight, 0);
    Ok(report)
}

/// A clip of `frames` pictures as MP4.
fn clip(path: &Path, frames: u64, (width, height): (u32, u32)) {
    let mut sink = sink("mp4", path).open().unwrap();
    for index in 0..frames {
        let shade = (index * 9 % 256) as u8;
        let image = Image::from_rgb(width, height, vec![shade; width as usize * height as usize * 3]);
        let delivery = Delivery::new("clip", Frame::new(index, index as f64 * 40.0, image));
        sink.accept(&delivery).unwrap();
    }
    sink.finish().unwrap();
}

/// Contents of all boxes with that name, in order.
fn boxes<'a>(mp4: &'a [u8], name: &'a [u8; 4]) -> impl Iterator<Item = &'a [u8]> {
    let found = mp4.windows(4).enumerate().filter(move |(_, word)| word == name);
    found.map(move |(at, _)| {
        let size = u32::from_be_bytes(mp4[at - 4..at].try_into().unwrap()) as usize;
        &mp4[at + 4..at - 4 + size]
    })
}

/// The H.264 stream of an MP4 in fragments, as a raw elementary stream.
fn elementary(mp4: &[u8]) -> Vec<u8> {
    const START: [u8; 4] = [0, 0, 0, 1];
    let mut stream = Vec::new();
    // avcC: five bytes, then one set of each kind with its count and its length of two bytes.
    let sets = boxes(mp4, b"avcC").next().unwrap();
    let mut at = 6;
    for _ in 0..2 {
        let length = usize::from(u16::from_be_bytes([sets[at], sets[at + 1]]));
        stream.extend(START);
        stream.extend(&sets[at + 2..at + 2 + length]);
        at += 2 + length + 1;
    }
    for mut units in boxes(mp4, b"mdat") {
        while !units.is_empty() {
            let length = u32::from_be_bytes(units[..4].try_into().unwrap()) as usize;
            stream.extend(START);
            stream.extend(&units[4..4 + length]);
            units = &units[4 + length..];
        }
    }
    stream
}

fn frames(path: &Path) -> Vec<(u32, u32)> {
    let mut source = open(path).open(&StopFlag::default()).unwrap();
    let mut sizes = Vec::new();
    while let Some(frame) = source.next().unwrap() {
        sizes.push((frame.image.width, frame.image.height));
    }
    sizes
}

#[test]
fn a_stream_that_changes_its_resolution_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = [(64, 48), (160, 90), (64, 48)];
    let mut stream = Vec::new();
    for size in sizes {
        let path = folder.path().join("part.mp4");
        clip(&path, 20, size);
        stream.extend(elementary(&std::fs::read(&path).unwrap()));
        std::fs::remove_file(&path).unwrap();
    }
    let path = folder.path().join("changing.h264");
    std::fs::write(&path, &stream).unwrap();
    let expected: Vec<(u32, u32)> = sizes.iter().flat_map(|size| [*size; 20]).collect();
    assert_eq!(frames(&path), expected);

    let report = play(folder.path(), &path);
    assert_eq!((report.requests.arrived, report.requests.delivered), (60, 60));
    assert!(
        report.sinks.values().all(|sink| sink.written == 60),
        "{:?}",
        report.sinks
    );
    // One file has one size: that of its first frame.
    assert_eq!(frames(&folder.path().join("video.mp4")), [(64, 48); 60]);
}

#[test]
fn a_damaged_stream_is_counted_and_played_on() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole.mp4");
    clip(&whole, 80, (160, 90));
    let mut stream = elementary(&std::fs::read(&whole).unwrap());
    let (third, half) = (stream.len() / 3, stream.len() / 2);
    stream[third..half].fill(0x5a);
    let path = folder.path().join("damaged.h264");
    std::fs::write(&path, &stream).unwrap();
    let report = play(folder.path(), &path);
    assert!(
        (20..=80).contains(&report.requests.delivered),
        "{:?}",
        report.requests
    );
    assert_eq!(
        report.sinks["video"].written, report.requests.delivered,
        "what was decoded is written"
    );
}

#[test]
fn a_file_that_is_no_video_is_refused_before_anything_is_opened_to_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text.mp4");
    std::fs::write(&path, "this is no video\n").unwrap();
    let refused = try_play(folder.path(), &path).err();
    let error = refused.map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("no video in it"), "{error}");
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        1,
        "the clip alone"
    );
}
