//! Fills a still: vehicles in their lanes, bicycles, and people on free ground.

use rand::RngExt;
use rand_pcg::Pcg64;

use super::crowd::Crowd;
use super::fleet::Vehicle;
use super::layout::{ACROSS, CYCLE_LANE, HOUSES, KERB, LANE, STOP_ACROSS, ZEBRAS};
use crate::geometry::{Camera, Vec2, vec2};
use crate::person::Identity;
use crate::seed::{Part, Seed};

/// Number of identities from which people in training pictures are drawn.
const PEOPLE: u64 = 600;

/// Vehicle, bicycle or person that was placed.
pub(super) enum Put {
    Vehicle {
        vehicle: Vehicle,
        brakes: bool,
    },
    Bicycle {
        who: Identity,
        number: u64,
    },
    Person {
        who: Identity,
        name: Option<String>,
        height: f32,
        stride: f32,
        pace: f32,
        head: [f32; 3],
    },
}

/// Position, direction and distance travelled of a placed object, and its motion during the exposure in
/// metres.
pub(super) struct Placed {
    pub(super) put: Put,
    pub(super) at: Vec2,
    pub(super) forward: Vec2,
    pub(super) way: f32,
    pub(super) smear: f32,
}

/// Everything in the still.
pub(super) fn fill(seed: Seed, camera: &Camera, rng: &mut Pcg64) -> Vec<Placed> {
    let mut all = Vec::new();
    let across = rng.random_bool(0.45);
    // How far before the camera the ground, half a metre up, comes into the picture.
    let nearest = (camera.eye.z - 0.5) / (camera.pitch + (camera.centre.y / camera.focal).atan()).tan();
    let busy = rng.random_range(0.35..1.0);
    let crossing = (ACROSS.0 - 2.0, ACROSS.1 + 2.0);
    for (x, away) in [(LANE, 1.0), (-LANE, -1.0)] {
        let first = camera.eye.y
            + if rng.random_bool(0.7) {
                nearest + rng.random_range(0.3..3.6)
            } else {
                rng.random_range(4.0..14.0)
            };
        lane(
            &mut all,
            rng,
            busy,
            (first, 85.0),
            |y| (vec2(x, y), vec2(0.0, away)),
            across.then_some(crossing),
        );
    }
    let (near, far) = (ACROSS.0 + 1.8, ACROSS.1 - 1.8);
    for (y, right) in [(near, 1.0), (far, -1.0)] {
        let free = (!across).then_some((-STOP_ACROSS, STOP_ACROSS));
        lane(
            &mut all,
            rng,
            busy * 0.8,
            (-34.0, 38.0),
            |x| (vec2(x, y), vec2(right, 0.0)),
            free,
        );
    }
    for (x, away) in [(CYCLE_LANE, 1.0), (-CYCLE_LANE, -1.0)] {
        bicycles(&mut all, seed, rng, (x, away), across.then_some(crossing));
    }
    for _ in 0..rng.random_range(4..14) {
        let at = anywhere(rng);
        all.extend(person(at, &all, seed, rng));
    }
    for _ in 0..rng.random_range(6..26) {
        let at = close(camera, rng);
        all.extend(person(at, &all, seed, rng));
    }
    all
}

/// Fills a lane with vehicles, except the stretch `free`.
fn lane(
    all: &mut Vec<Placed>,
    rng: &mut Pcg64,
    busy: f32,
    (from, to): (f32, f32),
    place: impl Fn(f32) -> (Vec2, Vec2),
    free: Option<(f32, f32)>,
) {
    let mut at = from;
    while at < to {
        let vehicle = Vehicle::drawn(rng);
        let length = 2.0 * vehicle.half_length();
        let crosses = free.is_some_and(|(low, high)| at < high && at + length > low);
        if rng.random_bool(f64::from(0.3 + 0.7 * busy)) && !crosses {
            let (middle, forward) = place(at + length / 2.0);
            let forward = forward.turned(rng.random_range(-0.03..0.03));
            let side = vec2(-forward.y, forward.x) * rng.random_range(-0.25..0.25);
            all.push(Placed {
                put: Put::Vehicle {
                    vehicle,
                    brakes: rng.random_bool(0.3),
                },
                at: middle + side,
                forward,
                way: rng.random_range(0.0..9.0),
                smear: rng.random_range(0.0..0.07),
            });
            at += length;
        }
        at += rng.random_range(1.2..4.0) + (1.0 - busy) * rng.random_range(0.0..9.0);
    }
}

