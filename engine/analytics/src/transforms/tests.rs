//! Transforms over made-up tracks, at full rate and with frames missing, against what is plain from how they were made.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use weir_flow::{Attribute, Incident, IncidentValue, Phase, Rect, StreamNames, TrackEnd};

use super::*;
use crate::FrameTime;

const WIDTH: u32 = 1000;
const HEIGHT: u32 = 500;

fn transform(name: &str, outline: &[[f64; 2]], kind: TransformKind) -> StreamTransform {
    let points = outline
        .iter()
        .map(|[x, y]| Position::new(*x, *y))
        .collect::<Vec<_>>();
    StreamTransform {
        streams: StreamNames::default(),
        name: name.into(),
        spec: TransformSpec {
            classes: Vec::new(),
            anchor: Anchor::Bottom,
            outline: (!points.is_empty()).then_some(Outline {
                points,
                units: Units::Parts,
            }),
            every_ms: 1e9,
            kind,
        },
        modules: BTreeSet::new(),
        trackers: [0].into(),
    }
}

/// A line across the middle of the frame from top to bottom: to the right of it, looking down it, is left in the picture.
fn line() -> StreamTransform {
    let kind = TransformKind::Line {
        margin: 0.1,
        settle_ms: 1000.0,
        directions: ["in".into(), "out".into()],
    };
    transform("gate", &[[0.5, 0.0], [0.5, 1.0]], kind)
}

fn zone() -> StreamTransform {
    let kind = TransformKind::Zone {
        margin: 0.1,
        settle_ms: 2000.0,
    };
    transform("yard", &[[0.4, 0.0], [0.6, 0.0], [0.6, 1.0], [0.4, 1.0]], kind)
}

/// A bay that is the whole frame, where objects park after five seconds.
fn bay() -> StreamTransform {
    let still = Still {
        after_ms: 5000.0,
        within: 0.25,
    };
    let kind = TransformKind::Parked {
        still,
        rejoin_ms: 4000.0,
    };
    transform("bay", &[], kind)
}

fn rule(spec: RuleSpec) -> StreamTransform {
    transform("rule", &[], TransformKind::Rule(spec))
}

/// A stream whose boxes are 40 pixels wide and high; the lower edge is at `y`.
struct Stream {
    transforms: StreamTransforms,
    class: Arc<str>,
    attributes: Vec<(Arc<str>, Attribute)>,
    is_stationary: bool,
    found: Vec<Incident>,
    last: FrameTime,
    /// Pictures have so many times the usual width and height.
    scale: u32,
}

fn moment(pts_ms: f64) -> FrameTime {
    FrameTime {
        pts_ms,
        time_ms: 1_700_000_000_000 + pts_ms.round() as u64,
    }
}

impl Stream {
    fn new(transforms: Vec<StreamTransform>) -> Self {
        Self {
            transforms: StreamTransforms::new("north".into(), transforms, 1_700_000_000),
            class: "car".into(),
            attributes: Vec::new(),
            is_stationary: false,
            found: Vec::new(),
            last: moment(0.0),
            scale: 1,
        }
    }

    fn frame(&mut self, pts_ms: f64, tracks: &[(u64, f64, f64)]) {
        let objects: Vec<SceneObject<'_>> = tracks
            .iter()
            .map(|(track, x, y)| SceneObject {
                module: 0,
                track: Some((0, *track)),
                first: None,
                class: &self.class,
                score: 0.9,
                rect: Rect::new(*x as f32 - 20.0, *y as f32 - 40.0, *x as f32 + 20.0, *y as f32)
                    .scaled(self.scale as f32, self.scale as f32),
                is_stationary: self.is_stationary,
                attributes: &self.attributes,
            })
            .collect();
        self.last = moment(pts_ms);
        let incidents = self.transforms.on_frame(&SceneFrame {
            width: WIDTH * self.scale,
            height: HEIGHT * self.scale,
            at: self.last,
            objects: &objects,
            ended: &[],
            pixels: None,
        });
        self.found.extend(incidents);
    }

    fn end(mut self) -> Vec<Incident> {
        let incidents = self.transforms.close(&[]);
        self.found.extend(incidents);
        self.found
    }
}

