//! The gate of a stream, as the graph names it.

use weir_analytics::transforms::Outline;
use weir_types::Span;

/// The gate of a stream: frames in which nothing moves are not looked at.
#[derive(Debug, Clone, PartialEq)]
pub enum GateNode {
    /// By changes of its packets and pictures.
    Motion {
        /// Polygons, in parts of the width and height of a picture, within which changes do not count.
        ignore: Vec<Outline>,
    },
    /// By events of its camera.
    Camera {
        /// Media time for which frames are looked at after the last movement.
        hold: Span,
    },
}
