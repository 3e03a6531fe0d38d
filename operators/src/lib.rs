//! The edges of a Weir graph: where frames come from, what models see of them, and where results go.

mod catalog;
mod census;
mod files;
mod heads;
pub mod media;
mod model;
mod operate;
pub mod pixels;
pub mod sinks;

pub use catalog::{heads, operators};
pub use census::{ffmpeg_versions, h264_encoder};
pub use model::{
    Blocked, CutError, Layered, LoadRequest, MAX_MODEL_BYTES, ModelFile, OnnxModel, OnnxParts, PassedOver,
    Settled, dump_index, find_runtime, load, load_runtime,
};
pub use operate::{OperatorError, OperatorRequest, operator};
