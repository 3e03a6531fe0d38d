//! A transport over connections: one after the other, each of which is never used again once something failed on it, so that no
//! answer of an earlier one is taken for one of a later.

use super::message::{Message, Outcome, Transport};

/// Connects to the target of a sink.
pub(in crate::sinks) trait Connector: Send + 'static {
    /// Type of the connection.
    type Line: Line;
    /// Description of the target, which precedes reasons in messages.
    fn target(&self) -> &str;
    /// Connects within some seconds.
    ///
    /// # Errors
    /// Why that failed.
    fn connect(&self) -> Result<Self::Line, String>;
}

/// A connection to the target of a sink.
pub(in crate::sinks) trait Line: Send + 'static {
    /// Sends an event and waits some seconds for its acknowledgement.
    fn send(&mut self, message: &Message) -> Outcome;
    /// Processes pending work of an idle connection, and returns whether the connection still exists.
    fn is_up(&mut self) -> bool;
}

/// See the module.
pub(in crate::sinks) struct Connections<C: Connector> {
    connector: C,
    line: Option<C::Line>,
}

impl<C: Connector> Connections<C> {
    pub(in crate::sinks) fn new(connector: C) -> Self {
        Self {
            connector,
            line: None,
        }
    }
}

impl<C: Connector> Transport for Connections<C> {
    fn attempt(&mut self, message: &Message) -> Outcome {
        let target = self.connector.target();
        let line = match self.line.take() {
            Some(line) => Ok(line),
            None => self.connector.connect(),
        };
        let mut line = match line {
            Ok(line) => line,
            Err(reason) => return Outcome::Unreached(format!("{target}: {reason}")),
        };
        let outcome = match line.send(message) {
            Outcome::Failed(reason) => return Outcome::Failed(format!("{target}: {reason}")),
            Outcome::Unreached(reason) => return Outcome::Unreached(format!("{target}: {reason}")),
            Outcome::Refused(reason) => Outcome::Refused(format!("{target}: {reason}")),
            Outcome::Limited(reason, wait) => Outcome::Limited(format!("{target}: {reason}"), wait),
            Outcome::Delivered => Outcome::Delivered,
        };
        self.line = Some(line);
        outcome
    }

    fn on_idle(&mut self) {
        if self.line.as_mut().is_some_and(|line| !line.is_up()) {
            self.line = None;
        }
    }

    fn close(&mut self) {
        // What was sent is acknowledged: nothing is to be flushed.
        self.line = None;
    }
}
