//! Worlds that are rendered, so that the truth about every frame is known.
//!
//! A [`World`] is a scene that moves: a street, people before a camera, a game. Any frame of it can be drawn by itself,
//! and comes with its [`FrameTruth`]: boxes, identities, texts, directions. All is decided by a [`Seed`]: the same seed
//! gives the same bytes. Nothing here is a recording, and nothing resembles anybody.

pub mod canvas;
pub mod font;
pub mod game;
pub mod geometry;
mod image_file;
pub mod lens;
pub mod live;
pub mod person;
pub mod seed;
pub mod street;
pub mod test_card;
pub mod truth;

pub use canvas::{Canvas, Ink, Picture};
pub use seed::{Part, Seed};
pub use truth::{FrameTruth, TruthAttribute, TruthObject, TruthPoint};

/// Width and height of the frames of all worlds in pixels.
pub const SIZE: (u32, u32) = (960, 540);

/// A scene that moves, drawn frame by frame in any order.
pub trait World: Send + Sync {
    /// Width and height of its frames in pixels; both even.
    fn size(&self) -> (u32, u32);

    /// The picture at `seconds` since the beginning, and what is true of it. Its `frame` and `pts_ms` are left at nought
    /// for the caller, who numbers frames.
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

/// The light on a street.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Light {
    /// A day with shadows.
    Day,
    /// After sunset, with lamps.
    Dusk,
}

impl Light {
    /// All, by name.
    pub const ALL: [(&'static str, Self); 2] = [("day", Self::Day), ("dusk", Self::Dusk)];

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

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, kind)| *kind == self);
        found.map_or("", |(name, _)| name)
    }
}

/// The world of that kind and seed; `light` is for streets. None where this build has no such kind.
#[must_use]
pub fn world(kind: WorldKind, seed: Seed, _light: Light) -> Option<Box<dyn World>> {
    match kind {
        WorldKind::Card => Some(Box::new(test_card::Card::new(seed))),
        WorldKind::Game => Some(Box::new(game::Game::new(seed))),
        WorldKind::Street | WorldKind::Live => None,
    }
}

/// One picture of a world of that kind, varied more widely than clips are, to learn from. None where this build has no
/// such kind.
#[must_use]
pub fn still(kind: WorldKind, seed: Seed) -> Option<(Picture, FrameTruth)> {
    match kind {
        WorldKind::Card => Some(test_card::still(seed)),
        WorldKind::Game => Some(game::still(seed)),
        WorldKind::Street | WorldKind::Live => None,
    }
}

/// People whom the gallery of live clips knows.
pub const GALLERY: u64 = 20;

/// Pictures of each of them.
pub const GALLERY_VIEWS: u64 = 2;

/// The face of the gallery's person `number`, from nought, in one of several views. None where this build has no live
/// world.
#[must_use]
pub fn gallery_face(_number: u64, _view: u64) -> Option<Picture> {
    None
}
