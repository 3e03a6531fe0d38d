//! Illumination of a street: sun and sky by day, a white sky in the rain, lamps at dusk and at night.

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
    /// Only lamps are left.
    Night,
    /// A dark day without a shadow; rain falls.
    Rain,
}

/// Metres of clear air after which most of a colour is gone.
const CLEAR: f32 = 420.0;

/// The light of one world.
#[derive(Debug, Clone, Copy)]
pub(super) struct Illumination {
    /// Towards the sun.
    pub(super) sun: Vec3,
    direct: [f32; 3],
    ambient: [f32; 3],
    /// Darkness of cast shadows, 0 to 1.
    pub(super) shadow: f32,
    /// True if the lamps are on.
    pub(super) lamps: bool,
    /// Colours of the sky overhead and at the horizon.
    pub(super) sky: (Rgba, Rgba),
    /// Fraction of the sky that clouds cover, 0 to 1.
    pub(super) clouds: f32,
    /// Distance in metres after which air has absorbed most of a colour.
    haze: f32,
    /// Number of raindrops in a picture; 0 if it is dry.
    pub(super) drops: u32,
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
            Light::Night => Self::night(azimuth, rng),
            Light::Rain => Self::rain(azimuth, rng),
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
            haze: CLEAR,
            drops: 0,
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
            haze: CLEAR,
            drops: 0,
        }
    }

    fn night(azimuth: f32, rng: &mut Pcg64) -> Self {
        let level = rng.random_range(0.22..0.32_f32);
        Self {
            direct: [0.0; 3],
            // Lamps of sodium and of white light, together.
            ambient: [level * 1.08, level * 0.98, level * 0.92],
            shadow: 0.10,
            sky: (rgb(0x06_08_12), rgb(0x1c_1c_26)),
            ..Self::dusk(azimuth, rng)
        }
    }

    fn rain(azimuth: f32, rng: &mut Pcg64) -> Self {
        let level = rng.random_range(0.55..0.70_f32);
        Self {
            direct: [0.0; 3],
            ambient: [level * 0.96, level, level * 1.05],
            shadow: 0.06,
            sky: (rgb(0x7e_88_90), rgb(0xa6_ac_b0)),
            haze: 130.0,
            drops: rng.random_range(500..1_000),
            ..Self::day(azimuth, 0.9, 1.0, rng)
        }
    }

    /// Appearance of a surface of that colour and direction.
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
        let part = 1.0 - (-(depth - 15.0).max(0.0) / self.haze).exp();
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
