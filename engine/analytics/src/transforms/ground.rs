//! Heights of objects in metres, by four points of the picture whose places on the ground are known.
//!
//! The four points give the map from the ground to the picture, `H = [h1 h2 h3]`. With square pixels and the optical axis in the
//! middle of the picture, one unknown of the camera is left, its focal length `f`: the axes of the ground are at right angles and
//! alike long, so `h1' w h2 = 0` and `h1' w h1 = h2' w h2`, where `w = diag(1/f^2, 1/f^2, 1)` (Hartley and Zisserman, *Multiple
//! View Geometry*, 8.8). Both are linear in `1/f^2`. The upright axis is the cross product of the two others. An object stands
//! where its box ends below, and is as high as the point above it whose row is that of the upper edge of its box.

use weir_flow::Rect;

use super::geometry::{Anchor, Homography, Position, check_polygon};
use super::spec::{Outline, Units};

/// Focal lengths that cameras have, in widths of the picture: from a fisheye's to that of a long lens.
const MIN_FOCAL: f64 = 0.3;
const MAX_FOCAL: f64 = 10.0;

/// Focal length where the points tell none: a field of view of 53 degrees.
const FOCAL: f64 = 1.0;

/// Area of four points on the ground, in square metres.
const MIN_GROUND: f64 = 0.01;

/// Greatest height that is believed, in metres.
const MAX_HEIGHT: f64 = 1_000.0;

/// Four points of the picture, and their places on the ground.
#[derive(Debug, Clone, PartialEq)]
pub struct GroundMap {
    /// Points in parts of the picture, in their order around a quadrilateral.
    points: [Position; 4],
    /// Their places in metres.
    metres: [Position; 4],
}

impl GroundMap {
    /// The map of these points, in parts of the picture, to these places in metres; `None` if no camera sees them so.
    #[must_use]
    pub fn new(points: [Position; 4], metres: [Position; 4]) -> Option<Self> {
        let is_seen = check_polygon(&points, 1e-4).is_ok()
            && check_polygon(&metres, MIN_GROUND).is_ok()
            && Homography::new(points, metres).is_some();
        is_seen.then_some(Self { points, metres })
    }

    /// The quadrilateral on the picture.
    #[must_use]
    pub fn outline(&self) -> Outline {
        Outline {
            points: self.points.to_vec(),
            units: Units::Parts,
        }
    }

    /// The ground as pictures of that size show it.
    #[must_use]
    pub fn view(&self, (width, height): (u32, u32)) -> Option<GroundView> {
        let (width, height) = (f64::from(width), f64::from(height));
        let scale = width.max(1.0);
        // In widths of the picture from its middle.
        let centred = self
            .points
            .map(|point| Position::new((point.x - 0.5) * width / scale, (point.y - 0.5) * height / scale));
        let middle = Position::new(width / 2.0, height / 2.0);
        let to_picture = Homography::new(self.metres, centred)?.matrix();
        let up = upright(&to_picture, centre(&self.metres))?;
        Some(GroundView {
            to_ground: Homography::new(centred, self.metres)?,
            to_picture,
            up,
            middle,
            scale,
        })
    }
}

fn centre(points: &[Position; 4]) -> Position {
    let sum = |of: fn(&Position) -> f64| points.iter().map(of).sum::<f64>() / 4.0;
    Position::new(sum(|point| point.x), sum(|point| point.y))
}

/// The image of the upright axis, a metre long, in the units of the map; `at` is a place on the ground, above which it points up.
fn upright(map: &[f64; 9], at: Position) -> Option<[f64; 3]> {
    let column = |index: usize| [map[index], map[3 + index], map[6 + index]];
    let (one, two) = (column(0), column(1));
    // a u + b = 0 by either condition, with u = 1/f^2. Halves make them alike for every direction of the axes.
    let first = (one[0] * two[0] + one[1] * two[1], one[2] * two[2]);
    let second = (
        (one[0].powi(2) + one[1].powi(2) - two[0].powi(2) - two[1].powi(2)) / 2.0,
        (one[2].powi(2) - two[2].powi(2)) / 2.0,
    );
    let inverse_square = -(first.0 * first.1 + second.0 * second.1) / (first.0.powi(2) + second.0.powi(2));
    let focal = inverse_square.sqrt().recip();
    let focal = if (MIN_FOCAL..=MAX_FOCAL).contains(&focal) {
        focal
    } else {
        FOCAL
    };
    let ray = |of: [f64; 3]| [of[0] / focal, of[1] / focal, of[2]];
    let length = |of: [f64; 3]| of.iter().map(|part| part * part).sum::<f64>().sqrt();
    let (one, two) = (ray(one), ray(two));
    let metre = f64::midpoint(length(one), length(two));
    let cross = [
        one[1] * two[2] - one[2] * two[1],
        one[2] * two[0] - one[0] * two[2],
        one[0] * two[1] - one[1] * two[0],
    ];
    let size = length(cross);
    if !(metre.is_finite() && metre > 0.0 && size.is_finite() && size > 0.0) {
        return None;
    }
    let up = cross.map(|part| part / size * metre);
    let up = [up[0] * focal, up[1] * focal, up[2]];
    let foot = apply(map, at);
    // The row above a place is less than its own.
    let is_down = up[1] * foot[2] - foot[1] * up[2] > 0.0;
    Some(if is_down { up.map(|part| -part) } else { up })
}

