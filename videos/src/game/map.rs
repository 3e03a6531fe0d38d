//! The island on which the game is played: what lies where.

use rand::RngExt;
use rand_pcg::Pcg64;

use crate::canvas::{Rgba, rgb};
use crate::geometry::{Vec2, vec2};
use crate::seed::Seed;

use super::course::{Course, RingRoad};

/// Half the island's width and height, about.
pub(super) const REACH: Vec2 = vec2(1560.0, 1120.0);

/// Colours of a season.
#[derive(Debug, Clone, Copy)]
pub(super) struct Palette {
    pub(super) grass: Rgba,
    pub(super) meadow: Rgba,
    pub(super) sand: Rgba,
    pub(super) water: Rgba,
    pub(super) road: Rgba,
    pub(super) crown: Rgba,
}

const fn palette(colours: [u32; 6]) -> Palette {
    Palette {
        grass: rgb(colours[0]),
        meadow: rgb(colours[1]),
        sand: rgb(colours[2]),
        water: rgb(colours[3]),
        road: rgb(colours[4]),
        crown: rgb(colours[5]),
    }
}

const PALETTES: [Palette; 4] = [
    palette([
        0x6f_9a_4a, 0x84_ad_55, 0xd8_c5_8a, 0x3f_86_a8, 0x6b_6c_70, 0x3f_73_36,
    ]),
    palette([
        0x9c_9a_52, 0xb2_a8_5c, 0xdc_c4_90, 0x4a_8a_96, 0x74_70_6c, 0x7a_6a_2c,
    ]),
    palette([
        0x5a_86_58, 0x6c_98_62, 0xc9_bd_94, 0x35_6f_94, 0x5e_60_66, 0x2f_5f_48,
    ]),
    palette([
        0xd3_da_dc, 0xe4_e8_ea, 0xc4_bd_a8, 0x5a_8c_ac, 0x7c_80_86, 0x5d_7f_74,
    ]),
];

/// A tree, a bush, or a rock: something round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Round {
    pub(super) at: Vec2,
    pub(super) radius: f32,
    /// Random number from 0 to 1 that varies its drawing.
    pub(super) kind: f32,
}

/// A house, of which the roof is seen.
#[derive(Debug, Clone, Copy)]
pub(super) struct House {
    pub(super) at: Vec2,
    pub(super) half: Vec2,
    pub(super) turn: f32,
    pub(super) roof: Rgba,
}

/// Landscape of the island.
#[derive(Debug, Clone)]
pub(super) struct Map {
    pub(super) palette: Palette,
    pub(super) coast: Vec<Vec2>,
    pub(super) patches: Vec<(Vec<Vec2>, bool)>,
    pub(super) lakes: Vec<Vec<Vec2>>,
    /// Centre line of the ring road, closed.
    pub(super) ring_line: Vec<Vec2>,
    /// Circles around obstacles: houses, waters, rocks.
    fast: Vec<(Vec2, f32)>,
    pub(super) ring: RingRoad,
    pub(super) lanes: Vec<[Vec2; 3]>,
    pub(super) trees: Vec<Round>,
    pub(super) bushes: Vec<Round>,
    pub(super) rocks: Vec<Round>,
    pub(super) houses: Vec<House>,
}

const ROOFS: [u32; 6] = [
    0xa8_52_3e, 0x8a_5a_3a, 0x5f_6a_78, 0xb0_7a_48, 0x7a_3f_3a, 0x4f_6f_6a,
];

/// Circles that are taken already.
struct Taken(Vec<(Vec2, f32)>);

impl Taken {
    fn free(&self, at: Vec2, radius: f32) -> bool {
        self.0
            .iter()
            .all(|(other, reach)| (*other - at).length() > radius + reach)
    }

    /// A free place for a circle, by a few tries.
    fn find(&mut self, radius: f32, rng: &mut Pcg64) -> Option<Vec2> {
        let found = (0..24).find_map(|_| {
            let at = somewhere(0.88, rng);
            self.free(at, radius).then_some(at)
        });
        self.0.extend(found.map(|at| (at, radius)));
        found
    }
}

/// A point of the island, within that part of its reach.
pub(super) fn somewhere(part: f32, rng: &mut Pcg64) -> Vec2 {
    let (angle, out) = (
        rng.random_range(0.0..std::f32::consts::TAU),
        rng.random_range(0.0_f32..1.0).sqrt(),
    );
    vec2(REACH.x * angle.cos(), REACH.y * angle.sin()) * (out * part)
}

/// An uneven outline about a point.
fn outline(about: Vec2, reach: Vec2, unevenness: f32, rng: &mut Pcg64) -> Vec<Vec2> {
    let count = 14_u16;
    let corners = (0..count).map(|step| {
        let angle = f32::from(step) * std::f32::consts::TAU / f32::from(count);
        let out = 1.0 + rng.random_range(-unevenness..unevenness);
        about + vec2(reach.x * angle.cos(), reach.y * angle.sin()) * out
    });
    corners.collect()
}

impl Map {
    /// True if no obstacle (house, water or rock) is within `reach` of a point.
    pub(super) fn clear(&self, at: Vec2, reach: f32) -> bool {
        self.fast
            .iter()
            .all(|(middle, radius)| (*middle - at).length() > radius + reach)
    }