#[test]
fn a_track_crosses_from_where_it_was_seen_first_before_it_counted() {
    let mut stream = Stream::new(vec![line()]);
    let class: Arc<str> = "car".into();
    let rect = |x: f32| Rect::new(x - 20.0, 60.0, x + 20.0, 100.0);
    let mut found = Vec::new();
    for (pts_ms, first, x) in [
        (200.0, Some((moment(0.0), rect(480.0))), 521.0),
        (400.0, None, 560.0),
    ] {
        let objects = [SceneObject {
            module: 0,
            track: Some((0, 7)),
            first,
            class: &class,
            score: 0.9,
            rect: rect(x),
            is_stationary: false,
            attributes: &[],
        }];
        found.extend(stream.transforms.on_frame(&SceneFrame {
            width: WIDTH,
            height: HEIGHT,
            at: moment(pts_ms),
            objects: &objects,
            ended: &[],
            pixels: None,
        }));
    }
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].track, found[0].pts_ms.round()), (Some(7), 98.0));
}

fn value<'a>(incident: &'a Incident, name: &str) -> &'a IncidentValue {
    let found = incident.values.iter().find(|(known, _)| *known == name);
    &found.expect("the kind measures it").1
}

fn number(incident: &Incident, name: &str) -> f64 {
    match value(incident, name) {
        IncidentValue::Number(number) => *number,
        IncidentValue::Text(text) => panic!("{name} is {text}"),
    }
}

fn phases(found: &[Incident]) -> Vec<Phase> {
    found.iter().map(|incident| incident.phase).collect()
}

#[test]
fn a_crossing_counts_once_where_an_object_jitters_at_the_line_and_its_time_lies_between_frames() {
    let mut stream = Stream::new(vec![line()]);
    for (pts_ms, x) in [
        (0.0, 470.0),
        (100.0, 490.0),
        (300.0, 502.0),
        (400.0, 499.0),
        (500.0, 503.0),
        (600.0, 540.0),
        (700.0, 560.0),
    ] {
        stream.frame(pts_ms, &[(1, x, 300.0)]);
    }
    let found = stream.end();
    assert_eq!(found.len(), 1);
    let crossing = &found[0];
    assert_eq!(&*crossing.id, &format!("north/gate/{}", 1_700_000_000u64 << 20));
    assert_eq!(crossing.phase, Phase::Ended);
    assert_eq!(*value(crossing, "direction"), IncidentValue::Text("out".into()));
    assert!((crossing.pts_ms - 425.0).abs() < 1e-6, "{}", crossing.pts_ms);
    assert_eq!(crossing.time_ms, 1_700_000_000_425);
    assert_eq!(
        (crossing.track, crossing.class.as_deref()),
        (Some(1), Some("car"))
    );
}

#[test]
fn what_turns_back_at_the_line_does_not_count_and_what_ends_behind_it_does() {
    let mut stream = Stream::new(vec![line()]);
    for (pts_ms, x) in [(0.0, 490.0), (100.0, 503.0), (200.0, 480.0)] {
        stream.frame(pts_ms, &[(1, x, 300.0), (2, x.min(503.0) + 1.0, 200.0)]);
    }
    stream.frame(300.0, &[(1, 450.0, 300.0), (2, 502.0, 200.0)]);
    let found = stream.end();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].track, Some(2));
}

/// Crossings of a box of 40 pixels that is at these distances from the line, one every `step_ms`.
fn crossings(step_ms: f64, distances: impl IntoIterator<Item = f64>) -> usize {
    let mut stream = Stream::new(vec![line()]);
    for (frame, distance) in distances.into_iter().enumerate() {
        stream.frame(frame as f64 * step_ms, &[(1, 500.0 + distance, 300.0)]);
    }
    stream.end().len()
}