fn apply(map: &[f64; 9], at: Position) -> [f64; 3] {
    let row = |row: usize| map[3 * row] * at.x + map[3 * row + 1] * at.y + map[3 * row + 2];
    [row(0), row(1), row(2)]
}

/// The ground as pictures of one size show it.
#[derive(Debug, Clone, PartialEq)]
pub struct GroundView {
    to_ground: Homography,
    to_picture: [f64; 9],
    up: [f64; 3],
    /// Middle of the picture in pixels, and its width.
    middle: Position,
    scale: f64,
}

impl GroundView {
    /// Height in metres of an upright object with that box in pixels; `None` if it does not stand on the ground.
    #[must_use]
    pub fn height_m(&self, rect: &Rect) -> Option<f64> {
        let foot = self.foot(Anchor::Bottom.of(rect))?;
        let row = (f64::from(rect.y0) - self.middle.y) / self.scale;
        let height = (row * foot[2] - foot[1]) / (self.up[1] - row * self.up[2]);
        let is_seen = foot[2] + height * self.up[2] > 0.0;
        (is_seen && (0.0..=MAX_HEIGHT).contains(&height)).then_some(height)
    }

    /// The point in pixels that lies so many metres above a place on the ground, both in the picture; `None` if the place is not on
    /// the ground, or the point not before the camera.
    #[must_use]
    pub fn above(&self, place: Position, height_m: f64) -> Option<Position> {
        let foot = self.foot(place)?;
        let at = [0, 1, 2].map(|part: usize| foot[part] + height_m * self.up[part]);
        (at[2] > 1e-9).then(|| {
            Position::new(
                at[0] / at[2] * self.scale + self.middle.x,
                at[1] / at[2] * self.scale + self.middle.y,
            )
        })
    }

