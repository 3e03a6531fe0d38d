//! Who and what is on the island: the hero, other players, vehicles, crates, and where each is at a time.

use crate::canvas::Rgba;
use crate::geometry::Vec2;

use super::course::{Course, RingRoad};
use super::figures::{Body, Outfit};

/// A player.
#[derive(Debug, Clone)]
pub(super) struct Actor {
    pub(super) id: u64,
    pub(super) course: Course,
    pub(super) outfit: Outfit,
    /// When they fall, if ever.
    pub(super) falls: Option<f32>,
    /// When they shoot for no reason that is given.
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

impl Drive {
    /// Where it leads at that time, and which way.
    pub(super) fn at(&self, seconds: f32, ring: &RingRoad) -> (Vec2, f32) {
        match self {
            Self::Parked(at, turn) => (*at, *turn),
            Self::Ring(angle, rate) => {
                let angle = angle + rate * seconds;
                let ahead = ring.at(angle + 0.02 * rate.signum(), 0.0) - ring.at(angle, 0.0);
                let aside = 20.0 * rate.signum();
                (ring.at(angle, aside), ahead.y.atan2(ahead.x))
            }
            Self::Field(course) => {
                let velocity = course.velocity(seconds);
                (course.at(seconds), velocity.y.atan2(velocity.x))
            }
        }
    }
}

/// A vehicle.
#[derive(Debug, Clone)]
pub(super) struct Car {
    pub(super) id: u64,
    pub(super) body: Body,
    pub(super) colour: Rgba,
    pub(super) drive: Drive,
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
