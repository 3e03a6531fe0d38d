//! Sequences and running steps of a generating module in a world.

use std::collections::BTreeMap;

use weir_policy::generate::Step;
use weir_types::{SequenceId, SlotId, Timestamp};

/// Tokens of a sequence: generated so far, and in total.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    pub(super) generated: u32,
    pub(super) length: u32,
}

/// Sequences and steps of one module.
#[derive(Debug, Default)]
pub(super) struct Generated {
    pub(super) sequences: BTreeMap<SequenceId, Progress>,
    /// Running step of each slot, and the time at which it ends.
    pub(super) steps: BTreeMap<SlotId, (Step, Timestamp)>,
}
