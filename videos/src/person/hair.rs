//! Hair: what falls behind the head, the cap on the skull, locks before the ears.

use super::face::Face;
use super::hairstyle::{HairStyle, Shape};
use crate::canvas::{Canvas, Ink, Rgba, rgb};
use crate::geometry::{Vec2, vec2, vec3};

/// Style and colour of a person's hair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Hair {
    pub(super) style: HairStyle,
    pub(super) colour: Rgba,
    /// Side of the parting: -1 or 1.
    pub(super) parting: f32,
}

impl Hair {
    pub(super) fn brow_colour(&self) -> Rgba {
        self.colour.mixed(rgb(0x2a1c16), 0.45)
    }

    /// True if the hair covers the ears.
    pub(super) fn covers_ears(&self) -> bool {
        self.style.shape().length > 0.0 || self.style == HairStyle::Afro
    }

    /// Extent of the head with its hair at height `y`, as a multiple of the skull's.
    pub(super) fn extent(&self, y: f32) -> f32 {
        let shape = self.style.shape();
        if y < 0.2 { shape.swell(y) + shape.curl } else { 1.0 }
    }

    fn tone(&self, face: &Face<'_>) -> Rgba {
        match self.style {
            HairStyle::Buzz => self.colour.mixed(face.who.skin, 0.3),
            _ => self.colour,
        }
    }
}

/// Draws the hair behind head and neck, for a head that is seen from the front.
pub(super) fn behind(canvas: &mut Canvas, face: &Face<'_>) {
    back(canvas, face, face.who.hair.tone(face).lit(0.62));
}

/// The hair of a head that is seen from behind.
pub(super) fn from_behind(canvas: &mut Canvas, face: &Face<'_>) {
    back(canvas, face, face.who.hair.tone(face).lit(0.92));
}

fn back(canvas: &mut Canvas, face: &Face<'_>, dark: Rgba) {
    let hair = &face.who.hair;
    let shape = hair.style.shape();
    if hair.style == HairStyle::Bald {
        return;
    }
    let outline = face
        .who
        .skull
        .outline(&face.view, [-0.5, 0.2], |y| shape.swell(y));
    canvas.polygon(&outline, dark);
    curls(canvas, face, &shape, &outline, hair.tone(face).lit(0.8));
    let width = face.who.skull.width;
    match hair.style {
        HairStyle::Bun => {
            let at = face.view.at(vec3(0.0, -0.5, -0.16));
            canvas.ellipse(at, vec2(0.17, 0.15) * face.view.scale, 0.0, hair.colour.lit(0.85));
            canvas.ellipse(at, vec2(0.1, 0.08) * face.view.scale, 0.0, hair.colour.lit(0.95));
        }
        HairStyle::Ponytail => {
            let tail = [
                (-0.02, -0.36),
                (0.28, -0.3),
                (0.36, 0.1),
                (0.26, 0.62),
                (0.12, 0.2),
                (0.06, -0.1),
            ];
            let points = tail.map(|(x, y)| face.view.at(vec3(x * hair.parting, y, -0.42)));
            canvas.blob(&points, hair.colour.lit(0.75));
        }
        _ => {}
    }
    if shape.length > 0.0 {
        let wide = width * 1.12;
        let low = shape.length;
        // Heights, and widths relative to the head; narrow at the top, where the head covers the hair.
        let sides = [
            (-0.3, 0.7),
            (-0.08, 0.96),
            (low * 0.3, 1.06),
            (low * 0.7, 1.1),
            (low * 0.95, 1.02),
            (low, 0.8),
        ];
        let place = |side: f32, (y, by): (f32, f32)| face.view.at(vec3(side * wide * by, y, -0.16));
        let mut points: Vec<Vec2> = sides.iter().map(|knot| place(-1.0, *knot)).collect();
        points.extend(sides.iter().rev().map(|knot| place(1.0, *knot)));
        canvas.blob(&points, dark);
    }
}

/// The hair on the skull, over the face's skin.
pub(super) fn cap(canvas: &mut Canvas, face: &Face<'_>) {
    let hair = &face.who.hair;
    let shape = hair.style.shape();
    if hair.style == HairStyle::Bald {
        return;
    }
    let skull = &face.who.skull;
    let near = |angle: f32| {
        let y = shape.line(angle, hair.parting);
        let point = skull.around(angle, y);
        face.view.at(vec3(point.x * 1.03, point.y, point.z * 1.03))
    };
    let (from, to) = (-88.0 - face.view.yaw, 88.0 - face.view.yaw);
    let mut points: Vec<Vec2> = (0..=24)
        .map(|step| near(from + (to - from) * step as f32 / 24.0))
        .collect();
    let hairline = points.clone();
    let outline = skull.outline(&face.view, [-0.5, 0.2], |y| shape.swell(y));
    let crown = over(&outline, points[24], points[0]);
    points.extend(&crown);
    let tone = hair.tone(face);
    let top = face.view.at(vec3(face.light * 0.2, -0.5, 0.1));
    let low = face.view.at(vec3(-face.light * 0.3, 0.15, 0.0));
    let ink = Ink::Gradient {
        from: (top, tone.lit(1.12)),
        to: (low, tone.lit(0.72)),
    };
    canvas.polygon(&points, ink);
    curls(canvas, face, &shape, &crown, tone);
    if shape.curl > 0.0 {
        let radius = face.px(shape.curl * 0.7);
        for point in &hairline[5..20] {
            let up = face.view.at(vec3(0.0, -0.5, 0.0)) - *point;
            let at = *point + up * (0.35 * radius / up.length().max(1.0));
            canvas.ellipse(at, vec2(radius, radius), 0.0, tone.lit(0.96));
        }
    } else {
        strands(canvas, face, &shape, tone);
    }
    if shape.length > 0.0 {
        locks(canvas, face, &shape, tone);
    }
}

