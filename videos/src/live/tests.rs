//! Properties of the ground truth in every frame.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::*;
use crate::World;
use crate::person::Identity;
use crate::seed::{Part, Seed};
use weir_truth::{FrameTruth, TruthAttribute, TruthObject};

/// Frames of stills and clips, drawn once for all tests.
static FRAMES: LazyLock<Vec<(String, FrameTruth)>> = LazyLock::new(|| {
    let stills = (0..12).map(|number| (format!("still {number}"), still(Seed::new(Part::Train, number)).1));
    let moments = (0..8).map(|number| {
        let live = Live::new(Seed::new(Part::Clip, number % 4));
        let seconds = number as f32 * 1.37;
        (format!("clip {} at {seconds} s", number % 4), live.at(seconds).1)
    });
    stills.chain(moments).collect()
});

fn angles(object: &TruthObject, name: &str) -> (f32, f32) {
    match object.attributes.get(name) {
        Some(TruthAttribute::Angles { yaw, pitch }) => (*yaw, *pitch),
        other => panic!("{name} is {other:?}"),
    }
}

#[test]
fn a_frame_that_is_drawn_twice_is_the_same() {
    let seed = Seed::new(Part::Validation, 3);
    assert_eq!(still(seed), still(seed));
    let (one, other) = (Live::new(seed), Live::new(seed));
    let _ = one.at(9.0);
    assert_eq!(one.at(1.2), other.at(1.2));
    assert_eq!(gallery_face(Part::Clip, 4, 2), gallery_face(Part::Clip, 4, 2));
    assert_ne!(still(seed).0, still(Seed::new(Part::Train, 3)).0);
}

#[test]
fn boxes_lie_within_the_frame_and_faces_within_their_persons() {
    for (name, truth) in FRAMES.iter() {
        let ids: BTreeSet<u64> = truth.objects.iter().map(|object| object.id).collect();
        assert_eq!(ids.len(), truth.objects.len(), "{name}: ids differ");
        for object in &truth.objects {
            let [x0, y0, x1, y1] = object.r#box;
            assert!(
                x0 >= 0.0 && y0 >= 0.0 && x1 <= 960.0 && y1 <= 540.0,
                "{name}: {object:?}"
            );
            assert!(x1 > x0 && y1 > y0, "{name}: {object:?}");
            assert!((0.0..=1.0).contains(&object.visible), "{name}: {object:?}");
            if object.class == "face" {
                let parent = truth.objects.iter().find(|other| Some(other.id) == object.parent);
                let parent = parent.unwrap_or_else(|| panic!("{name}: a face without a person"));
                let [px0, py0, px1, py1] = parent.r#box;
                assert!(parent.class == "person" && px0 <= x0 && py0 <= y0, "{name}");
                assert!(px1 >= x1 && py1 >= y1, "{name}: {object:?} in {parent:?}");
            }
        }
    }
}

#[test]
fn key_points_that_are_seen_lie_on_their_person() {
    let mut seen = 0;
    for (name, truth) in FRAMES.iter() {
        for object in truth.objects.iter().filter(|object| object.class == "person") {
            let Some(TruthAttribute::Points(points)) = object.attributes.get("keypoints") else {
                panic!("{name}: a person without key points");
            };
            assert_eq!(points.len(), 17);
            let [x0, y0, x1, y1] = object.r#box;
            let wide = 0.05 * (y1 - y0);
            for point in points.iter().filter(|point| point.visible) {
                seen += 1;
                let inside = point.x > x0 - wide && point.x < x1 + wide;
                assert!(
                    inside && point.y > y0 - wide && point.y < y1 + wide,
                    "{name}: {point:?}"
                );
            }
        }
    }
    assert!(seen > 300, "{seen} key points are seen");
}

#[test]
fn directions_keep_to_their_ranges_and_faces_tell_all() {
    let mut expressions = BTreeSet::new();
    for (name, truth) in FRAMES.iter() {
        for face in truth.objects.iter().filter(|object| object.class == "face") {
            let (head, gaze) = (angles(face, "head_pose"), angles(face, "gaze"));
            assert!(
                head.0.abs() <= 66.0 && head.1.abs() <= 36.0,
                "{name}: head {head:?}"
            );
            assert!(
                (gaze.0 - head.0).abs() <= 45.0 && (gaze.1 - head.1).abs() <= 28.0,
                "{name}: {head:?} {gaze:?}"
            );
            assert!(matches!(
                face.attributes.get("identity"),
                Some(TruthAttribute::Match { .. })
            ));
            let Some(TruthAttribute::Class { class }) = face.attributes.get("expression") else {
                panic!("{name}: a face without expression");
            };
            expressions.insert(class.clone());
        }
    }
    assert_eq!(expressions.len(), 5, "{expressions:?}");
}

#[test]
fn a_person_keeps_the_id_through_a_clip_and_only_one_is_a_stranger() {
    for number in 0..3 {
        let live = Live::new(Seed::new(Part::Clip, number));
        let mut names = std::collections::BTreeMap::new();
        for second in 0..4 {
            let (_, truth) = live.at(second as f32 * 3.1);
            for face in truth.objects.iter().filter(|object| object.class == "face") {
                let identity = face.attributes.get("identity").cloned();
                let before = names.insert(face.id, identity.clone());
                assert!(before.is_none_or(|before| before == identity), "clip {number}");
            }
        }
        let stranger = Some(TruthAttribute::Match { r#match: None });
        assert!(names.values().filter(|name| **name == stranger).count() <= 1);
    }
}

#[test]
fn somebody_is_there_most_of_the_time() {
    let live = Live::new(Seed::new(Part::Clip, 1));
    let busy = (0..6).filter(|second| {
        let (_, truth) = live.at(*second as f32 * 3.3);
        truth
            .objects
            .iter()
            .any(|object| object.class == "face" && !object.ignore)
    });
    assert!(busy.count() >= 5);
}

#[test]
fn the_gallery_has_twenty_faces_that_differ_more_than_their_views() {
    let apart = |one: &crate::Picture, other: &crate::Picture| {
        let pairs = one.rgb.iter().zip(&other.rgb);
        pairs.map(|(a, b)| u64::from(a.abs_diff(*b))).sum::<u64>()
    };
    let faces: Vec<_> = (0..GALLERY)
        .map(|number| [0, 2].map(|view| gallery_face(Part::Clip, number, view)))
        .collect();
    assert_eq!((faces[0][0].width, faces[0][0].height), (96, 96));
    for (number, [face, view]) in faces.iter().enumerate() {
        assert_ne!(face, view);
        for [other, _] in &faces[..number] {
            assert!(
                apart(face, other) > 96 * 96 * 3 * 6,
                "{number} looks like somebody else"
            );
        }
    }
    assert_eq!(Identity::of(Part::Clip, 0).name(), "p01");
}
