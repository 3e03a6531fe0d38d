//! Sinks: what lines say, where they go, and what a full disk does.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::sync::Arc;

use weir_flow::{
    Attribute, Frame, KeyPoint, Mask, Notice, Point, Points, Rect, RotatedRect, RunHeader, Settings, Sink,
    StreamState, Value,
};
use weir_operators::sinks::{event_line, sink};

use crate::common::{delivery, object, picture, reopening, settings};
use crate::small_disk::SmallDisk;

#[test]
fn event_lines_match_their_specification() {
    let rect = Rect::new(1.04, 2.06, 30.0, 40.25);
    let plate = Attribute::Text {
        text: "皖A12345".to_owned(),
        score: 0.912_34,
    };
    let head = Attribute::Angles {
        yaw: 1.26,
        pitch: -3.0,
        roll: 0.0,
    };
    let points = Attribute::Points(vec![KeyPoint {
        name: None,
        at: Point::new(3.333, 4.0),
        score: 0.5,
    }]);
    let who = Attribute::Match {
        r#match: None,
        cosine: Some(0.25),
        vector: None,
    };
    let gaze = Attribute::Direction {
        yaw: -12.34,
        pitch: -0.01,
    };
    let objects = vec![
        object(0, "car", rect, vec![]),
        object(
            1,
            "plate",
            rect,
            vec![
                ("plate", plate),
                ("head_pose", head),
                ("keypoints", points),
                ("embedding", who),
                ("gaze", gaze),
                ("health", Attribute::Number { value: 62.46 }),
            ],
        ),
    ];
    let mut delivery = delivery("north", 12, 480.04, picture(0, 2, 2), objects);
    assert_eq!(
        event_line(&delivery),
        concat!(
            r#"{"type":"frame","stream":"north","frame":12,"time":"1970-01-01T00:00:00.000Z","pts_ms":480.0,"#,
            r#""latency_ms":31.2,"width":2,"height":2,"objects":["#,
            r#"{"id":0,"class":"car","score":0.8313,"box":[1.0,2.1,30.0,40.3],"parent":null,"attributes":{}},"#,
            r#"{"id":1,"class":"plate","score":0.8313,"box":[1.0,2.1,30.0,40.3],"parent":0,"attributes":{"#,
            r#""plate":{"text":"皖A12345","score":0.9123},"#,
            r#""head_pose":{"yaw":1.3,"pitch":-3.0,"roll":0.0},"#,
            r#""keypoints":[{"at":{"x":3.3,"y":4.0},"score":0.5}],"#,
            r#""embedding":{"match":null,"cosine":0.25},"#,
            r#""gaze":{"yaw":-12.3,"pitch":0.0},"health":{"value":62.5}}}]}"#
        )
    );
    delivery.objects.clear();
    delivery.late = true;
    delivery.time_ms = 1_763_859_723_456;
    let mut frame = Frame::new(12, 480.04, picture(0, 4, 2));
    (frame.file, frame.concealed) = (Some("a.png".into()), true);
    delivery.frame = std::sync::Arc::new(frame);
    let line = concat!(
        r#"{"type":"frame","stream":"north","frame":12,"time":"2025-11-23T01:02:03.456Z","pts_ms":480.0,"#,
        r#""latency_ms":31.2,"late":true,"width":4,"height":2,"file":"a.png","concealed":true,"objects":[]}"#
    );
    assert_eq!(event_line(&delivery), line);
}

#[test]
fn lines_are_written_to_one_file_or_one_per_stream() {
    let folder = tempfile::tempdir().unwrap();
    for (path, files) in [
        ("all.jsonl", vec!["all.jsonl"]),
        ("x/{stream}.jsonl", vec!["x/a.jsonl", "x/b.jsonl"]),
    ] {
        let mut sink = sink("jsonl", &settings(&folder.path().join(path)))
            .unwrap()
            .open()
            .unwrap();
        for index in 0..40 {
            for stream in ["a", "b"] {
                sink.accept(&delivery(stream, index, 0.0, picture(0, 2, 2), vec![]))
                    .unwrap();
            }
        }
        sink.finish().unwrap();
        sink.finish().unwrap();
        let lines = |name: &&str| {
            std::fs::read_to_string(folder.path().join(name))
                .unwrap()
                .lines()
                .count()
        };
        assert_eq!(files.iter().map(lines).sum::<usize>(), 80);
    }
}

