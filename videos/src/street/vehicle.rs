//! Drawing a vehicle.

use super::fleet::{Make, Vehicle};
use super::sight::{Sight, hull};
use super::stage::{Pose, Stage, outward};
use super::{body, cabin, ends};
use crate::canvas::{Rgba, rgb};
use crate::geometry::{Vec2, Vec3, vec3};

/// A vehicle on its way.
pub(super) struct Moving<'a> {
    pub(super) vehicle: &'a Vehicle,
    pub(super) pose: Pose,
    /// Metres it has gone: how far its wheels are turned.
    pub(super) way: f32,
    /// True if its brake lights are on.
    pub(super) brakes: bool,
}

/// Tyres and bumpers.
pub(super) const BLACK: Rgba = rgb(0x14_15_18);

/// The polygons that cover a vehicle: hulls of its body, its cabin and each wheel.
pub(super) fn outlines(sight: &Sight, moving: &Moving<'_>) -> Vec<Vec<Vec2>> {
    let (shape, pose) = (&moving.vehicle.shape, &moving.pose);
    let hull_of = |points: &mut dyn Iterator<Item = Vec3>, faces: &[Vec<Vec3>]| {
        let mut seen: Vec<Vec2> = points.filter_map(|point| sight.point(point)).collect();
        // Faces cut at the near plane bring the points of the cut.
        seen.extend(faces.iter().flat_map(|face| sight.polygon(face)));
        hull(seen)
    };
    let world = |faces: Vec<Vec<Vec3>>| -> Vec<Vec<Vec3>> {
        let faces = faces.into_iter();
        faces
            .map(|face| face.into_iter().map(|point| pose.point(point)).collect())
            .collect()
    };
    let lower = world(body::lower(shape));
    let cabin = world(
        body::cabin(&shape.cabin)
            .iter()
            .map(|(_, face)| face.to_vec())
            .collect(),
    );
    let mut outlines = vec![
        hull_of(&mut std::iter::empty(), &lower),
        hull_of(&mut std::iter::empty(), &cabin),
    ];
    for wheel in wheels(moving) {
        outlines.push(hull_of(&mut wheel.into_iter(), &[]));
    }
    outlines.retain(|outline| outline.len() > 2);
    outlines
}

/// The rims of each wheel, outside and inside, in the world.
fn wheels(moving: &Moving<'_>) -> Vec<Vec<Vec3>> {
    let shape = &moving.vehicle.shape;
    let half = moving.vehicle.half_width() - 0.05;
    let mut wheels = Vec::new();
    for u in [shape.axles.0, shape.axles.1] {
        for left in [half, -half] {
            let discs =
                [left, left * 0.76].map(|v| body::circle(vec3(u, v, shape.wheel), shape.wheel, 12, 0.0));
            wheels.push(
                discs
                    .concat()
                    .into_iter()
                    .map(|point| moving.pose.point(point))
                    .collect(),
            );
        }
    }
    wheels
}

/// Draws the vehicle; returns the corners of the plate that faces the camera.
pub(super) fn draw(stage: &mut Stage, moving: &Moving<'_>) -> Option<Vec<Vec2>> {
    for wheel in wheels(moving) {
        let seen: Vec<Vec2> = wheel
            .iter()
            .filter_map(|point| stage.sight.point(*point))
            .collect();
        stage.canvas.polygon(&hull(seen), stage.light.level(BLACK));
    }
    // Seen from behind, the mirrors are hidden by the body.
    let nose = moving.pose.point(vec3(moving.vehicle.half_length(), 0.0, 1.0));
    let from_before = stage.faces(&[nose], moving.pose.direction(vec3(1.0, 0.0, 0.0)));
    if !from_before {
        cabin::mirrors(stage, moving);
    }
    lower(stage, moving);
    sides(stage, moving);
    let plate = ends::draw(stage, moving);
    cabin::draw(stage, moving);
    if from_before {
        cabin::mirrors(stage, moving);
    }
    plate
}

fn lower(stage: &mut Stage, moving: &Moving<'_>) {
    let vehicle = moving.vehicle;
    let middle = moving.pose.point(vec3(0.0, 0.0, 0.55));
    let mut faces: Vec<(f32, Vec<Vec3>)> = body::lower(&vehicle.shape)
        .into_iter()
        .map(|face| {
            let face: Vec<Vec3> = face.into_iter().map(|point| moving.pose.point(point)).collect();
            (stage.distance(&face), face)
        })
        .collect();
    faces.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (_, face) in faces {
        let normal = outward(&face, middle);
        if stage.faces(&face, normal) {
            // What looks up is a little brighter: it mirrors the sky.
            let paint = vehicle.paint.lit(1.0 + 0.10 * normal.z.max(0.0));
            stage.surface(&face, normal, paint);
        }
    }
}

