//! Tests of the properties that hold for every score.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod attributes;
mod precision;
mod reports;

use serde_json::{Value, json};
use weir_truth::{FrameTruth, Truth, TruthObject};

use super::samples::{car, clip, detection, frame_of, observed, thing, with, with_event_attribute};
use super::*;

/// The score of a clip; `said` by frame, none for those that were not delivered.
fn score_clip(truth: &Truth, said: &[Option<Vec<Detection>>]) -> Score {
    let frames = truth.frames.iter().zip(said);
    let frames: Vec<Observed<'_>> = frames
        .map(|(truth, seen)| observed(truth, seen.as_deref()))
        .collect();
    score(&[truth], &frames, true)
}

/// The figure at a path such as `classes/car/ap`, as the report has it.
fn at(figures: &Figures, path: &str) -> Value {
    let json = serde_json::to_value(figures).unwrap();
    json.pointer(&format!("/{path}"))
        .unwrap_or_else(|| panic!("{path} is not in {json:#}"))
        .clone()
}

fn near(figures: &Figures, path: &str, is: f64) {
    let value = at(figures, path).as_f64().unwrap();
    assert!((value - is).abs() < 1e-9, "{path} is {value}, not {is}");
}

fn points(at: &[(f64, f64)]) -> Value {
    at.iter()
        .map(|(x, y)| json!({"x": x, "y": y, "visible": true}))
        .collect()
}

fn points_value(at: &[(f64, f64)]) -> Value {
    at.iter()
        .map(|(x, y)| json!({"at": {"x": x, "y": y}, "score": 0.9}))
        .collect()
}

/// A thing of every form of attribute.
fn object_with_all_attributes() -> TruthObject {
    let body: Vec<(f64, f64)> = (0..17).map(|i| (f64::from(i), f64::from(i % 5))).collect();
    let object = with(car(1, 0.0), "plate", json!({"text": "WR 12"}));
    let object = with(object, "mood", json!({"class": "happy"}));
    let object = with(object, "who", json!({"match": "p01"}));
    let object = with(object, "gaze", json!({"yaw": 10.0, "pitch": -5.0}));
    let object = with(object, "health", json!({"value": 70.0}));
    with(object, "keypoints", points(&body))
}

/// A detection that agrees with the ground truth in every attribute.
fn matching_detection(object: &TruthObject) -> Detection {
    let mut seen = detection(&object.class, 0.9, 0.0);
    seen.r#box = object.r#box;
    for (name, attribute) in &object.attributes {
        let mut value = serde_json::to_value(attribute).unwrap();
        if let Value::Array(points) = &mut value {
            for point in points {
                *point = json!({"at": {"x": point["x"], "y": point["y"]}, "score": 1.0});
            }
        }
        seen.attributes.insert(name.clone(), value.into());
    }
    seen
}

#[test]
fn perfect_events_have_no_error() {
    let truth = clip(vec![
        vec![object_with_all_attributes(), thing(2, "bus", 50.0)],
        vec![object_with_all_attributes()],
    ]);
    let said = truth
        .frames
        .iter()
        .map(|frame| Some(frame.objects.iter().map(matching_detection).collect()));
    let score = score_clip(&truth, &said.collect::<Vec<_>>());
    assert_eq!(score.all, score.delivered);
    for path in [
        "mean_ap",
        "classes/car/ap",
        "classes/bus/ap",
        "classes/car/precision",
        "classes/car/recall",
        "attributes/plate/any_width/exact/of_found",
        "attributes/plate/any_width/exact/of_all",
        "attributes/mood/accuracy/of_all",
        "attributes/who/top_1/of_all",
        "attributes/health/exact/of_all",
        "attributes/health/within_2/of_all",
        "attributes/keypoints/pck_of_found",
        "attributes/keypoints/pck_of_all",
    ] {
        near(&score.all, path, 1.0);
    }
    for path in [
        "attributes/plate/any_width/cer_of_found",
        "attributes/plate/any_width/cer_of_all",
        "attributes/gaze/error_mean_deg",
        "attributes/gaze/error_median_deg",
        "attributes/health/error_mean",
    ] {
        near(&score.all, path, 0.0);
    }
    assert!(score.not_looked_for.is_empty() && score.all.tracking.is_none());
}

