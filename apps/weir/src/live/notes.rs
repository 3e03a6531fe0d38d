//! Objects and zones of a frame as notes, which the page draws over the video.

use serde_json::{Value, json};
use weir_flow::{Attribute, DeliveredObject, Delivery, KeyPoint, Mask, Overlay, Point, Points, Rect};

/// Objects that are drawn; no person sees more.
const MAX_OBJECTS: usize = 256;

/// Corners of a zone that are drawn; one that a person draws has fewer.
const MAX_POINTS: usize = 64;

/// Columns of a mask that are drawn, each as a strip that is as wide as the gap to the next one.
const MAX_COLUMNS: usize = 64;

/// Strips of a mask that are drawn.
const MAX_STRIPS: usize = 256;

/// Key points that are drawn.
const MAX_KEY_POINTS: usize = 133;

/// Key points below this confidence are not drawn.
const MIN_SCORE: f32 = 0.4;

/// A delivery as a message: boxes are corners in parts of the frame, for the video may have another size.
pub(super) fn frame(delivery: &Delivery) -> String {
    let size = (delivery.frame.image.width, delivery.frame.image.height);
    let objects = delivery.objects.iter().take(MAX_OBJECTS);
    let objects: Vec<Value> = objects
        .map(|found| object(found, size, &delivery.overlays))
        .collect();
    let shapes = delivery
        .overlays
        .iter()
        .filter(|overlay| !overlay.points.is_empty());
    let shapes: Vec<Value> = shapes.map(|overlay| shape(overlay, size)).collect();
    let mut note = json!({
        "type": "frame",
        "frame": delivery.frame.index,
        "pts_ms": delivery.frame.pts_ms,
        "latency_ms": delivery.latency_ms,
        "late": delivery.late,
        "still": delivery.still,
        "objects": objects,
    });
    if !shapes.is_empty() {
        note["shapes"] = shapes.into();
    }
    note.to_string()
}

/// A zone or line of a transform: its name, its corners or ends, and its count.
fn shape(overlay: &Overlay, size: (u32, u32)) -> Value {
    let points = overlay.points.iter().take(MAX_POINTS);
    let points: Vec<[f32; 2]> = points.map(|at| part(*at, size)).collect();
    json!({
        "name": overlay.transform,
        "kind": overlay.kind,
        "closed": overlay.is_closed,
        "points": points,
        "text": overlay.text,
    })
}

fn object(found: &DeliveredObject, size: (u32, u32), overlays: &[Overlay]) -> Value {
    let object = &found.object;
    let mut note = json!({
        "class": object.class,
        "score": object.score,
        "box": parts(object.rect, size),
    });
    match &object.points {
        Points::None => {}
        Points::Rotated(rotated) => {
            note["corners"] = json!(rotated.corners().map(|corner| part(corner, size)))
        }
        Points::Corners(corners) => note["corners"] = json!(corners.map(|corner| part(corner, size))),
        Points::Face(points) => note["points"] = json!(points.map(|point| part(point, size))),
        Points::Pose(points) => note["points"] = key_points(points, size),
        Points::Mask(pixels) => note["mask"] = mask(pixels, size),
    }
    let attributes = found.attributes.iter().map(|(_, attribute)| attribute);
    for attribute in attributes {
        if let Attribute::Points(points) = attribute {
            note["points"] = key_points(points, size);
        }
    }
    if let Some(parent) = found.parent {
        note["parent"] = parent.into();
    }
    if let Some(track) = &found.track {
        note["track"] = track.id.into();
        let tags = overlays.iter().flat_map(|overlay| &overlay.tags);
        let tags: Vec<&str> = tags
            .filter(|(of, _)| *of == track.id)
            .map(|(_, text)| &**text)
            .collect();
        if !tags.is_empty() {
            note["tags"] = tags.join(" \u{b7} ").into();
        }
    }
    let words: Vec<&str> = found
        .attributes
        .iter()
        .filter_map(|(_, attribute)| word(attribute))
        .collect();
    if !words.is_empty() {
        note["words"] = words.join(" ").into();
    }
    note
}

/// Key points in the order of the model; `null` for those that the model is not sure of.
fn key_points(points: &[KeyPoint], size: (u32, u32)) -> Value {
    let points = points.iter().take(MAX_KEY_POINTS);
    let points: Vec<Option<[f32; 2]>> = points
        .map(|point| (point.score >= MIN_SCORE).then(|| part(point.at, size)))
        .collect();
    json!(points)
}

/// A mask as upright strips: their width, and left edge, top and bottom of each, in parts of the frame.
fn mask(pixels: &Mask, size: (u32, u32)) -> Value {
    let spans = pixels.spans();
    let (first, last) = (
        spans.first().map_or(0, |span| span.x),
        spans.last().map_or(0, |span| span.x),
    );
    let step = (last - first + 1).div_ceil(MAX_COLUMNS as u32).max(1);
    let drawn = spans.iter().filter(|span| (span.x - first).is_multiple_of(step));
    let at = |x: u32, y: u32| part(Point::new(x as f32, y as f32), size);
    let strips: Vec<[f32; 3]> = drawn
        .take(MAX_STRIPS)
        .map(|span| {
            let ([x, top], [_, bottom]) = (at(span.x, span.top), at(span.x, span.bottom));
            [x, top, bottom]
        })
        .collect();
    json!({ "width": at(step, 0)[0], "strips": strips })
}

/// Corners in parts of the frame.
fn parts(rect: Rect, size: (u32, u32)) -> [f32; 4] {
    let [x0, y0] = part(Point::new(rect.x0, rect.y0), size);
    let [x1, y1] = part(Point::new(rect.x1, rect.y1), size);
    [x0, y0, x1, y1]
}

/// A point in parts of the frame, as exact as a screen can show.
fn part(at: Point, (width, height): (u32, u32)) -> [f32; 2] {
    let round = |part: f32| (part * 1e4).round() / 1e4;
    [
        round(at.x / width.max(1) as f32),
        round(at.y / height.max(1) as f32),
    ]
}

/// The text, the class or the name in an attribute; `None` for attributes without one.
pub(super) fn word(attribute: &Attribute) -> Option<&str> {
    attribute.word()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_drawn_as_a_bounded_number_of_strips() {
        let rect = Rect::new(100.0, 50.0, 300.0, 150.0);
        let pixels = Mask::sample(&rect, |_, _| true).expect("pixels");
        let note = mask(&pixels, (400, 200));
        let strips = note["strips"].as_array().expect("strips");
        // 200 columns, every fourth of them.
        assert_eq!(strips.len(), 50);
        assert_eq!(strips[0], json!([0.25, 0.25, 0.75]));
    }

    #[test]
    fn key_points_keep_their_places_where_some_are_uncertain() {
        let point = |x: f32, score: f32| KeyPoint {
            name: None,
            at: Point::new(x, 50.0),
            score,
        };
        let note = key_points(
            &[point(25.0, 0.9), point(50.0, 0.1), point(75.0, 0.9)],
            (100, 100),
        );
        assert_eq!(note, json!([[0.25, 0.5], null, [0.75, 0.5]]));
    }
}
