//! Casts the match: draws players, vehicles and crates so that they keep out of each other's way.
//!
//! A course is a closed form of the time, so its conflicts are known in advance: each new course is compared
//! with the courses of everything that was placed before.

use rand::RngExt;
use rand_pcg::Pcg64;

use crate::canvas::{Rgba, rgb};
use crate::geometry::{Vec2, vec2};
use crate::seed::Seed;

use super::cast::{Actor, Car, Cast, Drive, Loot};
use super::course::Course;
use super::figures::{Body, Outfit};
use super::map::{Map, somewhere};

const TEAMS: [u32; 8] = [
    0xd8_3a_34, 0x2f_78_d0, 0xe8_b0_2c, 0x8a_48_b8, 0x2f_a0_6a, 0xe8_78_30, 0x38_b8_c8, 0xd8_58_98,
];
const CLOTHS: [u32; 6] = [
    0x4a_52_3a, 0x5c_50_40, 0x3a_44_54, 0x6a_6a_62, 0x2e_30_34, 0x7a_6a_4a,
];
const HEADS: [u32; 6] = [
    0x3a_2a_1e, 0x5c_64_48, 0x38_3c_44, 0x8a_5a_2c, 0xb8_a0_6a, 0x54_2e_2a,
];
const PAINTS: [u32; 8] = [
    0xc8_38_30, 0x30_68_b0, 0xe0_e0_dc, 0x3c_40_46, 0x5c_6c_40, 0xe0_a8_30, 0xb8_9c_70, 0x3c_8c_84,
];

fn one_of(colours: &[u32], rng: &mut Pcg64) -> Rgba {
    rgb(colours[rng.random_range(0..colours.len())]).lit(rng.random_range(0.85..1.12))
}

fn outfit(rng: &mut Pcg64) -> Outfit {
    Outfit {
        team: one_of(&TEAMS, rng),
        cloth: one_of(&CLOTHS, rng),
        head: one_of(&HEADS, rng),
        helmet: rng.random_bool(0.6),
        pack: rng.random_bool(0.65),
        weapon: rng.random_range(12.0..28.0),
    }
}

/// The way of the hero of `seed`.
pub(super) fn hero_course(seed: Seed) -> Course {
    Course::new(vec2(0.0, 0.0), vec2(880.0, 580.0), 150.0, &mut seed.rng("hero"))
}

/// A place near the hero's way by two thirds, anywhere on the island otherwise.
fn place(hero: &Course, aside: f32, rng: &mut Pcg64) -> Vec2 {
    if rng.random_bool(0.35) {
        return somewhere(0.75, rng);
    }
    let off = vec2(rng.random_range(-aside..aside), rng.random_range(-aside..aside));
    hero.at(rng.random_range(0.0..150.0)) + off
}

/// A way at regular times.
type Track = Vec<Vec2>;

/// Number of times at which courses are compared, and the interval between them in seconds.
const MOMENTS: u16 = 130;
const APART_S: f32 = 1.1;

fn track(at: impl Fn(f32) -> Vec2) -> Track {
    (0..MOMENTS).map(|step| at(f32::from(step) * APART_S)).collect()
}

/// Number of times at which two courses are closer than `reach`.
fn meetings(one: &Track, other: &Track, reach: f32) -> usize {
    let pairs = one.iter().zip(other);
    pairs.filter(|(a, b)| (**a - **b).length() < reach).count()
}

/// Number of times at which a course is within `reach` of an obstacle.
fn collisions(track: &Track, map: &Map, reach: f32) -> usize {
    track.iter().filter(|at| !map.clear(**at, reach)).count()
}

/// The best of a few draws: that with the least harm.
fn drawn<T>(mut draw: impl FnMut() -> T, harm: impl Fn(&T) -> usize) -> (T, usize) {
    let mut best = draw();
    let mut least = harm(&best);
    for _ in 0..6 {
        if least == 0 {
            break;
        }
        let next = draw();
        let harm = harm(&next);
        if harm < least {
            (best, least) = (next, harm);
        }
    }
    (best, least)
}

impl Cast {
    /// Draws the cast of `seed`; the hero follows `course`.
    pub(super) fn new(seed: Seed, course: Course, map: &Map) -> Self {
        let rng = &mut seed.rng("cast");
        let hero = Actor {
            id: 1,
            course,
            outfit: Outfit {
                pack: true,
                ..outfit(rng)
            },
            falls: None,
            mood: 0.0,
        };
        let mut tracks = vec![track(|seconds| hero.course.at(seconds))];
        let cars = cars(&hero.course, map, &mut tracks, rng);
        let others = others(&hero.course, map, &mut tracks, rng);
        let crates = crates(&hero.course, map, &cars, rng);
        Self {
            hero,
            others,
            cars,
            crates,
        }
    }
}

