//! Head: its position, orientation and expression.

use super::expression::{Expression, Mimic};
use super::face::{Face, across};
use super::features;
use super::hair;
use super::identity::Identity;
use super::marks;
use super::skull::View;
use crate::canvas::{Canvas, Ink, rgb};
use crate::geometry::{Bounds, Vec2, vec2, vec3};

/// Pose of a head.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Head {
    /// Middle of the head in the picture.
    pub centre: Vec2,
    /// Height from chin to crown in pixels.
    pub height: f32,
    /// Rotation to the right of the picture in degrees: within 45 for a face, up to 100 for a profile.
    pub yaw: f32,
    /// Rotation upwards in degrees, within 25.
    pub pitch: f32,
    /// Clockwise tilt in degrees.
    pub roll: f32,
    /// Direction of the eyes relative to the head: to the right and up in degrees, within 25 and 15.
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

impl Default for Head {
    fn default() -> Self {
        Self {
            centre: Vec2::default(),
            height: 100.0,
            yaw: 0.0,
            pitch: 0.0,
            roll: 0.0,
            eyes: (0.0, 0.0),
            expression: Expression::Neutral,
            strength: 1.0,
            blink: 0.0,
            speech: 0.0,
            light: 0.3,
        }
    }
}

/// Positions of the parts of a head in the picture. The person's own left comes first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeadSeen {
    /// Bounds of the face: upper forehead to chin, between the outer cheeks.
    pub face: Bounds,
    /// Bounds of the whole head with its hair.
    pub all: Bounds,
    /// Tip of the nose.
    pub nose: Vec2,
    /// Middles of the eyes.
    pub eyes: [Vec2; 2],
    /// True for each eye that is on the visible side.
    pub eyes_seen: [bool; 2],
    /// Middles of the ears.
    pub ears: [Vec2; 2],
    /// True for each ear that is on the visible side (hair may cover it).
    pub ears_seen: [bool; 2],
}

/// Yaw and pitch in degrees, as the camera sees them, of what looks `(yaw, pitch)` against a head turned like `head`.
#[must_use]
pub fn direction(head: &Head, (yaw, pitch): (f32, f32)) -> (f32, f32) {
    let view = view(head);
    let (yaw, pitch) = (yaw.to_radians(), pitch.to_radians());
    let look = view.turned(vec3(
        yaw.sin() * pitch.cos(),
        -pitch.sin(),
        yaw.cos() * pitch.cos(),
    ));
    let right = look.x.atan2(look.z).to_degrees();
    (right, (-look.y).clamp(-1.0, 1.0).asin().to_degrees())
}

fn view(head: &Head) -> View {
    View::new(head.centre, head.height, [head.yaw, head.pitch, head.roll])
}

/// Draws a head and its neck, seen from before or from the side.
pub fn draw_head(canvas: &mut Canvas, who: &Identity, head: &Head) -> HeadSeen {
    let face = Face {
        who,
        view: view(head),
        light: head.light,
    };
    let mimic = Mimic::of(head.expression, head.strength, head.speech);
    let small = head.height < 14.0;
    hair::behind(canvas, &face);
    neck(canvas, &face, head);
    for side in [-1.0, 1.0] {
        ear(canvas, &face, side, false);
    }
    skin(canvas, &face, head);
    if small {
        few_features(canvas, &face);
    } else {
        marks::beard(canvas, &face, &mimic);
        features::mouth(canvas, &face, &mimic);
        features::eyes(canvas, &face, &mimic, head.eyes, head.blink);
        features::nose(canvas, &face);
        marks::spots(canvas, &face);
    }
    hair::cap(canvas, &face);
    for side in [-1.0, 1.0] {
        if !who.hair.covers_ears() {
            ear(canvas, &face, side, true);
        }
    }
    if !small {
        features::brows(canvas, &face, &mimic);
        marks::glasses(canvas, &face);
    }
    seen(&face)
}

/// Draws a head, seen from behind: neck, ears, hair.
pub fn draw_head_from_behind(canvas: &mut Canvas, who: &Identity, head: &Head) -> HeadSeen {
    let face = Face {
        who,
        view: view(head),
        light: head.light,
    };
    neck(canvas, &face, head);
    for side in [-1.0, 1.0] {
        ear(canvas, &face, side, false);
    }
    skin(canvas, &face, head);
    for side in [-1.0, 1.0] {
        ear(canvas, &face, side, true);
    }
    hair::from_behind(canvas, &face);
    seen(&face)
}

