//! Drawing surface of a frame: canvas, camera, light and cover together.

use super::cover::Cover;
use super::light::Illumination;
use super::sight::{Sight, cross, dot, swollen, unit};
use crate::canvas::{Canvas, Rgba};
use crate::geometry::{Bounds, Vec2, Vec3, vec2, vec3};

/// State of a frame that is being drawn.
pub(super) struct Stage {
    pub(super) canvas: Canvas,
    pub(super) cover: Cover,
    pub(super) sight: Sight,
    pub(super) light: Illumination,
}

/// Position and orientation of a thing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pose {
    /// Middle of the thing on the ground.
    pub(super) at: Vec3,
    /// Unit vector to its front.
    pub(super) forward: Vec2,
}

impl Pose {
    /// A point given forward, to the left and up from the pose.
    pub(super) fn point(&self, local: Vec3) -> Vec3 {
        let (f, u, v) = (self.forward, local.x, local.y);
        self.at + vec3(f.x * u - f.y * v, f.y * u + f.x * v, local.z)
    }

    /// A direction given likewise.
    pub(super) fn direction(&self, local: Vec3) -> Vec3 {
        self.point(local) - self.at
    }
}

impl Stage {
    /// Fills a flat polygon of the world with a colour as it is.
    pub(super) fn fill(&mut self, points: &[Vec3], colour: Rgba) {
        let outline = self.sight.polygon(points);
        self.canvas.polygon(&outline, colour);
    }

    /// Fills a flat polygon of the world as its colour looks in the light, with `normal` out of it.
    pub(super) fn surface(&mut self, points: &[Vec3], normal: Vec3, colour: Rgba) {
        let lit = self.light.shade(colour, normal);
        let hazed = self.light.hazed(lit, self.distance(points));
        let outline = swollen(self.sight.polygon(points), 0.45);
        self.canvas.polygon(&outline, hazed);
    }

    /// Metres to the middle of the points.
    pub(super) fn distance(&self, points: &[Vec3]) -> f32 {
        let sum = points.iter().fold(Vec3::default(), |sum, point| sum + *point);
        let to = sum * (1.0 / points.len().max(1) as f32) - self.sight.eye();
        dot(to, to).sqrt()
    }

    /// True if the eye is on the side of the polygon to which `normal` points.
    pub(super) fn faces(&self, points: &[Vec3], normal: Vec3) -> bool {
        points
            .first()
            .is_some_and(|point| dot(self.sight.eye() - *point, normal) > 0.0)
    }

    /// A line of the world, `width` metres wide.
    pub(super) fn bar(&mut self, points: &[Vec3], width: f32, colour: Rgba) {
        let scale = points.first().map_or(0.0, |point| self.sight.scale(*point));
        let line = self.sight.line(points);
        if line.len() > 1 {
            self.canvas.line(&line, (width * scale).max(0.5), colour);
        }
    }

    /// A light that shines into the lens: a bright middle and a halo, `radius` metres.
    pub(super) fn glow(&mut self, at: Vec3, radius: f32, colour: Rgba, strength: f32) {
        let Some(middle) = self.sight.point(at) else {
            return;
        };
        let pixels = radius * self.sight.scale(at);
        // Many thin layers, so that no ring is seen.
        for layer in 0..14 {
            let reach = pixels * (1.3 + 6.0 * (1.0 - layer as f32 / 13.0).powi(2));
            let part = 0.016 + 0.004 * layer as f32;
            self.canvas
                .ellipse(middle, vec2(reach, reach), 0.0, colour.faded(part * strength));
        }
        // Only a white light is white in its middle.
        let part = if colour.g > 0.5 { 0.7 } else { 0.2 };
        let white = colour
            .mixed(crate::canvas::rgb(0xff_ff_ff), part)
            .faded(strength.min(1.0));
        self.canvas.ellipse(middle, vec2(pixels, pixels), 0.0, white);
    }
}

/// The normal of a flat polygon, pointing away from `inside`.
pub(super) fn outward(points: &[Vec3], inside: Vec3) -> Vec3 {
    let [a, b, .., d] = points else {
        return Vec3::default();
    };
    let normal = unit(cross(*b - *a, *d - *a));
    if dot(normal, *a - inside) < 0.0 {
        normal * -1.0
    } else {
        normal
    }
}

/// A box about what of the polygons is seen.
pub(super) fn extent(polygons: &[Vec<Vec2>]) -> Option<Bounds> {
    Bounds::about(polygons.iter().flatten().copied())
}
