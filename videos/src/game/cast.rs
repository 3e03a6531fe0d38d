//! Cast of the game: the hero, other players, vehicles and crates, with their positions over time.

use crate::canvas::Rgba;
use crate::geometry::Vec2;

use super::course::{Course, RingRoad};
use super::figures::{Body, Outfit};

/// Player on the map, with its path and outfit.
#[derive(Debug, Clone)]
pub(super) struct Actor {
    pub(super) id: u64,
    pub(super) course: Course,
    pub(super) outfit: Outfit,
    /// Time in seconds at which the player falls; `None`: never.
    pub(super) falls: Option<f32>,
    /// Random offset in seconds for the player's own bursts of shots.
    pub(super) mood: f32,
}

impl Actor {
    /// True if the player is in the game at that time.
    pub(super) fn lives(&self, seconds: f32) -> bool {
        self.falls.is_none_or(|at| seconds < at)
    }
}

/// Movement of a vehicle.
#[derive(Debug, Clone)]
pub(super) enum Drive {
    /// Parked at a position, with its orientation in radians.
    Parked(Vec2, f32),
    /// On the ring road: angle at the beginning in radians, and radians per second.
    Ring(f32, f32),
    /// Across open country, along a course.
    Field(Course),
}

impl Drive {
    /// Position and orientation at that time.
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

/// Vehicle on the map, with its movement.
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
    /// Time in seconds from which it lies there.
    pub(super) since: f32,
}

/// Hero, players, vehicles and crates of a match.
#[derive(Debug, Clone)]
pub(super) struct Cast {
    pub(super) hero: Actor,
    pub(super) others: Vec<Actor>,
    pub(super) cars: Vec<Car>,
    pub(super) crates: Vec<Loot>,
}
