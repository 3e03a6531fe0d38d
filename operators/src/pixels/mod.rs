//! From the planes of a decoded picture straight into a model's `f32` input: scaling, colour and normalisation in
//! one pass, with no RGB picture in between. A crop costs its own pixels and no more.
//!
//! Coordinates are continuous, with pixel centres at half-integers, as everywhere in Weir. Nothing here knows a
//! model: a head says by [`InputSpec`] what its input wants, and gets a [`ImagePlacement`] to map outputs back with.
//!
//! Chroma is taken as centred between its luma samples. The exact position ("left" in MPEG-2 and H.264) would move
//! colour by a quarter of a pixel; OpenCV and swscale at their defaults ignore it as well, and models were trained
//! on what those give.

mod axis;
mod color;
mod projective;
mod resample;
mod sampler;
mod spec;
mod warp;

pub use projective::Projective;
pub use sampler::Sampler;
pub(crate) use sampler::placement;
pub use spec::{Arrangement, Channels, ImagePlacement, InputSpec, Interpolation};

#[cfg(test)]
mod tests;
