//! What must hold of every score.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use serde_json::{Value, json};
use weir_videos::truth::{FrameTruth, Truth, TruthObject};

use super::matching::iou;
use super::samples::{Draws, car, clip, frame_of, observed, saying, seen, thing, with};
use super::*;

/// The score of a clip; `said` by frame, none for those that were not delivered.
fn scored(truth: &Truth, said: &[Option<Vec<Seen>>]) -> Score {
    let frames = truth.frames.iter().zip(said);
    let frames: Vec<Observed<'_>> = frames
        .map(|(truth, seen)| observed(truth, seen.as_deref()))
        .collect();
    score(&[truth], &frames)
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

fn said_points(at: &[(f64, f64)]) -> Value {
    at.iter()
        .map(|(x, y)| json!({"at": {"x": x, "y": y}, "score": 0.9}))
        .collect()
}

/// A thing of every form of attribute.
fn everything() -> TruthObject {
    let body: Vec<(f64, f64)> = (0..17).map(|i| (f64::from(i), f64::from(i % 5))).collect();
    let object = with(car(1, 0.0), "plate", json!({"text": "WR 12"}));
    let object = with(object, "mood", json!({"class": "happy"}));
    let object = with(object, "who", json!({"match": "p01"}));
    let object = with(object, "gaze", json!({"yaw": 10.0, "pitch": -5.0}));
    let object = with(object, "health", json!({"value": 70.0}));
    with(object, "keypoints", points(&body))
}

/// What an event says that is all right.
fn echo(object: &TruthObject) -> Seen {
    let mut seen = seen(&object.class, 0.9, 0.0);
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
        vec![everything(), thing(2, "bus", 50.0)],
        vec![everything()],
    ]);
    let said = truth
        .frames
        .iter()
        .map(|frame| Some(frame.objects.iter().map(echo).collect()));
    let score = scored(&truth, &said.collect::<Vec<_>>());
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
    let truth = clip(vec![vec![everything()]; 4]);
    let right = || Some(vec![echo(&everything())]);
    let score = scored(&truth, &[right(), None, right(), None]);
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
    // What was found is right, however many frames were let go.
    near(&score.all, "attributes/plate/any_width/exact/of_found", 1.0);
    near(&score.all, "classes/car/precision", 1.0);
}

