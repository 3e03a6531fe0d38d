//! Pending bids and grants of shared slots, and pending requests and bookings of paths through pipelines. A
//! module with a pool of its own has neither.

use std::collections::BTreeMap;

use weir_types::{SlotId, Span, Timestamp};

use crate::reservations::{BookingId, PathRequest};
use crate::slots::Bid;

/// Slots that an arbiter grants.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedSupply {
    /// Bid of each mailbox that was not granted yet.
    pub(super) bids: BTreeMap<usize, Bid>,
    /// Slots granted during this step.
    pub(super) granted: Vec<SlotId>,
}

/// Paths that reservations book.
#[derive(Debug, Clone, Default)]
pub(super) struct BookedSupply {
    /// Requested path that has not been answered yet.
    pub(super) requested: Option<PathRequest>,
    /// Deadline requested for a path if the true one cannot be met and the request must not be dropped.
    pub(super) extended_deadline: Timestamp,
    /// Time between the earliest finish that was reported and `extended_deadline`.
    pub(super) extension: Span,
    /// Time since which no path through the pipelines exists at all.
    pub(super) no_path_since: Option<Timestamp>,
    /// Bookings that arrived during this step.
    pub(super) bookings: Vec<Booking>,
}

/// A path through a pipeline, reserved for one batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Booking {
    pub(super) id: BookingId,
    /// Number of items that the path has room for.
    pub(super) size: u32,
    /// Time at which the batch leaves the last stage.
    pub(super) finish: Timestamp,
}
