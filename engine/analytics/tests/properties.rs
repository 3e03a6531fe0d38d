//! Properties of tracks for any input: ids are unique, an object that moves evenly keeps its id while half of
//! its frames are missing, the order of detections has no effect, and nothing grows without bound.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use weir_analytics::{Detection, FrameTime, TrackIds, Tracker, TrackerSettings};
use weir_flow::Rect;

fn at(pts_ms: f64) -> FrameTime {
    FrameTime {
        pts_ms,
        time_ms: 1_763_859_724_000 + pts_ms as u64,
    }
}

fn car() -> Arc<str> {
    "car".into()
}

/// Ids of the detections that have one.
fn track(
    tracker: &mut Tracker,
    ids: &mut TrackIds,
    pts_ms: f64,
    boxes: &[(Rect, f32)],
    class: &Arc<str>,
) -> Vec<Option<u64>> {
    let boxes = boxes.iter();
    let detections: Vec<Detection<'_>> = boxes
        .map(|(rect, score)| Detection {
            rect: *rect,
            score: *score,
            class,
            appearance: None,
            candidate: false,
        })
        .collect();
    let (tracks, _) = tracker.on_frame(at(pts_ms), &detections, ids);
    let id = |track: Option<usize>| tracker.id(track?);
    tracks.into_iter().map(id).collect()
}

fn any_box() -> impl Strategy<Value = (Rect, f32)> {
    (
        0.0_f32..600.0,
        0.0_f32..400.0,
        4.0_f32..200.0,
        4.0_f32..200.0,
        0.0_f32..1.0,
    )
        .prop_map(|(x, y, width, height, score)| (Rect::new(x, y, x + width, y + height), score))
}

/// Frames of boxes that are anywhere, each so long after the one before.
fn any_frames() -> impl Strategy<Value = Vec<(f64, Vec<(Rect, f32)>)>> {
    prop::collection::vec((0.0_f64..500.0, prop::collection::vec(any_box(), 0..12)), 1..20)
}

/// Ids of two objects that change places while they are hidden for a second and a half, before and after; `looks`: whether they
/// have embeddings.
fn change_places(looks: bool, settings: TrackerSettings) -> ([Option<u64>; 2], [Option<u64>; 2]) {
    let (mut tracker, mut ids, class) = (Tracker::new(settings), TrackIds::default(), car());
    let looks_of = [[1.0_f32, 0.0], [-0.6, 0.8]];
    let mut frame = |pts_ms: f64, places: [f32; 2]| {
        let detections: Vec<Detection<'_>> = places
            .iter()
            .zip(&looks_of)
            .map(|(x, look)| Detection {
                rect: Rect::new(*x, 100.0, x + 40.0, 200.0),
                score: 0.9,
                class: &class,
                appearance: looks.then_some(&look[..]),
                candidate: false,
            })
            .collect();
        let (tracks, _) = tracker.on_frame(at(pts_ms), &detections, &mut ids);
        let tracks: Vec<Option<u64>> = tracks.into_iter().map(|track| tracker.id(track?)).collect();
        [tracks[0], tracks[1]]
    };
    let mut before = [None; 2];
    for index in 0..5 {
        before = frame(f64::from(index) * 40.0, [100.0, 150.0]);
    }
    let mut after = [None; 2];
    for index in 0..3 {
        after = frame(1660.0 + f64::from(index) * 40.0, [150.0, 100.0]);
    }
    (before, after)
}

#[test]
fn objects_that_changed_places_while_hidden_are_known_again_by_their_embeddings_alone() {
    let (before, after) = change_places(false, TrackerSettings::default());
    assert_eq!(before, [after[1], after[0]], "by place");
    let (before, after) = change_places(true, TrackerSettings::default());
    assert!(before[0].is_some() && before == after, "{before:?} {after:?}");
}

#[test]
fn a_track_with_an_embedding_is_remembered_for_as_long_as_it_is_to_be() {
    let settings = TrackerSettings {
        lost_after_ms: 1000.0,
        remember_ms: 2000.0,
        ..TrackerSettings::default()
    };
    let (before, after) = change_places(true, settings);
    assert_eq!(before, after);
    let (before, after) = change_places(false, settings);
    assert!(after.iter().all(|id| id.is_some() && !before.contains(id)));
}

