//! A game seen from above, with its display: a hero on an island, other players, vehicles, loot, and the
//! panels that show the state of the match.
//!
//! Nothing is simulated step by step: positions and the values of the display are closed forms of the time.

mod cast;
mod casting;
mod course;
mod effects;
mod figures;
mod hud;
mod map;
mod scene;
mod sight;
mod sketch;
mod story;
mod terrain;
#[cfg(test)]
mod tests;
mod view;

use rand::RngExt;

use crate::World;
use crate::canvas::Picture;
use crate::lens::Lens;
use crate::seed::Seed;
use weir_truth::FrameTruth;

use cast::Cast;
use hud::Skin;
pub use hud::icons::ITEMS;
use map::Map;
use story::{Story, Values};

pub use crate::SIZE;
/// Frames a second that its clips have.
pub const FPS: f32 = 30.0;

/// A match, of which any moment can be drawn.
#[derive(Debug, Clone)]
pub struct Game {
    map: Map,
    cast: Cast,
    story: Story,
    skin: Skin,
    zoom: f32,
    key: u64,
}

impl Game {
    /// The match of `seed`.
    #[must_use]
    pub fn new(seed: Seed) -> Self {
        let course = casting::hero_course(seed);
        let map = Map::new(seed, &course);
        let mut cast = Cast::new(seed, course, &map);
        let story = Story::new(seed, &mut cast);
        Self {
            map,
            cast,
            story,
            skin: Skin::new(seed),
            zoom: seed.rng("zoom").random_range(0.82..1.22),
            key: seed.key("game"),
        }
    }
}

impl World for Game {
    fn size(&self) -> (u32, u32) {
        SIZE
    }

    fn at(&self, seconds: f32) -> (Picture, FrameTruth) {
        self.moment(seconds, &self.story.values(seconds))
    }
}

/// Single picture for training, with its ground truth. Every value of the display is equally likely, and the
/// picture is slightly blurred, grained, lighter or darker, as recordings are.
#[must_use]
pub fn still(seed: Seed) -> (Picture, FrameTruth) {
    let rng = &mut seed.rng("still");
    let game = Game::new(seed);
    let (picture, truth) = game.moment(rng.random_range(0.0..150.0), &Values::any(seed));
    let blur: f32 = rng.random_range(-2.0..0.5);
    let lens = Lens {
        grain: rng.random_range(0.0..4.0),
        gain: rng.random_range(0.85..1.1),
        vignette: rng.random_range(0.0..0.12),
        blur: if blur < 0.3 { 0.0 } else { blur },
    };
    (lens.seen(picture, seed.key("grain")), truth)
}
