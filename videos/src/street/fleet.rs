//! Vehicles: their kinds, shapes, colours and plates.

use rand::RngExt;
use rand_pcg::Pcg64;

use crate::canvas::{Rgba, rgb};

/// A section across the lower body, in metres; the body spans one to the next.
#[derive(Debug, Clone, Copy)]
pub(super) struct Section {
    /// Along the vehicle, forward of its middle.
    pub(super) u: f32,
    /// Height of the sill, of the widest line, of the deck.
    pub(super) sill: f32,
    pub(super) waist: f32,
    pub(super) deck: f32,
    /// Half the width at the widest line.
    pub(super) half: f32,
}

/// Upper part of a vehicle: a cabin, or the upper half of a van or a bus.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cabin {
    /// Rear and front end at the lower edge, in metres.
    pub(super) base: (f32, f32),
    /// Rear and front end of the roof, in metres.
    pub(super) roof: (f32, f32),
    /// Height of the lower edge and of the roof, in metres.
    pub(super) height: (f32, f32),
    /// Half widths at the lower edge and at the roof, in metres.
    pub(super) half: (f32, f32),
    /// Side windows, as fractions of the cabin's length from the rear.
    pub(super) windows: &'static [(f32, f32)],
    /// Start and end of the glass, as fractions of the height.
    pub(super) glass: (f32, f32),
}

/// The measures of a kind of vehicle.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub(super) sections: Vec<Section>,
    pub(super) cabin: Cabin,
    /// Positions of the axles, and the radius of the wheels, in metres.
    pub(super) axles: (f32, f32),
    pub(super) wheel: f32,
    /// Heights of the middle of the front and of the rear plate, in metres.
    pub(super) plates: (f32, f32),
}

/// A kind of vehicle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Make {
    Hatch,
    Saloon,
    Offroad,
    Van,
    Bus,
}

impl Make {
    /// Class in the ground truth.
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Hatch | Self::Saloon | Self::Offroad => "car",
            Self::Van => "van",
            Self::Bus => "bus",
        }
    }
}

/// Vehicle with its shape and colours.
#[derive(Debug, Clone)]
pub(super) struct Vehicle {
    pub(super) make: Make,
    pub(super) shape: Shape,
    pub(super) paint: Rgba,
    pub(super) stripe: Option<Rgba>,
    pub(super) rim: Rgba,
    pub(super) plate: String,
    /// Number of a bus line.
    pub(super) line: u32,
    /// True for a van with side windows.
    pub(super) glazed: bool,
}

const PAINTS: [u32; 18] = [
    0xe9_ea_ea, 0xe9_ea_ea, 0x1b_1d_21, 0x26_2a_30, 0xa9_ae_b3, 0xbf_c3_c6, 0x6d_74_7c, 0x54_5b_63,
    0xb0_1c_22, 0x8c_14_1c, 0x1d_4e_9a, 0x1a_2c_57, 0x2f_7f_b8, 0x1f_5a_40, 0xd9_a5_1c, 0xd2_62_1e,
    0x7c_5a_3c, 0xc9_bb_9c,
];
const LIVERIES: [(u32, u32); 6] = [
    (0xc8_20_26, 0xf2_ee_e4),
    (0x1f_6a_b0, 0xf0_c0_2c),
    (0x2c_8a_57, 0xe8_f0_e4),
    (0xe8_e4_da, 0x2a_5d_9c),
    (0xea_a8_1e, 0x30_30_34),
    (0x5c_2e_6e, 0xe6_d6_ec),
];