proptest! {
    #[test]
    fn no_two_objects_of_a_frame_have_one_track_and_no_track_that_ended_comes_again(frames in any_frames()) {
        let (mut tracker, mut ids) = (Tracker::new(TrackerSettings::default()), TrackIds::default());
        let (class, mut pts_ms, mut ended) = (car(), 0.0, BTreeSet::new());
        for (wait, boxes) in frames {
            pts_ms += wait;
            let detections: Vec<Detection<'_>> =
                boxes.iter().map(|(rect, score)| Detection { rect: *rect, score: *score, class: &class, appearance: None, candidate: false }).collect();
            let (tracks, ends) = tracker.on_frame(at(pts_ms), &detections, &mut ids);
            for end in ends {
                prop_assert!(end.last_pts_ms >= end.began_pts_ms && pts_ms - end.last_pts_ms > 2000.0);
                prop_assert!(ended.insert(end.id), "a track ends once");
            }
            let shown: Vec<u64> = tracks.into_iter().filter_map(|track| tracker.id(track?)).collect();
            let distinct: BTreeSet<u64> = shown.iter().copied().collect();
            prop_assert_eq!(distinct.len(), shown.len());
            prop_assert!(distinct.is_disjoint(&ended));
        }
        let rest = tracker.close();
        prop_assert!(rest.iter().all(|end| ended.insert(end.id)));
        prop_assert_eq!(tracker.track_count(), 0);
    }

    #[test]
    fn an_object_that_moves_evenly_keeps_its_id_while_half_of_its_frames_are_missing(
        x in 0.0_f32..500.0, y in 0.0_f32..300.0, side in 20.0_f32..120.0,
        speed in (-3.0_f32..3.0, -2.0_f32..2.0), noise in prop::collection::vec(-0.02_f32..0.02, 120),
        shown in prop::collection::vec(any::<bool>(), 60),
    ) {
        let (mut tracker, mut ids) = (Tracker::new(TrackerSettings::default()), TrackIds::default());
        let (class, mut seen) = (car(), BTreeSet::new());
        for frame in 0..60 {
            // It is seen twice before frames are missing: only then is its motion known.
            if frame > 2 && !shown[frame] {
                continue;
            }
            let seconds = frame as f32 / 30.0;
            // Speeds are in sides of the box a second.
            let (left, top) = (
                x + side * (speed.0 * seconds + noise[2 * frame]),
                y + side * (speed.1 * seconds + noise[2 * frame + 1]),
            );
            let rect = Rect::new(left, top, left + side, top + side);
            seen.extend(track(&mut tracker, &mut ids, f64::from(seconds) * 1e3, &[(rect, 0.9)], &class).into_iter().flatten());
        }
        prop_assert_eq!(seen.len(), 1);
    }

    #[test]
    fn the_order_of_detections_is_of_no_effect(frames in any_frames(), seed in 0_usize..1000) {
        let class = car();
        let mut both = [false, true].map(|turned| {
            let (mut tracker, mut ids) = (Tracker::new(TrackerSettings::default()), TrackIds::default());
            let (mut pts_ms, mut all) = (0.0, Vec::new());
            for (wait, boxes) in &frames {
                pts_ms += wait;
                let mut boxes = boxes.clone();
                if turned && !boxes.is_empty() {
                    let by = seed % boxes.len();
                    boxes.rotate_left(by);
                }
                let tracked = track(&mut tracker, &mut ids, pts_ms, &boxes, &class);
                let mut found: Vec<_> = boxes
                    .iter()
                    .map(|(rect, score)| [rect.x0, rect.y0, rect.x1, rect.y1, *score].map(f32::to_bits))
                    .zip(tracked)
                    .collect();
                found.sort_unstable();
                all.push(found);
            }
            all
        });
        let [straight, turned] = &mut both;
        prop_assert_eq!(straight, turned);
    }
}

#[test]
fn what_never_ends_is_kept_within_bounds() {
    let (mut tracker, mut ids) = (Tracker::new(TrackerSettings::default()), TrackIds::default());
    let class = car();
    // Other objects in each frame, far from those before, of which none is lost for a second.
    for frame in 0..40 {
        let boxes: Vec<(Rect, f32)> = (0..100)
            .map(|index| {
                let (x, y) = (frame as f32 * 50.0, index as f32 * 50.0);
                (Rect::new(x, y, x + 10.0, y + 10.0), 0.9)
            })
            .collect();
        for again in 0..2 {
            let pts_ms = f64::from(frame * 40 + again * 20);
            track(&mut tracker, &mut ids, pts_ms, &boxes, &class);
        }
        assert!(tracker.track_count() <= 1000, "{}", tracker.track_count());
    }
    assert_eq!(tracker.track_count(), 1000, "the bound was reached");
    let thousands: Vec<(Rect, f32)> = (0..5000)
        .map(|index| (Rect::new(0.0, index as f32, 10.0, index as f32 + 10.0), 0.9))
        .collect();
    let tracked = track(&mut tracker, &mut ids, 60_000.0, &thousands, &class);
    assert_eq!(tracked.len(), 5000);
    assert!(tracker.track_count() <= 1000);
}

