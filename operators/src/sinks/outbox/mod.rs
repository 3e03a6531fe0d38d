//! Events on their way to another program: a queue bounded in number and bytes, a thread that delivers one after the other
//! and tries again where that fails, and a bounded file of those that could not be delivered.
//!
//! An event is delivered once the other side has acknowledged it; until then it is tried again, so it may arrive twice. Events
//! leave in the order in which they came, but for one that the other side fails on again and again: others go past it. What is
//! given up is in the file of dead letters, or counted as lost. Alarms of one rule can be one message: see `groups`.

mod backoff;
mod books;
#[cfg(any(feature = "kafka", feature = "nats"))]
mod connections;
mod dead_letters;
mod delivery;
mod groups;
mod held;
mod message;
mod queue;

pub(crate) use backoff::Backoff;
#[cfg(any(feature = "kafka", feature = "nats"))]
pub(super) use connections::{Connections, Connector, Line};
pub(super) use dead_letters::DeadLetters;
pub(super) use delivery::{Outbox, OutboxOptions};
pub(super) use groups::GroupKey;
pub(super) use message::{Message, Outcome, Transport};
