//! Identity of a person: everything that stays the same when the person moves.

use rand::RngExt;
use rand_pcg::Pcg64;

use super::hair::Hair;
use super::hairstyle::HairStyle;
use super::skull::Skull;
use crate::canvas::{Rgba, rgb};
use crate::geometry::{Vec2, vec2};
use crate::seed::{Part, Seed};

/// A person. Different parts and different numbers give different persons.
#[derive(Debug, Clone, PartialEq)]
pub struct Identity {
    /// Purpose for which the person is drawn.
    pub part: Part,
    /// Number of the person within the part.
    pub number: u64,
    pub(super) skin: Rgba,
    pub(super) skull: Skull,
    pub(super) ear: f32,
    pub(super) eyes: Eyes,
    pub(super) brows: Brows,
    pub(super) nose: Nose,
    pub(super) lips: Lips,
    pub(super) hair: Hair,
    pub(super) beard: Beard,
    pub(super) glasses: Option<Glasses>,
    pub(super) freckles: bool,
    pub(super) mole: Option<Vec2>,
    pub(super) clothes: Clothes,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Eyes {
    pub(super) colour: Rgba,
    pub(super) width: f32,
    pub(super) opening: f32,
    pub(super) spacing: f32,
    /// The outer corner, up.
    pub(super) tilt: f32,
    pub(super) y: f32,
    pub(super) lashes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Brows {
    pub(super) thick: f32,
    pub(super) arch: f32,
    pub(super) above: f32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Nose {
    pub(super) length: f32,
    pub(super) width: f32,
    pub(super) out: f32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Lips {
    pub(super) width: f32,
    pub(super) full: f32,
    pub(super) y: f32,
    pub(super) colour: Rgba,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beard {
    None,
    Stubble,
    Moustache,
    Goatee,
    Full,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Glasses {
    pub(super) colour: Rgba,
    pub(super) round: bool,
    pub(super) size: f32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Clothes {
    pub(super) top: Rgba,
    pub(super) under: Rgba,
    pub(super) bottom: Rgba,
    pub(super) shoes: Rgba,
    pub(super) cut: Cut,
    pub(super) short_sleeves: bool,
    pub(super) skirt: bool,
    pub(super) build: f32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    Plain,
    Striped,
    Jacket,
    Hooded,
    Band,
}

const SKINS: [u32; 7] = [
    0xfbe0cd, 0xf2c8a6, 0xe2ae86, 0xc98e64, 0xa66c46, 0x835033, 0x613a27,
];
const HAIRS: [u32; 10] = [
    0x1c1717, 0x33221a, 0x5c3922, 0x8a5c30, 0xc7964e, 0xe6cf8e, 0xa8431e, 0x8c8a8a, 0xe4e0da, 0x702c3c,
];
const EYES: [u32; 6] = [0x3b2416, 0x6b4220, 0x4c7a3c, 0x3f78b0, 0x7a8c98, 0x2a6e6a];
const TOPS: [u32; 14] = [
    0xd8433b, 0x2f6fb5, 0x3f9a62, 0xe6b33d, 0x6b4a9b, 0xf0eee8, 0x2b2e38, 0xd9789e, 0x4db1b5, 0x8a5a3b,
    0x7d8692, 0x1f3b5c, 0xe87d3a, 0x5d6b3a,
];
const BOTTOMS: [u32; 8] = [
    0x2b3a57, 0x23262e, 0x6a6f78, 0xb8a07a, 0x4a3a30, 0x3f5880, 0x576144, 0x8a2f3a,
];
const SHOES: [u32; 5] = [0x222226, 0xf0f0f0, 0x6b4228, 0xc03a34, 0x3a5a8a];

const STRATA: u64 = 20;

/// Random draws for one identity. The traits that matter most for recognition are spread evenly over every
/// twenty numbers: each trait is divided into twenty strata, and every block of twenty people has its own
/// order of them.
struct Draw {
    rng: Pcg64,
    seed: Seed,
}

impl Draw {
    /// Value from 0 to 1, spread evenly over every twenty identities.
    fn even(&self, trait_name: &str) -> f32 {
        let block = self.seed.number / STRATA * STRATA;
        let key = |number: u64| Seed::new(self.seed.part, number).key(trait_name);
        let own = key(self.seed.number);
        let rank = (block..block + STRATA)
            .filter(|number| key(*number) < own)
            .count();
        let within = (own >> 40) as f32 / (1u64 << 24) as f32;
        (rank as f32 + within) / STRATA as f32
    }

    fn between(&self, trait_name: &str, from: f32, to: f32) -> f32 {
        from + (to - from) * self.even(trait_name)
    }

    fn one<T: Copy>(&self, trait_name: &str, of: &[T]) -> T {
        let index = (self.even(trait_name) * of.len() as f32) as usize;
        of[index.min(of.len() - 1)]
    }

    fn any<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.rng.random_range(0..of.len())]
    }

    fn chance(&mut self, part: f64) -> bool {
        self.rng.random_bool(part)
    }
}

impl Identity {
    /// The person `number` of `part`. In [`Part::Clip`] the numbers below 20 are the gallery.
    #[must_use]
    pub fn of(part: Part, number: u64) -> Self {
        let seed = Seed::new(part, number);
        let mut draw = Draw {
            rng: seed.rng("identity"),
            seed,
        };
        let skin = skin(draw.even("skin"));
        let skull = Skull {
            width: draw.between("face width", 0.315, 0.415),
            jaw: draw.between("jaw", 1.75, 3.4),
            taper: draw.between("taper", 0.0, 0.28),
        };
        let hair = Hair {
            style: draw.one("hair style", &HairStyle::ALL),
            colour: rgb(draw.one("hair colour", &HAIRS)),
            parting: if draw.chance(0.5) { 1.0 } else { -1.0 },
        };
        let beard = match draw.even("beard") {
            ..0.56 => Beard::None,
            ..0.66 => Beard::Stubble,
            ..0.78 => Beard::Moustache,
            ..0.88 => Beard::Goatee,
            _ => Beard::Full,
        };
        let (freckles, mole) = draw.marks();
        Self {
            part,
            number,
            skin,
            skull,
            ear: draw.rng.random_range(0.8..1.25),
            eyes: draw.eyes(),
            brows: Brows {
                thick: draw.between("brow thickness", 0.012, 0.045),
                arch: draw.between("brow arch", -0.012, 0.03),
                above: draw.rng.random_range(0.095..0.125),
            },
            nose: Nose {
                length: draw.between("nose length", 0.13, 0.215),
                width: draw.between("nose width", 0.045, 0.1),
                out: draw.rng.random_range(0.07..0.13),
            },
            lips: draw.lips(skin),
            hair,
            beard,
            glasses: draw.glasses(),
            freckles,
            mole,
            clothes: draw.clothes(),
        }
    }

    /// Name of the person: `p01` and on for clips, `t0000` for training, `v0000` for validation.
    #[must_use]
    pub fn name(&self) -> String {
        match self.part {
            Part::Train => format!("t{:04}", self.number),
            Part::Validation => format!("v{:04}", self.number),
            Part::Clip => format!("p{:02}", self.number + 1),
        }
    }
}

/// The skin that lies `along` the palette, 0 light to 1 dark.
fn skin(along: f32) -> Rgba {
    let place = along * (SKINS.len() - 1) as f32;
    let index = (place as usize).min(SKINS.len() - 2);
    rgb(SKINS[index]).mixed(rgb(SKINS[index + 1]), place - index as f32)
}

impl Draw {
    fn eyes(&mut self) -> Eyes {
        Eyes {
            colour: rgb(self.one("eye colour", &EYES)),
            width: self.between("eye width", 0.074, 0.1),
            opening: self.between("eye opening", 0.034, 0.054),
            spacing: self.between("eye spacing", 0.132, 0.172),
            tilt: self.rng.random_range(-0.012..0.024),
            y: self.rng.random_range(-0.02..0.02),
            lashes: self.chance(0.45),
        }
    }

    fn lips(&mut self, skin: Rgba) -> Lips {
        let tints = [0xb04a4a, 0xc25b5b, 0x9a3c44, 0xc43044];
        let tint = rgb(self.any(&tints));
        Lips {
            width: self.between("mouth width", 0.085, 0.135),
            full: self.between("lips", 0.012, 0.042),
            y: self.rng.random_range(0.275..0.315),
            colour: skin.lit(0.85).mixed(tint, self.rng.random_range(0.35..0.8)),
        }
    }

    fn glasses(&mut self) -> Option<Glasses> {
        let frames = [0x1c1c20, 0x7a3020, 0xc0a050, 0x2a4a8a, 0xb03050];
        let glasses = Glasses {
            colour: rgb(self.any(&frames)),
            round: self.chance(0.5),
            size: self.rng.random_range(0.95..1.2),
        };
        (self.even("glasses") < 0.3).then_some(glasses)
    }

    fn marks(&mut self) -> (bool, Option<Vec2>) {
        let sides = [-1.0, 1.0];
        let place = vec2(
            self.any(&sides) * self.rng.random_range(0.1..0.2),
            self.rng.random_range(0.1..0.33),
        );
        let mole = self.chance(0.22).then_some(place);
        (self.even("freckles") < 0.2, mole)
    }

    fn clothes(&mut self) -> Clothes {
        let cuts = [
            Cut::Plain,
            Cut::Plain,
            Cut::Striped,
            Cut::Jacket,
            Cut::Hooded,
            Cut::Band,
        ];
        Clothes {
            top: rgb(self.one("top", &TOPS)),
            under: rgb(self.any(&TOPS)),
            bottom: rgb(self.any(&BOTTOMS)),
            shoes: rgb(self.any(&SHOES)),
            cut: self.any(&cuts),
            short_sleeves: self.chance(0.35),
            skirt: self.chance(0.18),
            build: self.rng.random_range(0.88..1.22),
        }
    }
}
