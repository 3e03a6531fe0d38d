//! Truths and findings for tests.

use serde_json::{Value, json};
use weir_truth::{FrameTruth, Truth, TruthObject};

use super::{Detection, Observed};

/// A true thing of 10 by 10 pixels.
pub(super) fn thing(id: u64, class: &str, left: f32) -> TruthObject {
    TruthObject {
        id,
        class: class.to_owned(),
        r#box: [left, 0.0, left + 10.0, 10.0],
        visible: 1.0,
        ignore: false,
        parent: None,
        attributes: [].into(),
    }
}

/// A true car.
pub(super) fn car(id: u64, left: f32) -> TruthObject {
    thing(id, "car", left)
}

/// The same with an attribute.
pub(super) fn with(mut object: TruthObject, name: &str, attribute: Value) -> TruthObject {
    let attribute = serde_json::from_value(attribute).expect("a form that truths have");
    object.attributes.insert(name.to_owned(), attribute);
    object
}

pub(super) fn frame_of(frame: u64, objects: Vec<TruthObject>) -> FrameTruth {
    FrameTruth {
        frame,
        pts_ms: frame as f64 * 40.0,
        objects,
    }
}

/// A clip of 960 x 540.
pub(super) fn clip(frames: Vec<Vec<TruthObject>>) -> Truth {
    let clip = json!({"truth": 1, "world": "street", "seed": 1, "width": 960, "height": 540, "fps": 25.0,
        "frames": frames.len()});
    Truth {
        clip: serde_json::from_value(clip).expect("a clip"),
        frames: (0..)
            .zip(frames)
            .map(|(index, objects)| frame_of(index, objects))
            .collect(),
    }
}

/// A finding of 10 by 10 pixels.
pub(super) fn detection(class: &str, score: f32, left: f32) -> Detection {
    Detection {
        class: class.to_owned(),
        score,
        r#box: [left, 0.0, left + 10.0, 10.0],
        track: None,
        candidate: false,
        attributes: [].into(),
    }
}

/// The same with an attribute, as event lines say it.
pub(super) fn with_event_attribute(mut seen: Detection, name: &str, attribute: Value) -> Detection {
    seen.attributes.insert(name.to_owned(), attribute.into());
    seen
}

pub(super) fn observed<'a>(truth: &'a FrameTruth, seen: Option<&'a [Detection]>) -> Observed<'a> {
    Observed {
        sequence: 0,
        size: (960, 540),
        truth,
        seen,
    }
}

/// Draws that a seed decides: xorshift.
pub(super) struct Draws(pub(super) u64);

impl Draws {
    /// From nought to `below`, exclusive.
    pub(super) fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below.max(1)
    }
}
