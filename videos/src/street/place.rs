//! Fixed parts of a scene: the place, its light, the camera.

use rand::RngExt;

use super::cover::Cover;
use super::houses::{self, House};
use super::light::{Illumination, Light};
use super::props::{self, Prop};
use super::scene::{self, Item};
use super::sight::Sight;
use super::soft::softened;
use super::stage::Stage;
use super::{SIZE, ground, rain, shadows};
use crate::canvas::{Canvas, Picture, rgb};
use crate::geometry::Camera;
use crate::lens::Lens;
use crate::seed::Seed;
use weir_truth::TruthObject;

/// A street without anybody in it.
pub(super) struct Place {
    sight: Sight,
    light: Illumination,
    empty: Canvas,
    blocks: [Vec<House>; 2],
    props: Vec<Prop>,
    pub(super) lens: Lens,
    /// Softness of the lens: the fraction of a pixel's light that falls on each neighbour.
    pub(super) softness: f32,
}

impl Place {
    pub(super) fn new(seed: Seed, light: Light, camera: Camera) -> Self {
        let light = Illumination::drawn(light, &mut seed.rng("light"));
        let mut stage = Stage {
            canvas: Canvas::new(SIZE.0, SIZE.1, rgb(0)),
            cover: Cover::new(SIZE),
            sight: Sight::new(camera),
            light,
        };
        ground::draw(&mut stage, &mut seed.rng("ground"), seed.key("texture"));
        let props = props::drawn(&mut seed.rng("props"));
        if light.lamps {
            for at in props.iter().filter_map(Prop::shines_at) {
                shadows::pool(&mut stage, at);
            }
        }
        let mut rng = seed.rng("houses");
        let (far, blocks) = houses::drawn(&mut rng);
        houses::closing(&mut stage, &mut rng);
        houses::draw(&mut stage, &far);
        for block in &blocks {
            houses::draw(&mut stage, block);
        }
        let mut rng = seed.rng("lens");
        let dusk = if light.lamps { 1.0 } else { 0.0 };
        Self {
            sight: stage.sight,
            light,
            empty: stage.canvas,
            blocks,
            props,
            lens: Lens {
                grain: rng.random_range(1.5..3.5) + dusk * rng.random_range(1.0..3.0),
                gain: rng.random_range(0.96..1.06),
                vignette: rng.random_range(0.10..0.24),
                blur: 0.0,
            },
            softness: rng.random_range(0.02..0.10),
        }
    }

    /// Applies the effects of lens, rain and camera to a picture.
    pub(super) fn seen(&self, picture: &Picture, key: u64) -> Picture {
        let mut picture = softened(picture, self.softness);
        rain::fall(&mut picture, self.light.drops, key);
        self.lens.seen(picture, key)
    }

    /// Draws the place with what is in it, without the lens.
    pub(super) fn draw<'a>(&'a self, items: Vec<Item<'a>>, seconds: f32) -> (Picture, Vec<TruthObject>) {
        let (canvas, objects) = self.drawn_on(self.empty.clone(), items, seconds);
        (canvas.picture(), objects)
    }

    /// Ground truth of the place with its items, the same as if they were drawn.
    pub(super) fn truth<'a>(&'a self, items: Vec<Item<'a>>, seconds: f32) -> Vec<TruthObject> {
        let unpainted = Canvas::unpainted(SIZE.0, SIZE.1);
        self.drawn_on(unpainted, items, seconds).1
    }

    fn drawn_on<'a>(
        &'a self,
        canvas: Canvas,
        mut items: Vec<Item<'a>>,
        seconds: f32,
    ) -> (Canvas, Vec<TruthObject>) {
        let mut stage = Stage {
            canvas,
            cover: Cover::new(SIZE),
            sight: self.sight,
            light: self.light,
        };
        items.extend(self.props.iter().map(Item::Prop));
        for (side, block) in [-1.0, 1.0].into_iter().zip(&self.blocks) {
            items.push(Item::Block(side, block));
        }
        let objects = scene::draw(&mut stage, &items, seconds);
        (stage.canvas, objects)
    }
}
