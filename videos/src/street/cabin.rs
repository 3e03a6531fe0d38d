//! The cabin of a vehicle: roof, glass, mirrors.

use super::body::{self, Pane};
use super::fleet::{Make, Vehicle};
use super::stage::{Stage, outward};
use super::vehicle::{BLACK, Moving};
use crate::canvas::{Ink, rgb};
use crate::font;
use crate::geometry::{Vec2, Vec3, vec2, vec3};

/// Draws the cabin.
pub(super) fn draw(stage: &mut Stage, moving: &Moving<'_>) {
    let vehicle = moving.vehicle;
    let shape = &vehicle.shape.cabin;
    let middle = moving.pose.point(vec3(
        (shape.base.0 + shape.base.1) / 2.0,
        0.0,
        (shape.height.0 + shape.height.1) / 2.0,
    ));
    for (pane, face) in body::cabin(shape) {
        let face = face.map(|point| moving.pose.point(point));
        let normal = outward(&face, middle);
        if !stage.faces(&face, normal) {
            continue;
        }
        let roof = if pane == Pane::Roof { 1.10 } else { 1.0 };
        stage.surface(&face, normal, vehicle.paint.lit(roof));
        match pane {
            Pane::Roof => {}
            Pane::Side => side_windows(stage, vehicle, &face, normal),
            Pane::Front => front_window(stage, vehicle, &face, normal),
            Pane::Rear => rear_window(stage, vehicle, &face, normal),
        }
    }
}

/// Glass mirrors the sky at its top and is dark below.
fn glass(stage: &mut Stage, points: &[Vec3], normal: Vec3) {
    let outline = stage.sight.polygon(points);
    let Some(bounds) = crate::geometry::Bounds::about(outline.iter().copied()) else {
        return;
    };
    let sky = stage.light.sky.0.mixed(stage.light.sky.1, 0.5);
    let dark = stage.light.shade(rgb(0x1a_22_2a), normal);
    let depth = stage.distance(points);
    let (top, low) = (dark.mixed(sky, 0.36), dark.mixed(sky, 0.06));
    let ink = Ink::Gradient {
        from: (vec2(bounds.x0, bounds.y0), stage.light.hazed(top, depth)),
        to: (vec2(bounds.x0, bounds.y1), stage.light.hazed(low, depth)),
    };
    stage.canvas.polygon(&outline, ink);
}

fn side_windows(stage: &mut Stage, vehicle: &Vehicle, face: &[Vec3; 4], normal: Vec3) {
    let shape = &vehicle.shape.cabin;
    for along in shape.windows {
        glass(stage, &body::within(face, *along, shape.glass), normal);
    }
    if vehicle.make == Make::Van && vehicle.glazed {
        for along in [(0.06, 0.34), (0.38, 0.66)] {
            glass(stage, &body::within(face, along, shape.glass), normal);
        }
    }
}

fn front_window(stage: &mut Stage, vehicle: &Vehicle, face: &[Vec3; 4], normal: Vec3) {
    let up = if vehicle.make == Make::Bus {
        (0.03, 0.76)
    } else {
        (0.05, 0.92)
    };
    glass(stage, &body::within(face, (0.05, 0.95), up), normal);
    let dark = stage.light.shade(BLACK, normal);
    for (from, to) in [(0.12, 0.45), (0.52, 0.85)] {
        let wiper = body::within(face, (from, to), (0.04, 0.10));
        stage.bar(&[wiper[0], wiper[2]], 0.02, dark);
    }
    if vehicle.make == Make::Bus {
        display(stage, vehicle, face);
    }
}

/// The number of the line above a bus's windscreen.
fn display(stage: &mut Stage, vehicle: &Vehicle, face: &[Vec3; 4]) {
    stage.fill(&body::within(face, (0.18, 0.82), (0.79, 0.97)), rgb(0x10_10_12));
    let text = format!("{} WEIR", vehicle.line);
    let wide = font::width(&text);
    let (face, sight) = (*face, stage.sight);
    let place = |point: Vec2| {
        let along = 0.25 + 0.5 * (point.x / wide);
        let up = 0.94 - 0.12 * point.y / font::HEIGHT;
        // The face runs from the vehicle's left to its right: from the front, from right to left.
        let corner = body::within(&face, (1.0 - along, 1.0), (up, 1.0));
        sight.point(corner[0]).unwrap_or_default()
    };
    let weight = sight.scale(face[0]) * 0.035;
    font::draw(&mut stage.canvas, &text, place, weight, rgb(0xff_b4_38));
}

fn rear_window(stage: &mut Stage, vehicle: &Vehicle, face: &[Vec3; 4], normal: Vec3) {
    match vehicle.make {
        Make::Van => {
            for along in [(0.10, 0.46), (0.54, 0.90)] {
                glass(stage, &body::within(face, along, (0.18, 0.66)), normal);
            }
            let dark = stage.light.shade(vehicle.paint.lit(0.6), normal);
            let seam = body::within(face, (0.5, 0.5), (0.0, 0.95));
            stage.bar(&[seam[0], seam[2]], 0.02, dark);
        }
        Make::Bus => glass(stage, &body::within(face, (0.10, 0.90), (0.22, 0.72)), normal),
        _ => glass(stage, &body::within(face, (0.09, 0.91), (0.16, 0.90)), normal),
    }
}

/// Draws the mirrors at both sides.
pub(super) fn mirrors(stage: &mut Stage, moving: &Moving<'_>) {
    let vehicle = moving.vehicle;
    let shape = &vehicle.shape.cabin;
    let bus = vehicle.make == Make::Bus;
    let (u, z) = if bus {
        (shape.base.1 + 0.1, 2.2)
    } else {
        (shape.base.1 - 0.35, shape.height.0 + 0.09)
    };
    let (tall, wide) = if bus { (0.19, 0.09) } else { (0.09, 0.11) };
    for left in [1.0, -1.0] {
        let v = (shape.half.0 + wide * 0.9) * left;
        let quad = [(-wide, -tall), (wide, -tall), (wide, tall), (-wide, tall)]
            .map(|(a, b)| moving.pose.point(vec3(u, v + a, z + b)));
        let normal = moving.pose.direction(vec3(1.0, 0.0, 0.0));
        let colour = if bus { BLACK } else { vehicle.paint.lit(0.8) };
        stage.surface(&quad, normal, colour);
    }
}
