//! The bytes of messages that have begun to come and are not whole yet, bounded over all connections of a worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Part of one connection in its worker's receive budget.
#[derive(Debug)]
pub(crate) struct ReceiveBudget {
    /// Bytes that are being received, over all connections.
    used: Arc<AtomicU64>,
    /// Limit of `used` that applies while this connection receives.
    max_bytes: u64,
    own: u64,
}

impl ReceiveBudget {
    pub(crate) fn new(used: &Arc<AtomicU64>, max_bytes: u64) -> Self {
        Self {
            used: Arc::clone(used),
            max_bytes,
            own: 0,
        }
    }

    pub(crate) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Bounds it otherwise from now on.
    pub(crate) fn set_max(&mut self, max_bytes: u64) {
        self.max_bytes = max_bytes;
    }

    /// Counts received bytes; returns false if they exceed the limit.
    pub(crate) fn add(&mut self, bytes: u64) -> bool {
        self.own += bytes;
        self.used.fetch_add(bytes, Ordering::Relaxed) + bytes <= self.max_bytes
    }

    /// The message is whole, or given up.
    pub(crate) fn clear(&mut self) {
        self.used.fetch_sub(self.own, Ordering::Relaxed);
        self.own = 0;
    }
}

impl Drop for ReceiveBudget {
    fn drop(&mut self) {
        self.clear();
    }
}
