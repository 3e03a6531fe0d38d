//! Plane geometry of transforms, in double precision: polygons, segments, and the map from a picture to the ground.

use weir_flow::Rect;

/// Distance from an edge of the frame, in parts of its side, within which a border lies on the edge.
const ON_EDGE: f64 = 0.005;

/// Distance from a border, in pixels, at which the side of it is looked at where the polygon is.
const BESIDE: f64 = 0.01;

/// A position in source pixels, in parts of the frame, or in metres on the ground.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Position {
    /// Coordinate to the right.
    pub x: f64,
    /// Coordinate downwards; on the ground, along the second axis.
    pub y: f64,
}

impl Position {
    /// The position at `(x, y)`.
    #[must_use]
    pub const fn new(x: f64, y: f64) -> Self {
        Self { x, y }
    }

    /// Returns the position in a picture with this many times the width and height.
    pub(crate) fn scaled(self, x: f64, y: f64) -> Self {
        Self::new(self.x * x, self.y * y)
    }

    /// Distance to another.
    #[must_use]
    pub fn distance(self, other: Self) -> f64 {
        (self.x - other.x).hypot(self.y - other.y)
    }

    /// The position `part` of the way to `to`.
    #[must_use]
    pub fn towards(self, to: Self, part: f64) -> Self {
        Self::new(self.x + (to.x - self.x) * part, self.y + (to.y - self.y) * part)
    }
}

/// Point of an object's box that stands for the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Anchor {
    /// The middle of the lower edge: where it stands on the ground.
    #[default]
    Bottom,
    /// The middle of the box.
    Center,
}

impl Anchor {
    /// The point of `rect`.
    #[must_use]
    pub fn of(self, rect: &Rect) -> Position {
        let x = f64::from(rect.x0 + rect.x1) / 2.0;
        match self {
            Self::Bottom => Position::new(x, f64::from(rect.y1)),
            Self::Center => Position::new(x, f64::from(rect.y0 + rect.y1) / 2.0),
        }
    }
}

/// Twice the signed area of the triangle `a`, `b`, `c`: positive where `c` is to the right of the way from `a` to `b`, as
/// it is seen in a picture (y down).
fn turn(a: Position, b: Position, c: Position) -> f64 {
    (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x)
}

/// A segment from one point to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Segment {
    pub(crate) from: Position,
    pub(crate) to: Position,
}

impl Segment {
    /// Signed distance of `at` from the line through the segment: positive to its right.
    pub(crate) fn side(&self, at: Position) -> f64 {
        let length = self.from.distance(self.to);
        turn(self.from, self.to, at) / length.max(f64::MIN_POSITIVE)
    }

    /// Distance of `at` from the nearest point of the segment.
    pub(crate) fn distance(&self, at: Position) -> f64 {
        let (dx, dy) = (self.to.x - self.from.x, self.to.y - self.from.y);
        let square = dx * dx + dy * dy;
        let part = if square > 0.0 {
            (((at.x - self.from.x) * dx + (at.y - self.from.y) * dy) / square).clamp(0.0, 1.0)
        } else {
            0.0
        };
        self.from.towards(self.to, part).distance(at)
    }

    /// Returns the part of the way from `a` to `b`, 0 to 1, that lies before this segment; `None` if the way
    /// does not change sides between the ends of the segment. A point on the line is to its right.
    pub(crate) fn crossed_at(&self, a: Position, b: Position) -> Option<f64> {
        let (before, after) = (self.side(a), self.side(b));
        if (before >= 0.0) == (after >= 0.0) {
            return None;
        }
        let part = before / (before - after);
        let at = a.towards(b, part);
        let (dx, dy) = (self.to.x - self.from.x, self.to.y - self.from.y);
        let along = (at.x - self.from.x) * dx + (at.y - self.from.y) * dy;
        (0.0..=dx * dx + dy * dy).contains(&along).then_some(part)
    }

