//! Plane geometry in pixels: x to the right, y down, pixel centres at half-integers.

use serde::{Deserialize, Serialize};

/// A point in source pixels.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Point {
    /// Right of the left edge.
    pub x: f32,
    /// Below the top edge.
    pub y: f32,
}

impl Point {
    /// The point at `(x, y)`.
    #[must_use]
    pub const fn new(x: f32, y: f32) -> Self {
        Self { x, y }
    }
}

/// An axis-aligned box by its corners, in source pixels.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Rect {
    /// Left edge in pixels, inclusive.
    pub x0: f32,
    /// Top edge in pixels, inclusive.
    pub y0: f32,
    /// Right edge in pixels, exclusive.
    pub x1: f32,
    /// Bottom edge in pixels, exclusive.
    pub y1: f32,
}

impl Rect {
    /// The box with these corners.
    #[must_use]
    pub const fn new(x0: f32, y0: f32, x1: f32, y1: f32) -> Self {
        Self { x0, y0, x1, y1 }
    }

    /// Width in pixels, never negative.
    #[must_use]
    pub fn width(&self) -> f32 {
        (self.x1 - self.x0).max(0.0)
    }

    /// Height in pixels, never negative.
    #[must_use]
    pub fn height(&self) -> f32 {
        (self.y1 - self.y0).max(0.0)
    }

    /// Area in square pixels.
    #[must_use]
    pub fn area(&self) -> f32 {
        self.width() * self.height()
    }

    /// Centre of the rectangle.
    #[must_use]
    pub fn centre(&self) -> Point {
        Point::new((self.x0 + self.x1) / 2.0, (self.y0 + self.y1) / 2.0)
    }

    /// The intersection with a picture of `width` by `height`.
    #[must_use]
    pub fn clamp(&self, width: f32, height: f32) -> Self {
        Self::new(
            self.x0.clamp(0.0, width),
            self.y0.clamp(0.0, height),
            self.x1.clamp(0.0, width),
            self.y1.clamp(0.0, height),
        )
    }

    /// The rectangle in a picture whose width and height are scaled by these factors.
    #[must_use]
    pub fn scaled(&self, x: f32, y: f32) -> Self {
        Self::new(self.x0 * x, self.y0 * y, self.x1 * x, self.y1 * y)
    }

    /// The box grown about its centre by `factor` of each side (0.25: a quarter wider in all).
    #[must_use]
    pub fn widen(&self, factor: f32) -> Self {
        let (dx, dy) = (self.width() * factor / 2.0, self.height() * factor / 2.0);
        Self::new(self.x0 - dx, self.y0 - dy, self.x1 + dx, self.y1 + dy)
    }

    /// The smallest box around both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self::new(
            self.x0.min(other.x0),
            self.y0.min(other.y0),
            self.x1.max(other.x1),
            self.y1.max(other.y1),
        )
    }

    /// Area that both cover; empty if they do not overlap.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self::new(
            self.x0.max(other.x0),
            self.y0.max(other.y0),
            self.x1.min(other.x1),
            self.y1.min(other.y1),
        )
    }

    /// True if the point lies within the rectangle.
    #[must_use]
    pub fn contains(&self, point: Point) -> bool {
        (self.x0..self.x1).contains(&point.x) && (self.y0..self.y1).contains(&point.y)
    }

    /// Intersection over union, 0 where either is empty.
    #[must_use]
    pub fn iou(&self, other: &Self) -> f32 {
        let overlap = self.intersection(other).area();
        let union = self.area() + other.area() - overlap;
        if union > 0.0 { overlap / union } else { 0.0 }
    }
}

/// An affine map `(x, y) -> (a x + b y + c, d x + e y + f)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Affine {
    /// `[a, b, c, d, e, f]`.
    pub m: [f32; 6],
}

impl Affine {
    /// Applies the map.
    #[must_use]
    pub fn apply(&self, p: Point) -> Point {
        let [a, b, c, d, e, f] = self.m;
        Point::new(a * p.x + b * p.y + c, d * p.x + e * p.y + f)
    }
}
