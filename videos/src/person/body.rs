//! Joints of a body that stands, walks and gestures.
//!
//! Coordinates are in heights of the body, from the middle between the feet: x to the person's own left, y
//! up, z to the front. The mean of both feet is on the ground, and the lower foot always is.

use crate::geometry::{Vec3, vec3};

/// Gesture of the arms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gesture {
    /// The arms hang, or swing with the walk.
    #[default]
    Walk,
    /// The left hand waves.
    Wave,
    /// The arms are crossed in front of the chest.
    Cross,
    /// The right arm is raised.
    RaiseOne,
    /// The right hand holds a telephone to the ear.
    Phone,
    /// The hands are on the hips.
    Hips,
    /// Both hands speak with the mouth.
    Talk,
    /// One hand holds a telephone before the chest, for reading.
    Read,
}

impl Gesture {
    /// All gestures, in the order of their declaration.
    pub const ALL: [Self; 8] = [
        Self::Walk,
        Self::Wave,
        Self::Cross,
        Self::RaiseOne,
        Self::Phone,
        Self::Hips,
        Self::Talk,
        Self::Read,
    ];
}

/// Directions of upper arms and forearms, the left arm's first: x outwards from the body, y up, z forward.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arms(pub(super) [[Vec3; 2]; 2]);

impl Default for Arms {
    fn default() -> Self {
        Self::of(Gesture::Walk, 0.0)
    }
}

impl Arms {
    /// Arms in a gesture; `phase` in radians moves what moves in it.
    #[must_use]
    pub fn of(gesture: Gesture, phase: f32) -> Self {
        let (swing, other) = (phase.sin(), (phase * 0.7 + 1.0).sin());
        let hangs = [vec3(0.16, -1.0, 0.0), vec3(0.02, -1.0, 0.22)];
        Self(match gesture {
            Gesture::Walk => [hangs, hangs],
            Gesture::Wave => [
                [vec3(0.75, -0.45, 0.35), vec3(0.35 + 0.5 * swing, 1.0, 0.2)],
                hangs,
            ],
            Gesture::Cross => [
                [vec3(0.3, -1.0, 0.35), vec3(-1.0, 0.22, 0.45)],
                [vec3(0.3, -1.0, 0.3), vec3(-1.0, 0.1, 0.5)],
            ],
            Gesture::RaiseOne => [hangs, [vec3(0.45, 0.8, 0.2), vec3(0.1 + 0.1 * swing, 1.0, 0.15)]],
            Gesture::Phone => [hangs, [vec3(0.42, -0.9, 0.45), vec3(-0.2, 1.0, 0.12)]],
            Gesture::Hips => [
                [vec3(0.8, -0.85, -0.15), vec3(-0.75, -0.65, 0.3)],
                [vec3(0.8, -0.85, -0.15), vec3(-0.75, -0.65, 0.3)],
            ],
            Gesture::Talk => [
                [
                    vec3(0.3, -1.0, 0.2),
                    vec3(0.05 + 0.3 * swing, 0.2 + 0.4 * other, 0.9),
                ],
                [
                    vec3(0.3, -1.0, 0.2),
                    vec3(0.05 - 0.3 * other, 0.1 + 0.4 * swing, 0.9),
                ],
            ],
            Gesture::Read => [hangs, [vec3(0.2, -1.0, 0.3), vec3(-0.45, 0.45, 0.9)]],
        })
    }

    /// Arms that are `part` of the way to `other`.
    #[must_use]
    pub fn towards(&self, other: &Self, part: f32) -> Self {
        let mut arms = *self;
        for (arm, to) in arms.0.iter_mut().zip(&other.0) {
            for (bone, to) in arm.iter_mut().zip(to) {
                *bone = *bone + (*to - *bone) * part;
            }
        }
        arms
    }
}

