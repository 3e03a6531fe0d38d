//! What sinks receive: the header of a run, deliveries, and notices of streams.

use std::sync::Arc;

use crate::frame::Frame;
use crate::results::{Attribute, Object};

/// An object as events show it.
#[derive(Debug, Clone, PartialEq)]
pub struct DeliveredObject {
    /// Number within the frame.
    pub id: u32,
    /// The object.
    pub object: Object,
    /// Number of the object in whose crop it was found.
    pub parent: Option<u32>,
    /// Attributes by name.
    pub attributes: Vec<(Arc<str>, Attribute)>,
}

/// A frame that came out, with all that was found in it.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Name of its stream.
    pub stream: Arc<str>,
    /// The frame.
    pub frame: Arc<Frame>,
    /// When the frame arrived, in milliseconds since 1970 (UTC).
    pub time_ms: u64,
    /// From sending to coming out.
    pub latency_ms: f64,
    /// True where that is more than the SLO.
    pub late: bool,
    /// What was found, numbered from 0.
    pub objects: Vec<DeliveredObject>,
}

/// What a stream is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamState {
    /// Frames come.
    Running,
    /// None come: it could not be reached, broke off, or is silent. It is tried again.
    Down {
        /// Why.
        reason: String,
    },
    /// No more will come.
    Ended {
        /// Why, where that was not its regular end.
        error: Option<String>,
    },
}

/// What happened to a stream beside its deliveries.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// A frame that is not delivered.
    Dropped {
        /// Name of its stream.
        stream: Arc<str>,
        /// Its number.
        frame: u64,
        /// Its media time, as [`Frame::pts_ms`].
        pts_ms: f64,
        /// When it arrived, in milliseconds since 1970 (UTC).
        time_ms: u64,
        /// Name of the module that dropped it; `None` at the source.
        module: Option<Arc<str>>,
        /// The reason as reports name it.
        reason: &'static str,
    },
    /// A stream is in another state now.
    State {
        /// Its name.
        stream: Arc<str>,
        /// The state.
        state: StreamState,
        /// When it came into that state, in milliseconds since 1970 (UTC).
        time_ms: u64,
    },
}

/// What a run is, as sinks write it before anything else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunHeader {
    /// Differs from that of every other run.
    pub id: String,
    /// Name of the graph.
    pub graph: String,
    /// Name of the program.
    pub program: String,
    /// Its version.
    pub version: String,
    /// When the run began, in milliseconds since 1970 (UTC).
    pub time_ms: u64,
    /// The streams whose frames the sink is given.
    pub streams: Vec<StreamHeader>,
}

/// A stream, as [`RunHeader`] names it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamHeader {
    /// Its name.
    pub name: String,
    /// What its frames are read from, without credentials.
    pub source: String,
}
