//! View of the map from straight above, centred on one of its points.

use crate::geometry::{Vec2, vec2};

use super::SIZE;
use super::sketch::Stand;

/// A view from above.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    /// Point of the map in the middle of the picture.
    pub(super) eye: Vec2,
    /// Scale in pixels per unit of the map.
    pub(super) zoom: f32,
}

impl View {
    /// Position of a point of the map in the picture, in pixels.
    pub(super) fn place(&self, at: Vec2) -> Vec2 {
        (at - self.eye) * self.zoom + vec2(SIZE.0 as f32 / 2.0, SIZE.1 as f32 / 2.0)
    }

    /// Positions of all points of a line or outline in the picture.
    pub(super) fn places(&self, points: &[Vec2]) -> Vec<Vec2> {
        points.iter().map(|at| self.place(*at)).collect()
    }

    /// True if anything within `reach` units of `at` lies in the picture.
    pub(super) fn sees(&self, at: Vec2, reach: f32) -> bool {
        let (at, reach) = (self.place(at), reach * self.zoom);
        let within = |value: f32, size: u32| value > -reach && value < size as f32 + reach;
        within(at.x, SIZE.0) && within(at.y, SIZE.1)
    }

    /// Position of a drawing at `at` whose unit is that of the map.
    pub(super) fn stand(&self, at: Vec2, turn: f32) -> Stand {
        Stand {
            at: self.place(at),
            turn,
            scale: self.zoom,
        }
    }
}
