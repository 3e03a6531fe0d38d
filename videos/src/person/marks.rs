//! Individual marks of a face beside its features: beard, freckles, moles, glasses.

use super::expression::Mimic;
use super::face::Face;
use super::identity::Beard;
use crate::canvas::{Canvas, Rgba, rgb};
use crate::geometry::{Vec2, vec2, vec3};

/// Draws the beard, beneath the lips.
pub(super) fn beard(canvas: &mut Canvas, face: &Face<'_>, mimic: &Mimic) {
    let who = face.who;
    let skull = &who.skull;
    let colour: Rgba = who.hair.brow_colour().mixed(who.hair.colour, 0.5);
    let y = who.lips.y;
    let moustache = |canvas: &mut Canvas, colour: Rgba| {
        let wide = who.lips.width * mimic.wide.max(0.9) * 1.05;
        let top = y - 0.025 - who.lips.full;
        let lift = mimic.mouth * 0.4;
        let points = [
            (-1.0, 0.025),
            (-0.6, -0.035),
            (0.0, -0.03),
            (0.6, -0.035),
            (1.0, 0.025),
            (0.0, 0.012),
        ]
        .map(|(x, down)| face.out(x * wide, top - lift + down, 0.02));
        canvas.blob(&points, colour);
    };
    let jaw = |canvas: &mut Canvas, top: f32, colour: Rgba| {
        let shown = |angle: f32| angle.clamp(-88.0 - face.view.yaw, 88.0 - face.view.yaw);
        let low = |side: f32, step: i32| {
            let point = skull.around(shown(side * 88.0), 0.04 + 0.46 * step as f32 / 8.0);
            face.view.at(point) + vec2(0.0, face.px(0.01))
        };
        let mut points: Vec<Vec2> = (0..=8).map(|step| low(-1.0, step)).collect();
        points.extend((0..8).rev().map(|step| low(1.0, step)));
        let high = (0..=12).rev().map(|step| -90.0 + 15.0 * step as f32);
        points.extend(high.map(|angle| {
            let curve = (angle / 90.0).abs().powi(3);
            face.view.at(skull.around(shown(angle), top * (1.0 - curve)))
        }));
        canvas.polygon(&points, colour);
    };
    match who.beard {
        Beard::None => {}
        Beard::Stubble => {
            jaw(canvas, y - 0.08, colour.faded(0.28));
        }
        Beard::Moustache => moustache(canvas, colour),
        Beard::Goatee => {
            moustache(canvas, colour);
            let points = [
                (-0.6, y + 0.05),
                (-0.8, y + 0.12),
                (0.0, 0.52),
                (0.8, y + 0.12),
                (0.6, y + 0.05),
                (0.0, y + 0.075),
            ]
            .map(|(x, y)| face.out(x * 0.12, y + mimic.mouth * 0.4, 0.02));
            canvas.blob(&points, colour);
        }
        Beard::Full => {
            jaw(canvas, y - 0.06, colour);
            moustache(canvas, colour.lit(0.92));
        }
    }
}

/// Freckles and moles.
pub(super) fn spots(canvas: &mut Canvas, face: &Face<'_>) {
    let who = face.who;
    if who.freckles {
        let tone = face.shaded(0.7).mixed(rgb(0xa05020), 0.4).faded(0.7);
        let places = [
            (0.09, 0.1),
            (0.13, 0.13),
            (0.17, 0.1),
            (0.21, 0.12),
            (0.15, 0.165),
            (0.2, 0.16),
            (0.11, 0.15),
            (0.24, 0.09),
        ];
        for (x, y) in places.into_iter().flat_map(|(x, y)| [(x, y), (-x, y + 0.008)]) {
            if face.faces_us(x, y) {
                canvas.ellipse(face.at(x, y), vec2(0.011, 0.01) * face.view.scale, 0.0, tone);
            }
        }
    }
    if let Some(mole) = who.mole.filter(|mole| face.faces_us(mole.x, mole.y)) {
        canvas.ellipse(
            face.at(mole.x, mole.y),
            vec2(0.017, 0.016) * face.view.scale,
            0.0,
            rgb(0x3a2018),
        );
    }
}

/// Draws the rims, bridge and temples of the glasses, if the person wears any.
pub(super) fn glasses(canvas: &mut Canvas, face: &Face<'_>) {
    let Some(glasses) = face.who.glasses else { return };
    let eyes = &face.who.eyes;
    let width = face.px(0.018);
    for side in [-1.0_f32, 1.0] {
        let (cx, cy) = (side * eyes.spacing, eyes.y + 0.01);
        let (rx, ry) = (
            (eyes.spacing - 0.02).min(0.13 * glasses.size),
            0.088 * glasses.size,
        );
        if face.faces_us(cx, cy) {
            let power = if glasses.round { 1.0 } else { 0.45 };
            let rim: Vec<Vec2> = (0..=24)
                .map(|step| {
                    let (sin, cos) = (step as f32 * std::f32::consts::TAU / 24.0).sin_cos();
                    let stretched = |value: f32| value.signum() * value.abs().powf(power);
                    face.out(cx + rx * stretched(cos), cy + ry * stretched(sin), 0.05)
                })
                .collect();
            canvas.polygon(&rim, rgb(0xd8ecff).faded(0.12));
            canvas.line(&rim, width, glasses.colour);
        }
        let hinge = face.out(side * (eyes.spacing + rx), cy - 0.02, 0.04);
        let end = vec3(side * face.who.skull.half_width(0.0) * 1.02, 0.0, -0.02);
        if face.view.depth(vec3(side, 0.0, 0.3)) > 0.0 {
            canvas.line(&[hinge, face.view.at(end)], width, glasses.colour);
        }
    }
    let bridge = [-0.03, 0.0, 0.03].map(|x: f32| face.out(x, eyes.y - 0.01 - (0.03 - x.abs()) * 0.5, 0.06));
    if face.view.yaw.abs() < 70.0 {
        canvas.line(&bridge, width, glasses.colour);
    }
}
