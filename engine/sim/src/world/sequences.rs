//! What a module that generates has at work in a world: its sequences, and the steps that run.

use std::collections::BTreeMap;

use weir_policy::generate::Step;
use weir_types::{SequenceId, SlotId, Timestamp};

/// Tokens of a sequence: so far, and in all.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    pub(super) generated: u32,
    pub(super) length: u32,
}

/// Of one module.
#[derive(Debug, Default)]
pub(super) struct Generated {
    pub(super) sequences: BTreeMap<SequenceId, Progress>,
    /// By slot: the step that runs, and when it is done.
    pub(super) steps: BTreeMap<SlotId, (Step, Timestamp)>,
}