impl Vehicle {
    pub(super) fn drawn(rng: &mut Pcg64) -> Self {
        let make = match rng.random_range(0..100) {
            0..32 => Make::Hatch,
            32..56 => Make::Saloon,
            56..70 => Make::Offroad,
            70..88 => Make::Van,
            _ => Make::Bus,
        };
        let any = |colours: &[u32], rng: &mut Pcg64| rgb(colours[rng.random_range(0..colours.len())]);
        let shine = rng.random_range(0.88..1.08);
        let (paint, stripe) = match make {
            Make::Bus => {
                let (paint, stripe) = LIVERIES[rng.random_range(0..LIVERIES.len())];
                (rgb(paint), Some(rgb(stripe)))
            }
            Make::Van if rng.random_bool(0.55) => {
                (rgb(0xe6_e7_e6), rng.random_bool(0.4).then(|| any(&PAINTS, rng)))
            }
            _ => (any(&PAINTS, rng), None),
        };
        Self {
            make,
            shape: Shape::drawn(make, rng),
            paint: paint.lit(shine),
            stripe,
            rim: rgb(0x9c_a0_a4).lit(rng.random_range(0.5..1.2)),
            plate: plate(rng),
            line: rng.random_range(1..100),
            glazed: rng.random_bool(0.35),
        }
    }

    /// Half its length in metres.
    pub(super) fn half_length(&self) -> f32 {
        self.shape.sections.last().map_or(2.0, |front| front.u)
    }

    /// Half its width in metres.
    pub(super) fn half_width(&self) -> f32 {
        self.shape
            .sections
            .iter()
            .map(|section| section.half)
            .fold(0.0, f32::max)
    }
}

/// A plate's text: two letters, three digits, a letter; no letter that is easily taken for a digit.
pub(super) fn plate(rng: &mut Pcg64) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHJKLMNPRSTUVWXYZ";
    let letter = |rng: &mut Pcg64| char::from(LETTERS[rng.random_range(0..LETTERS.len())]);
    let mut text = String::new();
    text.extend([letter(rng), letter(rng)]);
    text.extend((0..3).map(|_| char::from(b'0' + rng.random_range(0..10_u8))));
    text.push(letter(rng));
    text
}

impl Shape {
    fn drawn(make: Make, rng: &mut Pcg64) -> Self {
        let (sections, cabin, axles, wheel, plates): (&[[f32; 5]], _, _, _, _) = match make {
            Make::Hatch => (HATCH, HATCH_CABIN, (-1.28, 1.27), 0.31, (0.44, 0.76)),
            Make::Saloon => (SALOON, SALOON_CABIN, (-1.38, 1.42), 0.32, (0.44, 0.74)),
            Make::Offroad => (OFFROAD, OFFROAD_CABIN, (-1.36, 1.36), 0.37, (0.52, 0.84)),
            Make::Van => (VAN, VAN_CABIN, (-1.62, 1.78), 0.35, (0.50, 0.62)),
            Make::Bus => (BUS, BUS_CABIN, (-3.0, 3.1), 0.48, (0.52, 0.62)),
        };
        let (long, wide, high) = (
            rng.random_range(0.95..1.06),
            rng.random_range(0.97..1.03),
            rng.random_range(0.97..1.04),
        );
        let sections = sections.iter().map(|[u, sill, waist, deck, half]| Section {
            u: u * long,
            sill: sill * high,
            waist: waist * high,
            deck: deck * high,
            half: half * wide,
        });
        let stretch = |(a, b): (f32, f32), by: f32| (a * by, b * by);
        Self {
            sections: sections.collect(),
            cabin: Cabin {
                base: stretch(cabin.base, long),
                roof: stretch(cabin.roof, long),
                height: stretch(cabin.height, high),
                half: stretch(cabin.half, wide),
                ..cabin
            },
            axles: stretch(axles, long),
            wheel,
            plates: stretch(plates, high),
        }
    }
}

