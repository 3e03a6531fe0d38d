//! Rendered worlds, whose ground truth is known in every frame.
//!
//! A [`World`] is a moving scene: a street, people in front of a camera, a game. Each frame can be drawn
//! independently, and comes with its [`FrameTruth`]: boxes, identities, texts, directions. A [`Seed`]
//! determines everything: the same seed gives the same bytes. Nothing here is a recording, and no person is
//! modelled on a real one.

pub mod canvas;
pub mod font;
pub mod game;
pub mod geometry;
mod image_file;
pub mod lens;
pub mod live;
pub mod person;
pub mod scenes;
pub mod seed;
pub mod street;
pub mod test_card;

pub use canvas::{Canvas, Ink, Picture};
pub use seed::{Part, Seed};
pub use street::Light;
pub use weir_truth::{FrameTruth, TruthAttribute, TruthObject, TruthPoint};

/// Width and height of the frames of all worlds in pixels.
pub const SIZE: (u32, u32) = (960, 540);

/// A scene that moves, drawn frame by frame in any order.
pub trait World: Send + Sync {
    /// Width and height of its frames in pixels; both even.
    fn size(&self) -> (u32, u32);

    /// Picture at `seconds` since the beginning, and its ground truth. `frame` and `pts_ms` are 0; the
    /// caller, who numbers the frames, sets them.
    fn at(&self, seconds: f32) -> (Picture, FrameTruth);
}

/// A kind of world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorldKind {
    /// A crossing, seen from a fixed camera.
    Street,
    /// People near the camera.
    Live,
    /// A game with its display.
    Game,
    /// A test card.
    Card,
}

impl Light {
    /// All lights, by name.
    pub const ALL: [(&'static str, Self); 4] = [
        ("day", Self::Day),
        ("dusk", Self::Dusk),
        ("night", Self::Night),
        ("rain", Self::Rain),
    ];

    /// The light of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, light)| *light)
    }
}

impl WorldKind {
    /// All kinds, by name.
    pub const ALL: [(&'static str, Self); 4] = [
        ("street", Self::Street),
        ("live", Self::Live),
        ("game", Self::Game),
        ("card", Self::Card),
    ];

    /// The kind of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, kind)| *kind)
    }

    /// Name of the world in arguments and file names.
    #[must_use]
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, kind)| *kind == self);
        found.map_or("", |(name, _)| name)
    }
}

/// The world of that kind and seed; `light` is for streets.
#[must_use]
pub fn world(kind: WorldKind, seed: Seed, light: Light) -> Box<dyn World> {
    match kind {
        WorldKind::Street => Box::new(street::Street::new(seed, light)),
        WorldKind::Live => Box::new(live::Live::new(seed)),
        WorldKind::Game => Box::new(game::Game::new(seed)),
        WorldKind::Card => Box::new(test_card::Card::new(seed)),
    }
}

/// Picture of a world of that kind for training, which varies more than clips do. `light` applies to streets;
/// with `None` the seed decides between day and dusk.
#[must_use]
pub fn still(kind: WorldKind, seed: Seed, light: Option<Light>) -> (Picture, FrameTruth) {
    match kind {
        WorldKind::Street => street::still(seed, light),
        WorldKind::Live => live::still(seed),
        WorldKind::Game => game::still(seed),
        WorldKind::Card => test_card::still(seed),
    }
}

/// Pictures of each person of the gallery.
pub const GALLERY_VIEWS: u32 = 4;
