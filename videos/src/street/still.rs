//! Stills to learn from: busier than clips, seen from many places, with much that is near.

use rand::RngExt;
use rand_pcg::Pcg64;

use super::SIZE;
use super::bicycle::Riding;
use super::fill::{Placed, Put, fill};
use super::layout::LANE;
use super::light::Light;
use super::people::Somebody;
use super::place::Place;
use super::scene::Item;
use super::stage::Pose;
use crate::canvas::Picture;
use crate::geometry::{Camera, vec2, vec3};
use crate::lens::exposed;
use crate::seed::Seed;
use weir_truth::FrameTruth;

/// Still of that seed, with its ground truth. Without `light` the seed decides between day and dusk.
#[must_use]
pub fn still(seed: Seed, light: Option<Light>) -> (Picture, FrameTruth) {
    let mut rng = seed.rng("still");
    let drawn = if rng.random_bool(0.62) {
        Light::Day
    } else {
        Light::Dusk
    };
    let light = light.unwrap_or(drawn);
    let camera = camera(&mut rng);
    let mut place = Place::new(seed, light, camera);
    place.lens.gain *= rng.random_range(0.88..1.16);
    place.softness = rng.random_range(0.0..0.2);
    let tint = [0; 3].map(|_: i32| rng.random_range(0.93..1.07_f32));
    let all = fill(seed, &camera, &mut rng);
    let exposures: &[f32] = if rng.random_bool(0.2) {
        &[0.0, -0.5, 0.5]
    } else {
        &[0.0]
    };
    let mut drawn: Vec<_> = exposures
        .iter()
        .map(|part| place.draw(items(&all, *part), 0.0))
        .collect();
    let objects = std::mem::take(&mut drawn[0].1);
    let pictures: Vec<Picture> = drawn.into_iter().map(|(picture, _)| picture).collect();
    let mut picture = exposed(&pictures).unwrap_or_else(|| pictures[0].clone());
    for pixel in picture.rgb.chunks_exact_mut(3) {
        for (value, by) in pixel.iter_mut().zip(tint) {
            *value = (f32::from(*value) * by).min(255.0) as u8;
        }
    }
    let picture = place.seen(&picture, seed.key("grain"));
    (
        picture,
        FrameTruth {
            objects,
            ..FrameTruth::default()
        },
    )
}

fn camera(rng: &mut Pcg64) -> Camera {
    let side = if rng.random_bool(0.5) { -1.0 } else { 1.0 };
    // The camera is above a lane for its plates, or beside a pavement for its faces, and looks at a point
    // nine metres ahead.
    let (x, aim) = if rng.random_bool(0.65) {
        (
            side * LANE + rng.random_range(-2.6..2.6),
            side * LANE + rng.random_range(-1.6..1.6),
        )
    } else {
        (
            side * rng.random_range(2.5..6.6_f32),
            side * rng.random_range(2.0..7.0),
        )
    };
    let aim = aim - x;
    Camera {
        eye: vec3(x, rng.random_range(-1.0..3.0), rng.random_range(2.4..4.2)),
        yaw: aim.atan2(9.0),
        pitch: rng.random_range(0.13..0.30),
        focal: rng.random_range(900.0..1360.0),
        centre: vec2(SIZE.0 as f32 / 2.0, SIZE.1 as f32 / 2.0),
    }
}

fn items(all: &[Placed], exposed: f32) -> Vec<Item<'_>> {
    let mut items = Vec::with_capacity(all.len());
    for (index, placed) in all.iter().enumerate() {
        let id = (index as u64 + 1) << 8;
        let at = placed.at + placed.forward * (placed.smear * exposed);
        let pose = Pose {
            at: vec3(at.x, at.y, 0.0),
            forward: placed.forward,
        };
        items.push(match &placed.put {
            Put::Vehicle { vehicle, brakes } => Item::Vehicle {
                id,
                vehicle,
                pose,
                way: placed.way,
                brakes: *brakes,
            },
            Put::Bicycle { who, number } => Item::Bicycle {
                id,
                riding: Riding {
                    who,
                    number: *number,
                    pose,
                    way: placed.way,
                },
            },
            Put::Person {
                who,
                name,
                height,
                stride,
                pace,
                head,
            } => Item::Person {
                id,
                somebody: Somebody {
                    who,
                    name: name.as_deref(),
                    height: *height,
                    at,
                    forward: placed.forward,
                    stride: *stride,
                    pace: *pace,
                    head: *head,
                },
            },
        });
    }
    items
}
