//! The faces of a vehicle's body, in its own frame: forward, to the left, up.

use super::fleet::{Cabin, Section, Shape};
use crate::geometry::{Vec3, vec3};

/// A section's points on one side (`left` one or less one): sill, waist, deck.
fn corners(section: &Section, left: f32) -> [Vec3; 3] {
    let Section {
        u,
        sill,
        waist,
        deck,
        half,
    } = *section;
    [
        vec3(u, half * 0.97 * left, sill),
        vec3(u, half * left, waist),
        vec3(u, half * 0.93 * left, deck),
    ]
}

/// The faces of the lower body: sides, deck, ends.
pub(super) fn lower(shape: &Shape) -> Vec<Vec<Vec3>> {
    let mut faces = Vec::new();
    for pair in shape.sections.windows(2) {
        let [rear, front] = pair else { continue };
        let mut decks = Vec::new();
        for left in [1.0, -1.0] {
            let (a, b) = (corners(rear, left), corners(front, left));
            faces.push(vec![a[0], b[0], b[1], a[1]]);
            faces.push(vec![a[1], b[1], b[2], a[2]]);
            decks.push((a[2], b[2]));
        }
        if let [(a, b), (c, d)] = decks[..] {
            faces.push(vec![a, b, d, c]);
        }
    }
    for end in [shape.sections.first(), shape.sections.last()]
        .into_iter()
        .flatten()
    {
        let (a, b) = (corners(end, 1.0), corners(end, -1.0));
        faces.push(vec![a[0], b[0], b[1], a[1]]);
        faces.push(vec![a[1], b[1], b[2], a[2]]);
    }
    faces
}

/// A face of the cabin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pane {
    Rear,
    Front,
    Side,
    Roof,
}

/// The faces of the cabin: four corners each, from the rear (or the left) low, along the base, and back along the roof.
pub(super) fn cabin(cabin: &Cabin) -> [(Pane, [Vec3; 4]); 5] {
    let base = |u: f32, left: f32| vec3(u, cabin.half.0 * left, cabin.height.0);
    let roof = |u: f32, left: f32| vec3(u, cabin.half.1 * left, cabin.height.1);
    let ((r, f), (rr, rf)) = (cabin.base, cabin.roof);
    let side = |left: f32| [base(r, left), base(f, left), roof(rf, left), roof(rr, left)];
    [
        (
            Pane::Rear,
            [base(r, 1.0), base(r, -1.0), roof(rr, -1.0), roof(rr, 1.0)],
        ),
        (Pane::Side, side(1.0)),
        (Pane::Side, side(-1.0)),
        (
            Pane::Front,
            [base(f, 1.0), base(f, -1.0), roof(rf, -1.0), roof(rf, 1.0)],
        ),
        (
            Pane::Roof,
            [roof(rr, 1.0), roof(rf, 1.0), roof(rf, -1.0), roof(rr, -1.0)],
        ),
    ]
}

/// A rectangle within a face of four corners, by parts along its base and up.
pub(super) fn within(face: &[Vec3; 4], along: (f32, f32), up: (f32, f32)) -> Vec<Vec3> {
    let at = |a: f32, b: f32| {
        let low = face[0] + (face[1] - face[0]) * a;
        let high = face[3] + (face[2] - face[3]) * a;
        low + (high - low) * b
    };
    vec![
        at(along.0, up.0),
        at(along.1, up.0),
        at(along.1, up.1),
        at(along.0, up.1),
    ]
}

/// A wheel's circle at `u`, `v` with that part of its radius; `turn` radians at the first point.
pub(super) fn circle(centre: Vec3, radius: f32, count: usize, turn: f32) -> Vec<Vec3> {
    let step = std::f32::consts::TAU / count.max(1) as f32;
    let points = (0..count).map(|index| {
        let (sin, cos) = (turn + index as f32 * step).sin_cos();
        centre + vec3(cos * radius, 0.0, sin * radius)
    });
    points.collect()
}
