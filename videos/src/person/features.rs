//! Eyes, brows, nose, mouth.

use super::expression::Mimic;
use super::face::Face;
use crate::canvas::{Canvas, Rgba, rgb};
use crate::geometry::{Vec2, vec2};

/// Radius of the eyeball: how far the iris moves when it turns.
const EYEBALL: f32 = 0.105;
const IRIS: f32 = 0.045;
const STEPS: i32 = 6;

/// An eye's opening between its lids; `side` is -1 for the one on the left of the picture when the face is seen from
/// before.
struct Opening<'a> {
    face: &'a Face<'a>,
    mimic: &'a Mimic,
    side: f32,
    blink: f32,
}

impl Opening<'_> {
    fn centre(&self) -> Vec2 {
        let eyes = &self.face.who.eyes;
        vec2(eyes.spacing * self.side, eyes.y)
    }

    /// Heights of the upper and lower lid at `across`: -1 at the nose, 1 outside.
    fn lids(&self, across: f32) -> (f32, f32) {
        let eyes = &self.face.who.eyes;
        let mimic = self.mimic;
        let open = eyes.opening * mimic.open * (1.0 - self.blink);
        let round = (1.0 - across * across).max(0.0).powf(0.7);
        let inner = mimic.slant.max(0.0) * (1.0 - across) * 0.5;
        let outer = (-mimic.slant).max(0.0) * (1.0 + across) * 0.5;
        let closed = self.blink * eyes.opening * 0.6;
        let middle = eyes.y - eyes.tilt * across + closed;
        let upper = middle - open * 1.2 * round * (1.0 - 0.95 * (inner + outer));
        let lower = middle + open * 0.85 * round * (1.0 - 1.5 * mimic.lower_lid);
        (upper, lower.max(upper))
    }

    fn place(&self, across: f32) -> f32 {
        (self.face.who.eyes.spacing + self.face.who.eyes.width * across) * self.side
    }

    fn along(&self, lid: impl Fn((f32, f32)) -> f32) -> Vec<Vec2> {
        let steps = (-STEPS..=STEPS).map(|step| step as f32 / STEPS as f32);
        steps
            .map(|across| self.face.at(self.place(across), lid(self.lids(across))))
            .collect()
    }

    /// A disc on the eyeball, cut by the lids.
    fn disc(&self, middle: Vec2, radius: f32) -> Vec<Vec2> {
        let width = self.face.who.eyes.width;
        let point = |step: i32| {
            let off = vec2(radius, 0.0).turned(step as f32 * std::f32::consts::TAU / 20.0);
            let (x, y) = (middle.x + off.x, middle.y + off.y);
            let across = ((x - self.centre().x) * self.side / width).clamp(-0.97, 0.97);
            let (upper, lower) = self.lids(across);
            self.face.at(self.place(across), y.clamp(upper, lower))
        };
        (0..20).map(point).collect()
    }

    fn draw(&self, canvas: &mut Canvas, turn: (f32, f32)) {
        let face = self.face;
        let eyes = &face.who.eyes;
        let upper = self.along(|lids| lids.0);
        let mut white = upper.clone();
        white.extend(self.along(|lids| lids.1).into_iter().rev());
        canvas.polygon(&white, rgb(0xf8f5f1).mixed(face.who.skin, 0.08));
        if self.blink < 0.85 {
            let off = vec2(turn.0.to_radians().sin(), -turn.1.to_radians().sin()) * EYEBALL;
            let middle = self.centre() + off;
            canvas.polygon(&self.disc(middle, IRIS), eyes.colour.lit(0.62));
            canvas.polygon(&self.disc(middle, IRIS * 0.8), eyes.colour.lit(1.1));
            canvas.polygon(&self.disc(middle, IRIS * 0.48), rgb(0x120e0e));
            let glint = middle + vec2(face.light.signum() * 0.016, -0.016);
            canvas.polygon(&self.disc(glint, 0.011), rgb(0xffffff).faded(0.9));
        }
        let lash = if eyes.lashes { 0.021 } else { 0.013 };
        let dark = rgb(0x221614).mixed(face.shaded(1.0), if eyes.lashes { 0.0 } else { 0.3 });
        canvas.line(&upper, face.px(lash), dark);
        if eyes.lashes {
            let (corner, _) = self.lids(0.9);
            let tip = face.at(self.place(1.22), corner - 0.02);
            canvas.line(&[face.at(self.place(0.9), corner), tip], face.px(0.013), dark);
        }
        let crease = self.along(|lids| lids.0 - 0.022);
        canvas.line(
            &crease[2..crease.len() - 2],
            face.px(0.007),
            face.shaded(0.7).faded(0.7),
        );
        let lower = self.along(|lids| lids.1);
        canvas.line(&lower[3..], face.px(0.007), face.shaded(0.9).faded(0.7));
    }
}

