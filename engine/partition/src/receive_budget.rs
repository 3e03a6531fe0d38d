//! The bytes of messages that have begun to come and are not whole yet, bounded over all connections of a worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What one connection has of its worker's budget.
#[derive(Debug)]
pub(crate) struct ReceiveBudget {
    /// Bytes of all connections.
    used: Arc<AtomicU64>,
    /// How far all together may go where it is this connection that receives.
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

    /// Counts bytes that came; false where they are too many.
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
