//! Worlds that are rendered, so that the truth about every frame is known.
//!
//! A [`World`] is a scene that moves: a street, people before a camera, a game. Any frame of it can be drawn by itself,
//! and comes with its [`FrameTruth`]: boxes, identities, texts, directions. All is decided by a [`Seed`]: the same seed
//! gives the same bytes. Nothing here is a recording, and nothing resembles anybody.

pub mod canvas;
pub mod font;
pub mod geometry;
pub mod lens;
pub mod live;
pub mod person;
pub mod seed;
pub mod street;
pub mod truth;

pub use canvas::{Canvas, Ink, Picture};
pub use seed::{Part, Seed};
pub use truth::{FrameTruth, TruthAttribute, TruthObject, TruthPoint};

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
}

impl WorldKind {
    /// All kinds, by name.
    pub const ALL: [(&'static str, Self); 3] = [
        ("street", Self::Street),
        ("live", Self::Live),
        ("game", Self::Game),
    ];

    /// The kind of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, kind)| *kind)
    }
}
