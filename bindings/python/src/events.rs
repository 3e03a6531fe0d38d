//! Incidents, tracks that ended, and what happens beside deliveries.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use weir::flow;
use weir_operators::sinks::{incident_value, state_name, track_value};

use crate::attributes::{to_dict, to_python};
use crate::delivery::corners;
use crate::queue::Happened;

/// Something that a transform found: it begins, is updated and ends.
#[pyclass(frozen, module = "weir")]
pub(crate) struct Incident {
    stream: Arc<str>,
    inner: flow::Incident,
}

impl Incident {
    pub(crate) fn all(stream: &Arc<str>, incidents: &[flow::Incident]) -> Vec<Self> {
        let incident = |inner: &flow::Incident| Self {
            stream: Arc::clone(stream),
            inner: inner.clone(),
        };
        incidents.iter().map(incident).collect()
    }
}

#[pymethods]
impl Incident {
    /// Unique over restarts.
    #[getter]
    fn id(&self) -> &str {
        &self.inner.id
    }

    /// Name of the stream.
    #[getter]
    fn stream(&self) -> &str {
        &self.stream
    }

    /// Name of the transform in the graph.
    #[getter]
    fn transform(&self) -> &str {
        &self.inner.transform
    }

    /// Type of the transform.
    #[getter]
    fn kind(&self) -> &'static str {
        self.inner.kind
    }

    /// "began", "updated" or "ended".
    #[getter]
    fn phase(&self) -> &'static str {
        self.inner.phase.name()
    }

    /// The id of the track that it is about, if it is about one.
    #[getter]
    fn track(&self) -> Option<u64> {
        self.inner.track
    }

    /// Class of that track.
    #[getter]
    fn class_name(&self) -> Option<&str> {
        self.inner.class.as_deref()
    }

    /// Confidence, 0 to 1.
    #[getter]
    fn score(&self) -> f32 {
        self.inner.score
    }

    /// Box of the object now, in pixels of the frame: left, top, right, bottom.
    #[getter]
    fn r#box(&self) -> Option<(f32, f32, f32, f32)> {
        self.inner.rect.as_ref().map(corners)
    }

    /// When it began, in milliseconds since 1970 (UTC).
    #[getter]
    fn began_ms(&self) -> u64 {
        self.inner.began_ms
    }

    /// When it was so, in milliseconds since 1970 (UTC).
    #[getter]
    fn time_ms(&self) -> u64 {
        self.inner.time_ms
    }

    /// Time in the media at which it was so, in milliseconds.
    #[getter]
    fn pts_ms(&self) -> f64 {
        self.inner.pts_ms
    }

    /// Zones that the object is in.
    #[getter]
    fn zones(&self) -> Vec<&str> {
        self.inner.zones.iter().map(|zone| &**zone).collect()
    }

    /// Measurements of the transform by name; the unit is the end of the name.
    #[getter]
    fn values(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let value = incident_value(&self.stream, &self.inner);
        to_python(py, value.get("values").unwrap_or(&serde_json::Value::Null))
    }

    /// Attributes as they settled over the track.
    #[getter]
    fn attributes(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        to_dict(py, &self.inner.attributes)
    }

    /// The best picture of the object as a JPEG, where the transform takes pictures.
    fn jpeg<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let best = self.inner.best.as_ref()?;
        let jpeg = py.detach(|| best.jpeg().to_vec());
        (!jpeg.is_empty()).then(|| PyBytes::new(py, &jpeg))
    }

    /// The event line of the incident, as a sink of type jsonl writes it.
    fn to_json(&self) -> String {
        incident_value(&self.stream, &self.inner).to_string()
    }

    /// The event line of the incident as a dictionary.
    fn to_dict(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        to_python(py, &incident_value(&self.stream, &self.inner))
    }

    fn __repr__(&self) -> String {
        format!("<weir.Incident {} {}>", self.inner.id, self.inner.phase.name())
    }
}

/// A track that ended.
#[pyclass(frozen, module = "weir")]
pub(crate) struct TrackEnd {
    stream: Arc<str>,
    inner: flow::TrackEnd,
}

impl TrackEnd {
    pub(crate) fn all(stream: &Arc<str>, tracks: &[flow::TrackEnd]) -> Vec<Self> {
        let track = |inner: &flow::TrackEnd| Self {
            stream: Arc::clone(stream),
            inner: inner.clone(),
        };
        tracks.iter().map(track).collect()
    }
}

