//! Design of a display and position of its panels: every game has its own.

use rand::RngExt;
use rand_pcg::Pcg64;

use crate::canvas::{Rgba, rgb};
use crate::geometry::{Bounds, Vec2, vec2};
use crate::seed::Seed;

use super::super::SIZE;

/// A corner or the middle of an edge of the picture: column 0 to 2, and whether at the bottom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Anchor {
    pub(super) column: usize,
    pub(super) bottom: bool,
}

/// Position of the value on the health panel, relative to the bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Figure {
    /// Printed over the bar.
    On,
    /// To the left of the bar.
    Before,
    /// To the right of the bar.
    After,
}

/// The sign before the kills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KillSign {
    /// Skull as the sign of a kill.
    Skull,
    /// Cross-hair as the sign of a kill.
    CrossHair,
}

/// Design of a display: colours, sizes and signs.
#[derive(Debug, Clone)]
pub(crate) struct Skin {
    pub(super) panel: Rgba,
    pub(super) text: Rgba,
    pub(super) accent: Rgba,
    pub(super) frame: Option<Rgba>,
    /// Length by which the corners of panels are cut off, in pixels.
    pub(super) corner: f32,
    pub(super) rounded: bool,
    /// Height of digits in pixels, 14 to 22.
    pub(super) digit: f32,
    /// Weight of strokes in pixels.
    pub(super) weight: f32,
    pub(super) kill_sign: KillSign,
    pub(super) sign_first: bool,
    pub(super) snug: bool,
    pub(super) figure: Figure,
    pub(super) bar: Vec2,
    pub(super) heart: bool,
    pub(super) one_fill: Option<Rgba>,
    pub(super) slot: f32,
    pub(super) slot_column: bool,
    pub(super) keys: bool,
    pub(super) tint: Rgba,
    pub(super) map_side: f32,
    pub(super) margin: Vec2,
    pub(super) gap: f32,
    pub(super) at_map: Anchor,
    pub(super) at_kills: Anchor,
    pub(super) at_alive: Anchor,
    pub(super) at_health: Anchor,
    pub(super) at_icons: Anchor,
    pub(super) at_feed: Anchor,
}

const PANELS: [u32; 7] = [
    0x10_14_1a, 0x1c_24_30, 0x0e_1e_1a, 0x2a_1c_1e, 0x20_18_30, 0x30_2a_1c, 0x00_00_00,
];
const ACCENTS: [u32; 6] = [
    0xff_c8_38, 0x48_d0_ff, 0xff_6a_48, 0x8c_e8_5a, 0xff_ff_ff, 0xd8_8c_ff,
];
const TINTS: [u32; 5] = [0xe8_ec_f0, 0xf0_e0_b8, 0xc8_d8_e8, 0xd0_e8_d0, 0xff_ff_ff];

fn one_of(colours: &[u32], rng: &mut Pcg64) -> Rgba {
    rgb(colours[rng.random_range(0..colours.len())])
}

impl Skin {
    /// The look of the display of `seed`.
    pub(crate) fn new(seed: Seed) -> Self {
        let rng = &mut seed.rng("skin");
        let digit = rng.random_range(14.0..=22.0_f32);
        let top = |column| Anchor {
            column,
            bottom: false,
        };
        let bottom = |column| Anchor { column, bottom: true };
        let map_left = rng.random_bool(0.5);
        let map_side = if map_left { 0 } else { 2 };
        let map_low = rng.random_bool(0.4);
        let at_kills = top(rng.random_range(0..3));
        let at_alive = if rng.random_bool(0.65) {
            at_kills
        } else {
            top(rng.random_range(0..3))
        };
        let at_health = bottom(rng.random_range(0..3));
        let slot_column = rng.random_bool(0.25);
        let at_icons = if slot_column {
            bottom(2 - map_side)
        } else {
            bottom((at_health.column + rng.random_range(1..3)) % 3)
        };
        Self {
            panel: one_of(&PANELS, rng)
                .lit(rng.random_range(0.7..1.5))
                .faded(rng.random_range(0.5..0.92)),
            text: one_of(&TINTS, rng),
            accent: one_of(&ACCENTS, rng),
            frame: rng
                .random_bool(0.5)
                .then(|| one_of(&ACCENTS, rng).faded(rng.random_range(0.3..0.8))),
            corner: if rng.random_bool(0.3) {
                0.0
            } else {
                rng.random_range(3.0..9.0)
            },
            rounded: rng.random_bool(0.6),
            digit,
            weight: digit * rng.random_range(0.125..0.185),
            kill_sign: if rng.random_bool(0.55) {
                KillSign::Skull
            } else {
                KillSign::CrossHair
            },
            sign_first: rng.random_bool(0.75),
            snug: rng.random_bool(0.4),
            figure: [Figure::On, Figure::Before, Figure::After][rng.random_range(0..3)],
            bar: vec2(
                rng.random_range(140.0..200.0_f32).round(),
                (digit + rng.random_range(8.0..12.0)).round(),
            ),
            heart: rng.random_bool(0.6),
            one_fill: rng
                .random_bool(0.25)
                .then(|| rgb([0xe8_e8_e4, 0xd8_40_40, 0x50_b8_e8][digit as usize % 3])),
            slot: rng.random_range(42.0..58.0_f32).round(),
            slot_column,
            keys: rng.random_bool(0.4),
            tint: one_of(&TINTS, rng).lit(rng.random_range(0.85..1.05)),
            map_side: rng.random_range(104.0..138.0_f32).round(),
            margin: vec2(
                rng.random_range(6.0..26.0_f32).round(),
                rng.random_range(6.0..22.0_f32).round(),
            ),
            gap: rng.random_range(4.0..9.0_f32).round(),
            at_map: if map_low { bottom(map_side) } else { top(map_side) },
            at_kills,
            at_alive,
            at_health,
            at_icons,
            at_feed: top(2 - map_side),
        }
    }
}

/// Hands out places by anchor, one beyond the other towards the middle of the picture.
pub(super) struct Places<'a> {
    skin: &'a Skin,
    used: [[f32; 3]; 2],
}

impl<'a> Places<'a> {
    /// Starts with an empty display.
    pub(super) fn new(skin: &'a Skin) -> Self {
        Self {
            skin,
            used: [[skin.margin.y; 3]; 2],
        }
    }

    /// Next free place for a panel of that size.
    pub(super) fn take(&mut self, anchor: Anchor, size: Vec2) -> Bounds {
        let (width, height) = (SIZE.0 as f32, SIZE.1 as f32);
        let used = &mut self.used[usize::from(anchor.bottom)][anchor.column];
        let x0 = match anchor.column {
            0 => self.skin.margin.x,
            1 => ((width - size.x) / 2.0).round(),
            _ => width - self.skin.margin.x - size.x,
        };
        let y0 = if anchor.bottom {
            height - *used - size.y
        } else {
            *used
        };
        *used += size.y + self.skin.gap;
        Bounds {
            x0,
            y0,
            x1: x0 + size.x,
            y1: y0 + size.y,
        }
    }
}
