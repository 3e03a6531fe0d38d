//! Fixed objects in the street: trees, lamps, traffic lights.

use rand::RngExt;
use rand_pcg::Pcg64;

use super::layout::{KERB, STOP_ACROSS, STOPS};
use super::stage::Stage;
use super::traffic::{CYCLE, MAIN, SIDE};
use crate::canvas::{Rgba, rgb};
use crate::geometry::{Vec2, Vec3, vec2, vec3};

/// Fixed object in the street.
#[derive(Debug, Clone)]
pub(super) struct Prop {
    pub(super) at: Vec2,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    /// Balls of leaves: middle above the foot, radius, brightness.
    Tree(Vec<(Vec3, f32, f32)>),
    Lamp {
        /// Direction of the arm over the street, 1 or -1.
        arm: f32,
    },
    Signal {
        /// Direction in which its lights face.
        facing: Vec2,
        /// Start of the green light in the cycle, and its duration, in seconds.
        green: (f32, f32),
    },
}

/// The props of one street.
pub(super) fn drawn(rng: &mut Pcg64) -> Vec<Prop> {
    let mut props = Vec::new();
    for side in [-1.0, 1.0] {
        let mut y = rng.random_range(10.5..13.0);
        while y < 120.0 {
            if (y > 42.0 || (side > 0.0 && y < 14.0)) && rng.random_bool(0.7) {
                props.push(Prop {
                    at: vec2(side * 7.9, y),
                    kind: tree(rng),
                });
            }
            y += rng.random_range(8.0..14.0);
        }
        // No object may hide the people of the near pavement.
        for y in [13.0, 40.0, 66.0, 92.0].into_iter().skip(usize::from(side < 0.0)) {
            props.push(Prop {
                at: vec2(side * (KERB + 0.5), y + side * 1.5),
                kind: Kind::Lamp { arm: -side },
            });
        }
        let (y, facing) = if side > 0.0 {
            (STOPS.0 + 0.6, -1.0)
        } else {
            (STOPS.1 - 0.6, 1.0)
        };
        let kind = Kind::Signal {
            facing: vec2(0.0, facing),
            green: MAIN,
        };
        props.push(Prop {
            at: vec2(side * (KERB + 0.4), y),
            kind,
        });
        let kind = Kind::Signal {
            facing: vec2(side, 0.0),
            green: SIDE,
        };
        let y = if side < 0.0 { 21.8 } else { 30.5 };
        props.push(Prop {
            at: vec2(side * STOP_ACROSS * 0.93, y),
            kind,
        });
    }
    props
}

fn tree(rng: &mut Pcg64) -> Kind {
    let high = rng.random_range(3.6..5.2);
    let balls = (0..14).map(|index| {
        let lift = index as f32 / 13.0;
        let out = 1.25 * (1.0 - (lift - 0.35).abs());
        let at = vec3(
            rng.random_range(-out..out),
            rng.random_range(-out..out),
            high - 1.1 + lift * 2.4,
        );
        (
            at,
            rng.random_range(0.6..1.05),
            0.66 + lift * 0.42 + rng.random_range(-0.06..0.06),
        )
    });
    Kind::Tree(balls.collect())
}

impl Prop {
    /// The polygons that cover it.
    pub(super) fn draw(&self, stage: &mut Stage, seconds: f32) -> Vec<Vec<Vec2>> {
        let foot = vec3(self.at.x, self.at.y, 0.0);
        match &self.kind {
            Kind::Tree(balls) => self.tree(stage, balls),
            Kind::Lamp { arm } => self.lamp(stage, *arm),
            Kind::Signal { facing, green } => signal(stage, foot, *facing, *green, seconds),
        }
    }

