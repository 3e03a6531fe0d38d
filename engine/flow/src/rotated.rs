//! Boxes at an angle, as detectors of ships or vehicles seen from above give them.

use std::f32::consts::PI;

use crate::geometry::{Point, Rect};

/// A box at an angle, in pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RotatedRect {
    /// Centre of the box.
    pub centre: Point,
    /// Length of the side that `angle` points along.
    pub width: f32,
    /// Length of the other side.
    pub height: f32,
    /// Radians from the x axis to the side `width`, clockwise in the picture; from 0 to below pi.
    pub angle: f32,
}

impl RotatedRect {
    /// The box with these sides; half turns are taken from the angle, and signs from the sides, which change nothing.
    #[must_use]
    pub fn new(centre: Point, width: f32, height: f32, angle: f32) -> Self {
        let angle = angle.rem_euclid(PI);
        Self {
            centre,
            width: width.abs(),
            height: height.abs(),
            // Rounding can turn an angle just below 0 into pi itself.
            angle: if angle >= PI { 0.0 } else { angle },
        }
    }

    /// The corners in the order of a box without an angle: top left, top right, bottom right, bottom left.
    #[must_use]
    pub fn corners(&self) -> [Point; 4] {
        let (sin, cos) = self.angle.sin_cos();
        [(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)].map(|(along, across)| {
            let (along, across) = (along * self.width, across * self.height);
            Point::new(
                self.centre.x + along * cos - across * sin,
                self.centre.y + along * sin + across * cos,
            )
        })
    }

    /// The smallest upright box around it.
    #[must_use]
    pub fn bounds(&self) -> Rect {
        let (sin, cos) = self.angle.sin_cos();
        let half_width = (self.width * cos.abs() + self.height * sin.abs()) / 2.0;
        let half_height = (self.width * sin.abs() + self.height * cos.abs()) / 2.0;
        Rect::new(
            self.centre.x - half_width,
            self.centre.y - half_height,
            self.centre.x + half_width,
            self.centre.y + half_height,
        )
    }

    /// The box under a map that keeps right angles.
    #[must_use]
    pub fn mapped(&self, map: impl Fn(Point) -> Point) -> Self {
        let [a, b, _, d] = self.corners().map(&map);
        let side = |from: Point, to: Point| (to.x - from.x).hypot(to.y - from.y);
        Self::new(
            map(self.centre),
            side(a, b),
            side(a, d),
            (b.y - a.y).atan2(b.x - a.x),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f32, b: f32) -> bool {
        (a - b).abs() < 1e-4
    }

    #[test]
    fn quarter_turn_exchanges_the_sides() {
        let turned = RotatedRect::new(Point::new(50.0, 40.0), 20.0, 10.0, PI / 2.0);
        let bounds = turned.bounds();
        let sides = [bounds.x0, bounds.y0, bounds.x1, bounds.y1];
        let expected = [45.0, 30.0, 55.0, 50.0];
        assert!(sides.iter().zip(expected).all(|(a, b)| near(*a, b)), "{bounds:?}");
        // Clockwise by a quarter: the top left corner comes to the top right.
        let [first, ..] = turned.corners();
        assert!(near(first.x, 55.0) && near(first.y, 30.0), "{first:?}");
    }

    #[test]
    fn half_turns_are_the_same_box() {
        for angle in [-0.5, 0.3 - PI, 3.0 + PI, -1e-9] {
            let turned = RotatedRect::new(Point::default(), 4.0, 2.0, angle);
            assert!((0.0..PI).contains(&turned.angle), "{turned:?}");
        }
    }

    #[test]
    fn negative_side_is_the_same_box() {
        let plain = RotatedRect::new(Point::default(), 4.0, 2.0, 0.5);
        assert_eq!(RotatedRect::new(Point::default(), 4.0, -2.0, 0.5), plain);
    }

    #[test]
    fn scaled_box_keeps_its_angle() {
        let turned = RotatedRect::new(Point::new(10.0, 20.0), 8.0, 4.0, 2.5);
        let scaled = turned.mapped(|at| Point::new(at.x * 3.0 + 1.0, at.y * 3.0 - 2.0));
        assert!(near(scaled.centre.x, 31.0) && near(scaled.centre.y, 58.0));
        assert!(near(scaled.width, 24.0) && near(scaled.height, 12.0));
        assert!((scaled.angle - 2.5).abs() < 1e-4, "{scaled:?}");
    }
}
