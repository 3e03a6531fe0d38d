//! Transforms that programs of users compute, beside the engine: they take in deliveries of streams in their order, and
//! give attributes of objects and incidents.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use crate::analytics::Phase;
use crate::catalog::Settings;
use crate::delivery::Delivery;
use crate::results::Attribute;

/// Makes the programs of transforms.
pub trait TransformPrograms: Debug + Send + Sync {
    /// Makes the program of a transform with these checked keys. It starts no process yet.
    ///
    /// # Errors
    /// The keys name no program.
    fn make(&self, settings: &Settings) -> Result<Box<dyn TransformProgram>, String>;
}

/// Program of one transform, for all streams of it; used by one thread.
pub trait TransformProgram: Send {
    /// Longest time of one call.
    fn timeout(&self) -> Duration;
    /// Starts the program and waits until it takes frames.
    ///
    /// # Errors
    /// The reason why it does not start. It is started again, later, by [`TransformProgram::on_frame`].
    fn start(&mut self) -> Result<(), String>;
    /// Takes in the next frame of a stream, and returns within the time-out of the transform.
    ///
    /// # Errors
    /// There is no result for this frame.
    fn on_frame(&mut self, frame: &Delivery) -> Result<ProgramAnswer, ProgramFailure>;
    /// Nothing follows of a stream: its state is forgotten.
    ///
    /// # Errors
    /// The program did not take it in; with its process, the state of other streams is lost.
    fn on_stream_closed(&mut self, stream: &str) -> Result<(), ProgramFailure>;
}

/// Name of an attribute of an object, and its value; `None` removes it.
pub type AttributeChange = (Arc<str>, Option<Attribute>);

/// Answer of a program for one frame.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProgramAnswer {
    /// Attributes of objects, by the number of the object in its delivery.
    pub attributes: Vec<(u32, Vec<AttributeChange>)>,
    /// Incidents that begin, change or end with the frame.
    pub incidents: Vec<ProgramIncident>,
}

/// Event of an incident, as a program reports it.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramIncident {
    /// Name of the incident among those of its stream that last.
    pub key: Arc<str>,
    /// Phase of the incident. An end without a begin is an incident without duration.
    pub phase: Phase,
    /// Number of the object in the delivery that it concerns, if it concerns one.
    pub object: Option<u32>,
    /// Attributes of the incident.
    pub attributes: Vec<(Arc<str>, Attribute)>,
}

/// Cause for which a program has no answer for a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProgramFault {
    /// It did not answer in time; its process was ended.
    Late,
    /// It raised an exception, or answered what cannot be.
    Failed,
    /// Its process ended by itself.
    Ended,
    /// Its process is not there: it is started again after a while.
    Down,
}

impl ProgramFault {
    /// Whether a process was lost by it, with the state of all streams.
    #[must_use]
    pub const fn loses_state(self) -> bool {
        matches!(self, Self::Late | Self::Ended)
    }
}

/// Failure of a program for one frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramFailure {
    /// Cause of the failure.
    pub fault: ProgramFault,
    /// The cause in words, with the name of the program.
    pub reason: String,
}
