//! Shadows on the ground, and the light that lamps throw on it.

use super::order::Footprint;
use super::sight::{hull, swollen};
use super::stage::{Pose, Stage};
use crate::canvas::rgb;
use crate::geometry::{Vec2, Vec3, vec2, vec3};

/// Number of layers of a soft edge.
const LAYERS: u32 = 4;

/// Draws the shadow of a box on that footprint, `height` metres high.
pub(super) fn cast(stage: &mut Stage, footprint: &Footprint, height: f32) {
    let corners = footprint.corners().map(|corner| vec3(corner.x, corner.y, 0.0));
    let scale = stage.sight.scale(vec3(footprint.at.x, footprint.at.y, 0.0));
    // The ground directly beneath an object is dark in any light.
    soft(stage, &corners, scale, 0.10, 0.62);
    let sun = stage.light.sun;
    if stage.light.lamps || stage.light.shadow < 0.12 {
        soft(stage, &corners, scale, 0.55, 0.30);
        return;
    }
    let away = vec3(sun.x, sun.y, 0.0) * (-height / sun.z.max(0.2));
    // The upper half of most things is narrower: the shadow's far end is drawn in.
    let middle = vec3(footprint.at.x, footprint.at.y, 0.0);
    let far = corners.map(|corner| middle + (corner - middle) * 0.8 + away);
    let points: Vec<Vec3> = corners.into_iter().chain(far).collect();
    let shadow = stage.light.shadow * 1.25;
    soft(stage, &points, scale, 0.08, shadow);
}

/// Fills the hull of the points with darkness that ends softly, `edge` metres wide.
fn soft(stage: &mut Stage, points: &[Vec3], scale: f32, edge: f32, darkness: f32) {
    let seen: Vec<Vec2> = points
        .iter()
        .filter_map(|point| stage.sight.point(*point))
        .collect();
    if seen.len() < points.len() || scale <= 0.0 {
        let outline = hull(stage.sight.polygon(points));
        stage
            .canvas
            .polygon(&outline, rgb(0x06_08_10).faded(darkness * 0.8));
        return;
    }
    let outline = hull(seen);
    let part = 1.0 - (1.0 - darkness).powf(1.0 / LAYERS as f32);
    for layer in 0..LAYERS {
        let by = edge * scale * (layer as f32 / (LAYERS - 1) as f32 * 2.0 - 1.0);
        let grown = if by >= 0.0 {
            swollen(outline.clone(), by)
        } else {
            shrunk(&outline, -by)
        };
        stage.canvas.polygon(&grown, rgb(0x06_08_10).faded(part));
    }
}

fn shrunk(outline: &[Vec2], by: f32) -> Vec<Vec2> {
    let count = outline.len().max(1) as f32;
    let middle = outline.iter().fold(Vec2::default(), |sum, point| sum + *point) * (1.0 / count);
    let inwards = |point: &Vec2| {
        let to = middle - *point;
        *point + to * (by / to.length().max(by + 0.01))
    };
    outline.iter().map(inwards).collect()
}

/// The light of two headlamps on the road before a vehicle.
pub(super) fn beam(stage: &mut Stage, pose: &Pose, nose: f32) {
    for layer in 0..14 {
        let size = 1.0 - layer as f32 / 15.0;
        let points = round(20, |cos, sin| {
            pose.point(vec3(nose + 4.2 + 4.4 * size * cos, 2.3 * size * sin, 0.0))
        });
        stage.fill(&points, rgb(0xff_ec_b8).faded(0.019));
    }
}

/// The round pool of light beneath a street lamp.
pub(super) fn pool(stage: &mut Stage, at: Vec2) {
    for layer in 0..14 {
        let radius = 8.0 * (1.0 - layer as f32 / 15.0);
        let points = round(28, |cos, sin| vec3(at.x + cos * radius, at.y + sin * radius, 0.0));
        stage.fill(&points, rgb(0xff_cf_86).faded(0.017));
    }
}

fn round(count: usize, place: impl Fn(f32, f32) -> Vec3) -> Vec<Vec3> {
    let step = std::f32::consts::TAU / count as f32;
    let points = (0..count).map(|index| {
        let (sin, cos) = (index as f32 * step).sin_cos();
        place(cos, sin)
    });
    points.collect()
}

/// A footprint of that size at a pose.
pub(super) fn footprint(pose: &Pose, half: (f32, f32)) -> Footprint {
    Footprint {
        at: vec2(pose.at.x, pose.at.y),
        forward: pose.forward,
        half: vec2(half.0, half.1),
    }
}
