//! The bytes that batches hold on a worker, bounded for all of them together.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_flow::Tensor;

use super::state::WorkerState;

/// Permit for bytes that are held, released when dropped.
pub(super) struct Permit {
    state: Arc<WorkerState>,
    bytes: u64,
}

impl Permit {
    /// Acquires a permit for the tensors; `None` if the worker would exceed its limit.
    pub(super) fn acquire(state: &Arc<WorkerState>, tensors: &[Tensor]) -> Option<Self> {
        Self::for_bytes(state, tensors.iter().map(|tensor| tensor.data.len() as u64).sum())
    }

    /// Acquires a permit for a model that waits to be opened.
    pub(super) fn for_bytes(state: &Arc<WorkerState>, bytes: u64) -> Option<Self> {
        let held = &state.counters.held_bytes;
        let taken = held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
            held.checked_add(bytes).filter(|&sum| sum <= state.max_held_bytes)
        });
        taken.ok().map(|_| Self {
            state: Arc::clone(state),
            bytes,
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let held = &self.state.counters.held_bytes;
        held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