/// Hair that hangs before the ears.
fn locks(canvas: &mut Canvas, face: &Face<'_>, shape: &Shape, tone: Rgba) {
    let width = face.who.skull.width;
    let end = shape.length;
    for side in [-1.0, 1.0] {
        if face.view.depth(vec3(side * width, 0.0, 0.0)) < -0.16 {
            continue;
        }
        let knots = [
            (0.86, -0.24, 0.2),
            (0.9, 0.0, 0.16),
            (0.95, end * 0.5, 0.1),
            (0.84, end * 0.96, 0.1),
            (1.08, end, 0.0),
            (1.26, end * 0.55, -0.06),
            (1.18, 0.05, -0.08),
            (1.08, -0.24, -0.02),
        ];
        let points = knots.map(|(x, y, z)| face.view.at(vec3(side * x * width, y, z)));
        let lit = if side * face.light > 0.0 { 1.0 } else { 0.82 };
        canvas.blob(&points, tone.lit(lit));
        let strand = [(1.0, -0.1), (1.1, end * 0.4), (1.0, end * 0.9)]
            .map(|(x, y)| face.view.at(vec3(side * x * width, y, 0.06)));
        canvas.curve(strand, face.px(0.012), tone.lit(0.68).faded(0.6));
    }
}

/// Lines along the hair, and a soft shine.
fn strands(canvas: &mut Canvas, face: &Face<'_>, shape: &Shape, tone: Rgba) {
    let skull = &face.who.skull;
    let place = |angle: f32, y: f32| {
        let point = skull.around(angle, y);
        let more = shape.swell(y) * 0.99;
        face.view.at(vec3(point.x * more, point.y * more, point.z * more))
    };
    let centre = -face.view.yaw;
    for step in -3..=3 {
        let angle = centre + step as f32 * 21.0;
        let low = shape.line(angle, face.who.hair.parting).min(-0.1);
        let part = face.who.hair.parting * 14.0;
        let line = [
            place(angle * 0.5 + part, -0.475),
            place(angle, (low - 0.47) / 2.0),
            place(angle, low - 0.02),
        ];
        let shade = if step % 2 == 0 { 0.74 } else { 1.25 };
        canvas.curve(line, face.px(0.01), tone.lit(shade).faded(0.5));
    }
}

fn curls(canvas: &mut Canvas, face: &Face<'_>, shape: &Shape, outline: &[Vec2], tone: Rgba) {
    if shape.curl <= 0.0 {
        return;
    }
    let radius = face.px(shape.curl);
    let middle = face.view.at(vec3(0.0, -0.1, 0.0));
    let mut last = middle;
    for (index, point) in outline.iter().enumerate() {
        if (*point - last).length() > radius * 0.8 {
            let at = point.towards(middle, 0.06);
            let lit = 0.92 + 0.05 * (index % 4) as f32;
            canvas.ellipse(at, vec2(radius, radius), 0.0, tone.lit(lit));
            last = *point;
        }
    }
}

/// The upper part of a closed outline, from the point nearest to `from` to that nearest to `to`.
fn over(outline: &[Vec2], from: Vec2, to: Vec2) -> Vec<Vec2> {
    let nearest = |place: Vec2| {
        let far = |index: &usize| (outline[*index] - place).length();
        (0..outline.len()).min_by(|a, b| far(a).total_cmp(&far(b)))
    };
    let (Some(from), Some(to)) = (nearest(from), nearest(to)) else {
        return Vec::new();
    };
    let count = outline.len();
    let way = |step: usize| -> Vec<Vec2> {
        let mut at = from;
        let mut points = vec![outline[at]];
        while at != to {
            at = (at + step) % count;
            points.push(outline[at]);
        }
        points
    };
    let (one, other) = (way(1), way(count - 1));
    let highest = |points: &[Vec2]| points.iter().map(|point| point.y).fold(f32::INFINITY, f32::min);
    if highest(&one) <= highest(&other) {
        one
    } else {
        other
    }
}