/// Lengths of bones, in heights of the body.
pub(super) const UPPER_ARM: f32 = 0.158;
pub(super) const FOREARM: f32 = 0.145;
const THIGH: f32 = 0.235;
const SHIN: f32 = 0.225;
const ANKLE: f32 = 0.04;
pub(super) const HIPS: f32 = ANKLE + SHIN + THIGH;
pub(super) const SHOULDERS: f32 = 0.795;
/// Height of the head, which is also used to place its middle.
pub(super) const HEAD: f32 = 0.158;
pub(super) const HEAD_MIDDLE: f32 = 1.0 - HEAD / 2.0;

/// Joints of a body; in each pair the person's own left comes first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Joints {
    pub(super) shoulders: [Vec3; 2],
    pub(super) elbows: [Vec3; 2],
    pub(super) wrists: [Vec3; 2],
    pub(super) hips: [Vec3; 2],
    pub(super) knees: [Vec3; 2],
    pub(super) ankles: [Vec3; 2],
    pub(super) toes: [Vec3; 2],
    pub(super) head: Vec3,
}

fn along(bone: Vec3, length: f32) -> Vec3 {
    let size = (bone.x * bone.x + bone.y * bone.y + bone.z * bone.z).sqrt();
    bone * (length / size.max(1e-3))
}

/// Joints of a body of `build` (1 is slender) at a phase of its stride; `pace` is 0 standing, 1 striding.
pub(super) fn joints(build: f32, stride: f32, pace: f32, arms: &Arms) -> Joints {
    let pace = pace.clamp(0.0, 1.0);
    let sides = [1.0_f32, -1.0];
    let (wide, hip) = (0.098 * (0.6 + 0.4 * build), 0.03 + 0.014 * build);
    let phases = [stride, stride + std::f32::consts::PI];
    let legs = phases.map(|phase| {
        let swing = 0.46 * pace * phase.sin();
        // The knee bends while the leg swings forward.
        let bend = 0.04 + pace * (0.08 + 0.75 * phase.cos().max(0.0));
        let thigh = along(vec3(0.0, -swing.cos(), swing.sin()), THIGH);
        let low = swing - bend;
        let shin = along(vec3(0.0, -low.cos(), low.sin()), SHIN);
        (thigh, shin, low)
    });
    let lowest = legs
        .iter()
        .map(|(thigh, shin, _)| thigh.y + shin.y)
        .fold(0.0, f32::min);
    let rise = ANKLE - lowest - HIPS;
    let up = |height: f32| height + rise;
    let hips = sides.map(|side| vec3(side * hip, up(HIPS), 0.0));
    let lean = 0.02 * pace;
    let shoulders = [0, 1].map(|index| {
        let turn = -0.02 * pace * phases[index].sin();
        vec3(sides[index] * wide, up(SHOULDERS), lean + turn)
    });
    let knees = [0, 1].map(|index| hips[index] + legs[index].0);
    let ankles = [0, 1].map(|index| knees[index] + legs[index].1);
    let toes = [0, 1].map(|index| {
        let tilt = (legs[index].2 * 0.6).min(0.1);
        ankles[index] + vec3(sides[index] * 0.008, -0.028 + 0.06 * tilt, 0.075)
    });
    let arm = |index: usize| {
        // An arm swings against its leg as far as it hangs.
        let swing = -0.42 * pace * phases[index].sin();
        let [upper, fore] = arms.0[index].map(|bone| {
            let hangs = (-bone.y).max(0.0) * (1.0 - bone.z.abs().min(1.0) * 0.6);
            vec3(bone.x * sides[index], bone.y, bone.z + swing * hangs)
        });
        let elbow = shoulders[index] + along(upper, UPPER_ARM);
        (elbow, elbow + along(fore, FOREARM))
    };
    let arms = [arm(0), arm(1)];
    Joints {
        shoulders,
        elbows: arms.map(|(elbow, _)| elbow),
        wrists: arms.map(|(_, wrist)| wrist),
        hips,
        knees,
        ankles,
        toes,
        head: vec3(0.0, up(HEAD_MIDDLE), lean + 0.012),
    }
}