#[test]
fn frames_beyond_the_line_are_crossings_only_where_they_last() {
    let sides = |sides: &str, step_ms: f64, distance: f64| {
        let at = |side| if side == 'A' { -distance } else { distance };
        crossings(step_ms, sides.chars().map(at))
    };
    let check = |text: &str, distance: f64, expected: usize| {
        for step_ms in [40.0, 100.0, 500.0] {
            assert_eq!(
                sides(text, step_ms, distance),
                expected,
                "{text} {step_ms} {distance}"
            );
        }
    };
    // A fifth of its size from the line, and more than half of it.
    for distance in [8.0, 30.0] {
        check("AAAAABAAAAA", distance, 0);
        check("BBBBBABBBBB", distance, 0);
        check("AAAABBBBABBBB", distance, 1);
        check("AAAAAABBBBBB", distance, 1);
    }
    check("ABABABABABA", 8.0, 0);
    check("AAAAAB", 8.0, 0);
    check(
        "AAABBBBBBBBBBBBBBBBBBBBBBBBBBBBBBAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        8.0,
        2,
    );
}

proptest! {
    /// Someone who stands on the line, whatever the jitter up to a fifth of the box does.
    #[test]
    fn standing_on_the_line_is_no_crossing(
        jitter in prop::collection::vec(-8.0..8.0f64, 250),
        step_ms in prop::sample::select(vec![40.0, 66.7, 100.0]),
    ) {
        prop_assert!(crossings(step_ms, jitter) <= 1);
    }
}

#[test]
fn a_visit_is_as_long_as_between_its_crossings_and_counts_who_is_within() {
    let mut stream = Stream::new(vec![zone()]);
    // 200 px in 2 s; frames 300 ms apart miss both borders.
    for frame in 0..=14 {
        let pts_ms = f64::from(frame) * 300.0;
        stream.frame(pts_ms, &[(1, 310.0 + pts_ms * 0.1, 300.0), (2, 500.0, 200.0)]);
    }
    let found = stream.end();
    let of = |track| {
        found
            .iter()
            .filter(move |it| it.track == Some(track))
            .collect::<Vec<_>>()
    };
    let visit = of(1);
    assert_eq!(
        visit.iter().map(|it| it.phase).collect::<Vec<_>>(),
        [Phase::Began, Phase::Ended]
    );
    assert!(
        (number(visit[1], "dwell_s") - 2.0).abs() < 1e-3,
        "{:?}",
        visit[1].values
    );
    assert_eq!(number(visit[0], "occupancy"), 2.0);
    assert_eq!(&*visit[0].zones, ["yard".into()]);
    // An object that was within from the beginning stays within until the stream ends.
    assert_eq!(of(2)[1].pts_ms, 4200.0);
}

#[test]
fn a_visitor_whose_feet_are_below_the_picture_stays_in_a_zone_that_reaches_its_edge() {
    let outline = [[0.2, 0.5], [0.8, 0.5], [0.8, 1.0], [0.2, 1.0]];
    let kind = TransformKind::Zone {
        margin: 0.1,
        settle_ms: 2000.0,
    };
    let crowd = TransformKind::Crowd {
        min: 1,
        after_ms: 1000.0,
    };
    let zone = transform("yard", &outline, kind);
    let mut stream = Stream::new(vec![zone, transform("crowd", &outline, crowd)]);
    // One comes nearer and stands before the camera; the other is there from the beginning.
    for frame in 0..100 {
        let y = (300.0 + f64::from(frame) * 10.0).min(f64::from(HEIGHT));
        stream.frame(
            f64::from(frame) * 100.0,
            &[(1, 400.0, y), (2, 600.0, f64::from(HEIGHT))],
        );
    }
    let last = stream.last.pts_ms;
    let found = stream.end();
    for track in [Some(1), Some(2)] {
        let visit = found.iter().filter(|it| it.kind == "zone" && it.track == track);
        let visit: Vec<(Phase, f64)> = visit.map(|it| (it.phase, it.pts_ms)).collect();
        assert_eq!(visit, [(Phase::Began, 0.0), (Phase::Ended, last)], "{track:?}");
    }
    let crowd = found.iter().filter(|it| it.kind == "crowd");
    assert_eq!(
        crowd.map(|it| (it.phase, it.pts_ms)).collect::<Vec<_>>(),
        [(Phase::Began, 1000.0), (Phase::Ended, last)]
    );
}

