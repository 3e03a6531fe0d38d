//! The trait of actors: they take messages in, and write what follows into an outbox.

use weir_types::Timestamp;

use crate::message::{Effect, Message};

/// An actor as a pure machine. The same messages at the same times give the same outbox.
pub trait Machine {
    /// Messages that it takes in.
    type Message;

    /// Takes a message in. What can wait is decided on by [`Machine::decide`], with all that came in at the same moment.
    fn on(&mut self, message: Self::Message, now: Timestamp, out: &mut Outbox);

    /// Decides on what came in since the last call.
    fn decide(&mut self, now: Timestamp, out: &mut Outbox);

    /// Whether anything came in that is not decided on.
    fn is_due(&self) -> bool;
}

/// Messages and effects of a machine, in order.
#[derive(Debug, Default)]
pub struct Outbox(pub(crate) Vec<Outgoing>);

/// One thing that a machine wants to happen.
#[derive(Debug)]
pub enum Outgoing {
    /// A message to another machine. It takes as long as messages take between actors, and over a link (by its index) as
    /// long as that takes.
    Send {
        /// The message with its receiver.
        message: Message,
        /// The link that it crosses.
        link: Option<usize>,
    },
    /// A message that comes at once: it counts what has happened, or goes on within one device.
    Tell(Message),
    /// An effect on the world.
    Act(Effect),
}

impl Outbox {
    pub(crate) fn send(&mut self, message: Message) {
        self.0.push(Outgoing::Send { message, link: None });
    }

    pub(crate) fn send_over(&mut self, message: Message, link: Option<usize>) {
        self.0.push(Outgoing::Send { message, link });
    }

    pub(crate) fn tell(&mut self, message: Message) {
        self.0.push(Outgoing::Tell(message));
    }

    pub(crate) fn act(&mut self, effect: Effect) {
        self.0.push(Outgoing::Act(effect));
    }

    /// Takes out all of it, in order.
    pub fn drain(&mut self) -> impl Iterator<Item = Outgoing> {
        self.0.drain(..)
    }
}
