//! Maps between the plane of an input and the plane of a picture.

use weir_flow::Point;

/// A projective map of the plane, `[a b c; d e f; g h i]` on `(x, y, 1)`. For [`super::Sampler::warp`] it maps the
/// input to the picture; both constructors build it that way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Projective {
    m: [f64; 9],
}

impl Projective {
    /// From its nine coefficients, row by row; `None` if one is not finite.
    #[must_use]
    pub fn new(m: [f64; 9]) -> Option<Self> {
        m.iter().all(|value| value.is_finite()).then_some(Self { m })
    }

    /// The nine coefficients, row by row.
    pub(crate) fn coefficients(&self) -> [f64; 9] {
        self.m
    }

    /// From an input of `width` by `height` to the quadrilateral with these `corners` in the picture: top left, top
    /// right, bottom right, bottom left in reading direction. `None` if three corners are collinear or the outline is
    /// not convex.
    #[must_use]
    pub fn from_quad(corners: [Point; 4], width: f32, height: f32) -> Option<Self> {
        let turns: [f64; 4] = std::array::from_fn(|i| {
            let [a, b, c] = [i, i + 1, i + 2].map(|j| wide(corners[j % 4]));
            (b.0 - a.0) * (c.1 - b.1) - (b.1 - a.1) * (c.0 - b.0)
        });
        let same_side = turns.iter().all(|turn| *turn > 1e-6) || turns.iter().all(|turn| *turn < -1e-6);
        if !(same_side && width > 0.0 && height > 0.0) {
            return None;
        }
        // The unit square to the corners (Heckbert 1989, eq. 2.13), then the input scaled to the unit square.
        let [(x0, y0), (x1, y1), (x2, y2), (x3, y3)] = corners.map(wide);
        let (dx1, dx2, sx) = (x1 - x2, x3 - x2, x0 - x1 + x2 - x3);
        let (dy1, dy2, sy) = (y1 - y2, y3 - y2, y0 - y1 + y2 - y3);
        let across = dx1 * dy2 - dx2 * dy1;
        let g = (sx * dy2 - dx2 * sy) / across;
        let h = (dx1 * sy - sx * dy1) / across;
        let (w, t) = (f64::from(width), f64::from(height));
        Self::new([
            (x1 - x0 + g * x1) / w,
            (x3 - x0 + h * x3) / t,
            x0,
            (y1 - y0 + g * y1) / w,
            (y3 - y0 + h * y3) / t,
            y0,
            g / w,
            h / t,
            1.0,
        ])
    }

    /// From the input to the picture, where `src` are points of the picture and `dst` their positions in the input: the
    /// inverse of the rotation, scale and translation that maps `src` nearest to `dst` in least squares (Umeyama 1991,
    /// without reflection). `None` for fewer than two pairs, or if the points coincide.
    #[must_use]
    pub fn from_similarity(src: &[Point], dst: &[Point]) -> Option<Self> {
        let count = src.len().min(dst.len());
        if count < 2 {
            return None;
        }
        let mean = |points: &[Point]| {
            let (x, y) = points[..count].iter().fold((0.0, 0.0), |sum, point| {
                let (x, y) = wide(*point);
                (sum.0 + x, sum.1 + y)
            });
            (x / count as f64, y / count as f64)
        };
        let (from, to) = (mean(src), mean(dst));
        let (mut dot, mut cross, mut spread) = (0.0, 0.0, 0.0);
        for (s, d) in src.iter().zip(dst) {
            let (sx, sy) = (f64::from(s.x) - from.0, f64::from(s.y) - from.1);
            let (dx, dy) = (f64::from(d.x) - to.0, f64::from(d.y) - to.1);
            dot += sx * dx + sy * dy;
            cross += sx * dy - sy * dx;
            spread += sx * sx + sy * sy;
        }
        // picture -> input is [a -b; b a] and a translation; its inverse divides by a^2 + b^2.
        let (a, b) = (dot / spread, cross / spread);
        let size = a * a + b * b;
        if !(spread > 1e-9 && size > 1e-12) {
            return None;
        }
        let (p, q) = (a / size, b / size);
        let shift = (from.0 - p * to.0 - q * to.1, from.1 + q * to.0 - p * to.1);
        Self::new([p, q, shift.0, -q, p, shift.1, 0.0, 0.0, 1.0])
    }