/// A jsonl sink with more keys.
fn lines_with(path: &Path, keys: &[(&str, Value)]) -> Box<dyn Sink> {
    let mut settings = settings(path);
    let keys = keys.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
    settings.0.extend(keys);
    sink("jsonl", &settings).unwrap().open().unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort();
    names
}

#[test]
fn a_large_or_old_file_is_rotated_and_none_is_ever_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("e.jsonl");
    let header = RunHeader {
        id: "r".to_owned(),
        ..RunHeader::default()
    };
    // Of a time when files had other names, and a file that only looks like one that was put aside.
    std::fs::write(folder.path().join("e.000007.jsonl"), "old").unwrap();
    std::fs::write(folder.path().join("e.7.jsonl"), "not ours").unwrap();
    let write = |keys: &[(&str, Value)], frames: std::ops::Range<u64>, gap_ms: u64| {
        let mut sink = lines_with(&path, keys);
        sink.begin(&header).unwrap();
        for index in frames {
            let mut one = delivery("a", index, 0.0, picture(0, 2, 2), vec![]);
            one.time_ms = index * gap_ms;
            sink.accept(&one).unwrap();
        }
        sink.finish().unwrap();
    };
    let frames = |name: &str| {
        let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
        let mut lines = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        assert_eq!(lines.next().unwrap()["type"], "header", "{name}");
        let lines = lines.filter(|line| line["type"] == "frame");
        lines
            .map(|line| line["frame"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    // By age: ten seconds from the first line of a file on, over the end of a run.
    write(&[("rotate_age", Value::Number(10.0))], 0..15, 1_000);
    assert_eq!(
        names(folder.path()),
        ["e.000007.jsonl", "e.000008.jsonl", "e.7.jsonl", "e.jsonl"]
    );
    assert_eq!(
        (frames("e.000008.jsonl"), frames("e.jsonl")),
        ((0..10).collect(), (10..15).collect())
    );
    write(&[("rotate_age", Value::Number(10.0))], 15..21, 1_000);
    assert_eq!(
        (frames("e.000009.jsonl"), frames("e.jsonl")),
        ((10..20).collect(), vec![20])
    );
    // By size, and the oldest go.
    let size = 1_000_u32;
    write(
        &[
            ("rotate_size", Value::Number(f64::from(size))),
            ("keep", Value::Number(3.0)),
        ],
        21..60,
        1,
    );
    let left = names(folder.path());
    assert_eq!(
        left.len(),
        5,
        "three that were put aside, the present one, and one that is not ours: {left:?}"
    );
    assert!(left.contains(&"e.7.jsonl".to_owned()));
    for name in left.iter().filter(|name| *name != "e.7.jsonl") {
        let bytes = std::fs::metadata(folder.path().join(name)).unwrap().len();
        assert!(bytes <= u64::from(size), "{name}: {bytes}");
    }
    let newest: Vec<u64> = left
        .iter()
        .filter(|name| *name != "e.7.jsonl")
        .flat_map(|name| frames(name))
        .collect();
    assert_eq!(newest.last(), Some(&59));
    assert!(
        newest.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "no frame is lost between files: {newest:?}"
    );
}

#[test]
fn other_rotation_holds_for_the_open_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut lines = lines_with(&folder.path().join("e.jsonl"), &[]);
    let write = |frames: std::ops::Range<u64>, lines: &mut dyn Sink| {
        for index in frames {
            lines
                .accept(&delivery("a", index, 0.0, picture(0, 2, 2), vec![]))
                .unwrap();
        }
    };
    write(0..50, &mut *lines);
    assert_eq!(names(folder.path()), ["e.jsonl"]);
    let rotation = [("rotate_size", 1_000.0), ("keep", 2.0)];
    let rotation = rotation.map(|(key, value)| (key.to_owned(), Value::Number(value)));
    lines.set_settings(&Settings(rotation.into()));
    write(50..100, &mut *lines);
    lines.finish().unwrap();
    assert_eq!(names(folder.path()).len(), 3, "{:?}", names(folder.path()));
}

#[test]
fn without_frames_incidents_and_changes_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("e.jsonl");
    let mut lines = lines_with(&path, &[("frames", Value::Flag(false))]);
    assert!(lines.wants_notices());
    let frame = delivery("a", 0, 0.0, picture(0, 2, 2), vec![]);
    lines.accept(&frame).unwrap();
    let stream: Arc<str> = "a".into();
    let sink: Arc<str> = "archive".into();
    for notice in [
        Notice::Still {
            stream: Arc::clone(&stream),
            frame: 1,
            frames: 2,
            last_frame: 2,
            pts_ms: 0.0,
            time_ms: 0,
        },
        Notice::State {
            stream,
            state: StreamState::Live,
            time_ms: 1_000,
        },
        Notice::Sink {
            sink: Arc::clone(&sink),
            outage: Some("the disk is full".into()),
            time_ms: 2_000,
        },
        Notice::Sink {
            sink,
            outage: None,
            time_ms: 3_000,
        },
    ] {
        lines.on_notice(&notice).unwrap();
    }
    lines.finish().unwrap();
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        concat!(
            r#"{"type":"state","stream":"a","time":"1970-01-01T00:00:01.000Z","state":"running"}"#,
            "\n",
            r#"{"type":"sink","sink":"archive","time":"1970-01-01T00:00:02.000Z","state":"down","reason":"the disk is full"}"#,
            "\n",
            r#"{"type":"sink","sink":"archive","time":"1970-01-01T00:00:03.000Z","state":"running"}"#,
            "\n",
        )
    );
}