#[test]
fn a_rule_asks_for_zone_class_hour_and_attribute_and_lasts_while_all_hold() {
    let spec = RuleSpec {
        min_score: 0.5,
        zones: vec!["yard".into()],
        schedule: Schedule {
            hours: Some(Hours { from: 0, until: 1439 }),
            ..Schedule::default()
        },
        attributes: vec![("identity".into(), Wanted::OneOf(vec!["unknown".into()]))],
        skips_stationary: false,
        after_ms: 500.0,
        end_after_ms: 400.0,
    };
    let mut stream = Stream::new(vec![rule(spec), zone()]);
    stream.attributes = vec![(
        "identity".into(),
        Attribute::Match {
            r#match: None,
            cosine: Some(0.1),
            vector: None,
        },
    )];
    for frame in 0..40 {
        let x = 300.0 + f64::from(frame) * 10.0;
        stream.frame(f64::from(frame) * 100.0, &[(1, x, 300.0)]);
    }
    let found = stream.end();
    let held: Vec<&Incident> = found.iter().filter(|it| it.kind == "rule").collect();
    assert_eq!(
        held.iter().map(|it| it.phase).collect::<Vec<_>>(),
        [Phase::Began, Phase::Ended]
    );
    assert!(
        (number(held[1], "lasted_s") - 2.0).abs() < 0.2,
        "{:?}",
        held[1].values
    );
    assert_eq!(held[0].id, held[1].id);
    assert_eq!(held[0].attributes.len(), 1);
}

#[test]
fn a_rule_without_stationary_objects_ends_when_its_object_is_stationary() {
    for skips_stationary in [false, true] {
        let spec = RuleSpec {
            skips_stationary,
            end_after_ms: 400.0,
            ..RuleSpec::default()
        };
        let mut stream = Stream::new(vec![rule(spec)]);
        for frame in 0..40 {
            stream.is_stationary = (10..30).contains(&frame);
            stream.frame(f64::from(frame) * 100.0, &[(1, 300.0, 300.0)]);
        }
        let found = stream.end();
        let began = found.iter().filter(|it| it.phase == Phase::Began).count();
        assert_eq!(began, if skips_stationary { 2 } else { 1 });
    }
}

#[test]
fn speed_on_the_ground_is_that_of_the_object_however_far_away_it_is() {
    // A road of 8 m by 40 m that narrows with the distance.
    let ground = [(0.0, 40.0), (8.0, 40.0), (8.0, 0.0), (0.0, 0.0)].map(|(x, y)| Position::new(x, y));
    let outline = [[0.45, 0.2], [0.55, 0.2], [0.9, 0.9], [0.1, 0.9]];
    let kind = TransformKind::Speed {
        ground,
        window_ms: 1000.0,
        above_kmh: 0.0,
    };
    let picture = outline.map(|[x, y]| Position::new(x * f64::from(WIDTH), y * f64::from(HEIGHT)));
    let to_picture = Homography::new(ground, picture).expect("in general position");
    let mut stream = Stream::new(vec![transform("radar", &outline, kind)]);
    for frame in 0..60 {
        // 15 m/s, every third frame missing.
        let pts_ms = f64::from(frame) * 50.0;
        if frame % 3 == 1 {
            continue;
        }
        let at = to_picture.apply(Position::new(4.0, 39.0 - pts_ms * 0.015));
        if let Some(at) = at.filter(|at| at.y < f64::from(HEIGHT) - 5.0) {
            stream.frame(pts_ms, &[(1, at.x, at.y)]);
        }
    }
    let found = stream.end();
    let last = found.last().expect("it passed");
    assert_eq!(last.phase, Phase::Ended);
    assert!(
        (number(last, "speed_kmh") - 54.0).abs() < 0.6,
        "{:?}",
        last.values
    );
}

