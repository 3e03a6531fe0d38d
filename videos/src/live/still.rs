//! Single frames in which everything varies, for training.

use std::f32::consts::TAU;

use rand::RngExt;
use rand_pcg::Pcg64;

use super::room::Room;
use super::staging::{self, Person};
use super::{GALLERY, POPULATION, SIZE};
use crate::canvas::{Canvas, Picture, rgb};
use crate::geometry::vec2;
use crate::lens::Lens;
use crate::person::{Arms, Expression, Figure, Gesture, Identity};
use crate::seed::{Part, Seed};
use weir_truth::FrameTruth;

/// Height of a face as a fraction of the head's.
const FACE_OF_HEAD: f32 = 0.77;
/// Height of a head as a fraction of the body's.
const HEAD_OF_BODY: f32 = 0.158;

/// Frame with one to five people of the seed's part; each of its identities is equally likely.
#[must_use]
pub fn still(seed: Seed) -> (Picture, FrameTruth) {
    let mut rng = seed.rng("still");
    let room = Room::of(&mut rng);
    let people = people(seed.part, &mut rng, room.light());
    let mut canvas = Canvas::new(SIZE.0, SIZE.1, rgb(0x808080));
    room.draw(&mut canvas);
    let truth = staging::draw(&mut canvas, &people);
    let dim = room.evening || rng.random_bool(0.15);
    let lens = Lens {
        grain: if rng.random_bool(0.25) {
            rng.random_range(5.0..9.0)
        } else {
            rng.random_range(1.0..5.0)
        },
        gain: if dim {
            rng.random_range(0.62..0.95)
        } else {
            rng.random_range(0.8..1.15)
        },
        vignette: rng.random_range(0.0..0.3),
        blur: if rng.random_bool(0.12) {
            rng.random_range(0.4..1.1)
        } else {
            0.0
        },
    };
    (lens.seen(canvas.picture(), seed.key("grain")), truth)
}

fn people(part: Part, rng: &mut Pcg64, light: f32) -> Vec<Person> {
    let count = rng.random_range(1..=5);
    let horizon = rng.random_range(150.0..300.0_f32);
    let mut people: Vec<Person> = Vec::new();
    for _ in 0..count * 3 {
        if people.len() == count {
            break;
        }
        let number = rng.random_range(0..if part == Part::Clip { GALLERY } else { POPULATION });
        let mut figure = figure(rng);
        let head = figure.height * HEAD_OF_BODY;
        let middle = vec2(
            rng.random_range(-0.3 * head..960.0 + 0.3 * head),
            horizon + rng.random_range(-0.7..0.7) * head,
        );
        figure.feet = vec2(middle.x, middle.y + figure.height * (1.0 - HEAD_OF_BODY / 2.0));
        figure.light = (light + rng.random_range(-0.4..0.4_f32)).clamp(-1.0, 1.0);
        // Two of three frames keep heads apart, so that faces are mostly seen; the others let them overlap.
        let apart = people.iter().all(|other| {
            let reach = (other.figure.height + figure.height) * HEAD_OF_BODY * 0.55;
            (other.figure.feet.x - figure.feet.x).abs() > reach
        });
        let known = people.iter().any(|other| other.who.number == number);
        if !known && (apart || rng.random_bool(0.12)) {
            people.push(Person {
                id: people.len() as u64,
                who: Identity::of(part, number),
                figure,
            });
        }
    }
    people
}

/// Random pose of a person who stands or walks; the caller sets the position.
fn figure(rng: &mut Pcg64) -> Figure {
    let face = 40.0 * (220.0_f32 / 40.0).powf(rng.random_range(0.0..1.0));
    let turned = rng.random_range(0.0..1.0_f32);
    let side = if rng.random_bool(0.5) { 1.0 } else { -1.0 };
    let (facing, yaw) = if turned < 0.86 {
        let yaw = rng.random_range(-45.0..45.0_f32);
        ((yaw + rng.random_range(-30.0..30.0_f32)).clamp(-60.0, 60.0), yaw)
    } else if turned < 0.93 {
        let facing = side * rng.random_range(75.0..100.0);
        (facing, facing)
    } else {
        let facing = side * rng.random_range(120.0..180.0);
        (facing, facing)
    };
    let walks = rng.random_bool(0.35);
    let gesture = Gesture::ALL[if rng.random_bool(0.4) {
        0
    } else {
        rng.random_range(0..Gesture::ALL.len())
    }];
    let other = Gesture::ALL[rng.random_range(0..Gesture::ALL.len())];
    let between = if rng.random_bool(0.2) {
        rng.random_range(0.0..1.0)
    } else {
        0.0
    };
    let arms = Arms::of(gesture, rng.random_range(0.0..TAU));
    let speaks = rng.random_bool(0.25);
    Figure {
        height: face / FACE_OF_HEAD / HEAD_OF_BODY,
        facing,
        stride: rng.random_range(0.0..TAU),
        pace: if walks { rng.random_range(0.3..1.0) } else { 0.0 },
        arms: arms.towards(&Arms::of(other, rng.random_range(0.0..TAU)), between),
        head: [
            yaw - facing,
            rng.random_range(-25.0..25.0),
            rng.random_range(-10.0..10.0),
        ],
        eyes: (rng.random_range(-25.0..25.0), rng.random_range(-15.0..15.0)),
        expression: Expression::ALL[rng.random_range(0..Expression::ALL.len())],
        strength: rng.random_range(0.6..1.0),
        blink: if rng.random_bool(0.05) {
            rng.random_range(0.2..1.0)
        } else {
            0.0
        },
        speech: if speaks { rng.random_range(0.0..1.0) } else { 0.0 },
        ..Figure::default()
    }
}