#[pymethods]
impl TrackEnd {
    /// The id that its objects had.
    #[getter]
    fn id(&self) -> u64 {
        self.inner.id
    }

    /// Name of the stream.
    #[getter]
    fn stream(&self) -> &str {
        &self.stream
    }

    /// The class that most of its objects had.
    #[getter]
    fn class_name(&self) -> &str {
        &self.inner.class
    }

    /// When it was seen first, in milliseconds since 1970 (UTC).
    #[getter]
    fn began_ms(&self) -> u64 {
        self.inner.began_ms
    }

    /// When it was seen last, in milliseconds since 1970 (UTC).
    #[getter]
    fn last_seen_ms(&self) -> u64 {
        self.inner.last_seen_ms
    }

    /// Attributes as they settled over the track.
    #[getter]
    fn attributes(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        to_dict(py, &self.inner.attributes)
    }

    /// The event line of the track, as a sink of type jsonl writes it.
    fn to_json(&self) -> String {
        track_value(&self.stream, &self.inner).to_string()
    }
}

/// An event of a stream other than a delivery.
#[pyclass(frozen, module = "weir")]
pub(crate) struct Notice(pub(crate) Happened);

#[pymethods]
impl Notice {
    /// "dropped", "still", "state", "ended" or "removed".
    #[getter]
    fn kind(&self) -> &'static str {
        match &self.0 {
            Happened::Dropped { .. } => "dropped",
            Happened::Still { .. } => "still",
            Happened::State { .. } => "state",
            Happened::Ended { .. } => "ended",
            Happened::Removed(_) => "removed",
        }
    }

    /// Name of the stream.
    #[getter]
    fn stream(&self) -> &str {
        match &self.0 {
            Happened::Dropped { stream, .. }
            | Happened::Still { stream, .. }
            | Happened::State { stream, .. }
            | Happened::Ended { stream, .. }
            | Happened::Removed(stream) => stream,
        }
    }

    /// Its time in milliseconds since 1970 (UTC): of frames the arrival of the first.
    #[getter]
    fn time_ms(&self) -> Option<u64> {
        match &self.0 {
            Happened::Dropped { time_ms, .. }
            | Happened::Still { time_ms, .. }
            | Happened::State { time_ms, .. } => Some(*time_ms),
            Happened::Ended { .. } | Happened::Removed(_) => None,
        }
    }

    /// Number of the frame that was dropped, or of the first in which nothing moved.
    #[getter]
    fn frame(&self) -> Option<u64> {
        match &self.0 {
            Happened::Dropped { frame, .. } | Happened::Still { frame, .. } => Some(*frame),
            _ => None,
        }
    }

    /// Frames one after another in which nothing moved, so that they were not decoded.
    #[getter]
    fn frames(&self) -> Option<u64> {
        match &self.0 {
            Happened::Still { frames, .. } => Some(*frames),
            _ => None,
        }
    }

    /// The module that dropped the frame; None where it was dropped at the source.
    #[getter]
    fn module(&self) -> Option<&str> {
        match &self.0 {
            Happened::Dropped { module, .. } => module.as_deref(),
            _ => None,
        }
    }

    /// Why the frame was dropped, or why no frames arrive.
    #[getter]
    fn reason(&self) -> Option<&str> {
        match &self.0 {
            Happened::Dropped { reason, .. } => Some(reason),
            Happened::State { state, .. } => state.reason(),
            _ => None,
        }
    }

    /// State of the stream from now on, as in event lines: "running", "down", "ended" or "paused".
    #[getter]
    fn state(&self) -> Option<&'static str> {
        match &self.0 {
            Happened::State { state, .. } => Some(state_name(state)),
            _ => None,
        }
    }

    /// Tracks that ended with their stream.
    #[getter]
    fn ended_tracks(&self) -> Vec<TrackEnd> {
        match &self.0 {
            Happened::Ended { stream, tracks, .. } => TrackEnd::all(stream, tracks),
            _ => Vec::new(),
        }
    }

    /// Incidents that ended with their stream.
    #[getter]
    fn incidents(&self) -> Vec<Incident> {
        match &self.0 {
            Happened::Ended {
                stream, incidents, ..
            } => Incident::all(stream, incidents),
            _ => Vec::new(),
        }
    }

    fn __repr__(&self) -> String {
        let of = [self.state(), self.reason()]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>();
        format!("<weir.Notice {} {} {}>", self.kind(), self.stream(), of.join(" "))
    }
}