// Sections from the rear to the front: along, sill, waist, deck, half width.
const HATCH: &[[f32; 5]] = &[
    [-2.02, 0.36, 0.62, 0.93, 0.76],
    [-1.84, 0.24, 0.62, 0.97, 0.86],
    [-0.90, 0.20, 0.60, 0.95, 0.88],
    [0.70, 0.20, 0.58, 0.93, 0.88],
    [1.40, 0.21, 0.56, 0.86, 0.87],
    [1.84, 0.23, 0.52, 0.76, 0.83],
    [2.04, 0.27, 0.54, 0.66, 0.70],
];
const HATCH_CABIN: Cabin = Cabin {
    base: (-1.95, 1.02),
    roof: (-1.62, 0.10),
    height: (0.93, 1.47),
    half: (0.83, 0.62),
    windows: &[(0.07, 0.20), (0.23, 0.50), (0.53, 0.86)],
    glass: (0.08, 0.86),
};
const SALOON: &[[f32; 5]] = &[
    [-2.34, 0.36, 0.66, 0.90, 0.74],
    [-2.14, 0.25, 0.64, 0.98, 0.86],
    [-1.30, 0.20, 0.60, 0.97, 0.89],
    [0.80, 0.20, 0.58, 0.93, 0.89],
    [1.60, 0.21, 0.56, 0.84, 0.88],
    [2.12, 0.23, 0.52, 0.74, 0.83],
    [2.34, 0.27, 0.54, 0.65, 0.68],
];
const SALOON_CABIN: Cabin = Cabin {
    base: (-1.72, 1.14),
    roof: (-1.02, 0.18),
    height: (0.94, 1.43),
    half: (0.82, 0.60),
    windows: &[(0.10, 0.21), (0.24, 0.50), (0.53, 0.85)],
    glass: (0.08, 0.86),
};
const OFFROAD: &[[f32; 5]] = &[
    [-2.22, 0.46, 0.76, 1.04, 0.82],
    [-2.08, 0.32, 0.76, 1.08, 0.91],
    [-1.00, 0.28, 0.74, 1.07, 0.93],
    [0.80, 0.28, 0.72, 1.05, 0.93],
    [1.60, 0.28, 0.70, 1.01, 0.92],
    [2.06, 0.32, 0.66, 0.94, 0.88],
    [2.22, 0.38, 0.68, 0.84, 0.78],
];
const OFFROAD_CABIN: Cabin = Cabin {
    base: (-2.12, 1.00),
    roof: (-1.92, 0.22),
    height: (1.05, 1.70),
    half: (0.87, 0.70),
    windows: &[(0.06, 0.26), (0.29, 0.54), (0.57, 0.86)],
    glass: (0.08, 0.84),
};
const VAN: &[[f32; 5]] = &[
    [-2.66, 0.42, 0.80, 1.16, 0.95],
    [-2.58, 0.34, 0.80, 1.16, 0.99],
    [-1.00, 0.30, 0.78, 1.16, 1.00],
    [1.30, 0.30, 0.76, 1.14, 1.00],
    [2.10, 0.30, 0.74, 1.10, 0.99],
    [2.52, 0.32, 0.68, 0.98, 0.94],
    [2.66, 0.36, 0.68, 0.86, 0.84],
];
const VAN_CABIN: Cabin = Cabin {
    base: (-2.62, 2.08),
    roof: (-2.58, 1.18),
    height: (1.14, 2.36),
    half: (0.98, 0.88),
    windows: &[(0.70, 0.90)],
    glass: (0.10, 0.66),
};
const BUS: &[[f32; 5]] = &[
    [-5.70, 0.40, 0.85, 1.25, 1.20],
    [-5.60, 0.34, 0.85, 1.25, 1.26],
    [-2.00, 0.32, 0.85, 1.25, 1.27],
    [2.00, 0.32, 0.85, 1.25, 1.27],
    [5.55, 0.34, 0.85, 1.25, 1.26],
    [5.70, 0.38, 0.85, 1.25, 1.20],
];
const BUS_CABIN: Cabin = Cabin {
    base: (-5.68, 5.69),
    roof: (-5.60, 5.52),
    height: (1.25, 3.05),
    half: (1.25, 1.18),
    windows: &[
        (0.03, 0.145),
        (0.155, 0.27),
        (0.28, 0.395),
        (0.405, 0.52),
        (0.53, 0.645),
        (0.655, 0.77),
        (0.78, 0.885),
        (0.895, 0.985),
    ],
    glass: (0.04, 0.70),
};
