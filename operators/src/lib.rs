//! The edges of a Weir graph: where frames come from, what models see of them, and where results go.

pub mod media;
pub mod pixels;
pub mod sinks;
