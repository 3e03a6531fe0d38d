//! The motion gate: frames in which nothing changes are not given to detectors.
//!
//! A frame is *still* where it looks like the last frame that was looked at, so that the objects found there are there yet. Two
//! signals tell: [`SceneChange`] compares pictures on a coarse grid of luma, and [`PacketSizes`] compares packets with those of
//! the same stream while nothing moved, before they are decoded. [`MotionGate`] decides by both. A camera may
//! tell instead ([`CameraGate`]). In a frame that is looked at, [`is_tile_due`] chooses the tiles that are read.

mod area_changes;
mod camera_gate;
mod camera_signal;
mod gate;
mod packet_sizes;
mod scene_change;

pub use area_changes::{AreaChanges, Region, is_tile_due};
pub use camera_gate::{CameraGate, StreamGate};
pub use camera_signal::CameraSignal;
pub use gate::{GateDecision, GateEvent, MotionGate};
pub use scene_change::{LumaGrid, SceneChange};
