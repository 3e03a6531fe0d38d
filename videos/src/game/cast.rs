//! Who and what is on the island: the hero, other players, vehicles, crates, and where each is at a time.

use rand::RngExt;
use rand_pcg::Pcg64;

use crate::canvas::{Rgba, rgb};
use crate::geometry::{Vec2, vec2};
use crate::seed::Seed;

use super::course::{Course, RingRoad};
use super::figures::{Body, Outfit};
use super::map::somewhere;

/// A player.
#[derive(Debug, Clone)]
pub(super) struct Actor {
    pub(super) id: u64,
    pub(super) course: Course,
    pub(super) outfit: Outfit,
    /// When they fall, if ever.
    pub(super) falls: Option<f32>,
    /// When they shoot for no reason that is told.
    pub(super) mood: f32,
}

impl Actor {
    /// Whether they are in the game at that time.
    pub(super) fn lives(&self, seconds: f32) -> bool {
        self.falls.is_none_or(|at| seconds < at)
    }
}

/// How a vehicle moves.
#[derive(Debug, Clone)]
pub(super) enum Drive {
    /// It stands.
    Parked(Vec2, f32),
    /// Along the ring road: angle at the beginning, radians a second.
    Ring(f32, f32),
    /// Across the country.
    Field(Course),
}

/// A vehicle.
#[derive(Debug, Clone)]
pub(super) struct Car {
    pub(super) id: u64,
    pub(super) body: Body,
    pub(super) colour: Rgba,
    drive: Drive,
}

impl Car {
    /// Where it is at that time, and which way it points.
    pub(super) fn at(&self, seconds: f32, ring: &RingRoad) -> (Vec2, f32) {
        match &self.drive {
            Drive::Parked(at, turn) => (*at, *turn),
            Drive::Ring(angle, rate) => {
                let angle = angle + rate * seconds;
                let ahead = ring.at(angle + 0.02 * rate.signum(), 0.0) - ring.at(angle, 0.0);
                let aside = 20.0 * rate.signum();
                (ring.at(angle, aside), ahead.y.atan2(ahead.x))
            }
            Drive::Field(course) => {
                let velocity = course.velocity(seconds);
                (course.at(seconds), velocity.y.atan2(velocity.x))
            }
        }
    }
}

/// A loot crate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Loot {
    pub(super) id: u64,
    pub(super) at: Vec2,
    pub(super) turn: f32,
    pub(super) kind: f32,
    /// From when it lies there.
    pub(super) since: f32,
}

/// All of them.
#[derive(Debug, Clone)]
pub(super) struct Cast {
    pub(super) hero: Actor,
    pub(super) others: Vec<Actor>,
    pub(super) cars: Vec<Car>,
    pub(super) crates: Vec<Loot>,
}

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

/// A place near the hero's way by a half, anywhere on the island otherwise.
fn place(hero: &Course, aside: f32, rng: &mut Pcg64) -> Vec2 {
    if rng.random_bool(0.35) {
        return somewhere(0.75, rng);
    }
    let off = vec2(rng.random_range(-aside..aside), rng.random_range(-aside..aside));
    hero.at(rng.random_range(0.0..150.0)) + off
}

impl Cast {
    /// The cast of `seed`.
    pub(super) fn new(seed: Seed, course: Course, ring: &RingRoad) -> Self {
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
        let others = (0..rng.random_range(34..56_u64)).map(|index| Actor {
            id: 10 + index,
            course: Course::new(
                place(&hero.course, 260.0, rng),
                vec2(rng.random_range(50.0..190.0), rng.random_range(50.0..170.0)),
                rng.random_range(45.0..120.0),
                rng,
            ),
            outfit: outfit(rng),
            falls: None,
            mood: rng.random_range(0.0..100.0),
        });
        let others = others.collect();
        let cars = (0..rng.random_range(18..30_u64)).map(|index| car(200 + index, &hero.course, ring, rng));
        let cars = cars.collect();
        let mut crates: Vec<Loot> = Vec::new();
        for id in 400..400 + rng.random_range(30..46_u64) {
            let loot = Loot {
                id,
                at: place(&hero.course, 220.0, rng),
                turn: rng.random_range(-0.6..0.6),
                kind: rng.random_range(0.0..1.0),
                since: f32::NEG_INFINITY,
            };
            if crates.iter().all(|other| (other.at - loot.at).length() > 60.0) {
                crates.push(loot);
            }
        }
        Self {
            hero,
            others,
            cars,
            crates,
        }
    }
}

fn car(id: u64, hero: &Course, ring: &RingRoad, rng: &mut Pcg64) -> Car {
    let drive = match rng.random_range(0..10) {
        0..4 => {
            let sense = if rng.random_bool(0.5) { 1.0 } else { -1.0 };
            let angle = rng.random_range(0.0..std::f32::consts::TAU);
            Drive::Ring(angle, sense * rng.random_range(0.12..0.2))
        }
        4..7 => {
            let angle = rng.random_range(0.0..std::f32::consts::TAU);
            let turn = rng.random_range(0.0..std::f32::consts::TAU);
            let at = if rng.random_bool(0.5) {
                ring.at(angle, 62.0)
            } else {
                place(hero, 240.0, rng)
            };
            Drive::Parked(at, turn)
        }
        _ => {
            let reach = vec2(rng.random_range(200.0..330.0), rng.random_range(160.0..280.0));
            let speed = rng.random_range(110.0..170.0);
            Drive::Field(Course::new(place(hero, 120.0, rng), reach, speed, rng))
        }
    };
    let body = [Body::Saloon, Body::Jeep, Body::PickUp][rng.random_range(0..3)];
    Car {
        id,
        body,
        colour: one_of(&PAINTS, rng),
        drive,
    }
}
