//! A scene as SVG text. Numbers are written with two decimals at most, so the same scene gives the same bytes.

use std::fmt::Write as _;

use super::font;
use super::scene::{Anchor, Paint, Scene, Shape, Text, Turn};

// The face drawn into the PNG first, then any of its width.
const FAMILY: &str = "Noto Sans Mono, DejaVu Sans Mono, Liberation Mono, monospace";

/// The whole document.
pub(super) fn document(scene: &Scene) -> String {
    let (width, height) = (scene.width, scene.height);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" font-family=\"{FAMILY}\">\n"
    );
    for shape in &scene.shapes {
        // Writing into a String does not fail.
        let _ = match shape {
            Shape::Polygon { points, paint } => {
                writeln!(
                    out,
                    "<polygon points=\"{}\" {}/>",
                    path(points),
                    colour("fill", *paint)
                )
            }
            Shape::Line {
                points,
                width,
                dash,
                paint,
            } => writeln!(
                out,
                "<polyline points=\"{}\" fill=\"none\" stroke-width=\"{}\" stroke-linejoin=\"round\"{} {}/>",
                path(points),
                number(*width),
                dash.map_or_else(String::new, |[on, off]| format!(
                    " stroke-dasharray=\"{} {}\"",
                    number(on),
                    number(off)
                )),
                colour("stroke", *paint)
            ),
            Shape::Text(text) => writeln!(out, "{}", element(text)),
        };
    }
    out.push_str("</svg>\n");
    out
}

fn element(text: &Text) -> String {
    let anchor = match text.anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    };
    let em = font::em(text.size);
    let (x, y) = text.at;
    let turn = match text.turn {
        Turn::None => String::new(),
        Turn::Eighth => format!(" transform=\"rotate(-45 {} {})\"", number(x), number(y)),
        Turn::Quarter => format!(" transform=\"rotate(-90 {} {})\"", number(x), number(y)),
    };
    // `textLength` keeps the layout where a reader has none of the faces named.
    format!(
        "<text x=\"{}\" y=\"{}\" font-size=\"{}\" text-anchor=\"{anchor}\" textLength=\"{}\"{}{turn} {}>{}</text>",
        number(x),
        number(y + 0.36 * em),
        number(em),
        number(font::width(&text.content, text.size)),
        if text.bold { " font-weight=\"bold\"" } else { "" },
        colour("fill", text.paint),
        escaped(&text.content)
    )
}

fn path(points: &[(f64, f64)]) -> String {
    let pairs: Vec<String> = points
        .iter()
        .map(|(x, y)| format!("{},{}", tenths(*x), tenths(*y)))
        .collect();
    pairs.join(" ")
}

fn colour(what: &str, paint: Paint) -> String {
    let [r, g, b] = paint.rgb;
    let mut out = format!("{what}=\"#{r:02x}{g:02x}{b:02x}\"");
    if paint.alpha < 1.0 {
        let _ = write!(out, " {what}-opacity=\"{}\"", number(f64::from(paint.alpha)));
    }
    out
}

fn number(value: f64) -> String {
    short(&format!("{value:.2}"))
}

/// Places: no one sees less than a tenth of a pixel, and long lines are most of a document.
fn tenths(value: f64) -> String {
    short(&format!("{value:.1}"))
}

fn short(written: &str) -> String {
    let short = written.trim_end_matches('0').trim_end_matches('.');
    if short == "-0" {
        "0".to_owned()
    } else {
        short.to_owned()
    }
}

/// The text with what XML reserves escaped and what XML forbids left out.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\u{fffe}' | '\u{ffff}' => {}
            letter if letter.is_control() => out.push(' '),
            letter => out.push(letter),
        }
    }
    out
}
