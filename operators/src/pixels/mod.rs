//! From the planes of a decoded picture directly into a model's `f32` input: scaling, colour conversion and
//! normalisation in one pass, without an intermediate RGB picture. A crop costs its own pixels only.
//!
//! Coordinates are continuous, with pixel centres at half-integers, as everywhere in Weir. Nothing here knows a model:
//! a head describes its input by [`InputSpec`], and receives an [`ImagePlacement`] to map outputs back with.
//!
//! Chroma is taken as centred between its luma samples. The exact position ("left" in MPEG-2 and H.264) would shift
//! colour by a quarter of a pixel; OpenCV and swscale at their defaults ignore it as well, and models were trained on
//! their output.

mod axis;
mod color;
#[cfg(any(test, feature = "cuda"))]
pub(crate) mod device;
mod projective;
mod resample;
mod sampler;
mod spec;
mod warp;

pub use projective::Projective;
pub use sampler::Sampler;
pub(crate) use sampler::{chroma_subsampling, placement};
pub use spec::{Arrangement, Channels, ImagePlacement, InputSpec, Interpolation};

#[cfg(test)]
mod tests;
