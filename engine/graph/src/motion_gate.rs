//! The motion gate of a stream, as the graph names it.

/// The motion gate of a stream: frames in which nothing changes are not looked at.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MotionGateNode {
    /// Polygons in fractions (0 to 1) of the width and height of a picture, within which changes do not count.
    pub ignore: Vec<Vec<[f64; 2]>>,
}
