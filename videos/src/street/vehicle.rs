//! Drawing a vehicle.

use super::body::{self, Pane};
use super::fleet::{Make, Section, Vehicle};
use super::plate;
use super::sight::{Sight, dot, hull, swollen};
use super::stage::{Pose, Stage, outward};
use crate::canvas::{Ink, Rgba, rgb};
use crate::font;
use crate::geometry::{Vec2, Vec3, vec2, vec3};

/// What was seen of a vehicle.
pub(super) struct VehicleSeen {
    /// Polygons that cover it.
    pub(super) outlines: Vec<Vec<Vec2>>,
    /// Corners of the plate that faces the camera.
    pub(super) plate: Option<Vec<Vec2>>,
}

/// A vehicle on its way.
pub(super) struct Moving<'a> {
    pub(super) vehicle: &'a Vehicle,
    pub(super) pose: Pose,
    /// Metres it has gone: how far its wheels are turned.
    pub(super) way: f32,
    /// Whether its brake lights are on.
    pub(super) brakes: bool,
}

const BLACK: Rgba = rgb(0x14_15_18);

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

/// Draws the vehicle.
pub(super) fn draw(stage: &mut Stage, moving: &Moving<'_>) -> VehicleSeen {
    let outlines = outlines(&stage.sight, moving);
    for wheel in wheels(moving) {
        let seen: Vec<Vec2> = wheel
            .iter()
            .filter_map(|point| stage.sight.point(*point))
            .collect();
        stage.canvas.polygon(&hull(seen), stage.light.level(BLACK));
    }
    // From behind, the mirrors stand behind the body.
    let nose = moving.pose.point(vec3(moving.vehicle.half_length(), 0.0, 1.0));
    let from_before = stage.faces(&[nose], moving.pose.direction(vec3(1.0, 0.0, 0.0)));
    if !from_before {
        mirrors(stage, moving);
    }
    lower(stage, moving);
    sides(stage, moving);
    let plate = ends(stage, moving);
    cabin(stage, moving);
    if from_before {
        mirrors(stage, moving);
    }
    VehicleSeen { outlines, plate }
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

/// Lamps, grille and plates; returns the plate that faces the camera.
fn ends(stage: &mut Stage, moving: &Moving<'_>) -> Option<Vec<Vec2>> {
    let (vehicle, sections) = (moving.vehicle, &moving.vehicle.shape.sections);
    let mut seen = None;
    for ahead in [1.0_f32, -1.0] {
        let (end, next) = if ahead > 0.0 {
            (*sections.last()?, sections[sections.len().saturating_sub(2)])
        } else {
            (*sections.first()?, *sections.get(1)?)
        };
        let normal = moving.pose.direction(vec3(ahead, 0.0, 0.0));
        let face = [moving.pose.point(vec3(end.u, 0.0, end.waist))];
        if !stage.faces(&face, normal) {
            continue;
        }
        if ahead > 0.0 {
            nose(stage, moving, &end, normal);
        } else {
            bumper(stage, moving, &end, normal);
        }
        lamps(stage, moving, ahead, (&end, &next), normal);
        let (front, rear) = vehicle.shape.plates;
        let height = if ahead > 0.0 { front } else { rear };
        let middle = vec3(end.u + 0.02 * ahead, 0.0, height);
        seen = seen.or(plate::draw(stage, &moving.pose, middle, ahead, &vehicle.plate));
    }
    seen
}

/// Grille and air intake.
fn nose(stage: &mut Stage, moving: &Moving<'_>, end: &Section, normal: Vec3) {
    let quad = |half: f32, low: f32, high: f32| {
        [
            (-half, low),
            (half, low),
            (half * 0.94, high),
            (-half * 0.94, high),
        ]
        .map(|(v, z)| moving.pose.point(vec3(end.u + 0.01, v, z)))
    };
    let dark = rgb(0x1a_1b_1f);
    stage.surface(
        &quad(end.half * 0.86, end.sill + 0.02, end.sill + 0.12),
        normal,
        dark,
    );
    let (low, high) = (end.waist + 0.015, end.deck - 0.015);
    let (low, high) = if moving.vehicle.make == Make::Bus {
        (end.waist - 0.1, end.waist + 0.05)
    } else {
        (low, high)
    };
    stage.surface(&quad(end.half * 0.52, low, high), normal, dark);
    let chrome = stage.light.shade(rgb(0xb8_bc_c0), normal);
    let bar = [-0.5, 0.5].map(|part| {
        moving
            .pose
            .point(vec3(end.u + 0.015, end.half * part, (low + high) / 2.0))
    });
    stage.bar(&bar, 0.018, chrome);
}

fn bumper(stage: &mut Stage, moving: &Moving<'_>, end: &Section, normal: Vec3) {
    let quad = [(-0.97, 0.0), (0.97, 0.0), (0.99, 0.14), (-0.99, 0.14)]
        .map(|(v, z)| moving.pose.point(vec3(end.u - 0.01, v * end.half, end.sill + z)));
    stage.surface(&quad, normal, BLACK.mixed(moving.vehicle.paint, 0.2));
}

/// The two lamps at one end.
fn lamps(
    stage: &mut Stage,
    moving: &Moving<'_>,
    ahead: f32,
    (end, next): (&Section, &Section),
    normal: Vec3,
) {
    let tall = ahead < 0.0 && matches!(moving.vehicle.make, Make::Van | Make::Bus);
    for left in [1.0, -1.0] {
        let local = |u: f32, v: f32, z: f32| moving.pose.point(vec3(u + 0.008 * ahead, v * left, z));
        let lamp = if tall {
            vec![
                local(end.u, end.half * 0.84, end.waist - 0.1),
                local(end.u, end.half * 0.97, end.waist - 0.1),
                local(end.u, end.half * 0.95, end.waist + 0.26),
                local(end.u, end.half * 0.84, end.waist + 0.26),
            ]
        } else {
            vec![
                local(end.u, end.half * 0.56, end.deck - 0.015),
                local(end.u, end.half * 0.60, end.waist - 0.02),
                local(end.u, end.half * 0.985, end.waist - 0.01),
                local(next.u, next.half * 1.0, next.waist + 0.09),
                local(next.u, next.half * 0.95, next.deck - 0.035),
                local(end.u, end.half * 0.93, end.deck - 0.015),
            ]
        };
        let middle = local(
            end.u + 0.03 * ahead,
            end.half * 0.78,
            (end.waist + end.deck) / 2.0,
        );
        light_up(stage, moving, ahead, &lamp, middle, normal);
    }
}

fn light_up(stage: &mut Stage, moving: &Moving<'_>, ahead: f32, lamp: &[Vec3], middle: Vec3, normal: Vec3) {
    let lit = stage.light.lamps;
    let (colour, halo, strength) = match (ahead > 0.0, lit, moving.brakes) {
        (true, true, _) => (rgb(0xff_f6_dc), rgb(0xff_ec_c0), 0.95),
        (true, false, _) => (stage.light.shade(rgb(0xe2_e9_f0), normal), rgb(0), 0.0),
        (false, _, true) => (rgb(0xff_30_22), rgb(0xff_28_18), if lit { 0.9 } else { 0.35 }),
        (false, true, false) => (rgb(0xc8_1c_18), rgb(0xff_20_14), 0.45),
        (false, false, false) => (stage.light.shade(rgb(0x9e_16_1a), normal), rgb(0), 0.0),
    };
    let outline = swollen(stage.sight.polygon(lamp), 0.3);
    stage.canvas.polygon(&outline, colour);
    let towards = stage.sight.eye() - middle;
    let aim = dot(normal, towards) / dot(towards, towards).sqrt().max(1e-3);
    if strength > 0.0 && aim > 0.1 {
        stage.glow(middle, 0.10, halo, strength * aim);
    }
}

fn cabin(stage: &mut Stage, moving: &Moving<'_>) {
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

fn mirrors(stage: &mut Stage, moving: &Moving<'_>) {
    let vehicle = moving.vehicle;
    let shape = &vehicle.shape.cabin;
    let bus = vehicle.make == Make::Bus;
    let (u, z) = if bus {
        (shape.base.1 + 0.1, 2.2)
    } else {
        (shape.base.1 - 0.35, shape.height.0 + 0.09)
    };
    let (tall, wide) = if bus { (0.24, 0.10) } else { (0.09, 0.11) };
    for left in [1.0, -1.0] {
        let v = (shape.half.0 + if bus { 0.16 } else { 0.12 }) * left;
        let quad = [(-wide, -tall), (wide, -tall), (wide, tall), (-wide, tall)]
            .map(|(a, b)| moving.pose.point(vec3(u, v + a, z + b)));
        let normal = moving.pose.direction(vec3(1.0, 0.0, 0.0));
        let colour = if bus { BLACK } else { vehicle.paint.lit(0.8) };
        stage.surface(&quad, normal, colour);
    }
}
