//! Rider of a bicycle: limbs that pedal, a head with a helmet.

use super::bicycle::{CRANK, FRAMES, Riding, pick};
use super::people::{Cutout, SomebodySeen, facing, sun_side, tint};
use super::sight::{between, dot};
use super::stage::{Stage, extent, outward};
use crate::canvas::{Rgba, rgb};
use crate::geometry::{Bounds, Vec2, Vec3, vec2, vec3};
use crate::person::{Head, draw_head, draw_head_from_behind};

const JACKETS: [u32; 8] = [
    0xc8_30_30, 0x2a_58_98, 0xe0_c0_30, 0x3a_3e_46, 0x4a_80_58, 0xd8_d4_cc, 0x7a_48_80, 0xe0_78_30,
];
const TROUSERS: [u32; 4] = [0x24_2a_3a, 0x3c_4c_68, 0x4a_44_3c, 0x1e_1e_22];

impl Riding<'_> {
    /// Draws the rider.
    pub(super) fn rider(&self, stage: &mut Stage) -> Option<SomebodySeen> {
        let hip = |left: f32| vec3(-0.18, 0.10 * left, 1.00);
        let shoulder = |left: f32| vec3(0.08, 0.19 * left, 1.47);
        let hand = |left: f32| vec3(0.41, 0.26 * left, 1.10);
        let lit = |colour: Rgba| stage.light.shade(colour, vec3(0.0, 0.0, 1.0)).lit(0.92);
        let (jacket, trousers) = (
            lit(pick(&JACKETS, self.number, 2)),
            lit(pick(&TROUSERS, self.number, 3)),
        );
        let shoe = lit(rgb(0x20_20_24));
        let eye = stage.sight.eye();
        let left_near = dot(eye - self.pose.at, self.pose.direction(vec3(0.0, 1.0, 0.0))) > 0.0;
        let (near, far) = if left_near { (1.0, -1.0) } else { (-1.0, 1.0) };
        let mut covers = Vec::new();
        let mut limb = |stage: &mut Stage, a: Vec3, b: Vec3, width: f32, colour: Rgba| {
            let (a, b) = (self.at(a), self.at(b));
            stage.bar(&[a, b], width, colour);
            covers.extend(capsule(stage, a, b, width));
        };
        for left in [far, near] {
            let shade = if left == far { 0.72 } else { 1.0 };
            let turn = -self.way / 0.85 + if left > 0.0 { 0.0 } else { std::f32::consts::PI };
            let foot = CRANK + vec3(turn.cos() * 0.17, 0.12 * left, turn.sin() * 0.17);
            let knee = bent(hip(left), foot, 0.46, 0.48);
            limb(stage, hip(left), knee, 0.16, trousers.lit(shade));
            limb(
                stage,
                knee,
                foot + vec3(0.0, 0.0, 0.06),
                0.11,
                trousers.lit(shade),
            );
            limb(
                stage,
                foot + vec3(-0.06, 0.0, 0.02),
                foot + vec3(0.14, 0.0, 0.0),
                0.08,
                shoe,
            );
            if left == far {
                arm(
                    &mut limb,
                    stage,
                    shoulder(left),
                    hand(left),
                    jacket.lit(shade),
                    shoe,
                );
            }
        }
        let trunk = [hip(1.0), hip(-1.0), shoulder(-1.0), shoulder(1.0)];
        let spine = (
            between(hip(1.0), hip(-1.0), 0.5),
            between(shoulder(1.0), shoulder(-1.0), 0.5),
        );
        limb(stage, spine.0, spine.1 - vec3(0.0, 0.0, 0.06), 0.27, jacket);
        let outline = trunk.map(|point| self.at(point));
        let normal = outward(&outline, self.at(vec3(0.1, 0.0, 1.0)));
        stage.surface(&outline, normal, pick(&JACKETS, self.number, 2).lit(0.95));
        covers.push(stage.sight.polygon(&outline));
        let mut limb = |stage: &mut Stage, a: Vec3, b: Vec3, width: f32, colour: Rgba| {
            let (a, b) = (self.at(a), self.at(b));
            stage.bar(&[a, b], width, colour);
            covers.extend(capsule(stage, a, b, width));
        };
        arm(&mut limb, stage, shoulder(near), hand(near), jacket, shoe);
        let (all, face, runs) = self.head(stage, spine.1)?;
        covers.retain(|cover| cover.len() > 2);
        let person = extent(&covers)?.with(&all);
        covers.extend(runs);
        Some(SomebodySeen {
            person,
            face,
            runs: covers,
        })
    }

    /// Draws the head with its helmet; returns its bounds, those of the face, and its cover.
    fn head(&self, stage: &mut Stage, neck: Vec3) -> Option<(Bounds, Option<Bounds>, Vec<Vec<Vec2>>)> {
        let middle = self.at(neck + vec3(0.07, 0.0, 0.17));
        let centre = stage.sight.point(middle)?;
        let height = 0.235 * stage.sight.scale(middle);
        let about = Bounds {
            x0: centre.x - height,
            y0: centre.y - height,
            x1: centre.x + height,
            y1: centre.y + height,
        };
        let mut cutout = Cutout::new(&about, stage.canvas.size())?;
        let yaw = facing(stage, self.pose_ground(), self.pose.forward);
        let head = Head {
            centre: cutout.inside(centre),
            height,
            yaw,
            light: sun_side(stage),
            ..Head::default()
        };
        let behind = yaw.abs() > 100.0;
        let draw = if behind { draw_head_from_behind } else { draw_head };
        let seen = draw(cutout.canvas(), self.who, &head);
        helmet(&mut cutout, &head, pick(&FRAMES, self.number, 7));
        let light = tint(stage, middle);
        let runs = cutout.lay(stage, light);
        let face = (yaw.abs() <= 65.0).then(|| cutout.outside(&seen.face));
        let head = Bounds {
            x0: centre.x - height * 0.42,
            y0: centre.y - height * 0.66,
            x1: centre.x + height * 0.42,
            y1: centre.y + height * 0.5,
        };
        Some((head, face, runs))
    }

    fn pose_ground(&self) -> Vec2 {
        vec2(self.pose.at.x, self.pose.at.y)
    }
}