#[test]
fn a_file_locked_by_another_run_is_refused_and_an_incomplete_line_is_terminated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("e.jsonl");
    std::fs::write(&path, "{\"half").unwrap();
    let mut first = lines_with(&path, &[]);
    let other = sink("jsonl", &settings(&path)).unwrap().open();
    let refused = other.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(
        refused.contains("e.jsonl") && refused.contains("another run"),
        "{refused}"
    );
    first
        .accept(&delivery("a", 0, 0.0, picture(0, 2, 2), vec![]))
        .unwrap();
    first.finish().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text.starts_with("{\"half\n{\"type\":\"frame\"") && text.ends_with("]}\n"),
        "{text}"
    );
    drop(lines_with(&path, &[]));
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        text,
        "opened, and nothing written"
    );
    let new = folder.path().join("new/e.jsonl");
    drop(lines_with(&new, &[]));
    assert!(!new.exists(), "a run that did not begin leaves no file");
}

#[test]
fn a_full_disk_is_an_error_that_names_the_file() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    let mut lines = sink("jsonl", &settings(Path::new("/dev/full")))
        .unwrap()
        .open()
        .unwrap();
    let one = delivery("north", 0, 0.0, picture(0, 2, 2), vec![]);
    for _ in 0..100 {
        let error = lines.accept(&one).unwrap_err().to_string();
        assert!(
            error.contains("/dev/full") && error.contains("disk is full"),
            "{error}"
        );
    }
    lines.finish().unwrap();

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.mp4");
    std::os::unix::fs::symlink("/dev/full", folder.path().join("out.mp4.part")).unwrap();
    let mut video = match sink("mp4", &settings(&path)).unwrap().open() {
        Ok(video) => video,
        Err(error) => panic!("{error}"),
    };
    let mut errors = Vec::new();
    for index in 0..120 {
        let one = delivery(
            "north",
            index,
            index as f64 * 40.0,
            picture(index, 320, 240),
            vec![],
        );
        errors.extend(video.accept(&one).err());
    }
    errors.extend(video.finish().err());
    assert!(errors[0].to_string().contains("disk is full"), "{}", errors[0]);
    assert!(errors[0].target.contains("out.mp4"));
}

#[test]
fn a_line_that_does_not_fit_is_taken_back_before_the_next_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(folder.path(), "256k") else {
        return;
    };
    let path = folder.path().join("e.jsonl");
    let mut lines = lines_with(&path, &[]);
    let rect = Rect::new(1.0, 2.0, 30.0, 40.0);
    let objects = (0..20).map(|id| object(id, "car", rect, vec![]));
    let line = delivery("north", 0, 0.0, picture(0, 2, 2), objects.collect());
    let [mut refused, mut written] = [0, 0];
    for left in [8 << 10, 0, 4 << 10, 4 << 10, 64 << 10] {
        disk.fill(left);
        for _ in 0..8 {
            match lines.accept(&line) {
                Ok(()) => written += 1,
                Err(_) => refused += 1,
            }
        }
    }
    lines.finish().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(refused > 3 && written > 3, "{refused} refused, {written} written");
    assert_eq!(text.lines().count(), written);
    for line in text.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

