//! The form of a head, and how it is seen when it turns.
//!
//! Local coordinates, in heights of the head about its middle: x to the right of the picture, y down, z towards the
//! camera. The crown is at y = -0.5, the chin at 0.5. Seen without perspective.

use crate::geometry::{Vec2, Vec3, vec2, vec3};

/// Measures of a head.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Skull {
    /// Half of the greatest width.
    pub(super) width: f32,
    /// Shape of the jaw: 1.7 pointed, 3.4 square.
    pub(super) jaw: f32,
    /// Narrowing of the face towards the chin, 0 to 0.4.
    pub(super) taper: f32,
}

/// Height at which the head is widest.
const WIDEST: f32 = -0.06;

impl Skull {
    /// Half of the width at height `y`.
    pub(super) fn half_width(&self, y: f32) -> f32 {
        let y = y.clamp(-0.5, 0.5);
        let share = if y < WIDEST {
            let up = (WIDEST - y) / (WIDEST + 0.5);
            (1.0 - up.powf(2.3)).max(0.0).sqrt()
        } else {
            let down = (y - WIDEST) / (0.5 - WIDEST);
            (1.0 - down.powf(self.jaw)).max(0.0).sqrt() * (1.0 - self.taper * down)
        };
        self.width * share
    }

    /// Distance of the surface from the middle at height `y`, to the front (`front`) or to the back.
    fn depth(y: f32, front: bool) -> f32 {
        let y = y.clamp(-0.5, 0.5);
        if front {
            // Round at the crown, where the width ends as well; full down to the chin.
            let (off, power) = if y < -0.02 {
                ((-0.02 - y) / 0.48, 2.3)
            } else {
                ((y + 0.02) / 0.52, 3.6)
            };
            0.40 * (1.0 - off.powf(power)).max(0.0).sqrt()
        } else {
            let off = (y + 0.12) / 0.38;
            0.42 * (1.0 - off * off).max(0.0).sqrt()
        }
    }

    /// The point of the surface at `angle` degrees about the upright axis: 0 in front, 90 to the right.
    pub(super) fn around(&self, angle: f32, y: f32) -> Vec3 {
        let (sin, cos) = angle.to_radians().sin_cos();
        vec3(self.half_width(y) * sin, y, Self::depth(y, cos > 0.0) * cos)
    }

    /// The point of the front at `(x, y)`.
    pub(super) fn front(&self, x: f32, y: f32) -> Vec3 {
        let width = self.half_width(y).max(0.01);
        let side = (x / width).clamp(-1.0, 1.0);
        vec3(side * width, y, Self::depth(y, true) * (1.0 - side * side).sqrt())
    }

    /// The outline of the head, made larger by `swell(y)`, between two heights, as seen.
    pub(super) fn outline(&self, view: &View, [from, to]: [f32; 2], swell: impl Fn(f32) -> f32) -> Vec<Vec2> {
        // Points are closer together where the outline turns over: at the crown and at the chin.
        let share = |step: i32| 0.5 - 0.5 * (step as f32 * std::f32::consts::PI / 14.0).cos();
        let heights = (0..=14).map(|step| from + (to - from) * share(step));
        let points = heights.flat_map(|y| {
            let more = swell(y);
            (0..20).map(move |step| {
                let point = self.around(step as f32 * 18.0, y);
                view.at(vec3(point.x * more, point.y * more, point.z * more))
            })
        });
        hull(points.collect())
    }
}

/// Projection of a head into the picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct View {
    centre: Vec2,
    /// Height of the head in pixels.
    pub(super) scale: f32,
    /// Rotation to the right of the picture in degrees.
    pub(super) yaw: f32,
    sin_cos: [(f32, f32); 3],
}

impl View {
    /// The view of a head of `scale` pixels about `centre`, turned by yaw, pitch and roll in degrees.
    pub(super) fn new(centre: Vec2, scale: f32, [yaw, pitch, roll]: [f32; 3]) -> Self {
        let sin_cos = [yaw, pitch, roll].map(|angle| angle.to_radians().sin_cos());
        Self {
            centre,
            scale,
            yaw,
            sin_cos,
        }
    }

    /// Turns a point or direction of the head as the head is turned.
    pub(super) fn turned(&self, point: Vec3) -> Vec3 {
        let [(sin_yaw, cos_yaw), (sin_pitch, cos_pitch), (sin_roll, cos_roll)] = self.sin_cos;
        let (y, z) = (
            point.y * cos_pitch - point.z * sin_pitch,
            point.y * sin_pitch + point.z * cos_pitch,
        );
        let (x, z) = (point.x * cos_yaw + z * sin_yaw, -point.x * sin_yaw + z * cos_yaw);
        vec3(x * cos_roll - y * sin_roll, x * sin_roll + y * cos_roll, z)
    }

    /// Position of a point of the head in the picture.
    pub(super) fn at(&self, point: Vec3) -> Vec2 {
        let turned = self.turned(point);
        self.centre + vec2(turned.x, turned.y) * self.scale
    }

    /// Distance of a point of the head towards the camera.
    pub(super) fn depth(&self, point: Vec3) -> f32 {
        self.turned(point).z
    }
}

/// The convex hull of `points`, in order (Andrew's monotone chain).
fn hull(mut points: Vec<Vec2>) -> Vec<Vec2> {
    points.sort_by(|a, b| a.x.total_cmp(&b.x).then(a.y.total_cmp(&b.y)));
    let half = |points: &mut dyn Iterator<Item = &Vec2>| {
        let mut chain: Vec<Vec2> = Vec::new();
        for &point in points {
            while let [.., a, b] = chain.as_slice() {
                let (first, second) = (*b - *a, point - *a);
                if first.x * second.y - first.y * second.x > 0.0 {
                    break;
                }
                chain.pop();
            }
            chain.push(point);
        }
        chain.pop();
        chain
    };
    let mut hull = half(&mut points.iter());
    hull.extend(half(&mut points.iter().rev()));
    hull
}
