//! Test card: moving bars, a circling square, and a clock. It serves tests of sources and of readers of
//! ground truth; a frame takes a few milliseconds, and a frame out of place is obvious.

use std::collections::BTreeMap;

use rand_pcg::rand_core::Rng;

use crate::canvas::{Canvas, Picture, Rgba, rgb};
use crate::font;
use crate::geometry::vec2;
use crate::seed::Seed;
use crate::{SIZE, World};
use weir_truth::{FrameTruth, TruthAttribute, TruthObject};

/// Colours of the bars, from the left.
const BARS: [u32; 7] = [
    0xc0_c0_c0, 0xc0_c0_00, 0x00_c0_c0, 0x00_c0_00, 0xc0_00_c0, 0xc0_00_00, 0x00_00_c0,
];

/// Pixels a second by which the bars move.
const PACE: f32 = 120.0;

/// Side of the square in pixels.
const SIDE: f32 = 96.0;

/// Height of the clock's digits in pixels.
const DIGITS: f32 = 72.0;

/// World `card`. Objects: `square`, 1; `clock`, 2, whose attribute `clock` is the displayed text: hundredths
/// of a second since the beginning.
#[derive(Debug, Clone, PartialEq)]
pub struct Card {
    /// Phase of the square's motion in radians.
    phase: f32,
    /// Start of the first bar in pixels.
    offset: f32,
    colour: Rgba,
}

impl Card {
    /// The card of that seed.
    #[must_use]
    pub fn new(seed: Seed) -> Self {
        let mut rng = seed.rng("card");
        let mut part = || (rng.next_u32() >> 8) as f32 / (1 << 24) as f32;
        Self {
            phase: part() * std::f32::consts::TAU,
            offset: part() * SIZE.0 as f32,
            colour: rgb(0xff_80_20).mixed(rgb(0x20_c0_ff), part()),
        }
    }

    fn bars(&self, canvas: &mut Canvas, seconds: f32) {
        let width = SIZE.0 as f32 / BARS.len() as f32;
        let moved = (self.offset + seconds * PACE).rem_euclid(SIZE.0 as f32);
        for (index, colour) in BARS.iter().enumerate() {
            let left = (index as f32 * width + moved).rem_euclid(SIZE.0 as f32);
            for left in [left, left - SIZE.0 as f32] {
                canvas.rect([left, 0.0, left + width, SIZE.1 as f32 * 0.6], rgb(*colour));
            }
        }
    }
}

impl World for Card {
    fn size(&self) -> (u32, u32) {
        SIZE
    }

    fn at(&self, seconds: f32) -> (Picture, FrameTruth) {
        let (width, height) = (SIZE.0 as f32, SIZE.1 as f32);
        let mut canvas = Canvas::new(SIZE.0, SIZE.1, rgb(0x18_18_20));
        self.bars(&mut canvas, seconds);
        let angle = self.phase + seconds * 1.3;
        let centre = vec2(
            width * (0.5 + 0.35 * angle.cos()),
            height * (0.4 + 0.25 * angle.sin()),
        );
        let square = [
            centre.x - SIDE / 2.0,
            centre.y - SIDE / 2.0,
            centre.x + SIDE / 2.0,
            centre.y + SIDE / 2.0,
        ];
        canvas.rect(square, rgb(0x10_10_10));
        let [x0, y0, x1, y1] = square;
        canvas.rect([x0 + 6.0, y0 + 6.0, x1 - 6.0, y1 - 6.0], self.colour);
        let says = format!("{:06.0}", f64::from(seconds) * 100.0);
        let at = vec2(width * 0.3, height * 0.78);
        font::write(&mut canvas, &says, at, DIGITS, 9.0, rgb(0xf0_f0_f0));
        let clock = [
            at.x,
            at.y,
            at.x + font::width(&says) * DIGITS / font::HEIGHT,
            at.y + DIGITS,
        ];
        let truth = FrameTruth {
            objects: vec![
                object(1, "square", square, BTreeMap::new()),
                object(
                    2,
                    "clock",
                    clock,
                    BTreeMap::from([("clock".to_owned(), TruthAttribute::Text { text: says })]),
                ),
            ],
            ..FrameTruth::default()
        };
        (canvas.picture(), truth)
    }
}

fn object(id: u64, class: &str, at: [f32; 4], attributes: BTreeMap<String, TruthAttribute>) -> TruthObject {
    TruthObject {
        id,
        class: class.to_owned(),
        r#box: at,
        visible: 1.0,
        ignore: false,
        parent: None,
        attributes,
    }
}

/// Test card at a random moment.
#[must_use]
pub fn still(seed: Seed) -> (Picture, FrameTruth) {
    Card::new(seed).at((seed.key("moment") % 6000) as f32 / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Part;

    #[test]
    fn the_square_is_where_the_truth_says() {
        let card = Card::new(Seed::new(Part::Clip, 3));
        for seconds in [0.0, 0.04, 7.0, 59.0] {
            let (picture, truth) = card.at(seconds);
            let [x0, y0, x1, y1] = truth.objects[0].r#box;
            let (x, y) = ((x0 + x1) as usize / 2, (y0 + y1) as usize / 2);
            let colour = &picture.rgb[(y * SIZE.0 as usize + x) * 3..][..3];
            let expected = [card.colour.r, card.colour.g, card.colour.b];
            for (found, expected) in colour.iter().zip(expected) {
                assert!((f32::from(*found) - expected * 255.0).abs() < 2.0, "{colour:?}");
            }
            assert!(x0 >= 0.0 && y0 >= 0.0 && x1 <= SIZE.0 as f32 && y1 <= SIZE.1 as f32);
        }
    }
}
