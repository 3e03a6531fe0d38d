//! What reservations are told and what they want done: asks, uses of resources, events and effects.

use serde::{Deserialize, Serialize};
use weir_types::{ModuleId, PipelineId, ShareId, Span, Timestamp};

/// One batch on its way over the shares and links that were booked for it, numbered as they are booked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BookingId(pub u64);

/// What a module asks for: one batch of what waits in its mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathRequest {
    /// When the most urgent item must be out of this module: its request's deadline less what comes after.
    pub deadline: Timestamp,
    /// Since when that item has waited here.
    pub since: Timestamp,
    /// How many items wait, it included.
    pub waiting: u32,
}

/// What a stage needs a resource for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResourceUse {
    /// Its input comes over the sender's uplink and its own server's downlink.
    Transfer,
    /// Its share runs the batch.
    Run,
}

/// A span of time on a resource, up to and without `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// Its beginning.
    pub from: Timestamp,
    /// Its end.
    pub to: Timestamp,
}

impl Interval {
    /// How long it is.
    #[must_use]
    pub fn length(self) -> Span {
        self.to - self.from
    }
}

/// One stage of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathStage {
    /// Where it runs.
    pub share: ShareId,
    /// When its input comes; `None` where it is on the server already.
    pub transfer: Option<Interval>,
    /// When it runs.
    pub run: Interval,
}

/// A fact that the reservations are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum ReserveEvent {
    /// A module asks; replaces what it asked before.
    PathRequested {
        /// Who.
        module: ModuleId,
        /// For what.
        request: PathRequest,
    },
    /// A module asks no more.
    RequestCancelled {
        /// Who.
        module: ModuleId,
    },
    /// A module gave a booking back unused.
    Declined {
        /// Which.
        booking: BookingId,
    },
    /// A resource was used, from when to when; what the booking needs before that is over, too.
    Used {
        /// By which booking.
        booking: BookingId,
        /// In which stage.
        stage: u32,
        /// For what.
        used: ResourceUse,
        /// When it began.
        from: Timestamp,
        /// When it ended, not later than now.
        to: Timestamp,
    },
    /// A batch came out of the last stage.
    Finished {
        /// Which booking.
        booking: BookingId,
    },
    /// A batch will not come out.
    Failed {
        /// Which booking.
        booking: BookingId,
    },
    /// A share is lost, and with it what is booked there and not yet sent on.
    Down {
        /// Which.
        share: ShareId,
    },
    /// A share is there again.
    Up {
        /// Which.
        share: ShareId,
    },
    /// Time passed.
    Tick,
}

/// What the reservations want done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "kebab-case")]
pub enum ReserveEffect {
    /// The module's `size` most urgent items go this way now. Each stage begins as soon as its input is there and what is
    /// booked before it on its share has ended. The ask is answered.
    Book {
        /// Who.
        module: ModuleId,
        /// Its name from here on.
        booking: BookingId,
        /// Over which pipeline.
        pipeline: PipelineId,
        /// How many items.
        size: u32,
        /// A share of each stage, and when it is booked.
        path: Vec<PathStage>,
        /// When the first stage begins.
        start: Timestamp,
        /// When the last one ends.
        finish: Timestamp,
    },
    /// The module's most urgent item cannot be in time. The ask is answered.
    NoPath {
        /// Who.
        module: ModuleId,
        /// The earliest that it could have come out; the end of time where no stage has a share left.
        finish: Timestamp,
    },
    /// A booking is void, since a share on its way went down.
    Lost {
        /// Whose.
        module: ModuleId,
        /// Which.
        booking: BookingId,
    },
    /// Wants a tick then at the latest; replaces what it wanted before.
    SetTimer {
        /// When.
        at: Timestamp,
    },
}