/// Both eyes, as far as they are turned to the camera; `turn` is theirs against the head, in degrees.
pub(super) fn eyes(canvas: &mut Canvas, face: &Face<'_>, mimic: &Mimic, turn: (f32, f32), blink: f32) {
    for side in [-1.0, 1.0] {
        let opening = Opening {
            face,
            mimic,
            side,
            blink: blink.clamp(0.0, 1.0),
        };
        let centre = opening.centre();
        if face.faces_us(centre.x, centre.y) {
            let socket = vec2(0.11, 0.075);
            let at = (centre.x, centre.y - 0.015);
            face.spot(canvas, at, socket, face.shaded(0.8).faded(0.1));
            opening.draw(canvas, turn);
        }
    }
}

/// Both brows, and wrinkles between them.
pub(super) fn brows(canvas: &mut Canvas, face: &Face<'_>, mimic: &Mimic) {
    let (eyes, brows) = (&face.who.eyes, &face.who.brows);
    let colour = face.who.hair.brow_colour();
    let height = eyes.y - brows.above;
    for side in [-1.0, 1.0] {
        if !face.faces_us(side * eyes.spacing, height) {
            continue;
        }
        let place = |across: f32, thick: f32| {
            let outer = (across + 1.0) / 2.0;
            let raise = mimic.brow_inner * (1.0 - outer) + mimic.brow_outer * outer;
            let arch = brows.arch * (1.0 - across * across);
            let x = (eyes.spacing + eyes.width * 1.12 * across) * side;
            face.at(x, height - raise - arch + thick)
        };
        let thick = brows.thick / 2.0;
        let above =
            [-1.0, -0.5, 0.0, 0.5, 1.0].map(|across: f32| place(across, -thick * (1.0 - 0.3 * across)));
        let below =
            [1.0, 0.5, 0.0, -0.5, -1.0].map(|across: f32| place(across, thick * (0.8 - 0.55 * across)));
        canvas.polygon(&[above, below].concat(), colour);
        if mimic.frown > 0.05 {
            let line = [
                face.at(side * 0.03, height + 0.035),
                face.at(side * 0.022, height - 0.03),
            ];
            canvas.line(&line, face.px(0.011), face.shaded(0.9).faded(mimic.frown * 0.8));
        }
    }
}

/// Draws the nose; returns the position of its tip.
pub(super) fn nose(canvas: &mut Canvas, face: &Face<'_>) -> Vec2 {
    let (eyes, nose) = (&face.who.eyes, &face.who.nose);
    let y = eyes.y + nose.length;
    let tip = face.out(0.0, y, nose.out);
    let bridge = face.out(0.0, eyes.y - 0.02, 0.012);
    let base = face.out(0.0, y + 0.035, nose.out * 0.35);
    let wing = |side: f32| face.out(side * nose.width, y + 0.012, 0.012);
    let brow = |side: f32| face.out(side * 0.03, eyes.y - 0.02, 0.0);
    let (left, right) = (wing(-1.0), wing(1.0));
    let skin = face.who.skin;
    let body = [
        brow(-1.0),
        bridge,
        brow(1.0),
        tip.towards(right, 0.5),
        right,
        base,
        left,
        tip.towards(left, 0.5),
    ];
    canvas.polygon(&body, skin.lit(1.02).faded(0.75));
    canvas.polygon(&[bridge, tip, base], skin);
    let away = if face.light < 0.0 { right } else { left };
    let from = if face.light < 0.0 { brow(1.0) } else { brow(-1.0) };
    canvas.polygon(&[from, bridge, tip, base, away], face.shaded(0.55).faded(0.4));
    canvas.ellipse(
        tip,
        vec2(nose.width * 0.62, 0.032) * face.view.scale,
        0.0,
        skin.lit(1.06),
    );
    let under = [left.towards(base, 0.05), base, right.towards(base, 0.05)];
    canvas.curve(under, face.px(0.014), face.shaded(0.85));
    for side in [-1.0, 1.0] {
        if face.faces_us(side * 0.05, y) {
            let at = face.out(side * nose.width * 0.5, y + 0.018, 0.04);
            canvas.ellipse(
                at,
                vec2(0.014, 0.008) * face.view.scale,
                0.0,
                face.shaded(1.0).lit(0.75),
            );
        }
    }
    let shine = tip + vec2(face.light.signum() * 0.012, -0.014) * face.view.scale;
    canvas.ellipse(
        shine,
        vec2(0.013, 0.013) * face.view.scale,
        0.0,
        rgb(0xffffff).faded(0.3),
    );
    tip
}