    /// Returns the direction, of length 1, across the edge of a frame of that size on which the segment lies; `None` within the frame.
    fn outwards(&self, width: f64, height: f64) -> Option<Position> {
        let (x, y) = (ON_EDGE * width, ON_EDGE * height);
        let (a, b) = (self.from, self.to);
        if a.y.min(b.y) >= height - y {
            Some(Position::new(0.0, 1.0))
        } else if a.y.max(b.y) <= y {
            Some(Position::new(0.0, -1.0))
        } else if a.x.min(b.x) >= width - x {
            Some(Position::new(1.0, 0.0))
        } else if a.x.max(b.x) <= x {
            Some(Position::new(-1.0, 0.0))
        } else {
            None
        }
    }
}

/// A polygon that does not cross itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Polygon(pub(crate) Vec<Position>);

impl Polygon {
    fn edges(&self) -> impl Iterator<Item = Segment> + '_ {
        let next = self.0.iter().cycle().skip(1);
        self.0
            .iter()
            .zip(next)
            .map(|(from, to)| Segment { from: *from, to: *to })
    }

    /// Returns the polygon with all that lies behind those of its borders that are on an edge of a frame of that size. Boxes that the frame
    /// cuts have their anchors on its edge, or beyond it, and no object crosses such a border.
    pub(crate) fn beyond_frame(&self, width: f64, height: f64) -> Self {
        let mut corners = Vec::with_capacity(self.0.len());
        for edge in self.edges() {
            corners.push(edge.from);
            let Some(out) = edge.outwards(width, height) else {
                continue;
            };
            let middle = edge.from.towards(edge.to, 0.5);
            let inner = Position::new(middle.x - BESIDE * out.x, middle.y - BESIDE * out.y);
            if self.contains(inner) {
                let moved = |at: Position| Position::new(at.x + out.x * width, at.y + out.y * height);
                corners.extend([moved(edge.from), moved(edge.to)]);
            }
        }
        Self(corners)
    }

    /// Whether `at` is within, by the number of edges to its right.
    pub(crate) fn contains(&self, at: Position) -> bool {
        let mut within = false;
        for Segment { from, to } in self.edges() {
            let spans = (from.y > at.y) != (to.y > at.y);
            if spans && at.x < from.x + (at.y - from.y) / (to.y - from.y) * (to.x - from.x) {
                within = !within;
            }
        }
        within
    }

    /// Distance to the nearest point of the border.
    pub(crate) fn border_distance(&self, at: Position) -> f64 {
        self.edges()
            .map(|edge| edge.distance(at))
            .fold(f64::INFINITY, f64::min)
    }

    /// Returns the part of the way from `a` to `b`, 0 to 1, before the last crossing of the border; 1 if it
    /// crosses none.
    pub(crate) fn last_crossing(&self, a: Position, b: Position) -> f64 {
        let crossings = self.edges().filter_map(|edge| edge.crossed_at(a, b));
        crossings
            .fold(None, |last: Option<f64>, part| {
                Some(last.map_or(part, |last| last.max(part)))
            })
            .unwrap_or(1.0)
    }
}

/// Fault in the points of a polygon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolygonFault {
    /// There are fewer than three.
    TooFew,
    /// It has next to no area.
    Flat,
    /// Two of its edges cross; the numbers of their first points, from 0.
    Crosses(usize, usize),
}

/// Whether the points are those of a polygon that has an area and does not cross itself; `least` is the smallest area.
///
/// # Errors
/// [`PolygonFault`].
pub fn check_polygon(points: &[Position], least: f64) -> Result<(), PolygonFault> {
    if points.len() < 3 {
        return Err(PolygonFault::TooFew);
    }
    let polygon = Polygon(points.to_vec());
    let edges: Vec<Segment> = polygon.edges().collect();
    let differ = |a: f64, b: f64| (a > 0.0) != (b > 0.0);
    for (first, a) in edges.iter().enumerate() {
        for (second, b) in edges.iter().enumerate().skip(first + 2) {
            // The last edge ends where the first begins.
            if first == 0 && second + 1 == edges.len() {
                continue;
            }
            if differ(a.side(b.from), a.side(b.to)) && differ(b.side(a.from), b.side(a.to)) {
                return Err(PolygonFault::Crosses(first, second));
            }
        }
    }
    let origin = points[0];
    let twice: f64 = edges.iter().map(|edge| turn(origin, edge.from, edge.to)).sum();
    if twice.abs() / 2.0 < least {
        return Err(PolygonFault::Flat);
    }
    Ok(())
}

