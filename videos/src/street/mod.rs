//! A crossing, seen from a fixed camera.
//!
//! The street is solid: everything stands in metres on the ground and is seen through a pinhole. What hides what is
//! decided by where things stand; how much of each is hidden, by a picture of identities painted beside the canvas.

mod bicycle;
mod body;
mod cover;
mod fleet;
mod ground;
mod houses;
mod layout;
mod light;
mod order;
mod people;
mod plate;
mod props;
mod scene;
mod shadows;
mod sight;
mod stage;
mod traffic;
mod vehicle;
mod walkers;

use rand::RngExt;

use self::bicycle::Riding;
use self::cover::Cover;
use self::houses::House;
use self::layout::HOUSES;
use self::light::Illumination;
use self::people::Somebody;
use self::props::Prop;
use self::scene::Item;
use self::sight::Sight;
use self::stage::{Pose, Stage};
use self::traffic::{Lane, Thing};
use crate::canvas::{Canvas, Picture, rgb};
use crate::geometry::{Camera, vec2, vec3};
use crate::lens::{Lens, exposed};
use crate::person::Identity;
use crate::seed::{Part, Seed, mix};
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
                blur: 0.0,
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
    crowd: Crowd,
}

/// The people of a street: those of the gallery, and others.
struct Crowd {
    gallery: Vec<(Identity, String)>,
    others: Vec<Identity>,
}

impl Crowd {
    /// How many are in no gallery.
    const OTHERS: u64 = 24;

    fn new(part: Part) -> Self {
        let gallery = (0..walkers::GALLERY).map(|number| Identity::of(part, number));
        let others = (0..Self::OTHERS).map(|number| Identity::of(part, walkers::GALLERY + number));
        Self {
            gallery: gallery.map(|who| { let name = who.name(); (who, name) }).collect(),
            others: others.collect(),
        }
    }

    fn walker(&self, number: u64) -> (&Identity, Option<&str>) {
        match self.gallery.get(number as usize) {
            Some((who, name)) => (who, Some(name)),
            None => (self.rider(number), None),
        }
    }

    fn rider(&self, number: u64) -> &Identity {
        &self.others[(number % Self::OTHERS) as usize]
    }
}

impl Street {
    /// The crossing of that seed, by day or at dusk.
    #[must_use]
    pub fn new(seed: Seed, light: Light) -> Self {
        let mut rng = seed.rng("camera");
        let camera = Camera {
            eye: vec3(rng.random_range(-3.3..-2.3), 0.0, rng.random_range(3.2..3.8)),
            yaw: rng.random_range(0.0..0.05),
            pitch: rng.random_range(0.175..0.205),
            focal: rng.random_range(960.0..1060.0),
            centre: vec2(SIZE.0 as f32 / 2.0, SIZE.1 as f32 / 2.0),
        };
        Self {
            seed,
            place: Place::new(seed, light, camera),
            lanes: traffic::lanes(seed),
            crowd: Crowd::new(seed.part),
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
                Thing::Bicycle(number) => items.push(Item::Bicycle {
                    id: it.id,
                    riding: Riding {
                        who: self.crowd.rider(*number),
                        number: *number,
                        pose,
                        way: it.way,
                        brakes: it.brakes,
                    },
                }),
            }
        }
        for walker in walkers::at(self.seed, seconds) {
            let (who, name) = self.crowd.walker(walker.who);
            let height = 1.60 + 0.26 * (mix(walker.who) % 100) as f32 / 100.0;
            let phase = walker.way / (0.42 * height) * std::f32::consts::PI;
            let glance = (walker.way * 0.35 + walker.who as f32).sin();
            let somebody = Somebody {
                who,
                name,
                height,
                at: walker.at,
                forward: walker.forward,
                stride: phase,
                pace: (walker.speed - 0.6).clamp(0.4, 0.9),
                head: [14.0 * glance, -2.0, 0.0],
            };
            items.push(Item::Person { id: walker.id, somebody });
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
