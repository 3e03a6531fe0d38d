//! A small drawing in its own coordinates, which is rotated and scaled into the picture; and its extent
//! there.
//!
//! The drawing and its ground truth come from the same shapes, so that a box is as tight as the drawing.

use crate::canvas::{Canvas, Rgba};
use crate::geometry::{Bounds, Vec2, vec2};

/// Position, rotation and scale of a drawing in the picture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stand {
    /// Position of its origin in pixels.
    pub(super) at: Vec2,
    /// Clockwise rotation in radians.
    pub(super) turn: f32,
    /// Scale in pixels per unit of the drawing.
    pub(super) scale: f32,
}

impl Stand {
    /// Position of a point of the drawing in the picture, in pixels.
    pub(super) fn place(&self, point: Vec2) -> Vec2 {
        self.at + (point * self.scale).turned(self.turn)
    }
}

#[derive(Debug, Clone)]
enum Shape {
    Oval { at: Vec2, radii: Vec2 },
    Ring { at: Vec2, radius: f32, width: f32 },
    Line { points: Vec<Vec2>, width: f32 },
    Polygon(Vec<Vec2>),
}

/// Shapes, the lowest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Sketch {
    shapes: Vec<(Shape, Rgba)>,
}

fn points(of: &[(f32, f32)]) -> Vec<Vec2> {
    of.iter().map(|(x, y)| vec2(*x, *y)).collect()
}

impl Sketch {
    /// An ellipse by its middle and half axes.
    pub(super) fn oval(&mut self, [x, y, rx, ry]: [f32; 4], ink: Rgba) -> &mut Self {
        let shape = Shape::Oval {
            at: vec2(x, y),
            radii: vec2(rx, ry),
        };
        self.with(shape, ink)
    }

    /// The outline of a circle.
    pub(super) fn ring(&mut self, [x, y, radius]: [f32; 3], width: f32, ink: Rgba) -> &mut Self {
        let at = vec2(x, y);
        self.with(Shape::Ring { at, radius, width }, ink)
    }

    /// A rectangle by its left, top, right, bottom.
    pub(super) fn bar(&mut self, [x0, y0, x1, y1]: [f32; 4], ink: Rgba) -> &mut Self {
        self.polygon(&[(x0, y0), (x1, y0), (x1, y1), (x0, y1)], ink)
    }

    /// A filled polygon.
    pub(super) fn polygon(&mut self, through: &[(f32, f32)], ink: Rgba) -> &mut Self {
        self.with(Shape::Polygon(points(through)), ink)
    }

    /// A line with round ends.
    pub(super) fn line(&mut self, through: &[(f32, f32)], width: f32, ink: Rgba) -> &mut Self {
        let points = points(through);
        self.with(Shape::Line { points, width }, ink)
    }

    fn with(&mut self, shape: Shape, ink: Rgba) -> &mut Self {
        self.shapes.push((shape, ink));
        self
    }

    /// Draws the shapes in order.
    pub(super) fn draw(&self, canvas: &mut Canvas, stand: &Stand) {
        for (shape, ink) in &self.shapes {
            shape.draw(canvas, stand, *ink);
        }
    }

    /// Bounding box in the picture; `None` for an empty drawing.
    pub(super) fn bounds(&self, stand: &Stand) -> Option<Bounds> {
        let extents = self.shapes.iter().filter_map(|(shape, _)| shape.bounds(stand));
        extents.reduce(|all, next| all.with(&next))
    }
}

impl Shape {
    fn draw(&self, canvas: &mut Canvas, stand: &Stand, ink: Rgba) {
        let placed = |points: &[Vec2]| -> Vec<Vec2> { points.iter().map(|at| stand.place(*at)).collect() };
        match self {
            Self::Oval { at, radii } => {
                canvas.ellipse(stand.place(*at), *radii * stand.scale, stand.turn, ink);
            }
            Self::Ring { at, radius, width } => {
                let radius = radius * stand.scale;
                canvas.ring(
                    stand.place(*at),
                    vec2(radius, radius),
                    0.0,
                    width * stand.scale,
                    ink,
                );
            }
            Self::Line { points, width } => canvas.line(&placed(points), width * stand.scale, ink),
            Self::Polygon(points) => canvas.polygon(&placed(points), ink),
        }
    }

    fn bounds(&self, stand: &Stand) -> Option<Bounds> {
        let about = |at: Vec2, reach: Vec2| Bounds::about([at - reach, at + reach]);
        match self {
            Self::Oval { at, radii } => {
                let (sin, cos) = stand.turn.sin_cos();
                let reach = vec2(
                    (radii.x * cos).hypot(radii.y * sin),
                    (radii.x * sin).hypot(radii.y * cos),
                );
                about(stand.place(*at), reach * stand.scale)
            }
            Self::Ring { at, radius, width } => {
                let reach = (radius + width / 2.0) * stand.scale;
                about(stand.place(*at), vec2(reach, reach))
            }
            Self::Line { points, width } => {
                let reach = width * stand.scale / 2.0;
                let ends = points.iter().flat_map(|at| {
                    let at = stand.place(*at);
                    [at - vec2(reach, reach), at + vec2(reach, reach)]
                });
                Bounds::about(ends)
            }
            Self::Polygon(points) => Bounds::about(points.iter().map(|at| stand.place(*at))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canvas::rgb;

    #[test]
    fn a_turned_drawing_stays_within_its_bounds_and_fills_them() {
        let mut sketch = Sketch::default();
        sketch.oval([3.0, 0.0, 6.0, 2.0], rgb(0xff_ff_ff));
        sketch.line(&[(0.0, 0.0), (0.0, 5.0)], 1.0, rgb(0xff_ff_ff));
        for step in 0_u8..12 {
            let stand = Stand {
                at: vec2(40.0, 40.0),
                turn: f32::from(step) * 0.5,
                scale: 3.0,
            };
            let mut canvas = Canvas::new(80, 80, rgb(0));
            sketch.draw(&mut canvas, &stand);
            let picture = canvas.picture();
            let lit = (0..80 * 80).filter(|index| picture.rgb[index * 3] > 100);
            let drawn =
                Bounds::about(lit.map(|index| vec2((index % 80) as f32 + 0.5, (index / 80) as f32 + 0.5)));
            let (drawn, bounds) = (drawn.expect("drawn"), sketch.bounds(&stand).expect("not empty"));
            for (seen, said) in drawn.array().iter().zip(bounds.array()) {
                assert!((seen - said).abs() < 1.5, "{drawn:?} {bounds:?}");
            }
        }
    }
}
