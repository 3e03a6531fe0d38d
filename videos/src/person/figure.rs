//! A whole person: walking, standing, gesturing.

use super::body::{Arms, Joints, joints};
use super::clothes::Dressed;
use super::expression::Expression;
use super::head::{Head, HeadSeen, draw_head, draw_head_from_behind};
use super::identity::Identity;
use crate::canvas::Canvas;
use crate::geometry::{Bounds, Vec2};

/// Pose of a person who stands or walks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// Point between the feet, on the ground; may lie below the picture.
    pub feet: Vec2,
    /// Height from sole to crown in pixels.
    pub height: f32,
    /// Orientation in degrees: 0 towards the camera, 90 to the right of the picture, 180 away from the
    /// camera.
    pub facing: f32,
    /// Phase of the stride in radians: a step is half a turn.
    pub stride: f32,
    /// Width of the stride: 0 standing, 1 walking fast.
    pub pace: f32,
    /// Pose of both arms, from a gesture and its phase.
    pub arms: Arms,
    /// Direction of the head relative to the body in degrees: to the right of the picture, up, and its tilt.
    pub head: [f32; 3],
    /// Direction of the eyes relative to the head, in degrees.
    pub eyes: (f32, f32),
    /// Expression of the face.
    pub expression: Expression,
    /// Strength of the expression, 0 to 1.
    pub strength: f32,
    /// Degree to which the eyes are shut, 0 to 1.
    pub blink: f32,
    /// Opening of the mouth by speech, 0 to 1.
    pub speech: f32,
    /// Direction of the light: -1 left, 0 from the front, 1 right.
    pub light: f32,
}

impl Default for Figure {
    fn default() -> Self {
        let head = Head::default();
        Self {
            feet: Vec2::default(),
            height: 100.0,
            facing: 0.0,
            stride: 0.0,
            pace: 0.0,
            arms: Arms::default(),
            head: [0.0; 3],
            eyes: head.eyes,
            expression: head.expression,
            strength: head.strength,
            blink: 0.0,
            speech: 0.0,
            light: head.light,
        }
    }
}

/// Positions of the parts of a person in the picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FigureSeen {
    /// Bounds of the whole person.
    pub person: Bounds,
    /// Bounds of the face, if it is turned from the camera by at most 65 degrees.
    pub face: Option<Bounds>,
    /// Joints in COCO's order (nose, eyes, ears, shoulders, elbows, wrists, hips, knees, ankles; the person's
    /// own left first). The flag is false if the person's own body hides the joint.
    pub keypoints: [(Vec2, bool); 17],
    /// Pose of the head in the picture.
    pub head: Head,
}

/// Draws a person.
pub fn draw_figure(canvas: &mut Canvas, who: &Identity, figure: &Figure) -> FigureSeen {
    let joints = joints(who.clothes.build, figure.stride, figure.pace, &figure.arms);
    let body = Dressed {
        who,
        joints: &joints,
        feet: figure.feet,
        height: figure.height,
        facing: figure.facing.to_radians().sin_cos(),
        light: figure.light,
    };
    let head = head(figure, &body);
    let behind = head.yaw.abs() > 100.0;
    let mut arms_order = [0, 1];
    arms_order.sort_by(|a, b| {
        let depth = |side: &usize| body.depth(joints.elbows[*side]) + body.depth(joints.wrists[*side]);
        depth(a).total_cmp(&depth(b))
    });
    let place = arms_order.map(|side| place(&body, side));
    let draw_arms = |canvas: &mut Canvas, when: Place| {
        for (side, _) in arms_order.iter().zip(place).filter(|(_, place)| *place == when) {
            body.arm(canvas, *side);
        }
    };
    let mut legs = [0, 1];
    legs.sort_by(|a, b| {
        body.depth(joints.hips[*a])
            .total_cmp(&body.depth(joints.hips[*b]))
    });
    draw_arms(canvas, Place::Behind);
    for side in legs {
        body.leg(canvas, side);
    }
    body.trunk(canvas);
    draw_arms(canvas, Place::Beside);
    let draw = if behind { draw_head_from_behind } else { draw_head };
    let seen = draw(canvas, who, &head);
    draw_arms(canvas, Place::Before);
    whole(&body, &head, &seen)
}

/// Order in which an arm is drawn: behind the trunk, over it but behind the head, or over both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Behind,
    Beside,
    Before,
}

fn place(body: &Dressed<'_>, side: usize) -> Place {
    let joints = body.joints;
    let depth = body.depth(joints.elbows[side]) + body.depth(joints.wrists[side]);
    if depth > 0.17 {
        Place::Before
    } else if depth < -0.09 {
        Place::Behind
    } else {
        Place::Beside
    }
}

fn head(figure: &Figure, body: &Dressed<'_>) -> Head {
    let (centre, height) = body.head();
    let [turn, pitch, roll] = figure.head;
    let yaw = (figure.facing + turn + 180.0).rem_euclid(360.0) - 180.0;
    Head {
        centre,
        height,
        yaw,
        pitch,
        roll,
        eyes: figure.eyes,
        expression: figure.expression,
        strength: figure.strength,
        blink: figure.blink,
        speech: figure.speech,
        light: figure.light,
    }
}

fn whole(body: &Dressed<'_>, head: &Head, seen: &HeadSeen) -> FigureSeen {
    let joints = body.joints;
    let ends: [(&[_; 2], f32); 5] = [
        (&joints.shoulders, 0.038),
        (&joints.elbows, 0.028),
        (&joints.hips, 0.045),
        (&joints.knees, 0.036),
        (&joints.toes, 0.02),
    ];
    let hands = [0, 1].map(|side| joints.wrists[side] + (joints.wrists[side] - joints.elbows[side]) * 0.22);
    let reach = ends
        .iter()
        .flat_map(|(pair, by)| pair.iter().flat_map(|joint| body.reach(*joint, *by)));
    let reach = reach.chain(hands.iter().flat_map(|hand| body.reach(*hand, 0.021)));
    let person = Bounds::about(reach).map_or(seen.all, |bounds| bounds.with(&seen.all));
    let facing = head.yaw.abs();
    FigureSeen {
        person,
        face: (facing <= 65.0).then_some(seen.face),
        keypoints: keypoints(body, joints, head, seen),
        head: *head,
    }
}

fn keypoints(body: &Dressed<'_>, joints: &Joints, head: &Head, seen: &HeadSeen) -> [(Vec2, bool); 17] {
    let turned = head.yaw.abs() <= 100.0;
    let mut points = [(seen.nose, turned); 17];
    for side in [0, 1] {
        points[1 + side] = (seen.eyes[side], turned && seen.eyes_seen[side]);
        points[3 + side] = (seen.ears[side], seen.ears_seen[side]);
        let pairs = [
            joints.shoulders,
            joints.elbows,
            joints.wrists,
            joints.hips,
            joints.knees,
            joints.ankles,
        ];
        for (index, pair) in pairs.iter().enumerate() {
            // What lies on the far side of a body that is turned sideways is hidden by it, arms when they do not swing out.
            let (joint, other) = (pair[side], pair[1 - side]);
            let far = body.depth(joint) < body.depth(other) - 0.06;
            let apart = (body.at(joint) - body.at(other)).length() > 0.055 * body.height;
            let behind = body.depth(joint) < -0.1 && index < 3;
            let covered = behind && (body.at(joint).x - body.at(joints.head).x).abs() < 0.06 * body.height;
            points[5 + 2 * index + side] = (body.at(joint), !covered && (!far || apart));
        }
    }
    points
}
