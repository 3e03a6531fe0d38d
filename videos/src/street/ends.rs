//! The front and the rear of a vehicle: lamps, grille, bumper, plate.

use super::fleet::{Make, Section};
use super::plate;
use super::sight::{dot, swollen};
use super::stage::Stage;
use super::vehicle::{BLACK, Moving};
use crate::canvas::rgb;
use crate::geometry::{Vec2, Vec3, vec3};

/// Lamps, grille and plates; returns the plate that faces the camera.
pub(super) fn draw(stage: &mut Stage, moving: &Moving<'_>) -> Option<Vec<Vec2>> {
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
        (false, _, true) => (rgb(0xff_30_22), rgb(0xff_28_18), if lit { 0.8 } else { 0.2 }),
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
