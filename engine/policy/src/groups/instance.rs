//! What is known of an instance.

use std::collections::BTreeSet;

use weir_types::{ModelId, SequenceId, Timestamp};

use crate::residency::Residency;

/// One instance.
#[derive(Debug, Clone)]
pub(super) struct At {
    pub(super) residency: Residency,
    /// What it serves, open or on its way.
    pub(super) model: Option<ModelId>,
    /// What is opening, and until when.
    pub(super) opening: Option<(ModelId, Timestamp)>,
    /// Requests on it, those that are to go back included.
    pub(super) running: BTreeSet<SequenceId>,
    /// Of these, to go back.
    pub(super) returning: u32,
    /// Sequences and tokens that it can take.
    pub(super) room: [u32; 2],
    /// Bytes of caches in host memory.
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
