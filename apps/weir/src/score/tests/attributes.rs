//! Attributes, form by form.

use serde_json::{Value, json};
use weir_truth::TruthObject;

use super::super::samples::{car, clip, detection, thing, with, with_event_attribute};
use super::{at, matching_detection, near, points, points_value, score_clip};
use crate::score::Detection;

#[test]
fn text_is_scored_in_bands_of_width() {
    let wide = |id: u64, top: f32, width: f32, text: &str| TruthObject {
        r#box: [0.0, top, width, top + 10.0],
        ..with(car(id, 0.0), "plate", json!({"text": text}))
    };
    let objects = vec![
        wide(1, 0.0, 30.0, "AAAA"),
        wide(2, 20.0, 40.0, "BBBB"),
        wide(3, 40.0, 80.0, "CCCC"),
        wide(4, 60.0, 90.0, "DDDD"),
    ];
    let read = |object: &TruthObject, text: &str| Detection {
        attributes: [("plate".to_owned(), json!({"text": text}).into())].into(),
        ..matching_detection(object)
    };
    // The second has one character wrong, the third is right, the fourth is found but not read, the first not found.
    let mut unread = matching_detection(&objects[3]);
    unread.attributes.clear();
    let said = vec![read(&objects[1], "BB8B"), read(&objects[2], "CCCC"), unread];
    let score = score_clip(&clip(vec![objects]), &[Some(said)]);
    let check = |band: &str, truths: u64, found: u64, said: u64, exact: (f64, f64), cer: (f64, f64)| {
        let path = |key: &str| format!("attributes/plate/{band}/{key}");
        assert_eq!(at(&score.all, &path("truths")), truths);
        assert_eq!(at(&score.all, &path("found")), found);
        assert_eq!(at(&score.all, &path("said")), said);
        near(&score.all, &path("exact/of_found"), exact.0);
        near(&score.all, &path("exact/of_all"), exact.1);
        near(&score.all, &path("cer_of_found"), cer.0);
        near(&score.all, &path("cer_of_all"), cer.1);
    };
    check("any_width", 4, 3, 2, (1.0 / 3.0, 0.25), (5.0 / 12.0, 9.0 / 16.0));
    check(
        "from_40_px",
        3,
        3,
        2,
        (1.0 / 3.0, 1.0 / 3.0),
        (5.0 / 12.0, 5.0 / 12.0),
    );
    check("from_80_px", 2, 2, 1, (0.5, 0.5), (0.5, 0.5));
}

#[test]
fn a_form_that_the_truth_does_not_have_says_nothing() {
    let truth = clip(vec![vec![with(car(1, 0.0), "health", json!({"value": 70.0}))]]);
    let said = with_event_attribute(
        detection("car", 0.9, 0.0),
        "health",
        json!({"text": "70", "score": 0.9}),
    );
    let score = score_clip(&truth, &[Some(vec![said])]);
    assert_eq!(at(&score.all, "attributes/health/said"), 0);
    near(&score.all, "attributes/health/exact/of_found", 0.0);
}

#[test]
fn values_have_margins() {
    let health = |id: u64, left: f32| with(car(id, left), "health", json!({"value": 70.0}));
    let said = |left: f32, value: f64| {
        with_event_attribute(detection("car", 0.9, left), "health", json!({"value": value}))
    };
    let truth = clip(vec![(0..5).map(|id| health(id, id as f32 * 20.0)).collect()]);
    let found = vec![
        said(0.0, 70.4),
        said(20.0, 70.5),
        said(40.0, 68.0),
        said(60.0, 75.0),
    ];
    let score = score_clip(&truth, &[Some(found)]);
    near(&score.all, "attributes/health/exact/of_found", 0.25);
    near(&score.all, "attributes/health/exact/of_all", 0.2);
    near(&score.all, "attributes/health/within_2/of_found", 0.75);
    near(&score.all, "attributes/health/within_2/of_all", 0.6);
    near(
        &score.all,
        "attributes/health/error_mean",
        (0.4 + 0.5 + 2.0 + 5.0) / 4.0,
    );
}