/// Heights of the edges of the mouth at `across`, -1 to 1: outer and inner edge of the upper lip, inner and outer of the
/// lower one.
fn edges(face: &Face<'_>, mimic: &Mimic, across: f32) -> [f32; 4] {
    let lips = &face.who.lips;
    let bow = (1.0 - across * across).max(0.0).powf(0.65);
    let line = lips.y + mimic.corners * (0.45 - across * across);
    let upper = line - mimic.mouth * 0.4 * bow;
    let lower = line + mimic.mouth * 0.6 * bow;
    let cupid = 1.0 - 0.35 * (-(across / 0.22).powi(2)).exp();
    [
        upper - lips.full * 0.85 * bow * cupid,
        upper,
        lower,
        lower + lips.full * 1.15 * bow,
    ]
}

/// Draws lips, teeth and the opening of the mouth.
pub(super) fn mouth(canvas: &mut Canvas, face: &Face<'_>, mimic: &Mimic) {
    let lips = &face.who.lips;
    let width = lips.width * mimic.wide;
    let between = |from: &dyn Fn([f32; 4]) -> f32, to: &dyn Fn([f32; 4]) -> f32| -> Vec<Vec2> {
        let place = |step: i32, edge: &dyn Fn([f32; 4]) -> f32| {
            let across = step as f32 / 8.0;
            face.out(across * width, edge(edges(face, mimic, across)), 0.02)
        };
        let there = (-8..=8).map(|step| place(step, from));
        there.chain((-8..=8).rev().map(|step| place(step, to))).collect()
    };
    let inner: [&dyn Fn([f32; 4]) -> f32; 2] = [&|edges| edges[1], &|edges| edges[2]];
    let colour: Rgba = lips.colour;
    canvas.polygon(&between(&|edges| edges[0], inner[0]), colour.lit(0.88));
    canvas.polygon(&between(inner[1], &|edges| edges[3]), colour.lit(1.05));
    if mimic.mouth > 0.003 {
        canvas.polygon(&between(inner[0], inner[1]), rgb(0x4c171c));
        let tongue = |edges: [f32; 4]| edges[2] - (edges[2] - edges[1]) * 0.35;
        canvas.polygon(&between(&tongue, inner[1]), rgb(0xb85558));
        if mimic.teeth > 0.05 {
            let share = mimic.teeth * (0.55 + 0.4 * mimic.frown);
            let teeth = |edges: [f32; 4]| edges[1] + (edges[2] - edges[1]) * share;
            canvas.polygon(&between(inner[0], &teeth), rgb(0xf6f3ee));
        }
        if mimic.frown > 0.3 {
            let middle = |edges: [f32; 4]| (edges[1] + edges[2]) * 0.5;
            let line = between(&middle, &middle);
            canvas.line(&line[2..15], face.px(0.008), rgb(0x8a6a66));
        }
    }
    let line = between(inner[0], inner[0]);
    canvas.line(&line[..17], face.px(0.011), face.shaded(1.0).lit(0.6));
    if mimic.corners > 0.02 {
        for side in [-1.0, 1.0] {
            let [_, y, ..] = edges(face, mimic, 1.0);
            let fold = [(1.12, -0.045), (1.28, -0.01), (1.14, 0.03)]
                .map(|(across, down)| face.at(side * across * width, y + down));
            canvas.curve(fold, face.px(0.009), face.shaded(0.7).faded(0.6));
        }
    }
    let pout = edges(face, mimic, 0.0)[3] + 0.025;
    face.spot(
        canvas,
        (0.0, pout),
        vec2(width * 0.5, 0.014),
        face.shaded(0.8).faded(0.12),
    );
}
