//! What a module is told and what it wants done: its specification, events and effects.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_types::{
    BatchId, DropReason, ModuleId, Profile, RequestId, SlotId, Span, StreamId, Timestamp, Topology,
};

use crate::pard::state_planner::ModuleState;
use crate::reservations::{BookingId, PathRequest};
use crate::slots::{Bid, SlotEffect};
use crate::strategy::Policy;
use crate::weir::joint_batching::ModuleInfo;

/// What a module is, for as long as it lives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModuleSpec {
    /// Its place in the graph.
    pub id: ModuleId,
    /// The latency objective of every request.
    pub slo: Span,
    /// The policy.
    pub policy: Policy,
    /// The slots on which its model is placed.
    pub slots: Vec<SlotId>,
    /// Whether others are placed on them too.
    pub pool: Pool,
    /// Batch sizes that its model may run, ascending.
    pub batch: Vec<u32>,
    /// How long they take.
    pub profile: Profile,
    /// The graph's shape.
    pub topology: Topology,
    /// Every module of the graph, by id.
    pub peers: Vec<ModuleInfo>,
    /// Where its random draws begin.
    pub seed: u64,
}

/// Whose the slots of a module are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pool {
    /// An arbiter grants them, one batch at a time.
    #[default]
    Shared,
    /// They are the module's own: it runs on them as it likes, and never bids.
    Own,
    /// Its model is cut and spread over pooled pipelines, and each batch goes where it was booked. Its slots are lanes
    /// then: as many as batches are under way at the planned rate, which says how much it can do and bounds nothing.
    Pipelines,
}

/// A fact that a module is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum ModuleEvent {
    /// A request has come in from all modules before this one.
    Arrived {
        /// Which.
        request: RequestId,
        /// Of which stream.
        stream: StreamId,
        /// When it was sent.
        sent_at: Timestamp,
        /// How many items it brings; none passes straight through.
        items: u32,
        /// False where it must not be let go (a lossless source).
        droppable: bool,
    },
    /// The request ended elsewhere (a sibling branch dropped it).
    Cancelled {
        /// Which.
        request: RequestId,
    },
    /// A slot is this module's to run one batch on.
    Granted {
        /// Which.
        slot: SlotId,
    },
    /// A way through a pipeline is kept free for a batch of this module.
    Booked {
        /// Which.
        booking: BookingId,
        /// Items that it has room for.
        size: u32,
        /// When the batch is out of the last stage.
        finish: Timestamp,
    },
    /// There is no way through the pipelines by the deadline that was asked for.
    NoPath {
        /// When one item alone would be through at the earliest.
        finish: Timestamp,
    },
    /// Another plan is in force: how long a batch takes from end to end, how large it is, how many are under way at the
    /// planned rate, and by how much less than those can do the plan is good for.
    PlanChanged {
        /// From end to end, by batch size.
        profile: Profile,
        /// The planned batch size.
        batch: u32,
        /// Lanes.
        lanes: u32,
        /// From 0 to 1.
        share: f64,
    },
    /// When a slot is expected to be free for this module.
    Forecast {
        /// Which.
        slot: SlotId,
        /// When.
        free_at: Timestamp,
    },
    /// A batch came back.
    Finished {
        /// Which.
        batch: BatchId,
        /// How long it had the slot.
        took: Span,
    },
    /// A batch was lost.
    Failed {
        /// Which.
        batch: BatchId,
        /// How long it had the slot.
        took: Span,
    },
    /// A batch was lost with the worker that it was on, and for no fault of its own: what still has time runs again, once.
    Lost {
        /// Which.
        batch: BatchId,
        /// How long it was away.
        took: Span,
    },
    /// A module told its state.
    PeerState(Arc<ModuleState>),
    /// Share of its slots' time that this module can have, beside the others on them.
    Share {
        /// From 0 to 1.
        share: f64,
    },
    /// A slot of its own pool is there.
    SlotUp {
        /// Which.
        slot: SlotId,
    },
    /// A slot of its own pool is lost, or will be given up: what runs on it still comes back.
    SlotDown {
        /// Which.
        slot: SlotId,
    },
    /// Time passed.
    Tick,
}

impl ModuleEvent {
    /// What the arbiter of slots decided, as a fact for the module that it concerns.
    #[must_use]
    pub fn from_slots(effect: SlotEffect) -> (ModuleId, Self) {
        match effect {
            SlotEffect::Grant { module, slot } => (module, Self::Granted { slot }),
            SlotEffect::Forecast {
                module,
                slot,
                free_at,
            } => (module, Self::Forecast { slot, free_at }),
            SlotEffect::Share { module, share } => (module, Self::Share { share }),
        }
    }
}

/// The items of one request in one batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchSlice {
    /// Whose items.
    pub request: RequestId,
    /// The first of them, by its place among the request's items.
    pub first: u32,
    /// How many.
    pub count: u32,
    /// How long the request queued before it was bound, `Q`; of its first part.
    pub queued: Span,
    /// How long it was bound before the batch ran, `W`.
    pub waited: Span,
}

/// Items in a batch.
pub(super) fn item_count(slices: &[BatchSlice]) -> u32 {
    slices.iter().map(|slice| slice.count).sum()
}

/// What a module wants done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "kebab-case")]
pub enum ModuleEffect {
    /// Ask for a slot; replaces what was asked before.
    Bid(Bid),
    /// Ask for a way through the pipelines; replaces what was asked before.
    RequestPath(PathRequest),
    /// Ask no more.
    CancelBid,
    /// Give a granted slot back unused.
    Decline {
        /// Which.
        slot: SlotId,
    },
    /// Run a batch on a granted slot.
    Run {
        /// Where.
        slot: SlotId,
        /// Its number.
        batch: BatchId,
        /// Whose items.
        slices: Vec<BatchSlice>,
        /// How long it should take.
        expected: Span,
    },
    /// Send a batch on its way as it was booked.
    Dispatch {
        /// Which way.
        booking: BookingId,
        /// Its number.
        batch: BatchId,
        /// Whose items.
        slices: Vec<BatchSlice>,
        /// How long it should take.
        expected: Span,
    },
    /// Give a booking back unused.
    CancelBooking {
        /// Which.
        booking: BookingId,
    },
    /// The request is done here.
    Forward {
        /// Which.
        request: RequestId,
    },
    /// The request is let go: tell its siblings, its source and the ledger.
    Drop {
        /// Which.
        request: RequestId,
        /// Why.
        reason: DropReason,
    },
    /// Device time went into a request.
    Spent {
        /// Which.
        request: RequestId,
        /// Its part of the batch's time.
        span: Span,
    },
    /// Tell every module this.
    Publish(Arc<ModuleState>),
    /// Call again then, if nothing happens before.
    SetTimer {
        /// When.
        at: Timestamp,
    },
}
