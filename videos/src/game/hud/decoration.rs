//! Parts of the display that models need not read: the feed of events and the small map.

use crate::canvas::{Canvas, rgb};
use crate::font;
use crate::geometry::{Bounds, Vec2, vec2};

use super::super::map::{Map, REACH};
use super::super::sketch::Stand;
use super::super::story::Line;
use super::icons::icon;
use super::panels::{inset, panel};
use super::skin::Skin;

/// Height of a line of the feed in pixels.
pub(super) const LINE: f32 = 17.0;
/// Width of the feed.
pub(super) const FEED: f32 = 236.0;
const LETTER: f32 = 8.0;

/// A line of the feed, at the right or left edge of `at`; older ones fade.
pub(super) fn line(canvas: &mut Canvas, at: &Bounds, skin: &Skin, line: &Line, age: f32, to_the_right: bool) {
    let shown = ((7.0 - age) / 1.2).clamp(0.0, 1.0);
    if shown <= 0.0 {
        return;
    }
    let wide = |text: &str| font::width(text) * LETTER / font::HEIGHT;
    let sign = if line.sign.is_some() { 26.0 } else { 0.0 };
    let width = wide(&line.left) + sign + wide(&line.right) + 12.0;
    let x0 = if to_the_right { at.x1 - width } else { at.x0 };
    let back = if line.own {
        skin.accent.lit(0.45)
    } else {
        rgb(0x0c_10_14)
    };
    canvas.rect([x0, at.y0, x0 + width, at.y1 - 2.0], back.faded(0.55 * shown));
    let ink = if line.own { skin.accent } else { rgb(0xe8_ec_f0) }.faded(shown);
    let top = at.y0 + (LINE - 2.0 - LETTER) / 2.0;
    font::write(canvas, &line.left, vec2(x0 + 6.0, top), LETTER, 1.25, ink);
    let after = x0 + 6.0 + wide(&line.left);
    if let Some(item) = line.sign {
        let stand = Stand {
            at: vec2(after + sign / 2.0, at.y0 + LINE / 2.0 - 1.0),
            turn: 0.0,
            scale: 0.68,
        };
        icon(item, rgb(0xf0_f0_f0).faded(shown)).draw(canvas, &stand);
    }
    let ink = rgb(0xf0_a0_90).faded(shown);
    font::write(canvas, &line.right, vec2(after + sign, top), LETTER, 1.25, ink);
}

/// Moving parts of the small map.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Marks {
    /// Position of the hero, and viewing direction in radians.
    pub(crate) hero: (Vec2, f32),
    /// Zone of play: centre and radius.
    pub(crate) zone: (Vec2, f32),
}

/// The island in small.
pub(super) fn small_map(canvas: &mut Canvas, at: &Bounds, skin: &Skin, map: &Map, marks: &Marks) {
    panel(
        canvas,
        at,
        skin,
        rgb(0x10_14_18).faded(0.8),
        skin.frame.map(|ink| (ink, 1.2)),
    );
    let field = inset(at, 4.0);
    canvas.rect(field.array(), map.palette.water.lit(0.8));
    let scale = field.width() / (REACH.x * 2.3);
    let middle = vec2((field.x0 + field.x1) / 2.0, (field.y0 + field.y1) / 2.0);
    let place = |point: Vec2| middle + point * scale;
    let places = |points: &[Vec2]| -> Vec<Vec2> { points.iter().map(|point| place(*point)).collect() };
    canvas.blob(&places(&map.coast), map.palette.grass);
    for lake in &map.lakes {
        canvas.blob(&places(lake), map.palette.water);
    }
    canvas.line(&places(&map.ring_line), 2.0, map.palette.road.lit(1.2));
    for [from, pull, to] in &map.lanes {
        canvas.curve([place(*from), place(*pull), place(*to)], 1.2, map.palette.sand);
    }
    for house in &map.houses {
        canvas.ellipse(place(house.at), vec2(2.0, 1.6), house.turn, house.roof);
    }
    let radius = marks.zone.1 * scale;
    canvas.ring(
        place(marks.zone.0),
        vec2(radius, radius),
        0.0,
        1.5,
        rgb(0xff_ff_ff),
    );
    let (hero, turn) = marks.hero;
    let tip = |x, y| place(hero) + vec2(x, y).turned(turn);
    canvas.polygon(
        &[tip(6.5, 0.0), tip(-4.5, 4.2), tip(-2.4, 0.0), tip(-4.5, -4.2)],
        skin.accent,
    );
}
