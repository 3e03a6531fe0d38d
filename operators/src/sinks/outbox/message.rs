//! Events for other programs, the transports that deliver them, and the outcome of an attempt.

use std::sync::Arc;
use std::time::Duration;

use weir_flow::BestShot;

/// An event for another program.
#[derive(Debug, Clone)]
pub(in crate::sinks) struct Message {
    /// The stream that it is of.
    pub(in crate::sinks) stream: Arc<str>,
    /// Unique identifier, by which a receiver recognises an event that it has received before.
    pub(in crate::sinks) id: String,
    /// The event as a JSON document.
    pub(in crate::sinks) body: Vec<u8>,
    /// Topic of the event, for transports with several topics.
    pub(in crate::sinks) topic: String,
    /// Picture of the event, encoded already, for transports that send it.
    pub(in crate::sinks) picture: Option<Arc<BestShot>>,
}

impl Message {
    /// Bytes of the event and its picture.
    pub(super) fn bytes(&self) -> usize {
        let picture = self.picture.as_ref().map_or(0, |picture| picture.jpeg().len());
        self.body.len() + picture
    }
}

/// Outcome of an attempt to deliver an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::sinks) enum Outcome {
    /// The other side has acknowledged it.
    Delivered,
    /// The other side will never take it, for this reason.
    Refused(String),
    /// The other side was reached, and is slow or broken, or fails on this event: it is tried again, and others may go past it.
    Failed(String),
    /// The other side is not reached: no event is.
    Unreached(String),
    /// The other side takes no event for that time, because it got too many.
    Limited(String, Duration),
}

/// Delivers events; used by one thread.
pub(in crate::sinks) trait Transport: Send + 'static {
    /// Tries to deliver an event within some seconds.
    fn attempt(&mut self, message: &Message) -> Outcome;
    /// Called between events and at least every 100 ms while there are none.
    fn on_idle(&mut self) {}
    /// Called once, after the last event.
    fn close(&mut self) {}
}