    /// A place in pixels as the map from the ground gives it.
    fn foot(&self, at: Position) -> Option<[f64; 3]> {
        let centred = Position::new(
            (at.x - self.middle.x) / self.scale,
            (at.y - self.middle.y) / self.scale,
        );
        let place = self.to_ground.apply(centred)?;
        Some(apply(&self.to_picture, place)).filter(|foot| foot[2] > 1e-9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: (u32, u32) = (1_280, 720);

    /// A camera at a height in metres that looks down by an angle, with a focal length in widths of its picture.
    struct Camera {
        height_m: f64,
        down_deg: f64,
        focal: f64,
    }

    impl Camera {
        /// The pixel of a point: metres to the right, ahead and up.
        fn sees(&self, right: f64, ahead: f64, up: f64) -> Position {
            let (sin, cos) = self.down_deg.to_radians().sin_cos();
            let (depth, below) = (
                ahead * cos + (self.height_m - up) * sin,
                (self.height_m - up) * cos - ahead * sin,
            );
            let (width, height) = (f64::from(SIZE.0), f64::from(SIZE.1));
            Position::new(
                width / 2.0 + self.focal * width * right / depth,
                height / 2.0 + self.focal * width * below / depth,
            )
        }

        /// The map by four places around the middle of the picture; their axes are turned, and their points off by some pixels.
        fn map(&self, turned_deg: f64, off_px: f64) -> GroundMap {
            let (sin, cos) = turned_deg.to_radians().sin_cos();
            let ahead = self.height_m / self.down_deg.to_radians().tan();
            let corners = [(-3.0, 4.0), (3.0, 4.0), (3.0, -3.0), (-3.0, -3.0)];
            let places = corners.map(|(right, further)| (right, ahead + further));
            let metres = places.map(|(x, y)| Position::new(x * cos - y * sin, x * sin + y * cos));
            let signs = [1.0, -1.0, 1.0, 1.0];
            let mut points = places.map(|(right, ahead)| self.sees(right, ahead, 0.0));
            for (point, sign) in points.iter_mut().zip(signs) {
                point.x += sign * off_px;
                point.y -= sign * off_px;
            }
            let parts = points.map(|at| Position::new(at.x / f64::from(SIZE.0), at.y / f64::from(SIZE.1)));
            GroundMap::new(parts, metres).unwrap()
        }

        fn rect(&self, right: f64, ahead: f64, height_m: f64) -> Rect {
            let (foot, head) = (self.sees(right, ahead, 0.0), self.sees(right, ahead, height_m));
            let half = (foot.y - head.y) / 6.0;
            Rect::new(
                (foot.x - half) as f32,
                head.y as f32,
                (foot.x + half) as f32,
                foot.y as f32,
            )
        }
    }

    fn cameras() -> impl Iterator<Item = Camera> {
        let angles = [12.0, 25.0, 40.0].into_iter();
        angles.flat_map(|down_deg| {
            [0.6, 1.0, 2.0].map(|focal| Camera {
                height_m: 5.0,
                down_deg,
                focal,
            })
        })
    }

    #[test]
    fn heights_are_the_same_near_and_far_whatever_the_camera_and_the_axes() {
        for camera in cameras() {
            let ahead = camera.height_m / camera.down_deg.to_radians().tan();
            for turned_deg in [0.0, 30.0, 90.0, 200.0] {
                let view = camera.map(turned_deg, 0.0).view(SIZE).unwrap();
                for (right, further) in [(0.0, 0.0), (1.5, 6.0), (-1.0, -2.0), (2.0, 15.0)] {
                    for height_m in [0.5, 1.1, 1.8] {
                        let rect = camera.rect(right, ahead + further, height_m);
                        let found = view.height_m(&rect).unwrap();
                        assert!(
                            (found - height_m).abs() < 0.01,
                            "{found} m for {height_m} m, {} degrees, focal length {}",
                            camera.down_deg,
                            camera.focal
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn points_that_are_off_by_a_pixel_change_heights_little() {
        for camera in cameras() {
            let ahead = camera.height_m / camera.down_deg.to_radians().tan();
            let view = camera.map(0.0, 1.0).view(SIZE).unwrap();
            let found = view.height_m(&camera.rect(0.5, ahead, 1.8)).unwrap();
            assert!(
                (found - 1.8).abs() < 0.35,
                "{found} m, {} degrees",
                camera.down_deg
            );
        }
    }

    #[test]
    fn a_point_above_the_ground_is_where_the_height_ends() {
        let camera = Camera {
            height_m: 4.0,
            down_deg: 20.0,
            focal: 1.0,
        };
        let view = camera.map(0.0, 0.0).view(SIZE).unwrap();
        let head = view.above(camera.sees(1.0, 9.0, 0.0), 1.8).unwrap();
        assert!(head.distance(camera.sees(1.0, 9.0, 1.8)) < 0.1, "{head:?}");
    }

    #[test]
    fn objects_beyond_the_horizon_have_no_height_and_nonsense_is_refused() {
        let camera = Camera {
            height_m: 4.0,
            down_deg: 20.0,
            focal: 1.0,
        };
        let view = camera.map(0.0, 0.0).view(SIZE).unwrap();
        assert_eq!(view.height_m(&Rect::new(600.0, -200.0, 640.0, -150.0)), None);
        assert_eq!(view.above(Position::new(600.0, -150.0), 1.0), None);
        let line = [0.1, 0.2, 0.3, 0.4].map(|part| Position::new(part, part));
        let square = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)].map(|(x, y)| Position::new(x, y));
        assert_eq!(GroundMap::new(line, square), None);
        assert_eq!(GroundMap::new(square, line), None);
        let from_above = GroundMap::new(square, square).unwrap();
        for size in [(0, 0), (1, 1), (640, 360)] {
            let height = from_above
                .view(size)
                .and_then(|view| view.height_m(&Rect::new(1.0, 1.0, 2.0, 9.0)));
            assert!(height.is_none_or(f64::is_finite), "{height:?}");
        }
    }
}
