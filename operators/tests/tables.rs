//! Tables that other programs read.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use serde_json::Value as Json;
use weir_flow::{
    Attribute, DeliveredObject, Delivery, Frame, Image, KeyPoint, Mask, Object, Point, Points, Rect,
    Settings, Sink, TrackState, Value,
};
use weir_operators::sinks::sink;

fn open(kind: &str, path: &Path) -> Box<dyn Sink> {
    let path = Value::Text(path.display().to_string());
    let settings = Settings([("path".to_owned(), path)].into());
    sink(kind, &settings).unwrap().open().unwrap()
}

fn object(id: u32, class: &str, track: Option<u64>) -> DeliveredObject {
    DeliveredObject {
        id,
        object: Object {
            candidate: false,
            class: class.into(),
            score: 0.75,
            rect: Rect::new(10.0, 20.0, 40.5, 60.0),
            parent: None,
            points: Points::None,
        },
        parent: None,
        attributes: vec![("plate".into(), Attribute::Number { value: 1.5 })],
        track: track.map(|id| TrackState {
            id,
            ..TrackState::default()
        }),
    }
}

fn write(sink: &mut dyn Sink, stream: &str) {
    let frames = [
        vec![object(0, "car", Some(1 << 40)), object(1, "person", None)],
        Vec::new(),
        vec![object(0, "=cmd, \"x\"", Some(9)), object(1, "car", Some(1 << 40))],
    ];
    for (index, objects) in (0..).zip(frames) {
        let image = Image::from_rgb(1, 1, vec![0; 3]);
        let delivery = Delivery {
            time_ms: 1_000,
            latency_ms: 1.0,
            objects,
            ..Delivery::new(stream, Frame::new(index, index as f64 * 40.0, image))
        };
        sink.accept(&delivery).unwrap();
    }
}

/// Content of the file that a sink writes for one stream, read once the file is complete.
fn written(kind: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut sink = open(kind, &folder.path().join("{stream}.txt"));
    write(&mut *sink, "north");
    let path = folder.path().join("north.txt");
    assert!(!path.exists(), "it is not there before it is complete");
    sink.finish().unwrap();
    let names = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(names, 1);
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn csv_has_a_row_for_each_object_and_no_formulas() {
    let text = written("csv");
    let lines: Vec<&str> = text.split("\r\n").collect();
    assert_eq!(lines.len(), 6, "{text}");
    assert!(
        lines[0].starts_with("stream,frame,time,pts_ms,id,class,score,x0,y0,x1,y1,parent,track,attributes")
    );
    assert!(
        lines[1].starts_with(
            "north,0,1970-01-01T00:00:01.000Z,0.0,0,car,0.7500,10.0,20.0,40.5,60.0,,1099511627776,\"{"
        ),
        "{text}"
    );
    assert!(lines[3].contains("\"'=cmd, \"\"x\"\"\""), "{text}");
}

#[test]
fn mot_numbers_tracks_and_frames_from_one() {
    let expected = "1,1,10.00,20.00,30.50,40.00,0.7500,-1,-1,-1\n\
                    3,2,10.00,20.00,30.50,40.00,0.7500,-1,-1,-1\n\
                    3,1,10.00,20.00,30.50,40.00,0.7500,-1,-1,-1\n";
    assert_eq!(written("mot"), expected);
}

#[test]
fn coco_results_have_its_categories() {
    let results: Json = serde_json::from_str(&written("coco")).unwrap();
    let expected = serde_json::json!([
        { "image_id": 0, "category_id": 3, "bbox": [10.0, 20.0, 30.5, 40.0], "score": 0.75 },
        { "image_id": 0, "category_id": 1, "bbox": [10.0, 20.0, 30.5, 40.0], "score": 0.75 },
        { "image_id": 2, "category_id": 3, "bbox": [10.0, 20.0, 30.5, 40.0], "score": 0.75 },
    ]);
    assert_eq!(results, expected);
}

#[test]
fn coco_results_have_the_mask_and_the_key_points_of_an_object() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.json");
    let mut found = object(0, "car", None);
    let mask = Mask::sample(&Rect::new(1.0, 0.0, 2.0, 2.0), |_, _| true).unwrap();
    found.object.points = Points::Mask(mask.into());
    let point = KeyPoint {
        name: None,
        at: Point { x: 1.25, y: 0.5 },
        score: 0.875,
    };
    found
        .attributes
        .push(("keypoints".into(), Attribute::Points(vec![point.clone(), point])));
    let mut results = open("coco", &path);
    results
        .accept(&Delivery {
            time_ms: 1_000,
            latency_ms: 1.0,
            objects: vec![found],
            ..Delivery::new("north", Frame::new(0, 0.0, Image::from_rgb(3, 2, vec![0; 18])))
        })
        .unwrap();
    results.finish().unwrap();
    let written: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    // Two pixels outside, two within, two outside.
    let expected = serde_json::json!({ "size": [2, 3], "counts": "222" });
    assert_eq!(written[0]["segmentation"], expected);
    let expected = serde_json::json!([1.3, 0.5, 0.875, 1.3, 0.5, 0.875]);
    assert_eq!(written[0]["keypoints"], expected);
}