#[test]
fn lines_go_to_a_new_file_where_another_program_moved_theirs_away() {
    let _alone = reopening();
    let folder = tempfile::tempdir().unwrap();
    let (path, moved) = (folder.path().join("e.jsonl"), folder.path().join("e.jsonl.1"));
    let mut lines = lines_with(&path, &[]);
    lines.begin(&RunHeader::default()).unwrap();
    let one = delivery("north", 0, 0.0, picture(0, 2, 2), vec![]);
    lines.accept(&one).unwrap();
    weir_operators::reopen();
    lines.accept(&one).unwrap();
    std::fs::rename(&path, &moved).unwrap();
    lines.accept(&one).unwrap();
    weir_operators::reopen();
    lines.accept(&one).unwrap();
    lines.finish().unwrap();
    let count = |path: &Path| std::fs::read_to_string(path).unwrap().lines().count();
    assert_eq!((count(&moved), count(&path)), (4, 2), "each begins with a header");
}

#[test]
fn a_video_that_cannot_be_created_is_refused_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |path: &Path, because: &str| {
        let opened = sink("mp4", &settings(path)).unwrap().open();
        let error = opened.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(because), "{}: \"{error}\"", path.display());
    };
    refused(folder.path(), "there already, and no file");
    // A device must not be put out of the way by the video that was to go there.
    refused(Path::new("/dev/null"), "there already, and no file");
    let file = folder.path().join("file");
    std::fs::write(&file, b"in the way").unwrap();
    refused(&file.join("out.mp4"), "file/out.mp4");
    refused(&file.join("{stream}.mp4"), "file/");

    let good = folder.path().join("good/{stream}.mp4");
    let mut video = sink("mp4", &settings(&good)).unwrap().open().unwrap();
    video.finish().unwrap();
    let left = std::fs::read_dir(folder.path().join("good")).unwrap().count();
    assert_eq!(left, 0, "looking whether a file can be made leaves none");
}

#[test]
fn objects_below_the_score_threshold_are_not_drawn() {
    let folder = tempfile::tempdir().unwrap();
    // The example's score is 0.83.
    let found = object(0, "car", Rect::new(10.0, 10.0, 50.0, 40.0), vec![]);
    let written = |name: &str, threshold: f64, objects: Vec<_>| {
        let path = folder.path().join(name);
        let mut keys = settings(&path);
        let threshold = Value::Number(threshold);
        keys.0.insert("score_threshold".to_owned(), threshold);
        let mut video = sink("mp4", &keys).unwrap().open().unwrap();
        let shown = delivery("a", 0, 0.0, picture(0, 64, 64), objects);
        video.accept(&shown).unwrap();
        video.finish().unwrap();
        std::fs::read(path).unwrap()
    };
    let nothing = written("nothing.mp4", 0.0, vec![]);
    assert_eq!(written("below.mp4", 0.9, vec![found.clone()]), nothing);
    assert_ne!(written("above.mp4", 0.8, vec![found]), nothing);
}

#[test]
fn masks_and_rotated_boxes_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let rect = Rect::new(10.0, 10.0, 50.0, 40.0);
    let written = |name: &str, points: Points| {
        let path = folder.path().join(name);
        let mut video = sink("mp4", &settings(&path)).unwrap().open().unwrap();
        let mut found = object(0, "car", rect, vec![]);
        found.object.points = points;
        video
            .accept(&delivery("a", 0, 0.0, picture(0, 64, 64), vec![found]))
            .unwrap();
        video.finish().unwrap();
        std::fs::read(path).unwrap()
    };
    let plain = written("plain.mp4", Points::None);
    let mask = Mask::sample(&rect, |x, y| x > y).unwrap();
    assert_ne!(written("mask.mp4", Points::Mask(mask.into())), plain);
    let rotated = RotatedRect::new(Point::new(30.0, 25.0), 40.0, 20.0, 0.5);
    assert_ne!(written("rotated.mp4", Points::Rotated(rotated)), plain);
}

#[test]
fn a_sink_without_path_or_of_unknown_kind_is_refused() {
    assert!(sink("mp4", &Settings::default()).is_err());
    assert!(sink("avi", &Settings::default()).is_err());
    let mut null = sink("null", &Settings::default()).unwrap().open().unwrap();
    null.accept(&delivery("a", 0, 0.0, picture(0, 2, 2), vec![]))
        .unwrap();
    null.finish().unwrap();
}
