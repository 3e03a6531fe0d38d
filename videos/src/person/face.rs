//! The brush for a face: places on its surface, and the tones of its skin.

use super::identity::Identity;
use super::skull::View;
use crate::canvas::{Canvas, Ink, Rgba, rgb};
use crate::geometry::{Vec2, vec2, vec3};

/// A face as it is seen.
pub(super) struct Face<'a> {
    pub(super) who: &'a Identity,
    pub(super) view: View,
    /// Direction of the light: -1 left, 1 right.
    pub(super) light: f32,
}

impl Face<'_> {
    /// Position in the picture of the point `(x, y)` of the face.
    pub(super) fn at(&self, x: f32, y: f32) -> Vec2 {
        self.out(x, y, 0.0)
    }

    /// Position in the picture of a point at distance `out` above the point `(x, y)` of the face.
    pub(super) fn out(&self, x: f32, y: f32, out: f32) -> Vec2 {
        let point = self.who.skull.front(x, y);
        self.view.at(vec3(point.x, point.y, point.z + out))
    }

    /// True if the point `(x, y)` of the face is turned to the camera.
    pub(super) fn faces_us(&self, x: f32, y: f32) -> bool {
        let point = self.who.skull.front(x, y);
        let width = self.who.skull.half_width(y).max(0.05);
        self.view
            .depth(vec3(point.x / (width * width), 0.0, point.z / 0.16))
            > 0.15
    }

    /// Pixels of a length.
    pub(super) fn px(&self, length: f32) -> f32 {
        length * self.view.scale
    }

    /// The skin, darker and warmer by `shade`.
    pub(super) fn shaded(&self, shade: f32) -> Rgba {
        shaded(self.who.skin, shade)
    }

    /// Skin from the side of the light to the other, across `radius` about `centre`.
    pub(super) fn skin(&self, centre: Vec2, radius: f32) -> Ink {
        across(self.who.skin, self.light, centre, radius)
    }

    /// A soft spot about the place `(x, y)` of the face: three ellipses within one another.
    pub(super) fn spot(&self, canvas: &mut Canvas, (x, y): (f32, f32), radii: Vec2, colour: Rgba) {
        for part in [1.0, 0.75, 0.5] {
            let point = |step: i32| {
                let (sin, cos) = (step as f32 * std::f32::consts::TAU / 12.0).sin_cos();
                self.at(x + radii.x * part * cos, y + radii.y * part * sin)
            };
            canvas.blob(&(0..12).map(point).collect::<Vec<_>>(), colour);
        }
    }
}

/// A tone of skin or cloth in the shade: darker, and redder.
pub(super) fn shaded(colour: Rgba, shade: f32) -> Rgba {
    let warm = colour.lit(0.55).mixed(rgb(0x5a2020), 0.25);
    colour.mixed(warm, shade)
}

/// A tone from the side where `light` comes from to the other, across `radius` about `centre`.
pub(super) fn across(colour: Rgba, light: f32, centre: Vec2, radius: f32) -> Ink {
    let side = vec2(radius, radius * 0.35);
    let amount = light.abs().min(1.0);
    let (lit, dark) = (
        colour.lit(1.02 + 0.06 * amount),
        shaded(colour, 0.1 + 0.5 * amount),
    );
    let away = if light < 0.0 { side } else { side * -1.0 };
    Ink::Gradient {
        from: (centre - away, lit),
        to: (centre + away, dark),
    }
}
