//! A crossing, seen from a fixed camera.
//!
//! The street is three-dimensional: everything has a position in metres on the ground and is projected
//! through a pinhole camera. Positions decide which object hides which; the hidden fraction comes from a
//! picture of identities painted beside the canvas.

mod bicycle;
mod body;
mod cabin;
mod cover;
mod crowd;
mod ends;
mod fill;
mod fleet;
mod ground;
mod houses;
mod layout;
mod light;
mod order;
mod people;
mod place;
mod plate;
mod props;
mod rain;
mod rider;
mod scene;
mod shadows;
mod sight;
mod soft;
mod stage;
mod still;
mod traffic;
mod vehicle;
mod walkers;

#[cfg(test)]
mod tests;

use rand::RngExt;

use self::bicycle::Riding;
use self::crowd::Crowd;
use self::people::Somebody;
use self::place::Place;
use self::scene::Item;
use self::stage::Pose;
use self::traffic::{Lane, Thing, Travelling};
use crate::World;
use crate::canvas::Picture;
use crate::geometry::{Camera, Vec2, vec2, vec3};
use crate::lens::exposed;
use crate::seed::Seed;
use weir_truth::{FrameTruth, TruthObject};

pub use self::light::Light;
pub use self::still::still;

use crate::SIZE;
/// Seconds that a frame is exposed.
const SHUTTER: f32 = 0.004;

/// A crossing with its traffic.
pub struct Street {
    seed: Seed,
    camera: Camera,
    place: Place,
    lanes: Vec<Lane>,
    crowd: Crowd,
}

impl Street {
    /// The crossing of that seed in that light.
    #[must_use]
    pub fn new(seed: Seed, light: Light) -> Self {
        let mut rng = seed.rng("camera");
        let camera = Camera {
            eye: vec3(rng.random_range(-3.3..-2.3), 0.0, rng.random_range(2.8..3.15)),
            yaw: rng.random_range(-0.07..-0.02),
            pitch: rng.random_range(0.195..0.215),
            focal: rng.random_range(1060.0..1140.0),
            centre: vec2(SIZE.0 as f32 / 2.0, SIZE.1 as f32 / 2.0),
        };
        Self {
            seed,
            camera,
            place: Place::new(seed, light, camera),
            lanes: traffic::lanes(seed),
            crowd: Crowd::new(seed.part),
        }
    }

    /// Ground truth of the picture at `seconds`: the same as that of [`World::at`], but many times faster.
    #[must_use]
    pub fn truth(&self, seconds: f32) -> FrameTruth {
        let travelling = self.travelling(seconds);
        FrameTruth {
            objects: self.place.truth(self.items(&travelling, seconds), seconds),
            ..FrameTruth::default()
        }
    }

    /// Positions of vehicles and bicycles at `seconds`, by the `id` in the ground truth: the middle on the
    /// ground, in metres to the right of the main street's middle and ahead of the camera. Objects outside of
    /// the picture are included.
    #[must_use]
    pub fn places(&self, seconds: f32) -> Vec<(u64, Vec2)> {
        let travelling = self.travelling(seconds).into_iter();
        travelling.map(|it| (it.id, it.at)).collect()
    }

    /// Position in the picture in pixels of a place on the ground, given in metres; `None` behind the camera.
    #[must_use]
    pub fn seen(&self, ground: Vec2) -> Option<Vec2> {
        let (at, _) = self.camera.project(vec3(ground.x, ground.y, 0.0))?;
        Some(at)
    }

    fn travelling(&self, seconds: f32) -> Vec<Travelling> {
        let lanes = self.lanes.iter();
        lanes.flat_map(|lane| lane.at(self.seed, seconds)).collect()
    }

    /// True if an object near the camera is fast enough for motion blur.
    fn hurries(&self, seconds: f32) -> bool {
        self.travelling(seconds)
            .iter()
            .any(|it| !it.still && (-6.0..26.0).contains(&it.at.y) && it.at.x.abs() < 14.0)
    }

    fn draw(&self, seconds: f32) -> (Picture, Vec<TruthObject>) {
        let travelling = self.travelling(seconds);
        self.place.draw(self.items(&travelling, seconds), seconds)
    }

    fn items<'a>(&'a self, travelling: &'a [Travelling], seconds: f32) -> Vec<Item<'a>> {
        let mut items = Vec::new();
        for it in travelling {
            let pose = Pose {
                at: vec3(it.at.x, it.at.y, 0.0),
                forward: it.forward,
            };
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
                    },
                }),
            }
        }
        for walker in walkers::at(self.seed, seconds) {
            let (who, name) = self.crowd.walker(walker.who);
            let height = Crowd::height(walker.who);
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
            items.push(Item::Person {
                id: walker.id,
                somebody,
            });
        }
        items
    }
}

impl World for Street {
    fn size(&self) -> (u32, u32) {
        SIZE
    }

    fn at(&self, seconds: f32) -> (Picture, FrameTruth) {
        let (picture, objects) = self.draw(seconds);
        let key = self.seed.key("grain") ^ u64::from(seconds.to_bits());
        let mut pictures = vec![picture];
        if self.hurries(seconds) {
            pictures.extend([-0.5, 0.5].map(|part| self.draw(seconds + part * SHUTTER).0));
        }
        let picture = exposed(&pictures).unwrap_or_else(|| pictures.swap_remove(0));
        let picture = self.place.seen(&picture, key);
        (
            picture,
            FrameTruth {
                objects,
                ..FrameTruth::default()
            },
        )
    }
}
