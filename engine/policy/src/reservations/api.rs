//! Events and effects of reservations: path requests, bookings, uses of resources.

use serde::{Deserialize, Serialize};
use weir_types::{ModuleId, PipelineId, ShareId, Span, Timestamp};

/// A booking: one batch over the shares and links reserved for it, numbered in the order of booking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BookingId(pub u64);

/// A module's request for a path: one batch of the items in its mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathRequest {
    /// When the most urgent item must leave this module: its deadline less the downstream latency.
    pub deadline: Timestamp,
    /// When that item arrived here.
    pub since: Timestamp,
    /// Waiting items, that one included.
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
    /// Start.
    pub from: Timestamp,
    /// End.
    pub to: Timestamp,
}

impl Interval {
    /// Length.
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
        /// The module.
        module: ModuleId,
        /// The request.
        request: PathRequest,
    },
    /// A module cancelled its request.
    RequestCancelled {
        /// The module.
        module: ModuleId,
    },
    /// A batch was dispatched on a booking, maybe with fewer items than it was booked for: requests may have been dropped
    /// since.
    Dispatched {
        /// The booking.
        booking: BookingId,
        /// Items of the batch.
        items: u32,
    },
    /// A module declined a booking.
    Declined {
        /// The booking.
        booking: BookingId,
    },
    /// A use of a resource ended, and with it all earlier uses of the booking.
    Used {
        /// The booking.
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
        /// The booking.
        booking: BookingId,
    },
    /// A batch failed.
    Failed {
        /// The booking.
        booking: BookingId,
    },
    /// A share is down, and with it the bookings that need it or whose output it still holds.
    Down {
        /// The share.
        share: ShareId,
    },
    /// A share is up again.
    Up {
        /// The share.
        share: ShareId,
    },
    /// Time passed.
    Tick,
}

/// An effect of the reservations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "kebab-case")]
pub enum ReserveEffect {
    /// The module's `size` most urgent items are booked on this path. Each stage starts as soon as its input has arrived and
    /// earlier bookings on its share have ended. Answers the request.
    Book {
        /// The module.
        module: ModuleId,
        /// The booking.
        booking: BookingId,
        /// The pipeline.
        pipeline: PipelineId,
        /// Items of the batch.
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
        /// The module.
        module: ModuleId,
        /// Earliest possible end; `Timestamp::MAX` if a stage has no share that is up.
        finish: Timestamp,
    },
    /// A booking is lost, since a share of its path went down.
    Lost {
        /// The module.
        module: ModuleId,
        /// The booking.
        booking: BookingId,
    },
    /// A tick is due at the latest then; replaces the previous timer.
    SetTimer {
        /// Time of the tick.
        at: Timestamp,
    },
}
