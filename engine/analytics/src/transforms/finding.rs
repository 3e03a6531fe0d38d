//! Findings of a transform, before they become incidents of a stream.

use std::sync::Arc;

use weir_flow::{IncidentValue, Phase, Point};

use super::geometry::Polygon;
use super::subject::Subject;
use crate::track::FrameTime;

/// An incident without the fields that all incidents of its track share.
#[derive(Debug, Clone)]
pub(crate) struct Finding {
    /// Number of the incident within its transform.
    pub(crate) number: u64,
    pub(crate) phase: Phase,
    pub(crate) track: Option<u64>,
    pub(crate) began: FrameTime,
    pub(crate) at: FrameTime,
    pub(crate) values: Vec<(&'static str, IncidentValue)>,
    /// Last state of the track, if it ended before the incident.
    pub(crate) ghost: Option<Box<Subject>>,
}

/// A number as a value, rounded to `digits` behind the point.
pub(crate) fn number(value: f64, digits: i32) -> IncidentValue {
    let scale = 10f64.powi(digits);
    IncidentValue::Number((value * scale).round() / scale + 0.0)
}

/// A count as a value.
pub(crate) fn count(value: u64) -> IncidentValue {
    IncidentValue::Number(value as f64)
}

/// Drawing of a transform for a picture: its geometry in source pixels, a text, and texts beside tracks.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Drawing {
    pub(crate) points: Vec<Point>,
    pub(crate) is_closed: bool,
    pub(crate) text: String,
    pub(crate) tags: Vec<(u64, Arc<str>)>,
}

/// Corners of a polygon for a drawing.
pub(crate) fn outline(polygon: &Polygon) -> Vec<Point> {
    let corners = polygon.0.iter();
    corners
        .map(|corner| Point::new(corner.x as f32, corner.y as f32))
        .collect()
}
