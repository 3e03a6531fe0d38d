//! What was found in a frame, as the page draws it over the video.

use serde_json::{Value, json};
use weir_flow::{Attribute, DeliveredObject, Delivery, Rect};

/// Objects that are drawn; no person sees more.
const MAX_OBJECTS: usize = 256;

/// A delivery as a message: boxes are corners in parts of the frame, for the video may have another size.
pub(super) fn frame(delivery: &Delivery) -> String {
    let size = (delivery.frame.image.width, delivery.frame.image.height);
    let objects = delivery.objects.iter().take(MAX_OBJECTS);
    let objects: Vec<Value> = objects.map(|found| object(found, size)).collect();
    let note = json!({
        "type": "frame",
        "frame": delivery.frame.index,
        "pts_ms": delivery.frame.pts_ms,
        "latency_ms": delivery.latency_ms,
        "late": delivery.late,
        "objects": objects,
    });
    note.to_string()
}

fn object(found: &DeliveredObject, size: (u32, u32)) -> Value {
    let object = &found.object;
    let mut note = json!({
        "class": object.class,
        "score": object.score,
        "box": parts(object.rect, size),
    });
    if let Some(parent) = found.parent {
        note["parent"] = parent.into();
    }
    if let Some(track) = &found.track {
        note["track"] = track.id.into();
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
pub(super) fn parts(rect: Rect, (width, height): (u32, u32)) -> [f32; 4] {
    let (width, height) = (width.max(1) as f32, height.max(1) as f32);
    [
        rect.x0 / width,
        rect.y0 / height,
        rect.x1 / width,
        rect.y1 / height,
    ]
}

/// What an attribute says in a word, if it does.
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
