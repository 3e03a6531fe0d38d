//! A request in a module.

use weir_flow::{Inference, Item, SequenceSpec};

use crate::request::RequestBranch;

/// A request in this module, with an inference for each item.
pub(crate) struct PendingRequest {
    pub(super) branch: RequestBranch,
    pub(super) items: Vec<Item>,
    /// `None` before the item has run.
    pub(super) inferences: Vec<Option<Inference>>,
    /// Tiles that are not read, with the findings of an earlier frame.
    pub(super) known_tiles: Vec<(Item, Inference)>,
    /// Of a stage: the place of each item among those of the cascade.
    pub(super) places: Vec<usize>,
    /// The sequence of each item; empty unless the model generates.
    pub(super) sequences: Vec<SequenceSpec>,
}
