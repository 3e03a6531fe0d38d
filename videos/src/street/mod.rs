//! A crossing, seen from a fixed camera.
//!
//! The street is solid: everything stands in metres on the ground and is seen through a pinhole. What hides what is
//! decided by where things stand; how much of each is hidden, by a picture of identities painted beside the canvas.

mod body;
mod cover;
mod fleet;
mod ground;
mod houses;
mod layout;
mod light;
mod order;
mod plate;
mod props;
mod scene;
mod shadows;
mod sight;
mod stage;
mod traffic;
mod vehicle;

use rand::RngExt;

use self::cover::Cover;
use self::houses::House;
use self::layout::HOUSES;
use self::light::Illumination;
use self::props::Prop;
use self::scene::Item;
use self::sight::Sight;
use self::stage::{Pose, Stage};
use self::traffic::{Lane, Thing};
use crate::canvas::{Canvas, Picture, rgb};
use crate::geometry::{Camera, vec2, vec3};
use crate::lens::{Lens, exposed};
use crate::seed::Seed;
use crate::truth::{FrameTruth, TruthObject};
use crate::World;

pub use self::light::Light;

/// Width and height of a frame in pixels.
const SIZE: (u32, u32) = (960, 540);

/// What does not move: the place, its light, the camera.
struct Place {
    sight: Sight,
    light: Illumination,
    empty: Canvas,
    blocks: [Vec<House>; 2],
    props: Vec<Prop>,
    lens: Lens,
}

impl Place {
    fn new(seed: Seed, light: Light, camera: Camera) -> Self {
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
                blur: rng.random_range(0.35..0.6),
            },
        }
    }

    /// Draws the place with what is in it, without the lens.
    fn draw<'a>(&'a self, mut items: Vec<Item<'a>>, seconds: f32) -> (Picture, Vec<TruthObject>) {
        let mut stage = Stage {
            canvas: self.empty.clone(),
            cover: Cover::new(SIZE),
            sight: self.sight,
            light: self.light,
        };
        items.extend(self.props.iter().map(Item::Prop));
        for (side, block) in [-1.0, 1.0].into_iter().zip(&self.blocks) {
            items.push(Item::Block(side, block));
        }
        let objects = scene::draw(&mut stage, &items, seconds);
        (stage.canvas.picture(), objects)
    }
}

/// A crossing with its traffic.
pub struct Street {
    seed: Seed,
    place: Place,
    lanes: Vec<Lane>,
}

impl Street {
    /// The crossing of that seed, by day or at dusk.
    #[must_use]
    pub fn new(seed: Seed, light: Light) -> Self {
        let mut rng = seed.rng("camera");
        let camera = Camera {
            eye: vec3(rng.random_range(-4.3..-3.2), 0.0, rng.random_range(3.2..3.8)),
            yaw: rng.random_range(0.05..0.13),
            pitch: rng.random_range(0.20..0.25),
            focal: rng.random_range(960.0..1060.0),
            centre: vec2(SIZE.0 as f32 / 2.0, SIZE.1 as f32 / 2.0),
        };
        Self {
            seed,
            place: Place::new(seed, light, camera),
            lanes: traffic::lanes(seed),
        }
    }

    fn draw(&self, seconds: f32) -> (Picture, Vec<TruthObject>) {
        let travelling: Vec<_> = self.lanes.iter().flat_map(|lane| lane.at(self.seed, seconds)).collect();
        let mut items = Vec::new();
        for it in &travelling {
            let pose = Pose { at: vec3(it.at.x, it.at.y, 0.0), forward: it.forward };
            match &it.thing {
                Thing::Vehicle(vehicle) => items.push(Item::Vehicle {
                    id: it.id,
                    vehicle,
                    pose,
                    way: it.way,
                    brakes: it.brakes || it.still,
                }),
                Thing::Bicycle(_) => {}
            }
        }
        self.place.draw(items, seconds)
    }
}

impl World for Street {
    fn size(&self) -> (u32, u32) {
        SIZE
    }

    fn at(&self, seconds: f32) -> (Picture, FrameTruth) {
        let (picture, objects) = self.draw(seconds);
        let key = self.seed.key("grain") ^ u64::from(seconds.to_bits());
        let picture = self.place.lens.seen(picture, key);
        (picture, FrameTruth { objects, ..FrameTruth::default() })
    }
}