    fn tree(&self, stage: &mut Stage, balls: &[(Vec3, f32, f32)]) -> Vec<Vec<Vec2>> {
        let foot = vec3(self.at.x, self.at.y, 0.0);
        let mut covers = post(stage, foot, 3.4, 0.16, rgb(0x5c_48_38));
        let mut middles = Vec::new();
        let depth = stage.distance(&[foot]);
        for (at, radius, bright) in balls {
            let Some(middle) = stage.sight.point(foot + *at) else {
                continue;
            };
            let reach = radius * stage.sight.scale(foot + *at);
            let leaf = stage.light.level(rgb(0x55_78_36).lit(*bright));
            stage.canvas.ellipse(
                middle,
                vec2(reach, reach * 0.9),
                0.0,
                stage.light.hazed(leaf, depth),
            );
            let around = (0..6).map(|step| middle + vec2(reach, 0.0).turned(step as f32 * 1.047));
            middles.extend(around);
        }
        if middles.len() > 2 {
            covers.push(super::sight::hull(middles));
        }
        covers
    }

    fn lamp(&self, stage: &mut Stage, arm: f32) -> Vec<Vec<Vec2>> {
        let foot = vec3(self.at.x, self.at.y, 0.0);
        let grey = rgb(0x58_5e_62);
        let covers = post(stage, foot, 6.4, 0.07, grey);
        let head = foot + vec3(arm * 1.3, 0.0, 6.5);
        let lit = stage.light.level(grey);
        stage.bar(&[foot + vec3(0.0, 0.0, 6.4), head], 0.09, lit);
        let tip = head + vec3(arm * 0.45, 0.0, 0.0);
        stage.bar(&[head, tip], 0.16, lit);
        if stage.light.lamps {
            stage.glow(
                (head + tip) * 0.5 - vec3(0.0, 0.0, 0.08),
                0.17,
                rgb(0xff_d8_98),
                0.9,
            );
        }
        covers
    }
}

/// A round post of that height and half width.
fn post(stage: &mut Stage, foot: Vec3, height: f32, half: f32, paint: Rgba) -> Vec<Vec<Vec2>> {
    let across = vec3(half, 0.0, 0.0);
    let up = vec3(0.0, 0.0, height);
    let quad = [
        foot - across,
        foot + across,
        foot + across + up,
        foot - across + up,
    ];
    stage.surface(&quad, vec3(0.0, -1.0, 0.0), paint);
    vec![stage.sight.polygon(&quad)]
}

fn signal(stage: &mut Stage, foot: Vec3, facing: Vec2, green: (f32, f32), seconds: f32) -> Vec<Vec<Vec2>> {
    let mut covers = post(stage, foot, 2.5, 0.05, rgb(0x48_4c_50));
    let across = vec3(-facing.y, facing.x, 0.0) * 0.16;
    let normal = vec3(facing.x, facing.y, 0.0);
    let at = |side: f32, z: f32| foot + across * side + vec3(0.0, 0.0, z);
    let case = [at(-1.0, 2.3), at(1.0, 2.3), at(1.0, 3.25), at(-1.0, 3.25)];
    covers.push(stage.sight.polygon(&case));
    if !stage.faces(&case, normal) {
        stage.surface(&case, normal * -1.0, rgb(0x22_26_26));
        return covers;
    }
    stage.surface(&case, normal, rgb(0x1e_22_22));
    let since = (seconds - green.0).rem_euclid(CYCLE);
    let shown = if since < green.1 {
        2
    } else if since < green.1 + 2.0 || since > CYCLE - 1.0 {
        1
    } else {
        0
    };
    let lamps = [rgb(0xff_3a_2a), rgb(0xff_c0_30), rgb(0x40_f0_90)];
    for (index, lamp) in lamps.into_iter().enumerate() {
        let middle = at(0.0, 3.08 - index as f32 * 0.3) + normal * 0.02;
        let Some(seen) = stage.sight.point(middle) else {
            continue;
        };
        let reach = 0.11 * stage.sight.scale(middle);
        let colour = if index == shown { lamp } else { lamp.lit(0.18) };
        stage.canvas.ellipse(seen, vec2(reach, reach), 0.0, colour);
        if index == shown {
            stage.glow(middle, 0.09, lamp, if stage.light.lamps { 0.8 } else { 0.35 });
        }
    }
    covers
}

impl Prop {
    /// Point on the ground below a lamp; `None` for other objects.
    pub(super) fn shines_at(&self) -> Option<Vec2> {
        match self.kind {
            Kind::Lamp { arm } => Some(self.at + vec2(arm * 1.5, 0.0)),
            _ => None,
        }
    }
}
