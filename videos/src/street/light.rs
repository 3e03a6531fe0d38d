//! How a street is lit: sun and sky by day, lamps at dusk.

use rand::RngExt;
use rand_pcg::Pcg64;

use super::sight::{dot, unit};
use crate::canvas::{Rgba, rgb};
use crate::geometry::{Vec3, vec3};

/// Time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Light {
    /// Sun, or a white sky.
    Day,
    /// Little light is left; lamps burn.
    Dusk,
}

/// The light of one world.
#[derive(Debug, Clone, Copy)]
pub(super) struct Illumination {
    /// Towards the sun.
    pub(super) sun: Vec3,
    direct: [f32; 3],
    ambient: [f32; 3],
    /// How dark a cast shadow is, 0 to 1.
    pub(super) shadow: f32,
    /// Whether lamps burn.
    pub(super) lamps: bool,
    /// The sky overhead and at the horizon.
    pub(super) sky: (Rgba, Rgba),
    /// Clouds: how much of the sky they cover.
    pub(super) clouds: f32,
}

impl Illumination {
    pub(super) fn drawn(light: Light, rng: &mut Pcg64) -> Self {
        let azimuth = rng.random_range(0.0..std::f32::consts::TAU);
        match light {
            Light::Day => Self::day(
                azimuth,
                rng.random_range(0.45..0.95),
                rng.random_range(0.0..1.0),
                rng,
            ),
            Light::Dusk => Self::dusk(azimuth, rng),
        }
    }

    fn day(azimuth: f32, elevation: f32, overcast: f32, rng: &mut Pcg64) -> Self {
        // A third of the days are overcast: no sun, a white sky.
        let veil = ((overcast - 0.6) * 4.0).clamp(0.0, 0.85);
        let warmth = rng.random_range(-0.03..0.05);
        let sun = 0.78 * (1.0 - veil);
        let sky = 0.58 + 0.28 * veil;
        Self {
            sun: towards(azimuth, elevation),
            direct: [sun * (1.06 + warmth), sun, sun * (0.88 - warmth)],
            ambient: [sky * 0.96, sky, sky * (1.07 - warmth)],
            shadow: 0.42 * (1.0 - veil) + 0.08,
            lamps: false,
            sky: (
                rgb(0x4a_86_c8).mixed(rgb(0xb9_c4_cc), veil),
                rgb(0xc9_de_ee).mixed(rgb(0xdc_e0_e2), veil),
            ),
            clouds: rng.random_range(0.2..0.7),
        }
    }

    fn dusk(azimuth: f32, rng: &mut Pcg64) -> Self {
        let late = rng.random_range(0.0..1.0_f32);
        let level = 0.58 - 0.13 * late;
        Self {
            sun: towards(azimuth, 0.9),
            direct: [0.05, 0.05, 0.08],
            ambient: [level * 0.90, level * 0.92, level * 1.10],
            shadow: 0.16,
            lamps: true,
            sky: (
                rgb(0x2c_42_74).mixed(rgb(0x16_1e_40), late),
                rgb(0xf0_a8_78).mixed(rgb(0x9a_5a_6a), late),
            ),
            clouds: rng.random_range(0.1..0.6),
        }
    }

    /// What a surface of that colour and direction looks like.
    pub(super) fn shade(&self, colour: Rgba, normal: Vec3) -> Rgba {
        let direct = dot(normal, self.sun).max(0.0);
        let open = 0.80 + 0.20 * normal.z;
        let channel = |value: f32, index: usize| {
            (value * (self.ambient[index] * open + self.direct[index] * direct)).min(1.0)
        };
        Rgba {
            r: channel(colour.r, 0),
            g: channel(colour.g, 1),
            b: channel(colour.b, 2),
            a: colour.a,
        }
    }

    /// The colour of something on level ground.
    pub(super) fn level(&self, colour: Rgba) -> Rgba {
        self.shade(colour, vec3(0.0, 0.0, 1.0))
    }

    /// The colour, paler with the metres of air before it.
    pub(super) fn hazed(&self, colour: Rgba, depth: f32) -> Rgba {
        let part = 1.0 - (-(depth - 15.0).max(0.0) / 420.0).exp();
        let air = self.sky.1;
        colour.mixed(Rgba { a: colour.a, ..air }, part)
    }
}

fn towards(azimuth: f32, elevation: f32) -> Vec3 {
    let (sin, cos) = azimuth.sin_cos();
    unit(vec3(
        cos * elevation.cos(),
        sin * elevation.cos(),
        elevation.sin(),
    ))
}