fn seen(face: &Face<'_>) -> HeadSeen {
    let (who, skull) = (face.who, &face.who.skull);
    let heights = (0..=8).map(|step| -0.27 + 0.77 * step as f32 / 8.0);
    let angles = [-72.0, -50.0, -25.0, 0.0, 25.0, 50.0, 72.0_f32];
    let cheeks = heights.flat_map(|y| {
        angles.map(|angle| {
            let shown = angle.clamp(-90.0 - face.view.yaw, 90.0 - face.view.yaw);
            face.view.at(skull.around(shown, y))
        })
    });
    let nothing = Bounds {
        x0: 0.0,
        y0: 0.0,
        x1: 0.0,
        y1: 0.0,
    };
    let cheeks = Bounds::about(cheeks).unwrap_or(nothing);
    let around = skull.outline(&face.view, [-0.5, 0.5], |y| who.hair.extent(y));
    let eye = |side: f32| face.at(side * who.eyes.spacing, who.eyes.y);
    let ear = |side: f32| vec3(side * skull.half_width(0.04) * 1.02, 0.04, -0.03);
    HeadSeen {
        face: cheeks,
        all: Bounds::about(around).map_or(cheeks, |around| around.with(&cheeks)),
        nose: face.out(0.0, who.eyes.y + who.nose.length, who.nose.out),
        eyes: [eye(1.0), eye(-1.0)],
        eyes_seen: [1.0, -1.0].map(|side: f32| face.faces_us(side * who.eyes.spacing, who.eyes.y)),
        ears: [1.0, -1.0].map(|side| face.view.at(ear(side))),
        ears_seen: [1.0, -1.0].map(|side| face.view.depth(ear(side)) > -0.12),
    }
}

fn neck(canvas: &mut Canvas, face: &Face<'_>, head: &Head) {
    let size = head.height;
    let root = face.view.at(vec3(0.0, 0.22, -0.1));
    let end = head.centre + vec2(0.0, size * 0.76);
    let half = size * face.who.skull.width * 0.6;
    let side = vec2(half, 0.0);
    let points = [
        root - side,
        root + side,
        vec2(end.x + half * 1.02, end.y - size * 0.14),
        vec2(end.x + half * 1.35, end.y - size * 0.05),
        end + vec2(0.0, size * 0.03),
        vec2(end.x - half * 1.35, end.y - size * 0.05),
        vec2(end.x - half * 1.02, end.y - size * 0.14),
    ];
    canvas.polygon(&points, across(face.shaded(0.12), face.light, end, half));
    // The chin's shadow on it.
    let chin = face.view.at(vec3(0.0, 0.48, 0.1));
    for part in [1.0, 0.7] {
        let radii = vec2(half * 0.98, size * 0.15 * part);
        canvas.ellipse(
            vec2(root.x.midpoint(end.x), chin.y),
            radii,
            0.0,
            face.shaded(0.9).faded(0.3),
        );
    }
}

/// Draws an ear if it is on the requested side of the head, near to the camera or not.
fn ear(canvas: &mut Canvas, face: &Face<'_>, side: f32, near: bool) {
    let width = face.who.skull.half_width(0.04);
    let middle = vec3(side * width * 1.02, 0.04, -0.03);
    if (face.view.depth(middle) > 0.03) != near {
        return;
    }
    let at = face.view.at(middle);
    // An ear stands off the head by about 35 degrees, so it looks wider from its side.
    let (before, out) = (
        face.view.at(vec3(middle.x, 0.04, 0.03)),
        face.view.at(vec3(side * (width + 0.06), 0.04, -0.08)),
    );
    let wide = ((before.x - out.x).abs() * 0.5).max(face.px(0.035));
    let radii = vec2(wide, face.px(0.095)) * face.who.ear;
    canvas.ellipse(at, radii, side * 0.12, face.shaded(0.22));
    canvas.ellipse(at, radii * 0.6, side * 0.12, face.shaded(0.5));
}

fn skin(canvas: &mut Canvas, face: &Face<'_>, head: &Head) {
    let outline = face.who.skull.outline(&face.view, [-0.5, 0.5], |_| 1.0);
    let radius = face.px(face.who.skull.width);
    canvas.polygon(&outline, face.skin(head.centre, radius));
    let dark = face.shaded(1.0);
    let fall = Ink::Gradient {
        from: (face.view.at(vec3(0.0, 0.12, 0.2)), dark.faded(0.0)),
        to: (face.view.at(vec3(0.0, 0.5, 0.2)), dark.faded(0.3)),
    };
    canvas.polygon(&outline, fall);
    let blush = face.who.skin.mixed(rgb(0xd84040), 0.5).faded(0.065);
    for side in [-1.0, 1.0] {
        if face.faces_us(side * 0.19, 0.13) {
            face.spot(canvas, (side * 0.19, 0.14), vec2(0.085, 0.07), blush);
        }
    }
    let shine = rgb(0xffffff).faded(0.028);
    if face.faces_us(0.0, -0.2) {
        face.spot(canvas, (face.light * 0.1, -0.2), vec2(0.14, 0.08), shine);
    }
}

/// Draws the few features of a face that remain visible from a distance.
fn few_features(canvas: &mut Canvas, face: &Face<'_>) {
    let who = face.who;
    for side in [-1.0, 1.0] {
        if face.faces_us(side * who.eyes.spacing, who.eyes.y) {
            let at = face.at(side * who.eyes.spacing, who.eyes.y);
            canvas.ellipse(at, vec2(0.06, 0.04) * face.view.scale, 0.0, rgb(0x2a2020));
        }
    }
    if face.faces_us(0.0, 0.3) {
        let mouth = [
            face.at(-who.lips.width, who.lips.y),
            face.at(who.lips.width, who.lips.y),
        ];
        canvas.line(&mouth, face.px(0.04), who.lips.colour.lit(0.8));
    }
}
