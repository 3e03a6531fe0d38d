//! Figures of the map, seen from above: players, vehicles and crates.
//!
//! Drawings look along x, in units of the map.

use crate::canvas::{Rgba, rgb};

use super::sketch::Sketch;

/// Appearance of a player.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outfit {
    /// Colour of the vest, which is the team's.
    pub(super) team: Rgba,
    /// Colour of sleeves and trousers.
    pub(super) cloth: Rgba,
    /// Colour of the helmet or hair.
    pub(super) head: Rgba,
    /// True if the head has a helmet.
    pub(super) helmet: bool,
    /// True if there is a pack on the back.
    pub(super) pack: bool,
    /// Length of the weapon, 12 to 30.
    pub(super) weapon: f32,
}

/// Position of the weapon's muzzle, in units of the map.
pub(super) fn muzzle(outfit: &Outfit) -> (f32, f32) {
    (9.0 + outfit.weapon, 4.0)
}

/// A player: `stride` is the phase of the steps in radians, `hurry` how far they reach, 0 to 1.
pub(super) fn player(outfit: &Outfit, stride: f32, hurry: f32) -> Sketch {
    let mut sketch = Sketch::default();
    let step = stride.sin() * 10.0 * hurry;
    let (dark, skin) = (rgb(0x22_24_28), rgb(0xd8_a8_80).lit(0.75 + outfit.head.g * 0.4));
    let sway = stride.sin() * 0.8 * hurry;
    for (side, reach) in [(-1.0, step), (1.0, -step)] {
        sketch.oval([reach + 2.0, side * 5.5, 6.5, 4.0], dark);
        sketch.oval([reach * 0.5, side * 5.8, 6.0, 4.6], outfit.cloth.lit(0.7));
    }
    if outfit.pack {
        sketch.bar([-15.0, -8.0, -3.0, 8.0], outfit.cloth.lit(0.5));
        sketch.bar([-13.4, -6.0, -7.0, 6.0], outfit.cloth.lit(0.95));
    }
    sketch.oval([0.0, 0.0, 9.5, 15.5], dark);
    sketch.oval([0.0, sway, 8.2, 14.2], outfit.team.lit(0.8));
    sketch.oval([0.6, sway, 6.6, 12.6], outfit.team);
    sketch.line(
        &[(1.0, 12.5), (8.0, 11.5), (12.0, 5.0)],
        6.2,
        outfit.cloth.lit(0.85),
    );
    sketch.line(
        &[(1.0, -12.5), (10.0, -8.0), (17.0, 2.5)],
        6.2,
        outfit.cloth.lit(0.85),
    );
    let (end, aside) = muzzle(outfit);
    sketch.line(&[(4.0, aside), (end - 1.6, aside)], 4.2, dark);
    sketch.line(&[(9.0, aside), (end - 1.6, aside)], 2.0, rgb(0x5c_60_66));
    sketch.oval([12.5, 4.6, 3.2, 3.0], skin);
    sketch.oval([17.5, 3.0, 3.2, 3.0], skin);
    sketch.oval([0.5, 0.0, 7.6, 7.2], dark);
    if outfit.helmet {
        sketch.oval([0.5, 0.0, 6.6, 6.2], outfit.head);
        sketch.oval([-0.6, -1.4, 3.2, 2.6], outfit.head.lit(1.3));
        sketch.line(&[(5.4, -3.0), (6.2, 0.0), (5.4, 3.0)], 1.7, outfit.head.lit(0.5));
    } else {
        sketch.oval([1.2, 0.0, 5.8, 5.4], skin);
        sketch.oval([-0.8, 0.0, 5.6, 6.2], outfit.head);
    }
    sketch
}

/// A kind of vehicle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// Saloon car, with a closed cabin.
    Saloon,
    /// Jeep with an open cabin.
    Jeep,
    /// Pick-up with a cargo bed.
    PickUp,
}

