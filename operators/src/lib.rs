//! The edges of a Weir graph: where frames come from, what models see of them, and where results go.

mod catalog;
mod heads;
mod model;
mod operate;
pub mod pixels;

pub use catalog::{heads, operators};
pub use model::{LoadRequest, ModelFile, OnnxModel, find_runtime, load};
pub use operate::{OperatorError, OperatorRequest, operator};