fn cars(hero: &Course, map: &Map, tracks: &mut Vec<Track>, rng: &mut Pcg64) -> Vec<Car> {
    let mut cars = Vec::new();
    for index in 0..rng.random_range(26..40_u64) {
        let harm = |(_, way): &(Drive, Track)| {
            let meetings: usize = tracks.iter().map(|other| meetings(way, other, 104.0)).sum();
            meetings + collisions(way, map, 34.0)
        };
        let draw = || {
            let drive = drive(index, hero, map, rng);
            let way = track(|seconds| drive.at(seconds, &map.ring).0);
            (drive, way)
        };
        // A vehicle that would drive through another is left out; to touch somebody's shoulder is forgiven.
        let ((drive, way), harm) = drawn(draw, harm);
        let body = [Body::Saloon, Body::Jeep, Body::PickUp][rng.random_range(0..3)];
        let colour = one_of(&PAINTS, rng);
        if harm <= 2 {
            tracks.push(way);
            cars.push(Car {
                id: 200 + index,
                body,
                colour,
                drive,
            });
        }
    }
    cars
}

fn drive(index: u64, hero: &Course, map: &Map, rng: &mut Pcg64) -> Drive {
    let (ring, turn) = (&map.ring, std::f32::consts::TAU);
    match rng.random_range(0..10) {
        // Each vehicle has its own place in its lane, and all vehicles of a lane have the same speed.
        0..3 => {
            let angle = (index / 2) as f32 * turn / 20.0;
            Drive::Ring(angle, if index.is_multiple_of(2) { 0.16 } else { -0.14 })
        }
        3 | 4 => {
            let angle = rng.random_range(0.0..turn);
            let along = ring.at(angle + 0.02, 78.0) - ring.at(angle, 78.0);
            let askew = rng.random_range(-0.3..0.3);
            Drive::Parked(ring.at(angle, 78.0), along.y.atan2(along.x) + askew)
        }
        5 | 6 => Drive::Parked(place(hero, 240.0, rng), rng.random_range(0.0..turn)),
        _ => {
            let reach = vec2(rng.random_range(130.0..280.0), rng.random_range(120.0..240.0));
            let speed = rng.random_range(100.0..150.0);
            Drive::Field(Course::new(place(hero, 150.0, rng), reach, speed, rng))
        }
    }
}

fn others(hero: &Course, map: &Map, tracks: &mut Vec<Track>, rng: &mut Pcg64) -> Vec<Actor> {
    let others = (0..rng.random_range(38..60_u64)).map(|index| {
        let harm = |(_, way): &(Course, Track)| {
            let meetings: usize = tracks.iter().map(|other| meetings(way, other, 48.0)).sum();
            meetings + collisions(way, map, 12.0)
        };
        let draw = || {
            let about = place(hero, 260.0, rng);
            let reach = vec2(rng.random_range(40.0..170.0), rng.random_range(40.0..150.0));
            let course = Course::new(about, reach, rng.random_range(45.0..115.0), rng);
            let way = track(|seconds| course.at(seconds));
            (course, way)
        };
        let ((course, way), _) = drawn(draw, harm);
        tracks.push(way);
        Actor {
            id: 10 + index,
            course,
            outfit: outfit(rng),
            falls: None,
            mood: rng.random_range(0.0..100.0),
        }
    });
    others.collect()
}

fn crates(hero: &Course, map: &Map, cars: &[Car], rng: &mut Pcg64) -> Vec<Loot> {
    let mut crates: Vec<Loot> = Vec::new();
    for id in 400..400 + rng.random_range(30..46_u64) {
        let harm = |at: &Vec2| {
            let on_parked = cars.iter().any(|car| match car.drive {
                Drive::Parked(parked, _) => (parked - *at).length() < 75.0,
                _ => false,
            });
            let on_other = crates.iter().any(|other| (other.at - *at).length() < 60.0);
            let blocked = !map.clear(*at, 14.0) || map.off_road(*at) < 64.0;
            usize::from(on_parked) + usize::from(on_other) + usize::from(blocked)
        };
        let (at, harm) = drawn(|| place(hero, 220.0, rng), harm);
        let (turn, kind) = (rng.random_range(-0.6..0.6), rng.random_range(0.0..1.0));
        if harm == 0 {
            let since = f32::NEG_INFINITY;
            crates.push(Loot {
                id,
                at,
                turn,
                kind,
                since,
            });
        }
    }
    crates
}
