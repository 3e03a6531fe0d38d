//! Course of a figure: a closed form of the time, so that any moment can be rendered without the ones before.

use rand::RngExt;
use rand_pcg::Pcg64;

use crate::geometry::{Vec2, vec2};

/// Endless course around a point: superposed circles, walked at varying pace.
#[derive(Debug, Clone)]
pub(super) struct Course {
    about: Vec2,
    /// Radii in units of the map, angular rate in radians per second, and phase of each circle.
    circles: [(Vec2, f32, f32); 3],
    /// Variation of the pace: amplitude 0 to 1, radians per second, phase.
    pace: (f32, f32, f32),
}

impl Course {
    /// A way about `about` that reaches out by about `reach` at about `speed` units a second.
    pub(super) fn new(about: Vec2, reach: Vec2, speed: f32, rng: &mut Pcg64) -> Self {
        let size = reach.length().max(1.0);
        let circles = [(0.62, 0.75), (0.28, 1.3), (0.1, 2.9)].map(|(part, hurry)| {
            let sense = if rng.random_bool(0.5) { 1.0 } else { -1.0 };
            let rate = sense * hurry * speed / size * rng.random_range(0.85..1.15);
            (reach * part, rate, rng.random_range(0.0..std::f32::consts::TAU))
        });
        let pace = (
            rng.random_range(0.2..0.75),
            rng.random_range(0.5..1.1),
            rng.random_range(0.0..6.0),
        );
        Self { about, circles, pace }
    }

    /// Seconds on the way: they pass unevenly.
    pub(super) fn walked(&self, seconds: f32) -> f32 {
        let (depth, rate, phase) = self.pace;
        seconds + depth / rate * (rate * seconds + phase).sin()
    }

    /// Position at that time.
    pub(super) fn at(&self, seconds: f32) -> Vec2 {
        let walked = self.walked(seconds);
        self.circles.iter().fold(self.about, |at, (radii, rate, phase)| {
            let (sin, cos) = (rate * walked + phase).sin_cos();
            at + vec2(radii.x * cos, radii.y * sin)
        })
    }

    /// Velocity at that time, in units of the map per second.
    pub(super) fn velocity(&self, seconds: f32) -> Vec2 {
        (self.at(seconds + 0.25) - self.at(seconds - 0.25)) * 2.0
    }
}

/// The ring road: a closed curve about the island.
#[derive(Debug, Clone, Copy)]
pub(super) struct RingRoad {
    phase: f32,
    wave: f32,
}

impl RingRoad {
    /// A ring road.
    pub(super) fn new(rng: &mut Pcg64) -> Self {
        Self {
            phase: rng.random_range(0.0..6.2),
            wave: rng.random_range(0.05..0.12),
        }
    }

    /// Point of the road at an angle around the island, `aside` units to the right of its middle.
    pub(super) fn at(&self, angle: f32, aside: f32) -> Vec2 {
        let point = |angle: f32| {
            let swell = 1.0 + self.wave * (3.0 * angle + self.phase).sin();
            vec2(760.0 * angle.cos(), 500.0 * angle.sin()) * swell
        };
        let along = point(angle + 0.01) - point(angle - 0.01);
        let right = vec2(-along.y, along.x) * (aside / along.length().max(1e-3));
        point(angle) + right
    }

    /// Centre line of the road, closed.
    pub(super) fn line(&self) -> Vec<Vec2> {
        let angles = (0..=96_u16).map(|step| f32::from(step) * std::f32::consts::TAU / 96.0);
        angles.map(|angle| self.at(angle, 0.0)).collect()
    }
}
