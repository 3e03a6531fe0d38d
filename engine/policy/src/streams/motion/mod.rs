//! The motion gate: frames in which nothing changes are not given to detectors.
//!
//! A frame is *still* where it looks like the last frame that was looked at, so that the objects found there are there yet. Two
//! signals tell: [`SceneChange`] compares pictures on a coarse grid of luma, and [`PacketSizes`] compares packets with those of
//! the same stream while nothing moved, before they are decoded. [`MotionGate`] decides by both.

mod gate;
mod packet_sizes;
mod scene_change;

pub use gate::{GateDecision, GateEvent, MotionGate};
pub use scene_change::{LumaGrid, Region, SceneChange};