/// Doors, wheels and stripes at the sides.
fn sides(stage: &mut Stage, moving: &Moving<'_>) {
    let (vehicle, shape) = (moving.vehicle, &moving.vehicle.shape);
    let half = vehicle.half_width();
    for left in [1.0, -1.0] {
        let normal = moving.pose.direction(vec3(0.0, left, 0.0));
        let at = |u: f32, z: f32| moving.pose.point(vec3(u, half * 0.995 * left, z));
        if !stage.faces(&[at(0.0, 0.5)], normal) {
            continue;
        }
        let (rear, front) = (-vehicle.half_length() + 0.3, vehicle.half_length() - 0.4);
        let middle = shape.sections[shape.sections.len() / 2];
        if let Some(stripe) = vehicle.stripe {
            let (low, high) = (middle.waist - 0.14, middle.waist + 0.10);
            stage.surface(
                &[at(rear, low), at(front, low), at(front, high), at(rear, high)],
                normal,
                stripe,
            );
        }
        let dark = stage.light.shade(vehicle.paint.lit(0.62), normal);
        let sill = [
            at(rear, middle.sill),
            at(front, middle.sill),
            at(front, middle.sill + 0.1),
            at(rear, middle.sill + 0.1),
        ];
        stage.surface(&sill, normal, BLACK.mixed(vehicle.paint, 0.25));
        for u in doors(vehicle) {
            stage.bar(&[at(u, middle.sill + 0.08), at(u, middle.deck)], 0.018, dark);
            if vehicle.make != Make::Bus {
                stage.bar(
                    &[at(u + 0.12, middle.waist + 0.2), at(u + 0.3, middle.waist + 0.2)],
                    0.035,
                    dark,
                );
            }
        }
        for u in [shape.axles.0, shape.axles.1] {
            wheel(stage, moving, u, left, normal);
        }
    }
}

fn doors(vehicle: &Vehicle) -> Vec<f32> {
    let (rear, front) = vehicle.shape.cabin.base;
    let at = |part: f32| rear + (front - rear) * part;
    match vehicle.make {
        Make::Hatch | Make::Saloon | Make::Offroad => vec![at(0.25), at(0.53), at(0.93)],
        Make::Van => vec![at(0.42), at(0.68), at(0.95)],
        Make::Bus => vec![at(0.52), at(0.89)],
    }
}

fn wheel(stage: &mut Stage, moving: &Moving<'_>, u: f32, left: f32, normal: Vec3) {
    let (vehicle, radius) = (moving.vehicle, moving.vehicle.shape.wheel);
    let half = vehicle.half_width();
    let disc = |v: f32, radius: f32, count: usize, turn: f32| -> Vec<Vec3> {
        let circle = body::circle(vec3(u, v * left, vehicle.shape.wheel), radius, count, turn);
        circle.into_iter().map(|point| moving.pose.point(point)).collect()
    };
    let mut arch = body::circle(vec3(u, half * left, vehicle.shape.wheel), radius * 1.17, 18, 0.0);
    let sill = vehicle.shape.sections[1].sill;
    for point in &mut arch {
        point.z = point.z.max(sill.min(radius));
    }
    let arch: Vec<Vec3> = arch.into_iter().map(|point| moving.pose.point(point)).collect();
    stage.fill(&arch, stage.light.shade(rgb(0x0c_0c_0e), normal));
    stage.fill(
        &disc(half - 0.03, radius, 18, 0.0),
        stage.light.shade(rgb(0x1d_1e_21), normal),
    );
    stage.fill(
        &disc(half - 0.02, radius * 0.66, 14, 0.0),
        stage.light.shade(vehicle.rim, normal),
    );
    if stage.sight.scale(moving.pose.at) * radius > 9.0 {
        let dark = stage.light.shade(vehicle.rim.lit(0.45), normal);
        let centre = disc(half - 0.015, 0.0, 1, 0.0);
        for tip in disc(half - 0.015, radius * 0.55, 5, -left * moving.way / radius) {
            let from = centre[0] + (tip - centre[0]) * 0.35;
            stage.bar(&[from, tip], radius * 0.17, dark);
        }
    }
}