#[test]
fn dropped_frames_lower_all_and_leave_delivered() {
    let truth = clip(vec![vec![object_with_all_attributes()]; 4]);
    let right = || Some(vec![matching_detection(&object_with_all_attributes())]);
    let score = score_clip(&truth, &[right(), None, right(), None]);
    assert_eq!((score.all.frames, score.delivered.frames), (4, 2));
    for path in [
        "mean_ap",
        "classes/car/recall",
        "attributes/plate/any_width/exact/of_all",
        "attributes/mood/accuracy/of_all",
        "attributes/who/top_1/of_all",
        "attributes/health/exact/of_all",
        "attributes/keypoints/pck_of_all",
        "attributes/plate/any_width/cer_of_all",
    ] {
        near(&score.all, path, 0.5);
        let whole = if path.contains("cer") { 0.0 } else { 1.0 };
        near(&score.delivered, path, whole);
    }
    // What was found is right, however many frames were dropped.
    near(&score.all, "attributes/plate/any_width/exact/of_found", 1.0);
    near(&score.all, "classes/car/precision", 1.0);
}

#[test]
fn classes_and_attributes_without_an_event_are_not_scored() {
    let truth = clip(vec![vec![object_with_all_attributes(), thing(2, "bus", 50.0)]]);
    let said = vec![
        with_event_attribute(detection("car", 0.9, 0.0), "plate", json!({"text": "x"})),
        detection("boat", 0.5, 0.0),
    ];
    let score = score_clip(&truth, &[Some(said)]);
    assert_eq!(at(&score.all, "classes/bus/ap"), 0.0);
    near(&score.all, "mean_ap", 0.5);
    assert_eq!(at(&score.all, "unknown_classes"), json!({"boat": 1}));
    assert_eq!(
        score.not_looked_for,
        ["gaze", "health", "keypoints", "mood", "who"]
    );
    let names: Vec<&String> = score.all.attributes.keys().collect();
    assert_eq!(names, ["plate"]);
    let table = table(&score);
    for words in [
        "boat 1",
        "not looked for: gaze, health",
        "bus",
        "mAP@0.5 0.500 over all 1 frames",
    ] {
        assert!(table.contains(words), "{words} is not in\n{table}");
    }
}

#[test]
fn tracks_that_change_and_break_off_are_counted() {
    let truth: Vec<FrameTruth> = (0..6).map(|frame| frame_of(frame, vec![car(1, 0.0)])).collect();
    let tracked = |track: i64| {
        Some(vec![Detection {
            track: Some(track),
            ..detection("car", 0.9, 0.0)
        }])
    };
    let said = [
        tracked(1),
        tracked(1),
        Some(Vec::new()),
        tracked(1),
        None,
        tracked(2),
    ];
    let frames = truth.iter().zip(&said);
    let mut frames: Vec<Observed<'_>> = frames
        .map(|(truth, seen)| observed(truth, seen.as_deref()))
        .collect();
    let whole = clip(vec![vec![car(1, 0.0)]; 6]);
    let counts = |figures: &Figures| {
        let tracking = figures.tracking.unwrap();
        (
            tracking.tracked,
            tracking.identity_switches,
            tracking.fragmentations,
        )
    };
    let one = score(&[&whole], &frames, false);
    assert_eq!(counts(&one.all), (1, 1, 2));
    assert_eq!(counts(&one.delivered), (1, 1, 1));
    // Another round of a loop: its things are others.
    frames[5].sequence = 1;
    assert_eq!(counts(&score(&[&whole], &frames, false).all), (2, 0, 1));
}
