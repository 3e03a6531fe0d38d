//! Projection of solid objects: polygons of the world in the picture, clipped where they pass behind the
//! camera.

use crate::geometry::{Camera, Vec2, Vec3, vec2, vec3};

/// Distance in metres within which nothing is drawn.
const NEAR: f32 = 0.35;

/// A camera with its angles worked out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sight {
    camera: Camera,
    yaw: (f32, f32),
    pitch: (f32, f32),
}

impl Sight {
    pub(super) fn new(camera: Camera) -> Self {
        Self {
            camera,
            yaw: camera.yaw.sin_cos(),
            pitch: camera.pitch.sin_cos(),
        }
    }

    pub(super) fn eye(&self) -> Vec3 {
        self.camera.eye
    }

    /// The point as the camera has it: to the right, along its axis, up; in metres.
    fn space(&self, point: Vec3) -> Vec3 {
        let from_eye = point - self.camera.eye;
        let ((sin, cos), (sin_pitch, cos_pitch)) = (self.yaw, self.pitch);
        let right = from_eye.x * cos - from_eye.y * sin;
        let ahead = from_eye.x * sin + from_eye.y * cos;
        vec3(
            right,
            ahead * cos_pitch - from_eye.z * sin_pitch,
            ahead * sin_pitch + from_eye.z * cos_pitch,
        )
    }

    fn onto(&self, space: Vec3) -> Vec2 {
        let scale = self.camera.focal / space.y;
        vec2(
            self.camera.centre.x + space.x * scale,
            self.camera.centre.y - space.z * scale,
        )
    }

    /// Distance of a point along the optical axis, in metres.
    pub(super) fn depth(&self, point: Vec3) -> f32 {
        self.space(point).y
    }

    /// Pixels per metre at a point; 0 behind the camera.
    pub(super) fn scale(&self, point: Vec3) -> f32 {
        let depth = self.depth(point);
        if depth < NEAR {
            0.0
        } else {
            self.camera.focal / depth
        }
    }

    /// Position of a point in the picture; `None` if it is too near or behind the camera.
    pub(super) fn point(&self, point: Vec3) -> Option<Vec2> {
        let space = self.space(point);
        (space.y >= NEAR).then(|| self.onto(space))
    }

    /// The outline of a flat polygon, cut at the near plane; empty where all of it is behind.
    pub(super) fn polygon(&self, points: &[Vec3]) -> Vec<Vec2> {
        let spaces: Vec<Vec3> = points.iter().map(|point| self.space(*point)).collect();
        let mut seen = Vec::with_capacity(spaces.len() + 1);
        for (index, to) in spaces.iter().enumerate() {
            let from = spaces[(index + spaces.len() - 1) % spaces.len()];
            if (from.y < NEAR) != (to.y < NEAR) {
                let part = (NEAR - from.y) / (to.y - from.y);
                seen.push(self.onto(from + (*to - from) * part));
            }
            if to.y >= NEAR {
                seen.push(self.onto(*to));
            }
        }
        seen
    }

    /// The line through the points, up to the first that is behind.
    pub(super) fn line(&self, points: &[Vec3]) -> Vec<Vec2> {
        points.iter().map_while(|point| self.point(*point)).collect()
    }

    /// The direction of the ray through a pixel, of no particular length.
    pub(super) fn ray(&self, at: Vec2) -> Vec3 {
        let focal = self.camera.focal;
        let (right, up) = (
            (at.x - self.camera.centre.x) / focal,
            (self.camera.centre.y - at.y) / focal,
        );
        let ((sin, cos), (sin_pitch, cos_pitch)) = (self.yaw, self.pitch);
        let ahead = cos_pitch + up * sin_pitch;
        vec3(
            right * cos + ahead * sin,
            ahead * cos - right * sin,
            up * cos_pitch - sin_pitch,
        )
    }
}

/// The scalar product.
pub(super) fn dot(a: Vec3, b: Vec3) -> f32 {
    a.x * b.x + a.y * b.y + a.z * b.z
}

/// The vector product.
pub(super) fn cross(a: Vec3, b: Vec3) -> Vec3 {
    vec3(
        a.y * b.z - a.z * b.y,
        a.z * b.x - a.x * b.z,
        a.x * b.y - a.y * b.x,
    )
}

/// Unit vector of the same direction; the zero vector stays zero.
pub(super) fn unit(a: Vec3) -> Vec3 {
    a * (1.0 / dot(a, a).sqrt().max(1e-9))
}

/// The point at `part` of the way from `a` to `b`.
pub(super) fn between(a: Vec3, b: Vec3, part: f32) -> Vec3 {
    a + (b - a) * part
}

/// The convex hull of points, in order (Andrew's monotone chain).
pub(super) fn hull(mut points: Vec<Vec2>) -> Vec<Vec2> {
    points.sort_by(|a, b| a.x.total_cmp(&b.x).then(a.y.total_cmp(&b.y)));
    let turn = |a: Vec2, b: Vec2, c: Vec2| (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x);
    let half = |points: &mut dyn Iterator<Item = Vec2>| {
        let mut chain: Vec<Vec2> = Vec::new();
        for point in points {
            while let [.., a, b] = chain[..] {
                if turn(a, b, point) > 0.0 {
                    break;
                }
                chain.pop();
            }
            chain.push(point);
        }
        chain.pop();
        chain
    };
    let mut lower = half(&mut points.iter().copied());
    lower.extend(half(&mut points.iter().rev().copied()));
    lower
}

/// The polygon, larger by about `by` pixels all round its middle: neighbours then leave no seam.
pub(super) fn swollen(mut points: Vec<Vec2>, by: f32) -> Vec<Vec2> {
    let middle =
        points.iter().fold(Vec2::default(), |sum, point| sum + *point) * (1.0 / points.len().max(1) as f32);
    for point in &mut points {
        let out = *point - middle;
        *point = *point + out * (by / out.length().max(by));
    }
    points
}
