//! Interface of reservations: path requests, bookings, uses of resources.

use serde::{Deserialize, Serialize};
use weir_types::{ModuleId, PipelineId, ShareId, Span, Timestamp};

/// A booking: one batch over the shares and links reserved for it, numbered in the order of booking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BookingId(pub u64);

/// A module's request for a path: one batch of the items in its mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathRequest {
    /// Time at which the most urgent item must leave this module: its deadline less the latency downstream.
    pub deadline: Timestamp,
    /// Time at which that item arrived at this module.
    pub since: Timestamp,
    /// Number of waiting items, including that one.
    pub waiting: u32,
}

/// The use of a resource by a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResourceUse {
    /// Its input is sent over the sender's uplink and its own server's downlink.
    Transfer,
    /// Its share runs the batch.
    Run,
}

/// Reserved time on a resource: `from` inclusive, `to` exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// Start of the reserved time.
    pub from: Timestamp,
    /// End of the reserved time, exclusive.
    pub to: Timestamp,
}

impl Interval {
    /// Length of the interval.
    #[must_use]
    pub fn length(self) -> Span {
        self.to - self.from
    }
}

/// One stage of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathStage {
    /// The share that runs it.
    pub share: ShareId,
    /// Transfer of its input; `None` if it is on the server already.
    pub transfer: Option<Interval>,
    /// Run of the batch.
    pub run: Interval,
}

/// An event for the reservations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum ReserveEvent {
    /// A module requests a path; replaces its previous request.
    PathRequested {
        /// Module that requests a path.
        module: ModuleId,
        /// Its waiting work and deadline.
        request: PathRequest,
    },
    /// A module cancelled its request.
    RequestCancelled {
        /// Module whose request is withdrawn.
        module: ModuleId,
    },
    /// A batch was dispatched on a booking, possibly with fewer items than were booked, because requests were
    /// dropped since.
    Dispatched {
        /// Booking that is in use now.
        booking: BookingId,
        /// Number of items of the batch.
        items: u32,
    },
    /// A module declined a booking.
    Declined {
        /// Booking that is freed.
        booking: BookingId,
    },
    /// A use of a resource ended, and with it all earlier uses of the booking.
    Used {
        /// Booking that the use belongs to.
        booking: BookingId,
        /// Index of the stage.
        stage: u32,
        /// The kind of use.
        used: ResourceUse,
        /// Start of the use.
        from: Timestamp,
        /// End of the use, not later than now.
        to: Timestamp,
    },
    /// A batch left the last stage.
    Finished {
        /// Booking that has ended.
        booking: BookingId,
    },
    /// A batch failed on its path.
    Failed {
        /// Booking that is freed.
        booking: BookingId,
    },
    /// A share is down. Bookings that need it, or whose output it still holds, are lost.
    Down {
        /// Share that cannot be used.
        share: ShareId,
    },
    /// A share is up again.
    Up {
        /// Share that can be used again.
        share: ShareId,
    },
    /// Time has passed: requests that wait for a larger batch are decided.
    Tick,
}

/// An effect of the reservations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "kebab-case")]
pub enum ReserveEffect {
    /// The module's `size` most urgent items are booked on this path. Each stage starts as soon as its input has arrived and
    /// earlier bookings on its share have ended. Answers the request.
    Book {
        /// Module whose request is answered.
        module: ModuleId,
        /// Booking to dispatch the batch along.
        booking: BookingId,
        /// Pipeline that the path belongs to.
        pipeline: PipelineId,
        /// Number of items that the booking has room for.
        size: u32,
        /// The share and the reserved times of each stage.
        path: Vec<PathStage>,
        /// Start of the first stage.
        start: Timestamp,
        /// End of the last stage.
        finish: Timestamp,
    },
    /// The module's most urgent item would miss its deadline. Answers the request.
    NoPath {
        /// Module whose request is answered.
        module: ModuleId,
        /// Earliest possible end; [`Timestamp::MAX`] if a stage has no share that is up.
        finish: Timestamp,
    },
    /// A booking is lost, since a share of its path went down.
    Lost {
        /// Module that the booking was made for.
        module: ModuleId,
        /// Booking that is lost.
        booking: BookingId,
    },
    /// A tick is due at that time at the latest; replaces the previous timer.
    SetTimer {
        /// Time of the tick.
        at: Timestamp,
    },
}
