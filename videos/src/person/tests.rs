//! Properties of drawn heads and figures.

use std::collections::BTreeSet;

use super::*;
use crate::canvas::{Canvas, Picture, rgb};
use crate::geometry::vec2;
use crate::seed::Part;

fn drawn(who: &Identity, head: &Head) -> Picture {
    let mut canvas = Canvas::new(200, 220, rgb(0xd0d0d0));
    let head = Head {
        centre: vec2(100.0, 100.0),
        ..*head
    };
    draw_head(&mut canvas, who, &head);
    canvas.picture()
}

/// Mean difference of two pictures, in steps of 255.
fn apart(one: &Picture, other: &Picture) -> f32 {
    let pairs = one.rgb.iter().zip(&other.rgb);
    pairs.map(|(a, b)| f32::from(a.abs_diff(*b))).sum::<f32>() / one.rgb.len() as f32
}

#[test]
fn identities_of_the_parts_and_numbers_never_collide() {
    let mut faces = BTreeSet::new();
    let mut names = BTreeSet::new();
    for (_, part) in Part::ALL {
        for number in 0..100 {
            let who = Identity::of(part, number);
            let face = format!("{:?} {:?} {:?} {:?}", who.skin, who.skull, who.eyes, who.nose);
            assert!(faces.insert(face), "{} has been seen", who.name());
            assert!(names.insert(who.name()));
            assert_eq!(who, Identity::of(part, number));
        }
    }
}

#[test]
fn expression_gaze_and_direction_are_seen() {
    for number in 0..6 {
        let who = Identity::of(Part::Train, number);
        let neutral = drawn(&who, &Head::default());
        let differs = |name: &str, head: Head| {
            let by = apart(&neutral, &drawn(&who, &head));
            assert!(by > 0.08, "{name} of {number} differs by {by}");
        };
        for expression in &Expression::ALL[1..] {
            differs(
                expression.name(),
                Head {
                    expression: *expression,
                    ..Head::default()
                },
            );
        }
        differs(
            "gaze",
            Head {
                eyes: (20.0, 0.0),
                ..Head::default()
            },
        );
        differs(
            "gaze up",
            Head {
                eyes: (0.0, 13.0),
                ..Head::default()
            },
        );
        differs(
            "yaw",
            Head {
                yaw: 20.0,
                ..Head::default()
            },
        );
        differs(
            "pitch",
            Head {
                pitch: -15.0,
                ..Head::default()
            },
        );
        differs(
            "blink",
            Head {
                blink: 1.0,
                ..Head::default()
            },
        );
    }
}

#[test]
fn a_head_that_turns_right_moves_its_nose_right_and_up_moves_it_up() {
    let who = Identity::of(Part::Clip, 2);
    let mut canvas = Canvas::new(200, 220, rgb(0xd0d0d0));
    let mut seen = |yaw: f32, pitch: f32| {
        let head = Head {
            centre: vec2(100.0, 100.0),
            yaw,
            pitch,
            ..Head::default()
        };
        draw_head(&mut canvas, &who, &head)
    };
    let ahead = seen(0.0, 0.0);
    assert!(seen(30.0, 0.0).nose.x > ahead.nose.x + 10.0);
    assert!(seen(0.0, 20.0).nose.y < ahead.nose.y - 8.0);
    // The person's own left is on the right of the picture.
    assert!(ahead.eyes[0].x > ahead.eyes[1].x);
    let face = ahead.face;
    assert!(face.x0 < ahead.eyes[1].x && face.x1 > ahead.eyes[0].x && face.y0 < ahead.eyes[0].y);
    assert!((face.y1 - 150.0).abs() < 3.0, "the chin ends the face: {face:?}");
}

#[test]
fn directions_are_those_of_head_and_eyes_together() {
    let head = Head {
        yaw: 20.0,
        pitch: 10.0,
        ..Head::default()
    };
    let (yaw, pitch) = direction(&head, (0.0, 0.0));
    assert!((yaw - 20.0).abs() < 0.01 && (pitch - 10.0).abs() < 0.01);
    let (yaw, pitch) = direction(&Head { pitch: 0.0, ..head }, (15.0, 0.0));
    assert!((yaw - 35.0).abs() < 0.01 && pitch.abs() < 0.01);
}

#[test]
fn a_figure_stands_on_its_feet_at_every_phase_and_its_legs_move() {
    let who = Identity::of(Part::Clip, 1);
    let mut widths = Vec::new();
    for phase in 0..12 {
        let figure = Figure {
            feet: vec2(150.0, 290.0),
            height: 280.0,
            facing: 90.0,
            stride: phase as f32 * 0.55,
            pace: 1.0,
            ..Figure::default()
        };
        let mut canvas = Canvas::new(300, 300, rgb(0xd0d0d0));
        let seen = draw_figure(&mut canvas, &who, &figure);
        assert!(seen.face.is_none(), "a profile has no face");
        assert!((seen.person.y1 - 290.0).abs() < 12.0, "{:?}", seen.person);
        let [left, right] = [seen.keypoints[15].0, seen.keypoints[16].0];
        widths.push((left.x - right.x).abs());
    }
    let (least, most) = widths.iter().fold((f32::MAX, 0.0_f32), |(least, most), width| {
        (least.min(*width), most.max(*width))
    });
    assert!(most > 60.0 && least < 30.0, "{widths:?}");
}

#[test]
fn whoever_walks_away_shows_no_face_and_no_nose() {
    let mut canvas = Canvas::new(200, 320, rgb(0xd0d0d0));
    let figure = Figure {
        feet: vec2(100.0, 300.0),
        height: 280.0,
        facing: 180.0,
        ..Figure::default()
    };
    let seen = draw_figure(&mut canvas, &Identity::of(Part::Clip, 6), &figure);
    assert!(seen.face.is_none() && seen.keypoints[..3].iter().all(|(_, seen)| !seen));
    // Now the own left is on the left of the picture.
    assert!(seen.keypoints[5].0.x < seen.keypoints[6].0.x);
}