/// A vehicle of that colour.
pub(super) fn vehicle(body: Body, colour: Rgba) -> Sketch {
    let mut sketch = Sketch::default();
    let (dark, glass) = (rgb(0x1a_1c_20), rgb(0x2a_3a_4a));
    let (long, wide) = if body == Body::Jeep {
        (44.0, 24.0)
    } else {
        (52.0, 23.0)
    };
    for x in [-long * 0.58, long * 0.58] {
        sketch.bar([x - 9.0, -wide - 2.5, x + 9.0, wide + 2.5], dark);
    }
    let hull = |shrink: f32| {
        let (x, y) = (long - shrink, wide - shrink);
        [
            (x - 7.0, -y),
            (x - 1.0, -y + 5.0),
            (x, -y + 10.0),
            (x, y - 10.0),
            (x - 1.0, y - 5.0),
            (x - 7.0, y),
            (-x + 5.0, y),
            (-x, y - 5.0),
            (-x, -y + 5.0),
            (-x + 5.0, -y),
        ]
    };
    sketch.polygon(&hull(0.0), colour.lit(0.55));
    sketch.polygon(&hull(2.2), colour);
    for side in [-1.0, 1.0] {
        sketch.oval([long - 3.5, side * (wide - 7.5), 2.6, 4.0], rgb(0xff_f3_c0));
        sketch.bar(
            [
                -long + 0.6,
                side * (wide - 8.0) - 3.5,
                -long + 3.6,
                side * (wide - 8.0) + 3.5,
            ],
            rgb(0xb8_22_22),
        );
    }
    cabin(&mut sketch, body, colour, glass);
    sketch
}

fn cabin(sketch: &mut Sketch, body: Body, colour: Rgba, glass: Rgba) {
    let front = [(24.0, -13.0), (24.0, 13.0), (14.0, 17.0), (14.0, -17.0)];
    match body {
        Body::Saloon => {
            sketch.polygon(
                &[
                    (22.0, -16.0),
                    (25.0, 0.0),
                    (22.0, 16.0),
                    (-34.0, 17.0),
                    (-34.0, -17.0),
                ],
                glass,
            );
            sketch.polygon(
                &[(9.0, -15.0), (9.0, 15.0), (-22.0, 15.0), (-22.0, -15.0)],
                colour.lit(1.15),
            );
            sketch.line(&[(34.0, -10.0), (46.0, -8.0)], 1.4, colour.lit(0.75));
            sketch.line(&[(34.0, 10.0), (46.0, 8.0)], 1.4, colour.lit(0.75));
        }
        Body::Jeep => {
            sketch.bar([-30.0, -18.0, 14.0, 18.0], rgb(0x2c_2a_28));
            for (x, y) in [(-2.0, -9.0), (-2.0, 9.0), (-22.0, -9.0), (-22.0, 9.0)] {
                sketch.bar([x - 6.0, y - 6.0, x + 6.0, y + 6.0], rgb(0x7a_66_4c));
                sketch.bar([x - 7.0, y - 6.0, x - 3.5, y + 6.0], rgb(0x5c_4a_36));
            }
            sketch.polygon(
                &[(18.0, -17.0), (18.0, 17.0), (13.0, 18.0), (13.0, -18.0)],
                glass.lit(1.5),
            );
            sketch.line(&[(-9.0, -19.0), (-9.0, 19.0)], 2.6, colour.lit(0.6));
            sketch.oval([-42.0, 0.0, 4.0, 9.0], rgb(0x20_20_22));
        }
        Body::PickUp => {
            sketch.polygon(&front, glass);
            sketch.polygon(
                &[(14.0, -16.0), (14.0, 16.0), (-6.0, 16.0), (-6.0, -16.0)],
                colour.lit(1.15),
            );
            sketch.bar([-46.0, -18.0, -9.0, 18.0], colour.lit(0.35));
            for y in [-12.0, -4.0, 4.0, 12.0] {
                sketch.line(&[(-44.0, y), (-11.0, y)], 1.2, colour.lit(0.5));
            }
        }
    }
}

/// A loot crate; `kind` 0 to 1 says which.
pub(super) fn crate_of(kind: f32) -> Sketch {
    let mut sketch = Sketch::default();
    let (wood, band) = if kind < 0.45 {
        (rgb(0xb0_80_48), rgb(0x6e_4a_26))
    } else if kind < 0.75 {
        (rgb(0x66_72_42), rgb(0x38_40_24))
    } else {
        (rgb(0x38_78_b8), rgb(0xe8_d8_50))
    };
    sketch.bar([-17.0, -15.0, 17.0, 15.0], wood.lit(0.4));
    sketch.bar([-15.5, -13.5, 15.5, 13.5], wood);
    for y in [-7.0, 0.0, 7.0] {
        sketch.line(&[(-14.5, y), (14.5, y)], 1.1, wood.lit(0.7));
    }
    sketch.bar([-15.5, -13.5, -11.0, 13.5], band);
    sketch.bar([11.0, -13.5, 15.5, 13.5], band);
    if kind < 0.45 {
        sketch.line(&[(-11.0, -12.0), (11.0, 12.0)], 3.4, band);
    } else {
        sketch.bar([-4.5, -4.5, 4.5, 4.5], band);
        sketch.bar([-2.0, -3.0, 2.0, 3.0], wood.lit(1.4));
    }
    sketch
}
