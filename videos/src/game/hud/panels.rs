//! The panels that carry values: kills, players alive, health, and the slots of items.

use crate::canvas::{Canvas, Rgba, rgb};
use crate::font;
use crate::geometry::{Bounds, Vec2, vec2};

use super::super::sketch::{Sketch, Stand};
use super::icons::icon;
use super::skin::{Figure, KillSign, Skin};

/// Fills a panel, with its frame.
pub(super) fn panel(canvas: &mut Canvas, at: &Bounds, skin: &Skin, ink: Rgba, frame: Option<(Rgba, f32)>) {
    canvas.polygon(&cut(at, skin), ink);
    if let Some((ink, width)) = frame {
        let inner = inset(at, width / 2.0);
        let mut line = cut(&inner, skin);
        line.extend(line.first().copied());
        canvas.line(&line, width, ink);
    }
}

/// The box, smaller by `by` on each side.
pub(super) fn inset(at: &Bounds, by: f32) -> Bounds {
    Bounds {
        x0: at.x0 + by,
        y0: at.y0 + by,
        x1: at.x1 - by,
        y1: at.y1 - by,
    }
}

/// The outline of a panel: its corners are cut or rounded.
fn cut(at: &Bounds, skin: &Skin) -> Vec<Vec2> {
    let reach = skin.corner.min(at.height() / 3.0);
    let quarter = std::f32::consts::FRAC_PI_2;
    let corners = [
        (at.x1, at.y0, -1.0, 1.0),
        (at.x1, at.y1, -1.0, -1.0),
        (at.x0, at.y1, 1.0, -1.0),
        (at.x0, at.y0, 1.0, 1.0),
    ];
    let steps: &[f32] = if skin.rounded {
        &[0.0, 0.33, 0.67, 1.0]
    } else {
        &[0.0, 1.0]
    };
    let points = (0_u8..4).zip(corners).flat_map(|(turn, (x, y, dx, dy))| {
        steps.iter().map(move |step| {
            let angle = (f32::from(turn) - 1.0 + step) * quarter;
            vec2(x + dx * reach, y + dy * reach) + vec2(angle.cos(), angle.sin()) * reach
        })
    });
    points.collect()
}

/// Width of a number in pixels.
fn number_width(skin: &Skin, digits: usize) -> f32 {
    font::width(&"0".repeat(digits)) * skin.digit / font::HEIGHT
}

fn padding(skin: &Skin) -> f32 {
    (skin.digit * 0.45).round()
}

/// Size of a panel with a sign and a number.
pub(super) fn counter_size(skin: &Skin, digits: usize) -> Vec2 {
    let pad = padding(skin);
    let width = pad * 3.0 + skin.digit * 1.1 + number_width(skin, digits);
    vec2(width.round(), (skin.digit + pad * 2.0).round())
}

/// A panel with a sign and a number.
pub(super) fn counter(canvas: &mut Canvas, at: &Bounds, skin: &Skin, sign: &Sketch, text: &str) {
    let frame = skin.frame.map(|ink| (ink, 1.2));
    panel(canvas, at, skin, skin.panel, frame);
    let (pad, middle) = (padding(skin), (at.y0 + at.y1) / 2.0);
    let (side, left) = (skin.digit * 1.1, at.x0 + pad);
    let (sign_at, text_at) = if skin.sign_first {
        (left + side / 2.0, left + side + pad)
    } else {
        (at.x1 - pad - side / 2.0, left)
    };
    let stand = Stand {
        at: vec2(sign_at, middle),
        turn: 0.0,
        scale: side / 20.0,
    };
    sign.draw(canvas, &stand);
    figures(canvas, text, vec2(text_at, middle - skin.digit / 2.0), skin, None);
}

/// Draws a number in the style of the skin, optionally with an outline.
fn figures(canvas: &mut Canvas, text: &str, at: Vec2, skin: &Skin, outline: Option<Rgba>) {
    if let Some(ink) = outline {
        font::write(canvas, text, at, skin.digit, skin.weight + 2.6, ink);
    }
    font::write(canvas, text, at, skin.digit, skin.weight, skin.text);
}

/// The sign of the kills, from -10 to 10.
pub(super) fn kills_sign(skin: &Skin) -> Sketch {
    let mut s = Sketch::default();
    let (ink, dark) = (skin.accent, skin.panel.faded(1.0));
    match skin.kill_sign {
        KillSign::Skull => {
            s.oval([0.0, -2.4, 8.6, 7.4], ink);
            s.bar([-4.8, 2.0, 4.8, 8.6], ink);
            s.oval([-3.5, -1.6, 2.5, 2.7], dark);
            s.oval([3.5, -1.6, 2.5, 2.7], dark);
            s.polygon(&[(0.0, 1.4), (1.4, 4.2), (-1.4, 4.2)], dark);
            for x in [-2.2, 0.0, 2.2] {
                s.line(&[(x, 6.2), (x, 8.6)], 0.9, dark);
            }
        }
        KillSign::CrossHair => {
            s.ring([0.0, 0.0, 6.4], 2.0, ink);
            for (x, y) in [(1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0)] {
                s.line(&[(x * 3.4, y * 3.4), (x * 9.4, y * 9.4)], 2.0, ink);
            }
            s.oval([0.0, 0.0, 1.4, 1.4], ink);
        }
    }
    s
}