/// A map of a plane seen in perspective onto that plane: `(x, y, 1)` times `m`, divided by its last component.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Homography {
    m: [f64; 9],
}

impl Homography {
    /// The map that takes each of `from` to that of `to`; `None` where three of them lie on a line, or where no
    /// camera sees one quadrilateral as the other.
    ///
    /// The eight unknowns solve `x' (g x + h y + 1) = a x + b y + c`, and the same of `y'` (Hartley and Zisserman,
    /// *Multiple View Geometry*, 4.1).
    #[must_use]
    pub fn new(from: [Position; 4], to: [Position; 4]) -> Option<Self> {
        let mut rows = [[0.0; 9]; 8];
        for (index, (p, q)) in from.iter().zip(&to).enumerate() {
            rows[2 * index] = [p.x, p.y, 1.0, 0.0, 0.0, 0.0, -q.x * p.x, -q.x * p.y, q.x];
            rows[2 * index + 1] = [0.0, 0.0, 0.0, p.x, p.y, 1.0, -q.y * p.x, -q.y * p.y, q.y];
        }
        let [a, b, c, d, e, f, g, h] = solve(rows)?;
        let m = [a, b, c, d, e, f, g, h, 1.0];
        // Points before the horizon have a positive scale; all four are before it.
        let sign = (g * from[0].x + h * from[0].y + 1.0).signum();
        let map = Self {
            m: m.map(|value| value * sign),
        };
        from.iter()
            .all(|point| map.apply(*point).is_some())
            .then_some(map)
    }

    /// Its rows, one after another.
    pub(crate) const fn matrix(&self) -> [f64; 9] {
        self.m
    }

    /// Returns the image of `at`; `None` for points at the horizon or beyond it.
    #[must_use]
    pub fn apply(&self, at: Position) -> Option<Position> {
        let [a, b, c, d, e, f, g, h, i] = self.m;
        let scale = g * at.x + h * at.y + i;
        (scale > 1e-9).then(|| {
            Position::new(
                (a * at.x + b * at.y + c) / scale,
                (d * at.x + e * at.y + f) / scale,
            )
        })
    }
}

