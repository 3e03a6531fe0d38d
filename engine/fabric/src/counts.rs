//! What came and went, and what was refused.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// What one node sent, took and refused since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct FabricCounts {
    /// Messages that it sent.
    pub sent: u64,
    /// Messages that it took.
    pub received: u64,
    /// Messages beyond the bound, sent or received: refused.
    pub too_large: u64,
    /// Messages under keys that belong to no node: refused.
    pub malformed: u64,
    /// Messages that nobody had taken when the next one arrived beyond the bound of the queue: dropped.
    pub overflowed: u64,
}

/// What the transport refused in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Refusals {
    /// Connections whose other end showed no certificate of the fleet's authority, spoke no TLS, or claimed to be another node.
    pub connections: u64,
    /// Messages under keys that are not their sender's.
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

/// One more.
#[cfg_attr(
    not(feature = "zenoh"),
    allow(dead_code, reason = "there is nothing to count")
)]
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
