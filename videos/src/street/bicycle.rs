//! Draws bicycles with their riders.

use super::body::circle;
use super::sight::dot;
use super::stage::{Pose, Stage};
use crate::canvas::{Rgba, rgb};
use crate::geometry::{Vec2, Vec3, vec3};
use crate::person::Identity;
use crate::seed::mix;

const WHEEL: f32 = 0.35;
/// Positions of parts in the bicycle's own frame, in metres: forward, left, up.
const AXLES: (f32, f32) = (-0.52, 0.54);
pub(super) const CRANK: Vec3 = vec3(-0.06, 0.0, 0.30);
const SADDLE: Vec3 = vec3(-0.20, 0.0, 0.96);
const HEAD_TUBE: Vec3 = vec3(0.36, 0.0, 0.86);
const BAR: Vec3 = vec3(0.40, 0.0, 1.06);

/// Bicycle with its rider.
#[derive(Clone, Copy)]
pub(super) struct Riding<'a> {
    pub(super) who: &'a Identity,
    /// Random number that selects the colours of rider and bicycle.
    pub(super) number: u64,
    pub(super) pose: Pose,
    /// Distance travelled in metres.
    pub(super) way: f32,
}

/// Colours of frames and helmets.
pub(super) const FRAMES: [u32; 6] = [
    0xb0_20_28, 0x1d_5a_a0, 0x22_24_28, 0x2f_7a_50, 0xd8_d8_d4, 0xd8_8a_20,
];
/// Selects a colour by the number.
pub(super) fn pick(colours: &[u32], number: u64, salt: u64) -> Rgba {
    rgb(colours[(mix(number ^ salt) % colours.len().max(1) as u64) as usize])
}

impl Riding<'_> {
    pub(super) fn at(&self, local: Vec3) -> Vec3 {
        self.pose.point(local)
    }

    fn wheel(&self, u: f32, radius: f32, count: usize) -> Vec<Vec3> {
        let turned = circle(vec3(u, 0.0, WHEEL), radius, count, -self.way / WHEEL);
        turned.into_iter().map(|point| self.at(point)).collect()
    }

    /// Polygons that cover the bicycle.
    pub(super) fn outlines(&self, stage: &Stage) -> Vec<Vec<Vec2>> {
        let mut covers: Vec<Vec<Vec2>> = [AXLES.0, AXLES.1]
            .iter()
            .map(|u| stage.sight.polygon(&self.wheel(*u, WHEEL, 16)))
            .collect();
        let side = vec3(0.0, 0.03, 0.0);
        let frame = [CRANK, SADDLE, HEAD_TUBE].map(|point| self.at(point - side));
        covers.push(stage.sight.polygon(&frame));
        let wide = vec3(0.0, 0.28, 0.0);
        let low = vec3(0.0, 0.0, 0.04);
        let bar = [
            BAR - wide - low,
            BAR + wide - low,
            BAR + wide + low,
            BAR - wide + low,
        ];
        covers.push(stage.sight.polygon(&bar.map(|point| self.at(point))));
        // Seen from before, a wheel is as wide as its tyre.
        for u in [AXLES.0, AXLES.1] {
            let tyre = [
                (-0.03, 0.0),
                (0.03, 0.0),
                (0.03, 2.0 * WHEEL),
                (-0.03, 2.0 * WHEEL),
            ];
            covers.push(stage.sight.polygon(&tyre.map(|(v, z)| self.at(vec3(u, v, z)))));
        }
        covers.retain(|cover| cover.len() > 2);
        covers
    }

    /// Draws the bicycle.
    pub(super) fn draw(&self, stage: &mut Stage) {
        let side = self.pose.direction(vec3(0.0, 1.0, 0.0));
        let lit = |stage: &Stage, colour: Rgba| stage.light.shade(colour, vec3(0.0, 0.0, 1.0));
        let (black, steel) = (lit(stage, rgb(0x1c_1c_20)), lit(stage, rgb(0xa8_ac_b0)));
        let paint = lit(stage, pick(&FRAMES, self.number, 1));
        for u in [AXLES.0, AXLES.1] {
            let rim = self.wheel(u, WHEEL * 0.93, 20);
            let hub = self.at(vec3(u, 0.0, WHEEL));
            if stage.sight.scale(hub) > 60.0 {
                for spoke in rim.iter().step_by(2) {
                    stage.bar(&[hub, *spoke], 0.006, steel.faded(0.7));
                }
            }
            let closed: Vec<Vec3> = rim.iter().chain(rim.first()).copied().collect();
            stage.bar(&closed, 0.055, black);
            stage.bar(&[hub, hub], 0.07, steel);
        }
        let tube = |stage: &mut Stage, a: Vec3, b: Vec3, width: f32, colour: Rgba| {
            stage.bar(&[self.at(a), self.at(b)], width, colour);
        };
        let (rear, front) = (vec3(AXLES.0, 0.0, WHEEL), vec3(AXLES.1, 0.0, WHEEL));
        let seat = vec3(-0.18, 0.0, 0.80);
        for (a, b) in [
            (rear, CRANK),
            (rear, seat),
            (CRANK, seat),
            (CRANK, HEAD_TUBE),
            (seat, HEAD_TUBE),
            (HEAD_TUBE, front),
        ] {
            tube(stage, a, b, 0.04, paint);
        }
        tube(stage, HEAD_TUBE, BAR, 0.035, steel);
        tube(
            stage,
            BAR - vec3(0.0, 0.28, 0.0),
            BAR + vec3(0.0, 0.28, 0.0),
            0.035,
            black,
        );
        tube(stage, seat, SADDLE, 0.03, steel);
        tube(
            stage,
            SADDLE - vec3(0.12, 0.0, 0.0),
            SADDLE + vec3(0.12, 0.0, 0.0),
            0.09,
            black,
        );
        tube(
            stage,
            rear + vec3(-0.1, 0.0, 0.42),
            rear + vec3(0.32, 0.0, 0.38),
            0.03,
            black,
        );
        self.lights(stage, dot(side, side));
    }

    fn lights(&self, stage: &mut Stage, strength: f32) {
        let ends = [
            (1.0, vec3(0.46, 0.0, 0.92), rgb(0xff_f4_d8)),
            (-1.0, vec3(-0.64, 0.0, 0.72), rgb(0xff_24_18)),
        ];
        for (ahead, place, colour) in ends {
            let at = self.at(place);
            let normal = self.pose.direction(vec3(ahead, 0.0, 0.0));
            if dot(stage.sight.eye() - at, normal) <= 0.0 {
                continue;
            }
            if stage.light.lamps {
                stage.glow(at, 0.05, colour, 0.8 * strength);
            } else {
                stage.bar(&[at, at], 0.07, stage.light.shade(colour.lit(0.7), normal));
            }
        }
    }
}