#[test]
fn classes_and_attributes_nobody_looked_for() {
    let truth = clip(vec![vec![everything(), thing(2, "bus", 50.0)]]);
    let said = vec![
        saying(seen("car", 0.9, 0.0), "plate", json!({"text": "x"})),
        seen("boat", 0.5, 0.0),
    ];
    let score = scored(&truth, &[Some(said)]);
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
fn a_thing_found_twice_is_found_once() {
    let truth = clip(vec![vec![car(1, 0.0)]]);
    let score = scored(
        &truth,
        &[Some(vec![seen("car", 0.9, 0.5), seen("car", 0.8, 0.0)])],
    );
    near(&score.all, "classes/car/precision", 0.5);
    near(&score.all, "classes/car/ap", 1.0);
}

#[test]
fn ignored_things_neither_help_nor_hurt() {
    let mut rng = Draws(7);
    for round in 0..200 {
        let (frames, said) = random_frames(&mut rng);
        let truth = clip(frames.clone());
        let plain = scored(&truth, &said);
        // Ignored things far away, each with a detection of its own and with attributes: nothing changes.
        let beside = frames.into_iter().map(|mut objects| {
            let mut hidden = with(car(99, 700.0), "plate", json!({"text": "A"}));
            hidden.ignore = true;
            objects.push(hidden);
            objects
        });
        let beside = clip(beside.collect());
        let found = said.iter().map(|seen| {
            let mut seen = seen.clone()?;
            seen.push(saying(seen_at(700.5), "plate", json!({"text": "B"})));
            Some(seen)
        });
        let with_found = scored(&beside, &found.collect::<Vec<_>>());
        let unfound = scored(&beside, &said);
        for (name, class) in &plain.all.classes {
            assert_eq!(
                Some(class),
                with_found.all.classes.get(name),
                "round {round}, found"
            );
            assert_eq!(
                Some(class),
                unfound.all.classes.get(name),
                "round {round}, not found"
            );
        }
        assert!(with_found.all.attributes.is_empty(), "round {round}");
        // One upon a real thing takes nothing from it.
        let upon = truth.frames.iter().map(|frame| {
            let ignored = frame.objects.iter().cloned().map(|object| TruthObject {
                ignore: true,
                ..object
            });
            frame.objects.iter().cloned().chain(ignored).collect()
        });
        let upon = scored(&clip(upon.collect()), &said);
        for (name, class) in &plain.all.classes {
            assert_eq!(class.right, upon.all.classes[name].right, "round {round}");
            assert!(class.ap <= upon.all.classes[name].ap, "round {round}");
        }
    }
}

fn seen_at(left: f32) -> Seen {
    seen("car", 0.95, left)
}

/// A few frames with things and findings that overlap more or less, some frames not delivered, scores with ties.
fn random_frames(rng: &mut Draws) -> (Vec<Vec<TruthObject>>, Vec<Option<Vec<Seen>>>) {
    let count = 1 + rng.below(4);
    let class = |rng: &mut Draws| if rng.below(3) == 0 { "bus" } else { "car" };
    let mut frames = Vec::new();
    let mut said = Vec::new();
    for _ in 0..count {
        let things = (0..rng.below(5)).map(|id| thing(id, class(rng), rng.below(40) as f32));
        frames.push(things.collect());
        let findings = rng.below(7);
        let findings =
            (0..findings).map(|_| seen(class(rng), rng.below(8) as f32 / 8.0, rng.below(40) as f32));
        let findings: Vec<Seen> = findings.collect();
        said.push((rng.below(5) > 0).then_some(findings));
    }
    (frames, said)
}

/// Average precision straight from its definition: for each threshold match anew, then integrate recall by recall.
fn naive_ap(class: &str, frames: &[Vec<TruthObject>], said: &[Option<Vec<Seen>>]) -> Option<f64> {
    let truths: usize = frames
        .iter()
        .flatten()
        .filter(|object| object.class == class)
        .count();
    let mut ranked: Vec<(f32, usize, usize)> = Vec::new();
    for (frame, seen) in said.iter().enumerate() {
        for (index, seen) in seen
            .iter()
            .flatten()
            .enumerate()
            .filter(|(_, seen)| seen.class == class)
        {
            ranked.push((seen.score, frame, index));
        }
    }
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    // Precision and recall of the first n, each counted from nothing.
    let curve: Vec<(f64, f64)> = (1..=ranked.len())
        .map(|n| {
            let mut used: Vec<(usize, usize)> = Vec::new();
            for &(_, frame, index) in &ranked[..n] {
                let r#box = said[frame].as_ref().unwrap()[index].r#box;
                let free = frames[frame]
                    .iter()
                    .enumerate()
                    .filter(|(thing, object)| object.class == class && !used.contains(&(frame, *thing)));
                let fits = free.map(|(thing, object)| (iou(&object.r#box, &r#box), thing));
                let fits = fits.filter(|(overlap, _)| *overlap >= 0.5);
                let best = fits.fold(None::<(f64, usize)>, |best, fit| match best {
                    Some(best) if best.0 >= fit.0 => Some(best),
                    _ => Some(fit),
                });
                used.extend(best.map(|(_, thing)| (frame, thing)));
            }
            (used.len() as f64 / n as f64, used.len() as f64 / truths as f64)
        })
        .collect();
    let step = |k: usize| {
        let reached = curve
            .iter()
            .filter(|(_, recall)| *recall + 1e-12 >= k as f64 / truths as f64);
        reached.map(|(precision, _)| *precision).fold(0.0, f64::max)
    };
    (truths > 0).then(|| (1..=truths).map(step).sum::<f64>() / truths as f64)
}

#[test]
fn average_precision_is_that_of_its_definition() {
    for seed in 1..=400 {
        let mut rng = Draws(seed);
        let (frames, said) = random_frames(&mut rng);
        let score = scored(&clip(frames.clone()), &said);
        for (name, class) in &score.all.classes {
            let naive = naive_ap(name, &frames, &said);
            let same = match (class.ap, naive) {
                (Some(a), Some(b)) => (a - b).abs() < 1e-9,
                (a, b) => a == b,
            };
            assert!(
                same,
                "seed {seed}, {name}: {:?}, by definition {naive:?}",
                class.ap
            );
        }
    }
}

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
    let read = |object: &TruthObject, text: &str| Seen {
        attributes: [("plate".to_owned(), json!({"text": text}).into())].into(),
        ..echo(object)
    };
    // The second has one character wrong, the third is right, the fourth is found but not read, the first not found.
    let mut unread = echo(&objects[3]);
    unread.attributes.clear();
    let said = vec![read(&objects[1], "BB8B"), read(&objects[2], "CCCC"), unread];
    let score = scored(&clip(vec![objects]), &[Some(said)]);
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
    let said = saying(
        seen("car", 0.9, 0.0),
        "health",
        json!({"text": "70", "score": 0.9}),
    );
    let score = scored(&truth, &[Some(vec![said])]);
    assert_eq!(at(&score.all, "attributes/health/said"), 0);
    near(&score.all, "attributes/health/exact/of_found", 0.0);
}

#[test]
fn values_have_margins() {
    let health = |id: u64, left: f32| with(car(id, left), "health", json!({"value": 70.0}));
    let said = |left: f32, value: f64| saying(seen("car", 0.9, left), "health", json!({"value": value}));
    let truth = clip(vec![(0..5).map(|id| health(id, id as f32 * 20.0)).collect()]);
    let found = vec![
        said(0.0, 70.4),
        said(20.0, 70.5),
        said(40.0, 68.0),
        said(60.0, 75.0),
    ];
    let score = scored(&truth, &[Some(found)]);
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
fn who_is_known_and_who_is_taken_for_somebody() {
    let who = |id: u64, name: Value| with(car(id, id as f32 * 20.0), "who", json!({"match": name}));
    let said = |id: u64, name: Value| {
        saying(
            seen("car", 0.9, id as f32 * 20.0),
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
    let score = scored(&truth, &[Some(found)]);
    near(&score.all, "attributes/who/top_1/of_found", 0.5);
    near(&score.all, "attributes/who/top_1/of_all", 1.0 / 3.0);
    assert_eq!(at(&score.all, "attributes/who/strangers/truths"), 2);
    assert_eq!(at(&score.all, "attributes/who/strangers_named"), 1);
}

#[test]
fn confusions_are_listed_most_frequent_first() {
    let mood = |id: u64, class: &str| with(car(id, id as f32 * 20.0), "mood", json!({"class": class}));
    let said = |id: u64, class: &str| {
        saying(
            seen("car", 0.9, id as f32 * 20.0),
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
    let score = scored(&truth, &[Some(found)]);
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
        let mut seen = echo(object);
        seen.attributes
            .insert("keypoints".to_owned(), said_points(said).into());
        let score = scored(&clip(vec![vec![object.clone()]]), &[Some(vec![seen])]);
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
    let score = scored(
        &clip(vec![vec![hidden.clone(), elsewhere]]),
        &[Some(vec![echo(&hidden)])],
    );
    near(&score.all, "attributes/keypoints/pck_of_found", 1.0);
    near(&score.all, "attributes/keypoints/pck_of_all", 16.0 / 33.0);
}

#[test]
fn tracks_that_change_and_break_off_are_counted() {
    let truth: Vec<FrameTruth> = (0..6).map(|frame| frame_of(frame, vec![car(1, 0.0)])).collect();
    let tracked = |track: i64| {
        Some(vec![Seen {
            track: Some(track),
            ..seen("car", 0.9, 0.0)
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
    let one = score(&[&whole], &frames);
    assert_eq!(counts(&one.all), (1, 1, 2));
    assert_eq!(counts(&one.delivered), (1, 1, 1));
    // Another round of a loop: its things are others.
    frames[5].sequence = 1;
    assert_eq!(counts(&score(&[&whole], &frames).all), (2, 0, 1));
}
