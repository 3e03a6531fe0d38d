//! What is drawn for what was found, and where its label goes.

use weir_flow::{Attribute, KeyPoint, Labelled, Point, Points, Rect};

use super::canvas::{Area, Canvas};
use super::font::{Font, drawable};
use super::palette::{BLACK, Color, WHITE, color_of};

/// Key points below this confidence are guesses and are not drawn.
const LEAST_SCORE: f32 = 0.3;

/// Which of the 17 COCO points are joined: face, shoulders, arms, trunk, legs.
const BONES: [(usize, usize); 18] = [
    (0, 1),
    (0, 2),
    (1, 3),
    (2, 4),
    (5, 6),
    (5, 7),
    (7, 9),
    (6, 8),
    (8, 10),
    (5, 11),
    (6, 12),
    (11, 12),
    (11, 13),
    (13, 15),
    (12, 14),
    (14, 16),
    (0, 5),
    (0, 6),
];

const RED: Color = [255, 70, 70];
const GREEN: Color = [80, 230, 90];
const BLUE: Color = [80, 140, 255];
const YELLOW: Color = [255, 220, 60];

/// Sizes that follow the picture's.
struct Style {
    font: Font,
    line: f32,
    dot: f32,
}

/// Draws all objects: shapes first, labels over them.
pub(super) fn draw(canvas: &mut Canvas, objects: &[Labelled]) {
    let line = (canvas.height().min(canvas.width()) as f32 / 300.0).clamp(1.5, 8.0);
    let style = Style {
        font: Font::for_lines(canvas.height()),
        line,
        dot: line * 1.3,
    };
    for object in objects {
        shapes(canvas, object, &style);
    }
    let mut taken: Vec<Area> = Vec::new();
    for object in objects {
        label(canvas, object, &style, &mut taken);
    }
}

fn shapes(canvas: &mut Canvas, labelled: &Labelled, style: &Style) {
    let object = &labelled.object;
    let color = color_of(&object.class);
    match &object.points {
        Points::Corners(corners) => {
            for index in 0..4 {
                canvas.line(
                    at(corners[index]),
                    at(corners[(index + 1) % 4]),
                    style.line,
                    color,
                );
            }
        }
        Points::Face(points) => {
            frame(canvas, &object.rect, style, color);
            for point in points {
                canvas.disc(at(*point), style.dot * 0.8, color);
            }
        }
        Points::None => frame(canvas, &object.rect, style, color),
    }
    for (_, attribute) in &labelled.attributes {
        match attribute {
            Attribute::Points(points) => skeleton(canvas, points, style),
            Attribute::Angles { yaw, pitch, roll } => {
                axes(canvas, &object.rect, [*yaw, *pitch, *roll], style)
            }
            Attribute::Iris { eyes, radius } => {
                for (eye, radius) in eyes.iter().zip(radius) {
                    canvas.circle(at(eye.at), radius.max(1.0), style.line * 0.6, YELLOW);
                    canvas.disc(at(eye.at), style.line * 0.5, YELLOW);
                }
            }
            Attribute::Text { .. } | Attribute::Class { .. } | Attribute::Match { .. } => {}
        }
    }
}

fn at(point: Point) -> (f32, f32) {
    (point.x, point.y)
}

fn area(rect: &Rect) -> Area {
    Area {
        x0: rect.x0.round() as i64,
        y0: rect.y0.round() as i64,
        x1: rect.x1.round() as i64,
        y1: rect.y1.round() as i64,
    }
}

fn frame(canvas: &mut Canvas, rect: &Rect, style: &Style, color: Color) {
    canvas.outline(area(rect), style.line.round() as i64, color);
}

fn skeleton(canvas: &mut Canvas, points: &[KeyPoint], style: &Style) {
    let sure = |index: usize| points.get(index).filter(|point| point.score >= LEAST_SCORE);
    if points.len() == 17 {
        for (from, to) in BONES {
            if let (Some(from), Some(to)) = (sure(from), sure(to)) {
                canvas.line(at(from.at), at(to.at), style.line, GREEN);
            }
        }
    }
    for point in (0..points.len()).filter_map(sure) {
        canvas.disc(at(point.at), style.dot, YELLOW);
    }
}

/// The head's own axes, from the middle of its box: red to its left in the picture's right, green down, blue forwards.
fn axes(canvas: &mut Canvas, rect: &Rect, degrees: [f32; 3], style: &Style) {
    let [yaw, pitch, roll] = degrees.map(f32::to_radians);
    let yaw = -yaw;
    let size = rect.width().min(rect.height()) * 0.5;
    let centre = at(rect.centre());
    let (sy, cy) = yaw.sin_cos();
    let (sp, cp) = pitch.sin_cos();
    let (sr, cr) = roll.sin_cos();
    let ends = [
        (cy * cr, cp * sr + cr * sp * sy, RED),
        (-cy * sr, cp * cr - sp * sy * sr, GREEN),
        (sy, -cy * sp, BLUE),
    ];
    for (x, y, color) in ends {
        canvas.line(
            centre,
            (centre.0 + size * x, centre.1 + size * y),
            style.line,
            color,
        );
    }
}

/// The lines of an object's label: what it is, then what is known of it.
fn lines(labelled: &Labelled) -> Vec<String> {
    let object = &labelled.object;
    let mut lines = vec![format!("{} {:.2} #{}", object.class, object.score, labelled.id)];
    for (_, attribute) in &labelled.attributes {
        match attribute {
            Attribute::Text { text, .. } if !text.is_empty() => lines.push(text.clone()),
            Attribute::Class { class, score } => lines.push(format!("{class} {score:.2}")),
            Attribute::Match {
                r#match: Some(name),
                cosine,
                ..
            } => {
                lines.push(cosine.map_or_else(|| name.to_string(), |cosine| format!("{name} {cosine:.2}")));
            }
            _ => {}
        }
    }
    lines.iter().map(|line| drawable(line)).collect()
}

/// Draws the label where it hides no other one: above the box, below it, inside of it, or else above all the same.
fn label(canvas: &mut Canvas, labelled: &Labelled, style: &Style, taken: &mut Vec<Area>) {
    let color = color_of(&labelled.object.class);
    let lines = lines(labelled);
    let (font, pad) = (style.font, (style.font.height() / 6) as i64);
    let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let width = font.width(longest) as i64 + 2 * pad;
    let height = (font.height() * lines.len()) as i64;
    let object = area(&labelled.object.rect);
    let (most_x, most_y) = (
        i64::from(canvas.width()) - width,
        i64::from(canvas.height()) - height,
    );
    let place = |x: i64, y: i64| {
        let (x, y) = (x.min(most_x).max(0), y.min(most_y).max(0));
        Area {
            x0: x,
            y0: y,
            x1: x + width,
            y1: y + height,
        }
    };
    let places = [
        place(object.x0, object.y0 - height),
        place(object.x0, object.y1),
        place(object.x0, object.y0),
        place(object.x1 - width, object.y0 - height),
        place(object.x1, object.y0),
        place(object.x0 - width, object.y0),
    ];
    let free = |place: &&Area| !taken.iter().any(|other| place.overlaps(other));
    let place = *places.iter().find(free).unwrap_or(&places[0]);
    taken.push(place);
    canvas.fill(place, color, 225);
    let [red, green, blue] = color.map(u32::from);
    let ink = if 299 * red + 587 * green + 114 * blue > 128_000 {
        BLACK
    } else {
        WHITE
    };
    for (index, line) in lines.iter().enumerate() {
        canvas.text(
            (place.x0 + pad, place.y0 + (index * font.height()) as i64),
            line,
            font,
            ink,
        );
    }
}
