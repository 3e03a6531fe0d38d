//! The bytes that batches hold on a worker, bounded for all of them together.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_flow::Tensor;

use super::desk::Desk;

/// So many bytes are held; given back when dropped.
pub(super) struct Permit {
    desk: Arc<Desk>,
    bytes: u64,
}

impl Permit {
    /// `None` where the worker would hold too much.
    pub(super) fn take(desk: &Arc<Desk>, tensors: &[Tensor]) -> Option<Self> {
        Self::of(desk, tensors.iter().map(|tensor| tensor.data.len() as u64).sum())
    }

    /// The same for what is no tensor: a model that waits to be opened.
    pub(super) fn of(desk: &Arc<Desk>, bytes: u64) -> Option<Self> {
        let held = &desk.counts.held_bytes;
        let taken = held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
            held.checked_add(bytes).filter(|&sum| sum <= desk.held_bytes_most)
        });
        taken.ok().map(|_| Self {
            desk: Arc::clone(desk),
            bytes,
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let held = &self.desk.counts.held_bytes;
        held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
