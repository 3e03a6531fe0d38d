//! Parameters of a batch that is being formed.

use weir_types::{Span, Timestamp};

/// A slot for which a batch is being formed, with the limits that its requests are checked against.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opening {
    /// Place of the slot among the module's slots.
    pub(super) place: usize,
    /// Time at which the batch is expected to start.
    pub(super) start: Timestamp,
    /// Queued work over the time that requests have here, at the start; 0 if promised durations do not depend
    /// on it.
    pub(super) pressure: f64,
    /// Maximum number of items in the batch.
    pub(super) most: u32,
    /// Duration of the batch, if known from a booking; `None`: estimated from the slot's profile.
    pub(super) takes: Option<Span>,
}