fn bicycles(
    all: &mut Vec<Placed>,
    seed: Seed,
    rng: &mut Pcg64,
    (x, away): (f32, f32),
    free: Option<(f32, f32)>,
) {
    let mut y = rng.random_range(3.5..12.0);
    while y < 50.0 {
        let crosses = free.is_some_and(|(low, high)| y < high + 1.0 && y > low - 1.0);
        if rng.random_bool(0.62) && !crosses {
            let (who, _) = identity(seed.part, rng);
            all.push(Placed {
                put: Put::Bicycle {
                    who,
                    number: rng.random(),
                },
                at: vec2(x + rng.random_range(-0.3..0.3), y),
                forward: vec2(0.0, away).turned(rng.random_range(-0.12..0.12)),
                way: rng.random_range(0.0..9.0),
                smear: rng.random_range(0.0..0.04),
            });
        }
        y += rng.random_range(2.6..11.0);
    }
}

/// Random identity, and its name if it is in a gallery.
fn identity(part: Part, rng: &mut Pcg64) -> (Identity, Option<String>) {
    let who = Identity::of(part, rng.random_range(0..PEOPLE));
    let name = who.name();
    (who, Some(name))
}

/// Random place in front of the camera at which a face is large.
fn close(camera: &Camera, rng: &mut Pcg64) -> Vec2 {
    let (depth, aside) = (rng.random_range(3.6..9.5), rng.random_range(-0.46..0.46));
    let ahead = vec2(camera.yaw.sin(), camera.yaw.cos());
    let right = vec2(ahead.y, -ahead.x);
    vec2(camera.eye.x, camera.eye.y) + ahead * depth + right * (aside * depth * 960.0 / camera.focal)
}

/// A place on a pavement or a zebra crossing.
fn anywhere(rng: &mut Pcg64) -> Vec2 {
    let side = if rng.random_bool(0.5) { -1.0 } else { 1.0 };
    let pavement = side * rng.random_range(KERB + 0.5..HOUSES - 0.4);
    match rng.random_range(0..10) {
        0..5 => vec2(pavement, rng.random_range(4.5..14.0)),
        5..8 => vec2(pavement, rng.random_range(14.0..48.0)),
        _ => {
            let (from, to) = ZEBRAS[usize::from(rng.random_bool(0.3))];
            vec2(rng.random_range(-KERB..KERB), rng.random_range(from..to))
        }
    }
}

/// Places a person at that point, unless it is on the road or occupied.
fn person(at: Vec2, all: &[Placed], seed: Seed, rng: &mut Pcg64) -> Option<Placed> {
    let zebra = ZEBRAS.iter().any(|(from, to)| (*from..*to).contains(&at.y));
    let pavement = (KERB + 0.3..HOUSES - 0.3).contains(&at.x.abs());
    let street = !(zebra || pavement) || (ACROSS.0 - 0.3..ACROSS.1 + 0.3).contains(&at.y);
    let taken = all.iter().any(|placed| placed.stands_at(at));
    if taken || street {
        return None;
    }
    let towards = rng.random_bool(0.6);
    let turn = if towards {
        rng.random_range(-0.9..0.9)
    } else {
        rng.random_range(0.0..std::f32::consts::TAU)
    };
    let (who, name) = identity(seed.part, rng);
    let standing = rng.random_bool(0.2);
    Some(Placed {
        put: Put::Person {
            height: Crowd::height(who.number),
            who,
            name,
            stride: rng.random_range(0.0..std::f32::consts::TAU),
            pace: if standing { 0.0 } else { rng.random_range(0.4..1.0) },
            head: [
                rng.random_range(-28.0..28.0),
                rng.random_range(-10.0..8.0),
                rng.random_range(-5.0..5.0),
            ],
        },
        at,
        forward: vec2(0.0, -1.0).turned(turn),
        way: 0.0,
        smear: rng.random_range(0.0..0.02),
    })
}

impl Placed {
    /// True if the object leaves no room for a person at that point.
    fn stands_at(&self, point: Vec2) -> bool {
        let (long, wide) = match &self.put {
            Put::Vehicle { vehicle, .. } => (vehicle.half_length() + 0.4, vehicle.half_width() + 0.4),
            Put::Bicycle { .. } => (1.2, 0.6),
            Put::Person { .. } => (0.5, 0.5),
        };
        let to = point - self.at;
        let along = (to.x * self.forward.x + to.y * self.forward.y).abs();
        let aside = (to.x * self.forward.y - to.y * self.forward.x).abs();
        along < long && aside < wide
    }
}
