//! Draws number plates of vehicles.

use super::sight::{dot, unit};
use super::stage::{Pose, Stage};
use crate::canvas::rgb;
use crate::font;
use crate::geometry::{Vec2, Vec3, vec3};

/// Half the width and half the height of a plate in metres.
const HALF: (f32, f32) = (0.29, 0.083);
/// Cosine of the largest angle at which a plate is scored.
const ASLANT: f32 = 0.25;

/// Draws a plate at `middle` of the vehicle's frame, facing its forward axis (`ahead` 1) or backwards (-1).
/// Returns the corners if the plate faces the camera and is completely visible.
pub(super) fn draw(
    stage: &mut Stage,
    pose: &Pose,
    middle: Vec3,
    ahead: f32,
    text: &str,
) -> Option<Vec<Vec2>> {
    let normal = pose.direction(vec3(ahead, 0.0, 0.0));
    let to_eye = unit(stage.sight.eye() - pose.point(middle));
    let facing = dot(normal, to_eye);
    if facing <= 0.02 {
        return None;
    }
    // Forward is u and left is v: seen from the front, a text runs to the left of the vehicle.
    let corner = |along: f32, up: f32| pose.point(middle + vec3(0.0, along * ahead, up));
    let quad = |half: (f32, f32)| {
        [(-1.0, 1.0), (1.0, 1.0), (1.0, -1.0), (-1.0, -1.0)].map(|(a, b)| corner(a * half.0, b * half.1))
    };
    let outline: Option<Vec<Vec2>> = quad(HALF).iter().map(|point| stage.sight.point(*point)).collect();
    let outline = outline?;
    // Plates throw light back: they are brighter than what is about them.
    let white = stage.light.shade(rgb(0xf6_f4_ea), normal).lit(1.18);
    let dark = stage.light.shade(rgb(0x1c_1e_26), normal);
    stage.canvas.polygon(&outline, dark);
    stage.fill(&quad((HALF.0 - 0.008, HALF.1 - 0.008)), white);
    // Characters: 0.51 m in all, 0.112 m high.
    let unit_width = 0.51 / font::width(text).max(1.0);
    let unit_height = 0.112 / font::HEIGHT;
    let sight = stage.sight;
    let place = |point: Vec2| {
        let at = corner(-0.255 + point.x * unit_width, 0.056 - point.y * unit_height);
        sight.point(at).unwrap_or_default()
    };
    let weight = unit_width * 0.92 * sight.scale(pose.point(middle)) * (0.45 + 0.55 * facing);
    font::draw(&mut stage.canvas, text, place, weight, dark);
    (facing > ASLANT).then_some(outline)
}
