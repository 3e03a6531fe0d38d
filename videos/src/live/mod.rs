//! People near the camera, as an entrance or a stream from a room shows them.
//!
//! Some come near, stand, speak, look about, change their expression, wave, and walk off. [`still`] draws single frames
//! with everything varied, for training; [`Live`] is a world that moves.

mod act;
mod gallery;
mod room;
mod staging;
mod still;
mod things;

#[cfg(test)]
mod tests;

pub use act::Live;
pub use gallery::gallery_face;
pub use still::still;

pub use crate::SIZE;
/// Identities of [`crate::Part::Clip`] below this number are the gallery: `p01` to `p20`.
pub const GALLERY: u64 = 20;
/// Identities that are drawn of each other part.
pub const POPULATION: u64 = 600;