    /// The image of `point`.
    #[must_use]
    pub fn apply(&self, point: Point) -> Point {
        let (x, y) = self.at(f64::from(point.x), f64::from(point.y));
        Point::new(x as f32, y as f32)
    }

    /// The inverse map; `None` if there is none.
    #[must_use]
    pub fn inverse(&self) -> Option<Self> {
        let [a, b, c, d, e, f, g, h, i] = self.m;
        let adjugate = [
            e * i - f * h,
            c * h - b * i,
            b * f - c * e,
            f * g - d * i,
            a * i - c * g,
            c * d - a * f,
            d * h - e * g,
            b * g - a * h,
            a * e - b * d,
        ];
        let determinant = a * adjugate[0] + b * adjugate[3] + c * adjugate[6];
        Self::new(adjugate.map(|value| value / determinant))
    }

    pub(crate) fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let [a, b, c, d, e, f, g, h, i] = self.m;
        let w = g * x + h * y + i;
        ((a * x + b * y + c) / w, (d * x + e * y + f) / w)
    }
}

fn wide(point: Point) -> (f64, f64) {
    (f64::from(point.x), f64::from(point.y))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: Point, b: Point) {
        assert!(
            (a.x - b.x).abs() < 1e-3 && (a.y - b.y).abs() < 1e-3,
            "{a:?} is not {b:?}"
        );
    }

    #[test]
    fn a_quadrilateral_maps_corners_to_corners_and_back() {
        let corners = [
            Point::new(10.0, 20.0),
            Point::new(90.0, 30.0),
            Point::new(85.0, 70.0),
            Point::new(12.0, 50.0),
        ];
        let map = Projective::from_quad(corners, 94.0, 24.0).unwrap();
        let ends = [
            Point::new(0.0, 0.0),
            Point::new(94.0, 0.0),
            Point::new(94.0, 24.0),
            Point::new(0.0, 24.0),
        ];
        for (end, corner) in ends.into_iter().zip(corners) {
            close(map.apply(end), corner);
            close(map.inverse().unwrap().apply(corner), end);
        }
    }

    #[test]
    fn collinear_or_crossed_corners_are_no_quadrilateral() {
        let p = Point::new;
        assert!(Projective::from_quad([p(0., 0.), p(1., 0.), p(2., 0.), p(3., 0.)], 9., 9.).is_none());
        assert!(Projective::from_quad([p(0., 0.), p(9., 9.), p(9., 0.), p(0., 9.)], 9., 9.).is_none());
        assert!(Projective::from_quad([p(0., 0.), p(f32::NAN, 9.), p(9., 0.), p(0., 9.)], 9., 9.).is_none());
    }

    #[test]
    fn a_similarity_is_recovered() {
        let (turn, scale) = (0.4_f32, 1.7_f32);
        let (a, b) = (scale * turn.cos(), scale * turn.sin());
        let dst = [(38.0, 51.0), (73.0, 51.0), (56.0, 71.0), (41.0, 92.0)].map(|(x, y)| Point::new(x, y));
        let src = dst.map(|p| Point::new(a * p.x - b * p.y + 5.0, b * p.x + a * p.y - 9.0));
        let map = Projective::from_similarity(&src, &dst).unwrap();
        for (d, s) in dst.into_iter().zip(src) {
            close(map.apply(d), s);
        }
        assert!(Projective::from_similarity(&[dst[0]; 4], &dst).is_none());
        assert!(Projective::from_similarity(&src[..1], &dst[..1]).is_none());
    }
}
