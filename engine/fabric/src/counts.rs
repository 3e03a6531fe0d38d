//! Counters of messages that were sent, received and refused.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// Counters of one node since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct FabricCounts {
    /// Messages that it sent.
    pub sent: u64,
    /// Messages that it received.
    pub received: u64,
    /// Messages refused because they exceed the size limit, sent or received.
    pub too_large: u64,
    /// Messages refused because their key belongs to no node.
    pub malformed: u64,
    /// Messages dropped because the queue of a subscription was full.
    pub overflowed: u64,
}

/// Counters of refusals by the transport, in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Refusals {
    /// Connections refused because the peer had no certificate of the fleet's authority, did not use TLS, or
    /// claimed the name of another node.
    pub connections: u64,
    /// Messages refused because their key does not belong to the sender.
    pub messages: u64,
}

/// [`FabricCounts`] while they grow.
#[derive(Debug, Default)]
#[cfg_attr(
    not(feature = "zenoh"),
    allow(dead_code, reason = "there is nothing to count")
)]
pub(crate) struct Counters {
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
    pub(crate) too_large: AtomicU64,
    pub(crate) malformed: AtomicU64,
    pub(crate) overflowed: AtomicU64,
}

#[cfg_attr(
    not(feature = "zenoh"),
    allow(dead_code, reason = "there is nothing to count")
)]
impl Counters {
    pub(crate) fn counts(&self) -> FabricCounts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        FabricCounts {
            sent: of(&self.sent),
            received: of(&self.received),
            too_large: of(&self.too_large),
            malformed: of(&self.malformed),
            overflowed: of(&self.overflowed),
        }
    }
}

/// Increments a counter.
#[cfg_attr(
    not(feature = "zenoh"),
    allow(dead_code, reason = "there is nothing to count")
)]
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
