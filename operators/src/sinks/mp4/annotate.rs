//! Drawing of objects and attributes, and placement of labels.

use weir_flow::{Attribute, DeliveredObject, KeyPoint, Overlay, Point, Points, Rect};

use super::canvas::{Area, Canvas};
use super::font::{Font, drawable};
use super::overlays;
use super::palette::{BLACK, Color, WHITE, color_of};

/// Keypoints below this confidence are not drawn.
const MIN_SCORE: f32 = 0.4;

/// Opacity of a mask, of 255: the picture is seen through it.
const MASK_OPACITY: u8 = 100;

/// Edges between the 17 COCO keypoints: face, shoulders, arms, trunk, legs.
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

/// Sizes relative to the picture's, and what numbers say.
struct Style {
    /// Whether objects have tracks: numbers are those of tracks then, and what has none has no number.
    has_tracks: bool,
    font: Font,
    line: f32,
    dot: f32,
}

/// Draws what transforms show and all objects of at least that score: shapes first, labels over them.
pub(super) fn draw(
    canvas: &mut Canvas,
    objects: &[DeliveredObject],
    overlays: &[Overlay],
    score_threshold: f32,
) {
    let shown = |delivered: &&DeliveredObject| delivered.object.score >= score_threshold;
    let objects: Vec<&DeliveredObject> = objects.iter().filter(shown).collect();
    let line = (canvas.height().min(canvas.width()) as f32 / 300.0).clamp(1.5, 8.0);
    let style = Style {
        has_tracks: objects.iter().any(|delivered| delivered.track.is_some()),
        font: Font::for_lines(canvas.height()),
        line,
        dot: line * 1.3,
    };
    for object in &objects {
        shapes(canvas, object, &style);
    }
    let texts = overlays::draw(canvas, overlays, style.line, style.font);
    // Objects within others are small and of most interest: labels should not hide them. Their own labels are placed
    // first, since they are longer.
    let (inner, outer): (Vec<&DeliveredObject>, Vec<&DeliveredObject>) =
        objects.into_iter().partition(|object| object.parent.is_some());
    let mut obstacles = LabelObstacles {
        labels: texts,
        inner: inner
            .iter()
            .map(|delivered| area(&delivered.object.rect))
            .collect(),
    };
    for object in inner.into_iter().chain(outer) {
        label(canvas, object, overlays, &style, &mut obstacles);
    }
}

/// Areas that a label should not hide.
struct LabelObstacles {
    /// Labels already drawn.
    labels: Vec<Area>,
    /// Objects found in crops of others.
    inner: Vec<Area>,
}

impl LabelObstacles {
    /// Pixels that a label at `place` would hide; those of other labels count four times.
    fn cost(&self, place: &Area) -> i64 {
        let sum = |areas: &[Area]| areas.iter().map(|other| place.shared(other)).sum::<i64>();
        4 * sum(&self.labels) + sum(&self.inner)
    }
}

fn shapes(canvas: &mut Canvas, delivered: &DeliveredObject, style: &Style) {
    let object = &delivered.object;
    let color = color_of(&object.class);
    match &object.points {
        Points::Corners(corners) => quadrilateral(canvas, corners, style, color),
        Points::Rotated(rotated) => quadrilateral(canvas, &rotated.corners(), style, color),
        Points::Mask(mask) => {
            for span in mask.spans() {
                let column = Area {
                    x0: span.x.into(),
                    y0: span.top.into(),
                    x1: i64::from(span.x) + 1,
                    y1: span.bottom.into(),
                };
                canvas.fill(column, color, MASK_OPACITY);
            }
            frame(canvas, &object.rect, style, color);
        }
        Points::Face(points) => {
            frame(canvas, &object.rect, style, color);
            for point in points {
                canvas.disc(at(*point), style.dot * 0.8, color);
            }
        }
        Points::None | Points::Pose(_) => frame(canvas, &object.rect, style, color),
    }
    for (_, attribute) in &delivered.attributes {
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
            Attribute::Direction { yaw, pitch } => arrow(canvas, &object.rect, [*yaw, *pitch], style),
            Attribute::Text { .. }
            | Attribute::Class { .. }
            | Attribute::Number { .. }
            | Attribute::Match { .. } => {}
        }
    }
}

