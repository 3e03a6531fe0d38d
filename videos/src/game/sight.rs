//! Visible part of a thing. Everything above the thing is known, so the hidden part is counted on a grid of
//! points.

use crate::geometry::{Bounds, Vec2, vec2};

use super::SIZE;
use super::sketch::Stand;

/// Something that hides what is beneath it, in pixels.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cover {
    /// Circle with its centre and radius.
    Circle(Vec2, f32),
    /// A panel of the display.
    Panel(Bounds),
    /// A turned rectangle, by half its sides in units of its stand.
    Turned(Stand, Vec2),
}

impl Cover {
    fn hides(&self, at: Vec2) -> bool {
        match self {
            Self::Circle(middle, radius) => (at - *middle).length() < *radius,
            Self::Panel(bounds) => {
                (bounds.x0..bounds.x1).contains(&at.x) && (bounds.y0..bounds.y1).contains(&at.y)
            }
            Self::Turned(stand, half) => {
                let at = (at - stand.at).turned(-stand.turn) * (1.0 / stand.scale.max(1e-3));
                at.x.abs() < half.x && at.y.abs() < half.y
            }
        }
    }
}

/// Visible part of a thing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sight {
    /// Bounding box, clipped to the frame.
    pub(super) bounds: Bounds,
    /// Fraction of that box that is not hidden, 0 to 1.
    pub(super) visible: f32,
    /// True if the thing is too small, too hidden or too far out of the frame to be scored.
    pub(super) ignore: bool,
}

/// Points of the grid along a side.
const GRID: u8 = 9;
/// Objects whose shorter side is below this number of pixels are not scored.
const SMALL: f32 = 12.0;

/// Visible part of `whole` beneath `covers`; `None` if it lies outside of the frame.
pub(super) fn sight(whole: &Bounds, covers: &[Cover]) -> Option<Sight> {
    let bounds = whole.within(SIZE);
    if bounds.width() < 1.0 || bounds.height() < 1.0 {
        return None;
    }
    let part = |step: u8| (f32::from(step) + 0.5) / f32::from(GRID);
    let points = (0..GRID).flat_map(|row| (0..GRID).map(move |column| (part(column), part(row))));
    let hidden = points.filter(|(x, y)| {
        let at = vec2(bounds.x0 + bounds.width() * x, bounds.y0 + bounds.height() * y);
        covers.iter().any(|cover| cover.hides(at))
    });
    let visible = 1.0 - hidden.count() as f32 / f32::from(GRID * GRID);
    let small = bounds.width().min(bounds.height()) < SMALL;
    let cut_off = bounds.area() < whole.area() * 0.5;
    Some(Sight {
        bounds,
        visible,
        ignore: small || cut_off || visible < 0.4,
    })
}
