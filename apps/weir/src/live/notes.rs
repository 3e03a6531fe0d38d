//! Objects and zones of a frame as notes, which the page draws over the video.

use serde_json::{Value, json};
use weir_flow::{Attribute, DeliveredObject, Delivery, Overlay, Point, Points, Rect};

/// Objects that are drawn; no person sees more.
const MAX_OBJECTS: usize = 256;

/// Corners of a zone that are drawn; one that a person draws has fewer.
const MAX_POINTS: usize = 64;

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
    if let Points::Rotated(rotated) = &object.points {
        note["corners"] = json!(rotated.corners().map(|corner| part(corner, size)));
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
    match attribute {
        Attribute::Text { text, .. } => Some(text),
        Attribute::Class { class, .. } => Some(class),
        Attribute::Match {
            r#match: Some(name), ..
        } => Some(name),
        // Compared with a gallery, and near enough to nobody in it.
        Attribute::Match { cosine: Some(_), .. } => Some("unknown"),
        _ => None,
    }
}