#[test]
fn a_parked_car_stays_the_same_incident_when_its_track_changes_behind_a_bus() {
    let mut stream = Stream::new(vec![bay()]);
    for frame in 0..=100 {
        let jitter = f64::from(frame % 3) * 2.0;
        stream.frame(f64::from(frame) * 100.0, &[(1, 300.0 + jitter, 300.0)]);
    }
    let end = TrackEnd {
        id: 1,
        class: "car".into(),
        began_ms: 0,
        last_seen_ms: 0,
        began_pts_ms: 0.0,
        last_pts_ms: 10_000.0,
        attributes: Vec::new(),
    };
    let ended = stream.transforms.on_frame(&SceneFrame {
        width: WIDTH,
        height: HEIGHT,
        at: moment(11_000.0),
        objects: &[],
        ended: &[end],
        pixels: None,
    });
    assert!(ended.is_empty(), "{ended:?}");
    stream.frame(13_000.0, &[(2, 302.0, 301.0)]);
    stream.frame(14_000.0, &[(2, 400.0, 301.0)]);
    let found = stream.end();
    assert_eq!(phases(&found), [Phase::Began, Phase::Ended]);
    assert_eq!((found[0].track, found[1].track), (Some(1), Some(2)));
    assert!((number(&found[1], "stood_s") - 14.0).abs() < 1e-6);
}

#[test]
fn a_change_of_size_moves_nothing() {
    let mut stream = Stream::new(vec![line(), bay()]);
    for frame in 0..300_u32 {
        stream.scale = [1, 2, 3, 1][frame as usize / 75];
        stream.frame(f64::from(frame) * 100.0, &[(1, 300.0, 300.0)]);
    }
    let found = stream.end();
    assert_eq!(
        phases(&found),
        [Phase::Began, Phase::Ended],
        "it stood before the line"
    );
    assert!((number(&found[1], "stood_s") - 29.9).abs() < 1e-6);
}

#[test]
fn only_what_moves_against_the_arrow_is_the_wrong_way() {
    let allowed = Outline {
        points: vec![Position::new(0.0, 0.5), Position::new(1.0, 0.5)],
        units: Units::Parts,
    };
    let kind = TransformKind::WrongWay {
        allowed,
        tolerance_deg: 60.0,
        after_ms: 1000.0,
    };
    let mut stream = Stream::new(vec![transform("lane", &[], kind)]);
    for frame in 0..30 {
        let way = f64::from(frame) * 8.0;
        stream.frame(
            f64::from(frame) * 100.0,
            &[
                (1, 100.0 + way, 100.0),
                (2, 900.0 - way, 200.0),
                (3, 500.0, 300.0),
                (4, 700.0, 150.0 + way),
            ],
        );
    }
    let found = stream.end();
    assert_eq!(phases(&found), [Phase::Began, Phase::Ended]);
    assert_eq!((found[0].track, found[0].began_pts_ms), (Some(2), 0.0));
}

#[test]
fn crowds_and_absences_are_known_without_tracks_and_a_gap_in_the_pictures_is_no_absence() {
    let crowd = TransformKind::Crowd {
        min: 2,
        after_ms: 1000.0,
    };
    let absence = TransformKind::Absence { after_ms: 2000.0 };
    let mut stream = Stream::new(vec![
        transform("crowd", &[], crowd),
        transform("post", &[], absence),
    ]);
    for frame in 0..20 {
        stream.frame(f64::from(frame) * 100.0, &[(1, 100.0, 100.0), (2, 200.0, 100.0)]);
    }
    stream.frame(2000.0, &[]);
    stream.frame(9000.0, &[]);
    stream.frame(10_500.0, &[]);
    stream.frame(11_100.0, &[]);
    stream.frame(11_200.0, &[(1, 100.0, 100.0)]);
    let found = stream.end();
    let of = |kind: &str| {
        let it = found.iter().filter(move |it| it.kind == kind);
        it.map(|it| (it.phase, it.began_pts_ms, it.pts_ms))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        of("crowd"),
        [(Phase::Began, 0.0, 1000.0), (Phase::Ended, 0.0, 2000.0)]
    );
    assert_eq!(
        of("absence"),
        [(Phase::Began, 9000.0, 11_100.0), (Phase::Ended, 9000.0, 11_200.0)]
    );
}

