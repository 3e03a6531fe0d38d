//! Cutting: an ONNX model as a chain of layers, and any range of them as a model of its own (PPipe 5.2).
//!
//! It works on the file's messages. Every value that a later layer or the user reads crosses a boundary, also those
//! that skip a partition, which are passed through; weights never cross. [`layer_profile`] measures the layers and
//! finds those that the runtime fuses.

mod error;
mod fused_sums;
mod graph;
mod layer_profile;
mod liveness;
mod node;
mod onnx_layers;
mod partition;
#[cfg(test)]
mod tests;
mod topological;
mod value_info;

pub use error::CutError;
pub(crate) use onnx_layers::OnnxLayers;
pub(crate) use partition::{LAST, SENDS};
pub(crate) use value_info::SampleInputs;
