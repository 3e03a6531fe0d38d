//! Points, boxes, and the pinhole camera through which a world is seen.

/// A point or a direction in the picture, in pixels: x to the right, y down.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Vec2 {
    /// Component to the right of the picture.
    pub x: f32,
    /// Component towards the bottom of the picture.
    pub y: f32,
}

/// The point at `(x, y)`.
#[must_use]
pub const fn vec2(x: f32, y: f32) -> Vec2 {
    Vec2 { x, y }
}

impl std::ops::Add for Vec2 {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        vec2(self.x + other.x, self.y + other.y)
    }
}

impl std::ops::Sub for Vec2 {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        vec2(self.x - other.x, self.y - other.y)
    }
}

impl std::ops::Mul<f32> for Vec2 {
    type Output = Self;
    fn mul(self, by: f32) -> Self {
        vec2(self.x * by, self.y * by)
    }
}

impl Vec2 {
    /// Euclidean length of the vector.
    #[must_use]
    pub fn length(self) -> f32 {
        self.x.hypot(self.y)
    }

    /// The point that lies `part` of the way to `other`.
    #[must_use]
    pub fn towards(self, other: Self, part: f32) -> Self {
        self + (other - self) * part
    }

    /// Turned by `angle` radians, clockwise in the picture.
    #[must_use]
    pub fn turned(self, angle: f32) -> Self {
        let (sin, cos) = angle.sin_cos();
        vec2(self.x * cos - self.y * sin, self.x * sin + self.y * cos)
    }
}

/// A point in the world, in metres: x to the right, y forward, z up. The ground is z = 0.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Vec3 {
    /// Component to the right, in metres.
    pub x: f32,
    /// Component forwards, in metres.
    pub y: f32,
    /// Component upwards, in metres.
    pub z: f32,
}

/// The point at `(x, y, z)`.
#[must_use]
pub const fn vec3(x: f32, y: f32, z: f32) -> Vec3 {
    Vec3 { x, y, z }
}

impl std::ops::Add for Vec3 {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        vec3(self.x + other.x, self.y + other.y, self.z + other.z)
    }
}

impl std::ops::Sub for Vec3 {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        vec3(self.x - other.x, self.y - other.y, self.z - other.z)
    }
}

impl std::ops::Mul<f32> for Vec3 {
    type Output = Self;
    fn mul(self, by: f32) -> Self {
        vec3(self.x * by, self.y * by, self.z * by)
    }
}

/// A box in the picture, by its corners.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Left edge in pixels.
    pub x0: f32,
    /// Top edge in pixels.
    pub y0: f32,
    /// Right edge in pixels.
    pub x1: f32,
    /// Bottom edge in pixels.
    pub y1: f32,
}

impl Bounds {
    /// Bounding box of the points; `None` without points.
    #[must_use]
    pub fn about(points: impl IntoIterator<Item = Vec2>) -> Option<Self> {
        points.into_iter().fold(None, |bounds: Option<Self>, point| {
            let of_point = Self {
                x0: point.x,
                y0: point.y,
                x1: point.x,
                y1: point.y,
            };
            Some(bounds.map_or(of_point, |bounds| bounds.with(&of_point)))
        })
    }

    /// The smallest box about both.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        Self {
            x0: self.x0.min(other.x0),
            y0: self.y0.min(other.y0),
            x1: self.x1.max(other.x1),
            y1: self.y1.max(other.y1),
        }
    }

    /// The part of it that lies within a picture of that size.
    #[must_use]
    pub fn within(&self, (width, height): (u32, u32)) -> Self {
        let (width, height) = (width as f32, height as f32);
        Self {
            x0: self.x0.clamp(0.0, width),
            y0: self.y0.clamp(0.0, height),
            x1: self.x1.clamp(0.0, width),
            y1: self.y1.clamp(0.0, height),
        }
    }

    /// Width in pixels; negative if the bounds are empty.
    #[must_use]
    pub fn width(&self) -> f32 {
        self.x1 - self.x0
    }

    /// Height in pixels; negative if the bounds are empty.
    #[must_use]
    pub fn height(&self) -> f32 {
        self.y1 - self.y0
    }

    /// Area in square pixels; zero if the bounds are empty.
    #[must_use]
    pub fn area(&self) -> f32 {
        self.width().max(0.0) * self.height().max(0.0)
    }

    /// The edges as `[x0, y0, x1, y1]`.
    #[must_use]
    pub const fn array(&self) -> [f32; 4] {
        [self.x0, self.y0, self.x1, self.y1]
    }
}

/// A pinhole camera that looks forward and down.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Camera {
    /// Position of the camera in metres.
    pub eye: Vec3,
    /// Rotation to the right in radians; 0 looks along y.
    pub yaw: f32,
    /// Rotation downwards in radians.
    pub pitch: f32,
    /// Focal length in pixels.
    pub focal: f32,
    /// Principal point in pixels, the middle of the picture.
    pub centre: Vec2,
}

impl Camera {
    /// Projects a point: its position in the picture, and its distance along the optical axis in metres.
    /// `None` if the point is not in front of the camera.
    #[must_use]
    pub fn project(&self, point: Vec3) -> Option<(Vec2, f32)> {
        let from_eye = point - self.eye;
        let (sin, cos) = self.yaw.sin_cos();
        let (right, ahead) = (
            from_eye.x * cos - from_eye.y * sin,
            from_eye.x * sin + from_eye.y * cos,
        );
        let (sin, cos) = self.pitch.sin_cos();
        let depth = ahead * cos - from_eye.z * sin;
        let up = ahead * sin + from_eye.z * cos;
        if depth < 0.1 {
            return None;
        }
        let scale = self.focal / depth;
        Some((
            vec2(self.centre.x + right * scale, self.centre.y - up * scale),
            depth,
        ))
    }

    /// Pixels per metre at `point`; 0 if the point is not in front of the camera.
    #[must_use]
    pub fn scale(&self, point: Vec3) -> f32 {
        self.project(point).map_or(0.0, |(_, depth)| self.focal / depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_camera_that_looks_down_sees_the_ground_below_its_axis() {
        let camera = Camera {
            eye: vec3(0.0, 0.0, 5.0),
            yaw: 0.0,
            pitch: 0.3,
            focal: 500.0,
            centre: vec2(480.0, 270.0),
        };
        let (near, _) = camera.project(vec3(1.0, 8.0, 0.0)).expect("in front");
        let (far, _) = camera.project(vec3(1.0, 40.0, 0.0)).expect("in front");
        assert!(near.y > far.y && near.x > far.x && far.x > 480.0);
        assert!(camera.project(vec3(0.0, -5.0, 0.0)).is_none());
    }
}