/// The sign of the players alive.
pub(super) fn alive_sign(skin: &Skin) -> Sketch {
    let mut s = Sketch::default();
    s.oval([0.0, -5.0, 4.4, 4.6], skin.text);
    s.polygon(
        &[
            (-4.6, 1.2),
            (4.6, 1.2),
            (7.6, 3.6),
            (8.2, 9.4),
            (-8.2, 9.4),
            (-7.6, 3.6),
        ],
        skin.text,
    );
    s
}

fn heart(ink: Rgba) -> Sketch {
    let mut s = Sketch::default();
    s.oval([-4.0, -2.6, 4.8, 4.8], ink);
    s.oval([4.0, -2.6, 4.8, 4.8], ink);
    s.polygon(
        &[(-8.2, -0.4), (-4.0, -3.0), (4.0, -3.0), (8.2, -0.4), (0.0, 9.2)],
        ink,
    );
    s
}

fn cross(ink: Rgba) -> Sketch {
    let mut s = Sketch::default();
    s.bar([-3.0, -8.6, 3.0, 8.6], ink);
    s.bar([-8.6, -3.0, 8.6, 3.0], ink);
    s
}

/// Size of the health panel.
pub(super) fn health_size(skin: &Skin) -> Vec2 {
    let pad = padding(skin);
    let beside = match skin.figure {
        Figure::On => 0.0,
        Figure::Before | Figure::After => number_width(skin, 3) + pad,
    };
    let width = pad * 3.0 + skin.digit * 1.1 + skin.bar.x + beside;
    vec2(width.round(), skin.bar.y + pad * 1.4)
}

/// Colour of the filled part by value: green, amber, red.
fn fill(skin: &Skin, value: u32) -> Rgba {
    if let Some(ink) = skin.one_fill {
        return ink;
    }
    let (low, middle, high) = (rgb(0xe0_3a_34), rgb(0xf0_b0_30), rgb(0x58_c0_50));
    if value < 50 {
        low.mixed(middle, value as f32 / 50.0)
    } else {
        middle.mixed(high, (value as f32 / 50.0 - 1.0).min(1.0))
    }
}

/// Position of the bar on the health panel.
pub(super) fn bar(at: &Bounds, skin: &Skin) -> Bounds {
    let pad = padding(skin);
    let before = if skin.figure == Figure::Before {
        number_width(skin, 3) + pad
    } else {
        0.0
    };
    let x0 = (at.x0 + pad * 2.0 + skin.digit * 1.1 + before).round();
    let y0 = ((at.y0 + at.y1 - skin.bar.y) / 2.0).round();
    Bounds {
        x0,
        y0,
        x1: x0 + skin.bar.x,
        y1: y0 + skin.bar.y,
    }
}

/// The health panel: a sign, the bar, the number.
pub(super) fn health(canvas: &mut Canvas, at: &Bounds, skin: &Skin, value: u32) {
    panel(canvas, at, skin, skin.panel, skin.frame.map(|ink| (ink, 1.2)));
    let (pad, middle) = (padding(skin), (at.y0 + at.y1) / 2.0);
    let bar = bar(at, skin);
    let side = skin.digit * 1.1;
    let ink = fill(skin, value);
    let stand = Stand {
        at: vec2(at.x0 + pad + side / 2.0, middle),
        turn: 0.0,
        scale: side / 20.0,
    };
    let sign = if skin.heart {
        heart(rgb(0xe8_48_48))
    } else {
        cross(rgb(0xe8_48_48))
    };
    sign.draw(canvas, &stand);
    canvas.rect(bar.array(), rgb(0x08_0a_0c).faded(0.82));
    let end = bar.x0 + bar.width() * value.min(100) as f32 / 100.0;
    canvas.rect([bar.x0, bar.y0, end, bar.y1], ink);
    canvas.rect([bar.x0, bar.y1 - bar.height() * 0.3, end, bar.y1], ink.lit(0.82));
    let text = value.to_string();
    let width = number_width(skin, text.len());
    let left = match skin.figure {
        Figure::On => (bar.x0 + bar.x1 - width) / 2.0,
        Figure::Before => bar.x0 - pad - width,
        Figure::After => bar.x1 + pad,
    };
    let outline = (skin.figure == Figure::On).then_some(rgb(0x10_12_14));
    figures(
        canvas,
        &text,
        vec2(left, middle - skin.digit / 2.0),
        skin,
        outline,
    );
}

/// A slot with its item; `key` is the number by which it is chosen.
pub(super) fn slot(canvas: &mut Canvas, at: &Bounds, skin: &Skin, item: usize, key: usize, selected: bool) {
    let (ink, frame) = if selected {
        (skin.panel.mixed(skin.accent, 0.22), (skin.accent, 2.6))
    } else {
        (
            skin.panel,
            (skin.frame.unwrap_or(rgb(0xa0_a8_b0).faded(0.5)), 1.3),
        )
    };
    panel(canvas, at, skin, ink, Some(frame));
    let stand = Stand {
        at: vec2((at.x0 + at.x1) / 2.0, (at.y0 + at.y1) / 2.0),
        turn: 0.0,
        scale: at.width() * if selected { 0.041 } else { 0.037 },
    };
    icon(item, skin.tint).draw(canvas, &stand);
    if skin.keys {
        let corner = vec2(at.x0 + 5.0, at.y0 + 5.0);
        font::write(canvas, &key.to_string(), corner, 7.0, 1.2, skin.text.faded(0.8));
    }
}