    /// Distance of a point from the centre line of the ring road, in units of the map.
    pub(super) fn off_road(&self, at: Vec2) -> f32 {
        let lengths = self.ring_line.iter().map(|on| (*on - at).length());
        lengths.fold(f32::INFINITY, f32::min)
    }

    /// The island of `seed`; houses and waters keep out of the way that the hero goes.
    pub(super) fn new(seed: Seed, hero: &Course) -> Self {
        let rng = &mut seed.rng("map");
        let palette = PALETTES[rng.random_range(0..PALETTES.len())];
        let ring = RingRoad::new(rng);
        let lanes: Vec<[Vec2; 3]> = (0..3).map(|_| lane(&ring, rng)).collect();
        let ring_line = ring.line();
        let mut taken = Taken(ring_line.iter().map(|at| (*at, 46.0)).collect());
        taken
            .0
            .extend((0..800_u16).map(|step| (hero.at(f32::from(step) * 0.3), 22.0)));
        for [from, pull, to] in &lanes {
            taken.0.extend((0..=20_u16).map(|step| {
                let part = f32::from(step) / 20.0;
                let at = from.towards(*pull, part).towards(pull.towards(*to, part), part);
                (at, 30.0)
            }));
        }
        let patches = (0..46).map(|_| {
            let reach = vec2(rng.random_range(70.0..260.0), rng.random_range(60.0..200.0));
            let sandy = rng.random_bool(0.3);
            (outline(somewhere(0.85, rng), reach, 0.3, rng), sandy)
        });
        let patches = patches.collect();
        let (mut lakes, mut fast) = (Vec::new(), Vec::new());
        for _ in 0..7 {
            let radius = rng.random_range(70.0..150.0);
            if let Some(at) = taken.find(radius, rng) {
                fast.push((at, radius * 1.13));
                lakes.push(outline(at, vec2(radius, radius * 0.8), 0.15, rng));
            }
        }
        let houses: Vec<House> = (0..18).filter_map(|_| house(&mut taken, rng)).collect();
        fast.extend(houses.iter().map(|house| (house.at, house.half.length() * 0.85)));
        let rocks = scattered(70, 12.0..30.0, &mut taken, rng);
        fast.extend(rocks.iter().map(|rock| (rock.at, rock.radius * 0.6)));
        let trees = woods(&mut taken, rng);
        let bushes = scattered(90, 10.0..19.0, &mut taken, rng);
        let coast = outline(vec2(0.0, 0.0), REACH, 0.06, rng);
        Self {
            palette,
            coast,
            patches,
            lakes,
            ring_line,
            fast,
            ring,
            lanes,
            trees,
            bushes,
            rocks,
            houses,
        }
    }
}

/// A dirt road from the ring road to the ring road.
fn lane(ring: &RingRoad, rng: &mut Pcg64) -> [Vec2; 3] {
    let angle = rng.random_range(0.0..std::f32::consts::TAU);
    let other = angle + rng.random_range(1.8..4.4);
    let pull = vec2(rng.random_range(-300.0..300.0), rng.random_range(-220.0..220.0));
    [ring.at(angle, 0.0), pull, ring.at(other, 0.0)]
}

fn house(taken: &mut Taken, rng: &mut Pcg64) -> Option<House> {
    let half = vec2(rng.random_range(70.0..110.0), rng.random_range(45.0..70.0));
    let at = taken.find(half.length() * 0.95, rng)?;
    Some(House {
        at,
        half,
        turn: rng.random_range(-0.25..0.25) + if rng.random_bool(0.4) { 1.57 } else { 0.0 },
        roof: rgb(ROOFS[rng.random_range(0..ROOFS.len())]).lit(rng.random_range(0.85..1.15)),
    })
}

fn scattered(count: usize, radii: std::ops::Range<f32>, taken: &mut Taken, rng: &mut Pcg64) -> Vec<Round> {
    let mut all = Vec::new();
    for _ in 0..count {
        let radius = rng.random_range(radii.clone());
        let kind = rng.random_range(0.0..1.0);
        all.extend(taken.find(radius * 0.8, rng).map(|at| Round { at, radius, kind }));
    }
    all
}

/// Trees in groups; they may stand close to each other, and their crowns above the paths' edges.
fn woods(taken: &mut Taken, rng: &mut Pcg64) -> Vec<Round> {
    let mut trees: Vec<Round> = Vec::new();
    for _ in 0..44 {
        let (middle, spread) = (somewhere(0.9, rng), rng.random_range(60.0..220.0));
        for _ in 0..rng.random_range(3..12) {
            let aside = vec2(
                rng.random_range(-spread..spread),
                rng.random_range(-spread..spread),
            );
            let (at, radius) = (middle + aside, rng.random_range(26.0..54.0));
            let apart = trees
                .iter()
                .all(|tree| (tree.at - at).length() > (tree.radius + radius) * 0.6);
            if apart && taken.free(at, radius * 0.75) {
                let kind = rng.random_range(0.0..1.0);
                trees.push(Round { at, radius, kind });
            }
        }
    }
    trees
}