/// An arm from the shoulder to the bar.
fn arm(
    limb: &mut impl FnMut(&mut Stage, Vec3, Vec3, f32, Rgba),
    stage: &mut Stage,
    shoulder: Vec3,
    hand: Vec3,
    sleeve: Rgba,
    glove: Rgba,
) {
    let elbow = between(shoulder, hand, 0.5) + vec3(-0.05, shoulder.y * 0.4, -0.08);
    limb(stage, shoulder, elbow, 0.11, sleeve);
    limb(stage, elbow, hand, 0.09, sleeve);
    limb(stage, hand, hand + vec3(0.02, 0.0, 0.0), 0.09, glove);
}

fn helmet(cutout: &mut Cutout, head: &Head, colour: Rgba) {
    let (centre, height) = (head.centre, head.height);
    let shift = head.yaw.to_radians().sin() * -0.05 * height;
    let arc = (0..=12).map(|step| {
        let (sin, cos) = (std::f32::consts::PI * step as f32 / 12.0).sin_cos();
        centre + vec2(shift + cos * 0.43 * height, -0.20 * height - sin * 0.42 * height)
    });
    let outline: Vec<Vec2> = arc.collect();
    cutout.canvas().polygon(&outline, colour);
    let dark = colour.lit(0.55);
    for part in [-0.16, 0.0, 0.16] {
        let from = centre + vec2(shift + part * height, -0.56 * height);
        let to = centre + vec2(shift + part * 1.5 * height, -0.30 * height);
        cutout.canvas().line(&[from, to], height * 0.05, dark);
    }
}

/// The joint between two bones of those lengths, forward of the line between their ends.
fn bent(from: Vec3, to: Vec3, upper: f32, lower: f32) -> Vec3 {
    let span = to - from;
    let length = dot(span, span).sqrt().clamp(0.05, upper + lower - 0.01);
    let along = (upper * upper - lower * lower + length * length) / (2.0 * length);
    let out = (upper * upper - along * along).max(0.0).sqrt();
    let across = vec3(-span.z, 0.0, span.x) * (1.0 / length);
    from + span * (along / length) + across * out
}

/// The polygon about a limb.
fn capsule(stage: &Stage, a: Vec3, b: Vec3, width: f32) -> Option<Vec<Vec2>> {
    let (from, to) = (stage.sight.point(a)?, stage.sight.point(b)?);
    let half = width * stage.sight.scale(a) / 2.0;
    let along = to - from;
    let length = along.length();
    let along = if length > 0.01 {
        along * (half / length)
    } else {
        vec2(half, 0.0)
    };
    let across = vec2(-along.y, along.x);
    Some(vec![
        from - along - across,
        from - along + across,
        to + along + across,
        to + along - across,
    ])
}
