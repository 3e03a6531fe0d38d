//! Where and when a batch is put together.

use weir_types::{Span, Timestamp};

/// Where a batch is being put together, and for how long it will be away.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opening {
    /// On which slot.
    pub(super) place: usize,
    /// When it is expected to start.
    pub(super) start: Timestamp,
    /// What waits, over what can be run in the time that requests have here; 0 where nothing is promised by it.
    pub(super) pressure: f64,
    /// The most items.
    pub(super) most: u32,
    /// How long it will take, where that is known and not the slot's profile.
    pub(super) takes: Option<Span>,
}