#[test]
fn loitering_outlives_a_step_outside() {
    let kind = TransformKind::Loitering {
        after_ms: 5000.0,
        leave_ms: 2000.0,
    };
    let outline = [[0.4, 0.0], [0.6, 0.0], [0.6, 1.0], [0.4, 1.0]];
    let mut stream = Stream::new(vec![transform("door", &outline, kind)]);
    for frame in 0..=80 {
        let x = if (20..30).contains(&frame) { 700.0 } else { 500.0 };
        stream.frame(f64::from(frame) * 100.0, &[(1, x, 300.0)]);
    }
    let found = stream.end();
    assert_eq!(phases(&found), [Phase::Began, Phase::Ended]);
    assert_eq!((found[0].began_pts_ms, found[0].pts_ms), (0.0, 5000.0));
}

#[test]
fn another_graph_keeps_the_counts_of_transforms_that_are_the_same_and_ends_the_others() {
    let mut stream = Stream::new(vec![line(), zone()]);
    for (pts_ms, x) in [(0.0, 480.0), (100.0, 530.0)] {
        stream.frame(pts_ms, &[(1, x, 300.0)]);
    }
    let ended = stream.transforms.replace(vec![line()], 1_700_000_100);
    assert_eq!(phases(&ended), [Phase::Ended]);
    assert_eq!(ended[0].kind, "zone");
    stream.frame(200.0, &[(1, 540.0, 300.0), (2, 470.0, 200.0)]);
    stream.frame(300.0, &[(1, 540.0, 300.0), (2, 540.0, 200.0)]);
    let found = stream.end();
    assert_eq!(number(found.last().expect("it crossed"), "count"), 2.0);
}

/// Objects that pass the line at known times, one after the other, each at its own speed.
fn passages() -> impl Strategy<Value = Vec<(f64, f64, bool)>> {
    // Middle of the passage in ms, so that the first frames are before it, speed in px/s, to the right or back.
    prop::collection::vec((2_500.0..20_000.0f64, 60.0..400.0f64, any::<bool>()), 1..12)
}

proptest! {
    #[test]
    fn counts_and_dwell_times_hold_whatever_frames_are_missing(
        passages in passages(),
        kept in prop::collection::vec(0.0..1.0f64, 700),
        jitter in prop::collection::vec(-1.0..1.0f64, 64),
    ) {
        // Of what is not seen for half a second nothing is known meanwhile.
        prop_assume!(kept.windows(14).all(|frames| frames.iter().any(|kept| *kept >= 0.5)));
        let mut stream = Stream::new(vec![line(), zone()]);
        let mut expected = [0usize; 2];
        for (_, _, right) in &passages {
            expected[usize::from(!right)] += 1;
        }
        for (frame, kept) in kept.iter().enumerate() {
            let pts_ms = frame as f64 * 33.3;
            if *kept < 0.5 {
                continue;
            }
            let tracks: Vec<(u64, f64, f64)> = passages
                .iter()
                .enumerate()
                .filter_map(|(index, (middle, speed, right))| {
                    let way = (pts_ms - middle) / 1e3 * speed * if *right { 1.0 } else { -1.0 };
                    let shake = jitter[(frame * 7 + index) % jitter.len()];
                    (way.abs() < 240.0).then_some((index as u64, 500.0 + way + shake, 20.0 + 30.0 * index as f64))
                })
                .collect();
            stream.frame(pts_ms, &tracks);
        }
        let found = stream.end();
        for (direction, expected) in ["out", "in"].iter().zip(expected) {
            let said = IncidentValue::Text((*direction).into());
            let crossings = found.iter().filter(|it| it.kind == "line" && *value(it, "direction") == said);
            prop_assert_eq!(crossings.count(), expected);
        }
        for (index, (middle, speed, _)) in passages.iter().enumerate() {
            let track = Some(index as u64);
            let crossing = found.iter().find(|it| it.kind == "line" && it.track == track).expect("counted above");
            prop_assert!((crossing.pts_ms - middle).abs() < 5e3 / speed + 1.0, "{} {}", crossing.pts_ms, middle);
            let visit = found.iter().find(|it| it.kind == "zone" && it.phase == Phase::Ended && it.track == track);
            let dwell = number(visit.expect("it was in the zone"), "dwell_s");
            prop_assert!((dwell - 200.0 / speed).abs() < 0.2, "{} {}", dwell, 200.0 / speed);
        }
    }
}