#[test]
fn known_persons_and_strangers_taken_for_one_are_counted() {
    let who = |id: u64, name: Value| with(car(id, id as f32 * 20.0), "who", json!({"match": name}));
    let said = |id: u64, name: Value| {
        with_event_attribute(
            detection("car", 0.9, id as f32 * 20.0),
            "who",
            json!({"match": name, "cosine": 0.5}),
        )
    };
    let truth = clip(vec![vec![
        who(0, json!("p01")),
        who(1, json!("p02")),
        who(2, json!("p03")),
        who(3, Value::Null),
        who(4, Value::Null),
    ]]);
    let found = vec![
        said(0, json!("p01")),
        said(1, Value::Null),
        said(3, json!("p01")),
        said(4, Value::Null),
    ];
    let score = score_clip(&truth, &[Some(found)]);
    near(&score.all, "attributes/who/top_1/of_found", 0.5);
    near(&score.all, "attributes/who/top_1/of_all", 1.0 / 3.0);
    assert_eq!(at(&score.all, "attributes/who/strangers/truths"), 2);
    assert_eq!(at(&score.all, "attributes/who/strangers_named"), 1);
}

#[test]
fn confusions_are_listed_most_frequent_first() {
    let mood = |id: u64, class: &str| with(car(id, id as f32 * 20.0), "mood", json!({"class": class}));
    let said = |id: u64, class: &str| {
        with_event_attribute(
            detection("car", 0.9, id as f32 * 20.0),
            "mood",
            json!({"class": class}),
        )
    };
    let truth = clip(vec![vec![
        mood(0, "happy"),
        mood(1, "angry"),
        mood(2, "sad"),
        mood(3, "sad"),
    ]]);
    let found = vec![
        said(0, "happy"),
        said(1, "sad"),
        said(2, "neutral"),
        said(3, "neutral"),
    ];
    let score = score_clip(&truth, &[Some(found)]);
    near(&score.all, "attributes/mood/accuracy/of_found", 0.25);
    let confusions = at(&score.all, "attributes/mood/confusions");
    assert_eq!(
        confusions,
        json!([{"truth": "sad", "said": "neutral", "count": 2}, {"truth": "angry", "said": "sad", "count": 1}])
    );
}

#[test]
fn key_points_are_near_by_the_torso() {
    // Shoulders at y 100, hips at y 140, 30 apart: both diagonals are 50, so 10 px are near enough.
    let mut body = vec![(200.0, 60.0); 17];
    (body[5], body[6], body[11], body[12]) = ((215.0, 100.0), (185.0, 100.0), (215.0, 140.0), (185.0, 140.0));
    let person = |id: u64, body: &[(f64, f64)]| TruthObject {
        r#box: [170.0, 40.0, 230.0, 240.0],
        ..with(thing(id, "person", 0.0), "keypoints", points(body))
    };
    let pck = |object: &TruthObject, said: &[(f64, f64)]| {
        let mut seen = matching_detection(object);
        seen.attributes
            .insert("keypoints".to_owned(), points_value(said).into());
        let score = score_clip(&clip(vec![vec![object.clone()]]), &[Some(vec![seen])]);
        at(&score.all, "attributes/keypoints/right").as_u64().unwrap()
    };
    let moved = |by: f64| -> Vec<(f64, f64)> { body.iter().map(|(x, y)| (x + by, *y)).collect() };
    assert_eq!(pck(&person(1, &body), &moved(9.9)), 17);
    assert_eq!(pck(&person(1, &body), &moved(10.1)), 0);
    // Fewer points than there are.
    assert_eq!(pck(&person(1, &body), &body[..6]), 6);
    // Hips below the frame: a fifth of half the box, which is 20 px.
    let mut cut = body.clone();
    (cut[11], cut[12]) = ((215.0, 600.0), (185.0, 600.0));
    let moved_cut = |by: f64| -> Vec<(f64, f64)> { cut.iter().map(|(x, y)| (x + by, *y)).collect() };
    assert_eq!(pck(&person(1, &cut), &moved_cut(19.9)), 17);
    assert_eq!(pck(&person(1, &cut), &moved_cut(20.1)), 0);
    // What is hidden is not asked for; a person who was not found has all points wrong.
    let mut hidden = person(1, &body);
    let mut some = serde_json::to_value(&hidden.attributes["keypoints"]).unwrap();
    some[0]["visible"] = false.into();
    hidden = with(hidden, "keypoints", some);
    let elsewhere = TruthObject {
        r#box: [500.0, 0.0, 560.0, 200.0],
        ..person(2, &body)
    };
    let score = score_clip(
        &clip(vec![vec![hidden.clone(), elsewhere]]),
        &[Some(vec![matching_detection(&hidden)])],
    );
    near(&score.all, "attributes/keypoints/pck_of_found", 1.0);
    near(&score.all, "attributes/keypoints/pck_of_all", 16.0 / 33.0);
}
