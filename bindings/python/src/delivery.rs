//! Deliveries, their objects and tracks. Python objects are made when they are asked for.

use std::sync::Arc;

use pyo3::prelude::*;
use weir::flow::{self, DeliveredObject, Points, Rect, TrackState};
use weir_operators::sinks::event_line;

use crate::attributes::{to_dict, to_python};
use crate::events::{Incident, TrackEnd};
use crate::image::Image;

/// A frame that passed through the graph, with all that was found in it.
#[pyclass(frozen, module = "weir")]
pub(crate) struct Delivery {
    inner: Arc<flow::Delivery>,
    has_image: bool,
}

impl Delivery {
    pub(crate) fn new(delivery: flow::Delivery, has_image: bool) -> Self {
        Self {
            inner: Arc::new(delivery),
            has_image,
        }
    }
}

#[pymethods]
impl Delivery {
    /// Name of the stream.
    #[getter]
    fn stream(&self) -> &str {
        &self.inner.stream
    }

    /// Number of the frame in its stream, from 0.
    #[getter]
    fn frame(&self) -> u64 {
        self.inner.frame.index
    }

    /// Time in the media from its first frame, in milliseconds.
    #[getter]
    fn pts_ms(&self) -> f64 {
        self.inner.frame.pts_ms
    }

    /// Arrival of the frame, in milliseconds since 1970 (UTC).
    #[getter]
    fn time_ms(&self) -> u64 {
        self.inner.time_ms
    }

    /// From the arrival of the frame to its delivery, in milliseconds.
    #[getter]
    fn latency_ms(&self) -> f64 {
        self.inner.latency_ms
    }

    /// Whether the latency exceeds the objective.
    #[getter]
    fn late(&self) -> bool {
        self.inner.late
    }

    /// Whether nothing had changed since the last frame that was looked at: its objects are those of that frame.
    #[getter]
    fn still(&self) -> bool {
        self.inner.still
    }

    /// Width of the frame in pixels.
    #[getter]
    fn width(&self) -> u32 {
        self.inner.frame.image.width
    }

    /// Height of the frame in pixels.
    #[getter]
    fn height(&self) -> u32 {
        self.inner.frame.image.height
    }

    /// Name of its file, where each frame is a file.
    #[getter]
    fn file(&self) -> Option<&str> {
        self.inner.frame.file.as_deref()
    }

    /// Modules that the frame went on without.
    #[getter]
    fn without(&self) -> Vec<&str> {
        self.inner.without.iter().map(|module| &**module).collect()
    }

    /// The picture, where the engine was made with frames=True.
    #[getter]
    fn image(&self) -> Option<Image> {
        self.has_image.then(|| Image(Arc::clone(&self.inner.frame)))
    }

    /// Objects in the order of their id.
    #[getter]
    fn objects(&self) -> Vec<Object> {
        let object = |index| Object {
            delivery: Arc::clone(&self.inner),
            index,
        };
        (0..self.inner.objects.len()).map(object).collect()
    }

    /// Incidents that began, changed or ended by this frame.
    #[getter]
    fn incidents(&self) -> Vec<Incident> {
        Incident::all(&self.inner.stream, &self.inner.incidents)
    }

    /// Tracks that ended before this frame.
    #[getter]
    fn ended_tracks(&self) -> Vec<TrackEnd> {
        TrackEnd::all(&self.inner.stream, &self.inner.ended_tracks)
    }

    /// The event line of the frame, as a sink of type jsonl writes it.
    fn to_json(&self) -> String {
        event_line(&self.inner)
    }

    /// The event line of the frame as a dictionary.
    fn to_dict(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let line = serde_json::from_str(&event_line(&self.inner)).unwrap_or_default();
        to_python(py, &line)
    }

    fn __repr__(&self) -> String {
        let delivery = &self.inner;
        format!(
            "<weir.Delivery {} frame {}: {} objects, {:.1} ms>",
            delivery.stream,
            delivery.frame.index,
            delivery.objects.len(),
            delivery.latency_ms
        )
    }
}

/// An object of a delivery.
#[pyclass(frozen, module = "weir")]
pub(crate) struct Object {
    delivery: Arc<flow::Delivery>,
    index: usize,
}

impl Object {
    fn inner(&self) -> &DeliveredObject {
        &self.delivery.objects[self.index]
    }
}

#[pymethods]
impl Object {
    /// Number within the frame, from 0.
    #[getter]
    fn id(&self) -> u32 {
        self.inner().id
    }

    /// Name of the class.
    #[getter]
    fn class_name(&self) -> &str {
        &self.inner().object.class
    }

    /// Confidence, 0 to 1.
    #[getter]
    fn score(&self) -> f32 {
        self.inner().object.score
    }

    /// Box in pixels of the frame: left, top, right, bottom.
    #[getter]
    fn r#box(&self) -> (f32, f32, f32, f32) {
        corners(&self.inner().object.rect)
    }

    /// Landmarks in pixels of the frame: five of a face, four corners of a plate or of a rotated box, or none.
    #[getter]
    fn points(&self) -> Vec<(f32, f32)> {
        let corners;
        let points = match &self.inner().object.points {
            Points::None | Points::Pose(_) | Points::Mask(_) => &[][..],
            Points::Face(points) => points,
            Points::Corners(points) => points,
            Points::Rotated(rotated) => {
                corners = rotated.corners();
                &corners
            }
        };
        points.iter().map(|point| (point.x, point.y)).collect()
    }

    /// The id of the object that it was found in.
    #[getter]
    fn parent(&self) -> Option<u32> {
        self.inner().parent
    }

    /// Attributes by name, each a dictionary as in event lines.
    #[getter]
    fn attributes(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        to_dict(py, &self.inner().attributes)
    }

    /// The track of the object, where a tracker follows it.
    #[getter]
    fn track(&self) -> Option<Track> {
        let track = self.inner().track.as_ref()?;
        Some(Track(track.clone()))
    }

    fn __repr__(&self) -> String {
        let object = &self.inner().object;
        let rect = object.rect;
        format!(
            "<weir.Object {} {:.2} at ({:.0}, {:.0}, {:.0}, {:.0})>",
            object.class, object.score, rect.x0, rect.y0, rect.x1, rect.y1
        )
    }
}

pub(crate) fn corners(rect: &Rect) -> (f32, f32, f32, f32) {
    (rect.x0, rect.y0, rect.x1, rect.y1)
}

/// The track of an object, as known at its frame.
#[pyclass(frozen, module = "weir")]
pub(crate) struct Track(TrackState);

#[pymethods]
impl Track {
    /// Unique within the stream, also over restarts.
    #[getter]
    fn id(&self) -> u64 {
        self.0.id
    }

    /// Number among the tracks of the stream since it began, from 0.
    #[getter]
    fn number(&self) -> u64 {
        self.0.number()
    }

    /// Time in the media since the track began, in milliseconds.
    #[getter]
    fn age_ms(&self) -> f64 {
        self.0.age_ms
    }

    /// Velocity of the centre of the box, in pixels a second.
    #[getter]
    fn velocity(&self) -> (f32, f32) {
        (self.0.velocity.x, self.0.velocity.y)
    }

    /// The class that most of its objects had.
    #[getter]
    fn class_name(&self) -> &str {
        &self.0.class
    }

    /// Attributes as they settled over the track.
    #[getter]
    fn attributes(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        to_dict(py, &self.0.attributes)
    }

    fn __repr__(&self) -> String {
        format!("<weir.Track {} {}>", self.0.number(), self.0.class)
    }
}
