//! State of one instance.

use std::collections::BTreeSet;

use weir_types::{ModelId, SequenceId, Timestamp};

use crate::residency::Residency;

/// State of one instance: its models, its requests and its room.
#[derive(Debug, Clone)]
pub(super) struct At {
    pub(super) residency: Residency,
    /// Model that it serves, open or opening.
    pub(super) model: Option<ModelId>,
    /// Model that is opening, and the expected end of that.
    pub(super) opening: Option<(ModelId, Timestamp)>,
    /// Requests on the instance, including those that are to return to the queue.
    pub(super) running: BTreeSet<SequenceId>,
    /// Number of these that are to return.
    pub(super) returning: u32,
    /// Number of sequences, and number of tokens, that the instance can still take.
    pub(super) room: [u32; 2],
    /// Bytes of swapped-out caches in host memory.
    pub(super) swapped_bytes: f64,
    pub(super) is_up: bool,
}

impl At {
    pub(super) fn new(residency: Residency) -> Self {
        Self {
            residency,
            model: None,
            opening: None,
            running: BTreeSet::new(),
            returning: 0,
            room: [u32::MAX; 2],
            swapped_bytes: 0.0,
            is_up: true,
        }
    }
}
