//! Candidates are events where their tracks were, and only of classes and trackers of which that is asked.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_analytics::{
    AnalyticsPlan, FrameAnalytics, Parts, StreamAnalytics, TrackIds, TrackerPlan, TrackerSettings,
};
use weir_flow::{Frame, Image, ModuleOutput, Object, ObjectRef, Points, Rect, RequestResults, StreamNames};

/// A person and a car that stand still, candidates or not.
fn results(candidate: bool) -> RequestResults {
    let object = |class: &str, x: f32| Object {
        class: class.into(),
        score: if candidate { 0.8 } else { 0.9 },
        rect: Rect::new(x, 10.0, x + 40.0, 90.0),
        parent: None,
        points: Points::None,
        candidate,
    };
    let mut results = RequestResults::default();
    let objects = vec![object("person", 0.0), object("car", 200.0)];
    results.add(
        0,
        ModuleOutput {
            objects,
            attributes: Vec::new(),
        },
    );
    results
}

/// Returns the analytics of frames with a person and a car, which are candidates or not by frame.
fn frames(candidates: &[bool]) -> Vec<FrameAnalytics> {
    let tracker = TrackerPlan {
        streams: StreamNames::default(),
        modules: [0].into(),
        classes: Vec::new(),
        appearance: None,
        settings: TrackerSettings::default(),
        parts: Parts::default(),
        confirmed: vec!["person".into()],
    };
    let plan = AnalyticsPlan {
        trackers: vec![tracker],
        ..AnalyticsPlan::default()
    };
    let (mut analytics, mut ids) = (
        StreamAnalytics::new(&Arc::new(plan), "camera"),
        TrackIds::default(),
    );
    let frames = (0..).zip(candidates).map(|(index, candidate)| {
        let frame = Frame::new(index, index as f64 * 40.0, Image::from_rgb(2, 2, vec![0; 12]));
        analytics.on_frame(&frame, index * 40, &results(*candidate), &mut ids)
    });
    frames.collect()
}

/// Returns for each frame whether the person, and whether the car, is an event by its track.
fn confirmed(candidates: &[bool]) -> Vec<(bool, bool)> {
    let (shown, other): (BTreeSet<u32>, BTreeSet<u32>) = ([0].into(), [1].into());
    let of_frame = |found: FrameAnalytics| {
        let [person, car] = [0, 1].map(|index| ObjectRef { module: 0, index });
        assert!(!found.is_confirmed(person, &other), "another tracker");
        (
            found.is_confirmed(person, &shown),
            found.is_confirmed(car, &shown),
        )
    };
    frames(candidates).into_iter().map(of_frame).collect()
}

#[test]
fn a_candidate_of_a_track_is_an_event_where_its_class_is_named() {
    let (event, candidate) = (false, true);
    let found = confirmed(&[event, event, candidate, event]);
    assert_eq!(
        found,
        [(false, false), (false, false), (true, false), (false, false)]
    );
}

#[test]
fn what_was_never_an_event_is_none_by_its_track() {
    assert_eq!(confirmed(&[true; 6]), [(false, false); 6]);
}

#[test]
fn a_candidate_begins_no_track_however_high_its_score() {
    let tracked = |candidates: &[bool]| -> Vec<usize> {
        let frames = frames(candidates).into_iter();
        frames.map(|found| found.tracks.len()).collect()
    };
    assert_eq!(tracked(&[true; 4]), [0; 4]);
    assert_eq!(
        tracked(&[true, false, false, true]),
        [0, 0, 2, 2],
        "but continues one"
    );
}

#[test]
fn what_its_track_does_not_confirm_is_nothing_to_transforms() {
    let mut candidates = [true; 10];
    candidates[..4].fill(false);
    let doubtful = frames(&candidates).into_iter().map(|found| found.doubtful.len());
    let expected = [0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
    assert_eq!(doubtful.collect::<Vec<_>>(), expected, "of any class");
}

#[test]
fn a_track_is_new_where_transforms_are_shown_it_first() {
    let (event, candidate) = (false, true);
    let new = |candidates: &[bool]| -> Vec<Vec<f64>> {
        let of_frame =
            |found: FrameAnalytics| found.new_tracks.iter().map(|new| new.first.0.pts_ms).collect();
        frames(candidates).into_iter().map(of_frame).collect()
    };
    let (none, two) = (vec![], vec![0.0; 2]);
    assert_eq!(new(&[event; 3]), [none.clone(), two.clone(), none.clone()]);
    assert_eq!(
        new(&[event, candidate, event, event]),
        [none.clone(), none.clone(), two, none],
        "not where its track does not confirm it yet"
    );
}
