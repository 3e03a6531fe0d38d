//! Values that several unit tests of the sink need.

use weir_flow::{DeliveredObject, Object, Overlay, Points, Rect, TrackState};

/// Overlay of a rule without a shape.
pub(super) fn overlay(name: &str, kind: &'static str) -> Overlay {
    Overlay {
        transform: name.into(),
        kind,
        points: Vec::new(),
        is_closed: true,
        text: "".into(),
        tags: Vec::new(),
    }
}

pub(super) fn object(class: &str, track: Option<TrackState>) -> DeliveredObject {
    DeliveredObject {
        id: 0,
        object: Object {
            candidate: false,
            class: class.into(),
            score: 0.5,
            rect: Rect::new(0.0, 0.0, 1.0, 1.0),
            parent: None,
            points: Points::None,
        },
        parent: None,
        attributes: Vec::new(),
        track,
    }
}
