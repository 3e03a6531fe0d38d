//! Input of sinks: the header of a run, deliveries, and notices of streams.

use std::sync::Arc;

use weir_types::{Shortfall, StreamState};

use crate::analytics::{Description, Incident, Overlay, TrackEnd, TrackState};
use crate::frame::Frame;
use crate::results::{Attribute, Object};

/// An object of a delivery, with its attributes.
#[derive(Debug, Clone, PartialEq)]
pub struct DeliveredObject {
    /// Number within the frame, from 0.
    pub id: u32,
    /// Class, score, box and landmarks.
    pub object: Object,
    /// `id` of the object in whose crop it was found.
    pub parent: Option<u32>,
    /// Attributes by name.
    pub attributes: Vec<(Arc<str>, Attribute)>,
    /// State of its track; `None` if no tracker follows objects of its module.
    pub track: Option<TrackState>,
}

/// A frame that passed through the graph, with the objects found in it.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Name of the stream.
    pub stream: Arc<str>,
    /// The decoded frame.
    pub frame: Arc<Frame>,
    /// Arrival of the frame, in milliseconds since 1970 (UTC).
    pub time_ms: u64,
    /// Time from sending the frame to its delivery, in milliseconds.
    pub latency_ms: f64,
    /// True if the latency exceeds the SLO.
    pub late: bool,
    /// Whether nothing had changed since the last frame that was looked at: its objects are those of that frame.
    pub still: bool,
    /// Modules that the frame went on without, for lack of time or by failures (`on_drop = "degrade"`).
    pub without: Vec<Arc<str>>,
    /// Objects in the order of their `id`.
    pub objects: Vec<DeliveredObject>,
    /// Tracks that ended before this frame; empty without trackers.
    pub ended_tracks: Vec<TrackEnd>,
    /// Incidents that transforms reported up to this frame; empty without transforms.
    pub incidents: Vec<Incident>,
    /// Shapes and texts that transforms draw on the picture; empty without transforms.
    pub overlays: Vec<Overlay>,
}

impl Delivery {
    /// A frame in which nothing was found, with no latency.
    pub fn new(stream: impl Into<Arc<str>>, frame: impl Into<Arc<Frame>>) -> Self {
        Self {
            stream: stream.into(),
            frame: frame.into(),
            time_ms: 0,
            latency_ms: 0.0,
            late: false,
            still: false,
            without: Vec::new(),
            objects: Vec::new(),
            ended_tracks: Vec::new(),
            incidents: Vec::new(),
            overlays: Vec::new(),
        }
    }
}

/// An event of a stream other than a delivery.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// A frame was dropped.
    Dropped {
        /// Name of the stream.
        stream: Arc<str>,
        /// [`Frame::index`].
        frame: u64,
        /// [`Frame::pts_ms`].
        pts_ms: f64,
        /// Arrival of the frame, in milliseconds since 1970 (UTC).
        time_ms: u64,
        /// Module that dropped it; `None` if it was dropped at the source.
        module: Option<Arc<str>>,
        /// The drop reason as reports spell it.
        reason: &'static str,
        /// Time that it lacked, if it was dropped because it would have been late.
        shortfall: Option<Shortfall>,
    },
    /// Frames of a stream were not given to models: nothing moved in them, so that they were not decoded, or they came outside
    /// the times at which the source is analysed.
    Still {
        /// Name of the stream.
        stream: Arc<str>,
        /// [`Frame::index`] of the first.
        frame: u64,
        /// Number of frames.
        frames: u64,
        /// [`Frame::index`] of the last. The frames follow each other, but for those that a source with `sample` leaves out in between.
        last_frame: u64,
        /// [`Frame::pts_ms`] of the first.
        pts_ms: f64,
        /// Arrival of the first, in milliseconds since 1970 (UTC).
        time_ms: u64,
    },
    /// A stream changed its state: it is live, down (stalled or waiting) for a new reason, gone or paused.
    /// Connecting is not reported.
    State {
        /// Name of the stream.
        stream: Arc<str>,
        /// The new state.
        state: StreamState,
        /// Time of the change, in milliseconds since 1970 (UTC).
        time_ms: u64,
    },
    /// Output of a sink reaches its destination no more, or again.
    Sink {
        /// Name of the sink.
        sink: Arc<str>,
        /// Reason of the outage; `None` if it works again.
        outage: Option<Arc<str>>,
        /// Time of the change, in milliseconds since 1970 (UTC).
        time_ms: u64,
    },
    /// Tracks and incidents that ended without a delivery, because their stream was removed, ended or lost
    /// its connection.
    Analytics {
        /// Name of the stream.
        stream: Arc<str>,
        /// Tracks that ended.
        ended_tracks: Vec<TrackEnd>,
        /// Incidents that ended.
        incidents: Vec<Incident>,
    },
    /// A model described the picture of an incident. Sinks that show the incident receive it.
    Described {
        /// Name of the sink that asked the model.
        sink: Arc<str>,
        /// Words of the model, with their incident.
        description: Arc<Description>,
    },
}

/// Identity of a run, which sinks write before anything else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunHeader {
    /// Unique among runs.
    pub id: String,
    /// Name of the graph.
    pub graph: String,
    /// Name of the program that runs it.
    pub program: String,
    /// Version of the program.
    pub version: String,
    /// Start of the run, in milliseconds since 1970 (UTC).
    pub time_ms: u64,
    /// Streams whose frames the sink receives.
    pub streams: Vec<StreamHeader>,
}

/// A stream in a [`RunHeader`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamHeader {
    /// Name of the stream in the graph.
    pub name: String,
    /// Address of its source, without credentials.
    pub source: String,
    /// Address, without credentials, of the smaller stream from which its frames come; `None` if there is
    /// none.
    pub detect_source: Option<String>,
}
