//! The motion gate of a stream, as the graph names it.

use weir_analytics::transforms::Outline;

/// The motion gate of a stream: frames in which nothing changes are not looked at.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MotionGateNode {
    /// Polygons, in parts of the width and height of a picture, within which changes do not count.
    pub ignore: Vec<Outline>,
}