#[test]
fn boxes_that_are_none_and_time_that_goes_back_do_no_harm() {
    let (mut tracker, mut ids) = (Tracker::new(TrackerSettings::default()), TrackIds::default());
    let class = car();
    let good = Rect::new(0.0, 0.0, 30.0, 30.0);
    let odd = [
        (Rect::new(f32::NAN, 0.0, 1.0, 1.0), 0.9),
        (Rect::new(0.0, 0.0, f32::INFINITY, 1.0), 0.9),
        (Rect::new(5.0, 5.0, 5.0, 9.0), 0.9),
        (good, f32::NAN),
        (good, 0.9),
    ];
    for frame in 0..3 {
        let tracked = track(&mut tracker, &mut ids, f64::from(frame) * 40.0, &odd, &class);
        assert!(tracked[..4].iter().all(Option::is_none));
        assert_eq!(tracked[4].is_some(), frame > 0, "tentative in its first frame");
    }
    assert_eq!(tracker.track_count(), 1);
    let (_, ended) = tracker.on_frame(at(10.0), &[], &mut ids);
    assert_eq!(ended.len(), 1, "another time, another scene");
}

/// Ids of a car that stands for `stood_ms` at a place, is hidden for `hidden_ms`, and is seen at `after` then.
fn hidden(
    settings: TrackerSettings,
    stood_ms: f64,
    hidden_ms: f64,
    after: f32,
) -> (Option<u64>, Option<u64>) {
    let (mut tracker, mut ids, class) = (Tracker::new(settings), TrackIds::default(), car());
    let at_x = |x: f32| [(Rect::new(x, 100.0, x + 100.0, 160.0), 0.9)];
    let mut seen = [None; 2];
    for frame in 0..=(stood_ms / 200.0) as u32 {
        let time = f64::from(frame) * 200.0;
        seen[0] = track(&mut tracker, &mut ids, time, &at_x(200.0), &class)[0];
    }
    let mut time = 200.0;
    while time < hidden_ms {
        track(&mut tracker, &mut ids, stood_ms + time, &[], &class);
        time += 200.0;
    }
    for frame in 0..3 {
        let time = stood_ms + hidden_ms + f64::from(frame) * 200.0;
        seen[1] = track(&mut tracker, &mut ids, time, &at_x(after), &class)[0];
    }
    (seen[0], seen[1])
}

#[test]
fn a_still_object_that_is_hidden_for_seconds_keeps_its_track() {
    let default = TrackerSettings::default();
    let check = |stood_ms, hidden_ms, after, keeps: bool| {
        let (before, now) = hidden(default, stood_ms, hidden_ms, after);
        assert!(before.is_some() && now.is_some());
        assert_eq!(before == now, keeps, "{stood_ms} {hidden_ms} {after}");
    };
    check(5_000.0, 3_000.0, 200.0, true);
    check(5_000.0, 9_000.0, 210.0, true);
    check(5_000.0, 11_000.0, 200.0, false);
    // Another place; and one that had only just come.
    check(5_000.0, 3_000.0, 290.0, false);
    check(1_000.0, 4_000.0, 200.0, false);
}

/// A car that stands half behind another is seen badly in one frame, at `x`, as `class`, with the other seen well or not at all: whether
/// that continues its track.
fn continues_behind(x: f32, class: &str, other_is_seen: bool) -> bool {
    let (mut tracker, mut ids) = (Tracker::new(TrackerSettings::default()), TrackIds::default());
    let (car, class) = (car(), Arc::<str>::from(class));
    let mut frame = |pts_ms: f64, seen: &[(f32, f32, &Arc<str>)]| {
        let detections: Vec<Detection<'_>> = seen
            .iter()
            .map(|(x, score, class)| Detection {
                rect: Rect::new(*x, 100.0, x + 100.0, 160.0),
                score: *score,
                class,
                appearance: None,
                candidate: false,
            })
            .collect();
        let (tracks, _) = tracker.on_frame(at(pts_ms), &detections, &mut ids);
        tracks[0].and_then(|track| tracker.id(track))
    };
    let mut known = None;
    for time in 0..5 {
        known = frame(f64::from(time) * 40.0, &[(200.0, 0.9, &car), (230.0, 0.9, &car)]);
    }
    assert!(known.is_some());
    let badly = [(x, 0.3, &class), (230.0, 0.9, &car)];
    let last = frame(200.0, if other_is_seen { &badly } else { &badly[..1] });
    assert!(last.is_none() || last == known, "never the track of the other");
    last.is_some()
}

#[test]
fn what_is_seen_badly_continues_a_track_of_its_class_unless_it_lies_on_what_is_seen_well() {
    assert!(continues_behind(195.0, "car", true), "where it stands");
    assert!(!continues_behind(215.0, "car", true), "as much the other's");
    assert!(continues_behind(215.0, "car", false), "there is no other");
    assert!(!continues_behind(200.0, "person", true), "of another class");
}