/// Solves eight equations by elimination with pivots; `None` where they are not independent.
fn solve(mut rows: [[f64; 9]; 8]) -> Option<[f64; 8]> {
    for column in 0..8 {
        let pivot = (column..8).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        rows.swap(column, pivot);
        let largest = rows[column]
            .iter()
            .fold(0.0f64, |most, value| most.max(value.abs()));
        if rows[column][column].abs() <= 1e-12 * largest.max(1e-12) {
            return None;
        }
        let top = rows[column];
        for row in (0..8).filter(|row| *row != column) {
            let factor = rows[row][column] / top[column];
            for (value, above) in rows[row].iter_mut().zip(top) {
                *value -= factor * above;
            }
        }
    }
    let mut out = [0.0; 8];
    for (index, row) in rows.iter().enumerate() {
        out[index] = row[8] / row[index];
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(x: f64, y: f64) -> Position {
        Position::new(x, y)
    }

    #[test]
    fn a_way_crosses_a_segment_between_its_ends_only() {
        let line = Segment {
            from: at(0.0, 0.0),
            to: at(10.0, 0.0),
        };
        assert_eq!(line.crossed_at(at(5.0, -1.0), at(5.0, 3.0)), Some(0.25));
        assert_eq!(line.crossed_at(at(11.0, -1.0), at(11.0, 3.0)), None);
        assert_eq!(line.crossed_at(at(5.0, 1.0), at(5.0, 3.0)), None);
        assert!(
            line.side(at(5.0, 1.0)) > 0.0,
            "below is to the right of the way to the right"
        );
    }

    #[test]
    fn a_polygon_knows_its_inside_and_what_is_wrong_with_it() {
        let notched = [
            at(0.0, 0.0),
            at(4.0, 0.0),
            at(4.0, 4.0),
            at(2.0, 1.0),
            at(0.0, 4.0),
        ];
        assert_eq!(check_polygon(&notched, 0.1), Ok(()));
        let polygon = Polygon(notched.to_vec());
        assert!(polygon.contains(at(0.5, 2.0)) && !polygon.contains(at(2.0, 2.0)));
        assert_eq!(polygon.last_crossing(at(-2.0, 0.5), at(2.0, 0.5)), 0.5);
        assert_eq!(check_polygon(&notched[..2], 0.1), Err(PolygonFault::TooFew));
        let bow = [at(0.0, 0.0), at(1.0, 1.0), at(1.0, 0.0), at(0.0, 1.0)];
        assert_eq!(check_polygon(&bow, 0.1), Err(PolygonFault::Crosses(0, 2)));
        let flat = [at(0.0, 0.0), at(1.0, 0.0), at(2.0, 0.0)];
        assert_eq!(check_polygon(&flat, 0.1), Err(PolygonFault::Flat));
    }

    #[test]
    fn a_polygon_on_the_edge_of_the_frame_has_anchors_on_the_edge() {
        // The lower half of a frame of 200 x 100 pixels, and a slope that ends at its lower edge.
        let half = [at(0.0, 50.0), at(200.0, 50.0), at(200.0, 99.8), at(0.0, 99.8)];
        let slope = [at(20.0, 20.0), at(60.0, 20.0), at(100.0, 100.0), at(40.0, 100.0)];
        let [half, slope] = [half, slope].map(|corners| Polygon(corners.to_vec()));
        for polygon in [&half, &slope] {
            assert!(!polygon.contains(at(70.0, 100.0)), "{polygon:?}");
            let beyond = polygon.beyond_frame(200.0, 100.0);
            assert!(beyond.contains(at(70.0, 100.0)), "{beyond:?}");
            assert!(beyond.contains(at(70.0, 103.0)), "{beyond:?}");
            assert!(beyond.contains(at(50.0, 60.0)) && !beyond.contains(at(50.0, 15.0)));
        }
        let (half, slope) = (half.beyond_frame(200.0, 100.0), slope.beyond_frame(200.0, 100.0));
        // Feet at the lower edge are as far from a border as the others.
        assert_eq!(half.border_distance(at(70.0, 100.0)), 50.0);
        assert!(half.contains(at(200.0, 70.0)) && half.contains(at(-3.0, 70.0)));
        assert!(!slope.contains(at(110.0, 100.0)) && !slope.contains(at(30.0, 100.0)));
        // A border within the frame stays, also near its edge.
        let across = |top, bottom| {
            let corners = [at(0.0, top), at(200.0, top), at(200.0, bottom), at(0.0, bottom)];
            Polygon(corners.to_vec()).beyond_frame(200.0, 100.0)
        };
        assert!(!across(50.0, 98.0).contains(at(70.0, 100.0)));
        let strip = across(99.6, 100.0);
        assert!(strip.contains(at(70.0, 99.8)) && strip.contains(at(70.0, 100.0)));
        assert!(!strip.contains(at(70.0, 99.0)));
    }

    #[test]
    fn four_points_give_the_map_to_the_ground() {
        let picture = [
            at(300.0, 200.0),
            at(340.0, 200.0),
            at(500.0, 400.0),
            at(140.0, 400.0),
        ];
        let ground = [at(0.0, 20.0), at(4.0, 20.0), at(4.0, 0.0), at(0.0, 0.0)];
        let map = Homography::new(picture, ground).expect("four points in general position");
        for (from, to) in picture.into_iter().zip(ground) {
            assert!(map.apply(from).expect("below the horizon").distance(to) < 1e-9);
        }
        let line = [at(0.0, 0.0), at(1.0, 1.0), at(2.0, 2.0), at(0.0, 5.0)];
        assert_eq!(Homography::new(line, ground), None);
    }
}
