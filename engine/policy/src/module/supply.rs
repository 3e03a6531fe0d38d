//! What a module has asked for and was given: a slot that others share, or a path through pipelines. A pool of its own
//! needs no asking.

use std::collections::BTreeMap;

use weir_types::{SlotId, Span, Timestamp};

use crate::reservations::{BookingId, PathRequest};
use crate::slots::Bid;

/// Slots that an arbiter grants.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedSupply {
    /// By mailbox, what was bid, where nothing was granted since.
    pub(super) bids: BTreeMap<usize, Bid>,
    /// Slots that were granted in this step.
    pub(super) granted: Vec<SlotId>,
}

/// Paths that reservations book.
#[derive(Debug, Clone, Default)]
pub(super) struct BookedSupply {
    /// What was requested, where it was not answered since.
    pub(super) requested: Option<PathRequest>,
    /// The earliest that a request which must not be dropped would be through, where that is after its deadline.
    pub(super) extended_deadline: Timestamp,
    /// By how much that is after what was said to be the earliest.
    pub(super) extension: Span,
    /// Since when there has been no path through the pipelines at all.
    pub(super) no_path_since: Option<Timestamp>,
    /// Bookings that arrived in this step.
    pub(super) bookings: Vec<Booking>,
}

/// A path through a pipeline that is kept free for one batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Booking {
    pub(super) id: BookingId,
    /// Items that it has room for.
    pub(super) size: u32,
    /// When the batch is out of the last stage.
    pub(super) finish: Timestamp,
}
