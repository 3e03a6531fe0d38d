//! Rows of a table: the columns, and their values for an object or a track.

use weir_flow::{Attribute, DeliveredObject, Delivery, TrackEnd};

use super::super::event::attributes_value;
use super::columns::{Cell, Columns, Field, Kind, optional, required};

/// Columns of objects: those of CSV, with types.
pub(super) const OBJECTS: &[Field] = &[
    required("stream", Kind::Text),
    required("frame", Kind::Whole),
    required("time", Kind::Time),
    required("pts_ms", Kind::Double),
    required("id", Kind::Whole),
    required("class", Kind::Text),
    required("score", Kind::Float),
    required("x0", Kind::Float),
    required("y0", Kind::Float),
    required("x1", Kind::Float),
    required("y1", Kind::Float),
    optional("parent", Kind::Whole),
    optional("track", Kind::Whole),
    optional("attributes", Kind::Json),
];

/// Columns of tracks that ended.
pub(super) const TRACKS: &[Field] = &[
    required("stream", Kind::Text),
    required("track", Kind::Whole),
    required("class", Kind::Text),
    required("began", Kind::Time),
    required("last_seen", Kind::Time),
    required("began_pts_ms", Kind::Double),
    required("last_pts_ms", Kind::Double),
    optional("attributes", Kind::Json),
];

/// Adds an object.
pub(super) fn push_object(columns: &mut Columns, delivery: &Delivery, object: &DeliveredObject) {
    let rect = object.object.rect;
    let number = |number: Option<u64>| number.map_or(Cell::Null, Cell::Whole);
    let attributes = json(&object.attributes);
    columns.push(&[
        Cell::Text(&delivery.stream),
        Cell::Whole(delivery.frame.index),
        Cell::Whole(delivery.time_ms),
        Cell::Double(delivery.frame.pts_ms),
        Cell::Whole(u64::from(object.id)),
        Cell::Text(&object.object.class),
        Cell::Float(object.object.score),
        Cell::Float(rect.x0),
        Cell::Float(rect.y0),
        Cell::Float(rect.x1),
        Cell::Float(rect.y1),
        number(object.parent.map(u64::from)),
        number(object.track.as_ref().map(|track| track.id)),
        attributes.as_deref().map_or(Cell::Null, Cell::Text),
    ]);
}

/// Adds a track.
pub(super) fn push_track(columns: &mut Columns, stream: &str, track: &TrackEnd) {
    let attributes = json(&track.attributes);
    columns.push(&[
        Cell::Text(stream),
        Cell::Whole(track.id),
        Cell::Text(&track.class),
        Cell::Whole(track.began_ms),
        Cell::Whole(track.last_seen_ms),
        Cell::Double(track.began_pts_ms),
        Cell::Double(track.last_pts_ms),
        attributes.as_deref().map_or(Cell::Null, Cell::Text),
    ]);
}

fn json(attributes: &[(std::sync::Arc<str>, Attribute)]) -> Option<String> {
    (!attributes.is_empty()).then(|| attributes_value(attributes).to_string())
}