fn quadrilateral(canvas: &mut Canvas, corners: &[Point; 4], style: &Style, color: Color) {
    for index in 0..4 {
        canvas.line(
            at(corners[index]),
            at(corners[(index + 1) % 4]),
            style.line,
            color,
        );
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
    let confident = |index: usize| points.get(index).filter(|point| point.score >= MIN_SCORE);
    if points.len() == 17 {
        for (from, to) in BONES {
            if let (Some(from), Some(to)) = (confident(from), confident(to)) {
                canvas.line(at(from.at), at(to.at), style.line, GREEN);
            }
        }
    }
    for point in (0..points.len()).filter_map(confident) {
        canvas.disc(at(point.at), style.dot, YELLOW);
    }
}

/// The axes of a head pose, from the middle of its box: red to the head's left, green down, blue forwards.
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

/// A gaze direction, from the middle of the face; as long as the face is wide if it points sideways.
fn arrow(canvas: &mut Canvas, rect: &Rect, degrees: [f32; 2], style: &Style) {
    let [yaw, pitch] = degrees.map(f32::to_radians);
    let (x, y) = (yaw.sin() * pitch.cos(), -pitch.sin());
    let (from, length) = (at(rect.centre()), rect.width());
    let to = (from.0 + length * x, from.1 + length * y);
    canvas.disc(from, style.dot, YELLOW);
    canvas.line(from, to, style.line * 1.3, YELLOW);
    // A gaze towards the camera is too short for an arrow head.
    let drawn = length * x.hypot(y);
    if drawn < style.line * 3.0 {
        return;
    }
    let (along, barb) = (
        (x * length / drawn, y * length / drawn),
        (drawn * 0.4).min(style.line * 5.0),
    );
    for side in [-0.6, 0.6] {
        let back = (along.0 + side * along.1, along.1 - side * along.0);
        canvas.line(
            to,
            (to.0 - barb * back.0, to.1 - barb * back.1),
            style.line * 1.3,
            YELLOW,
        );
    }
}

/// The lines of an object's label: class, then attributes.
fn lines(delivered: &DeliveredObject, overlays: &[Overlay], has_tracks: bool) -> Vec<String> {
    let object = &delivered.object;
    let number = match &delivered.track {
        Some(track) => format!(" #{}", track.number()),
        None if has_tracks => String::new(),
        None => format!(" #{}", delivered.id),
    };
    let mut lines = vec![format!("{} {:.2}{number}", object.class, object.score)];
    let track = delivered.track.as_ref().map(|track| track.id);
    lines.extend(
        track
            .into_iter()
            .flat_map(|track| overlays::tags(overlays, track)),
    );
    for (name, attribute) in &delivered.attributes {
        match attribute {
            Attribute::Number { value } => {
                let digits = if value.abs() < 10.0 { 1 } else { 0 };
                lines.push(format!("{name} {value:.digits$}"));
            }
            Attribute::Text { text, .. } if !text.is_empty() => lines.push(text.clone()),
            Attribute::Class { class, score } => lines.push(format!("{class} {score:.2}")),
            Attribute::Match {
                r#match: Some(name),
                cosine,
                ..
            } => {
                lines.push(cosine.map_or_else(|| name.to_string(), |cosine| format!("{name} {cosine:.2}")));
            }
            // Compared with a gallery, and near enough to nobody in it.
            Attribute::Match {
                r#match: None,
                cosine: Some(_),
                ..
            } => lines.push("unknown".to_owned()),
            _ => {}
        }
    }
    lines.iter().map(|line| drawable(line)).collect()
}

/// Draws the label where it hides least: above the box, below it, inside of it, or beside it.
fn label(
    canvas: &mut Canvas,
    delivered: &DeliveredObject,
    overlays: &[Overlay],
    style: &Style,
    obstacles: &mut LabelObstacles,
) {
    let color = color_of(&delivered.object.class);
    let lines = lines(delivered, overlays, style.has_tracks);
    let (font, pad) = (style.font, (style.font.height() / 6) as i64);
    let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let width = font.width(longest) as i64 + 2 * pad;
    let height = (font.height() * lines.len()) as i64;
    let object = area(&delivered.object.rect);
    let place = |x: i64, y: i64| Area::inside(canvas, (x, y), (width, height));
    let (right, left, above) = (object.x1 - width, object.x0 - width, object.y0 - height);
    let places = [
        place(object.x0, above),
        place(right, above),
        place(object.x0, object.y1),
        place(right, object.y1),
        place(object.x1, object.y0),
        place(left, object.y0),
        place(object.x1, object.y1 - height),
        place(left, object.y1 - height),
        place(object.x0, object.y0),
        place(object.x0, object.y1 - height),
        place(object.x0, above - height),
        place(object.x0, object.y1 + height),
    ];
    // The first of equals: places are in order of preference.
    let place = places
        .into_iter()
        .min_by_key(|place| obstacles.cost(place))
        .unwrap_or(places[0]);
    obstacles.labels.push(place);
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
