//! What happens to a module and what it wants done: its specification, events and effects.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_types::{
    BatchId, DropReason, ModuleId, Profile, RequestId, SequenceId, Shortfall, SlotId, Span, StreamId,
    Timestamp, Topology,
};

use super::instances::GenerateSpec;
use crate::flow::stream_shares::StreamShare;
use crate::gears::InvocationSize;
use crate::generate::Step;
use crate::measure::fan_out::FanOut;
use crate::pard::state::ModuleState;
use crate::reservations::{BookingId, PathRequest};
use crate::slots::{Bid, SlotEffect};
use crate::strategy::Policy;
use crate::weir::joint_batching::ModuleInfo;

/// What a module is, for as long as it lives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModuleSpec {
    /// Its place in the graph.
    pub id: ModuleId,
    /// The latency objective of every request that comes with none of its own.
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
    /// Durations by batch size on each of its slots, in the order of these, where slots are not alike: a request waits at one of them
    /// then. `profile` is what they come to together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ends: Vec<Profile>,
    /// The graph's shape.
    pub topology: Topology,
    /// Every module of the graph, by id.
    pub peers: Vec<ModuleInfo>,
    /// Share of its slots' time that it can have at first, from 0 to 1.
    #[serde(default = "whole")]
    pub share: f64,
    /// What streams are to have under overload, by stream; of one that is not here, and where none is, the same as all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<StreamShare>,
    /// Where its random draws begin.
    pub seed: u64,
    /// How its model generates, where it does: its slots are instances then, and its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generate: Option<GenerateSpec>,
    /// Set where its slots prepare the next batch while one runs; durations are then those of the run alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<OverlapSpec>,
}

/// Slots that prepare the next batch while one runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct OverlapSpec {
    /// How long the inputs of a batch are prepared, by its size; `None`: as measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preparation: Option<Profile>,
    /// The slots that do; empty: all of the module's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<SlotId>,
}

impl OverlapSpec {
    /// Of a module on so many `slots`, of which those of `ahead` prepare the next batch; `None` where none does.
    #[must_use]
    pub fn on(ahead: Vec<SlotId>, slots: usize, preparation: Option<Profile>) -> Option<Self> {
        let are_all = ahead.len() == slots;
        (!ahead.is_empty()).then(|| Self {
            preparation,
            slots: if are_all { Vec::new() } else { ahead },
        })
    }

    /// Whether a slot of the module prepares ahead.
    #[must_use]
    pub fn is_on(&self, slot: SlotId) -> bool {
        self.slots.is_empty() || self.slots.contains(&slot)
    }
}

/// Slots that serve no other module.
const fn whole() -> f64 {
    1.0
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
    /// then: as many as batches are in flight at the planned rate, which says how much it can do and bounds nothing.
    Pipelines,
}

/// A fact about a module's requests, slots or peers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum ModuleEvent {
    /// A request has come in from all modules before this one.
    Arrived {
        /// The request.
        request: RequestId,
        /// The stream that it belongs to.
        stream: StreamId,
        /// When it was sent.
        sent_at: Timestamp,
        /// How many items it brings; none passes straight through.
        items: u32,
        /// False where it must not be dropped (a lossless source).
        droppable: bool,
        /// Its own latency objective; `None`: the graph's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        slo: Option<Span>,
    },
    /// A request has come in from all modules before this one, whose model generates: with a sequence for each of its items.
    Prompted {
        /// The request.
        request: RequestId,
        /// The stream that it belongs to.
        stream: StreamId,
        /// When it was sent.
        sent_at: Timestamp,
        /// Tokens of the prompts; none passes straight through.
        prompts: Vec<u32>,
        /// Tokens that each of them is predicted to generate; empty: the mean of those before.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        predicted: Vec<u32>,
        /// False where it must not be dropped (a lossless source).
        droppable: bool,
        /// Its own latency objective; `None`: the graph's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        slo: Option<Span>,
    },
    /// A step of an instance is done.
    Stepped {
        /// The slot.
        slot: SlotId,
        /// How long it took.
        took: Span,
        /// Those of its sequences that generated their last token.
        finished: Vec<SequenceId>,
        /// Whether it failed: it gave nothing, and the slot has lost all its caches.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        failed: bool,
    },
    /// The request ended elsewhere (a sibling branch dropped it).
    Cancelled {
        /// The request.
        request: RequestId,
    },
    /// A slot is this module's to run one batch on.
    Granted {
        /// The slot.
        slot: SlotId,
    },
    /// A path through a pipeline is booked for a batch of this module.
    Booked {
        /// The booking.
        booking: BookingId,
        /// Items that it has room for.
        size: u32,
        /// When the batch is out of the last stage.
        finish: Timestamp,
    },
    /// There is no path through the pipelines by the deadline that was requested.
    NoPath {
        /// When one item alone would be through at the earliest.
        finish: Timestamp,
    },
    /// Another plan is in force: how long a batch takes from end to end, how large it is, how many are in flight at the
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
        /// The slot.
        slot: SlotId,
        /// When it is expected to be free; [`Timestamp::MAX`]: it is lost, or the module has no share of it.
        free_at: Timestamp,
    },
    /// On a slot that prepares ahead: the inputs of a batch are prepared and its run begins, so that another batch may be
    /// prepared meanwhile.
    Launched {
        /// The batch.
        batch: BatchId,
        /// How long its inputs were prepared.
        prepared: Span,
    },
    /// A batch came back.
    Finished {
        /// The batch.
        batch: BatchId,
        /// How long it had the slot.
        took: Span,
    },
    /// A batch was lost.
    Failed {
        /// The batch.
        batch: BatchId,
        /// How long it had the slot.
        took: Span,
    },
    /// A batch was lost with the worker that it was on, and for no fault of its own: what still has time runs again, once.
    Lost {
        /// The batch.
        batch: BatchId,
        /// How long it was away.
        took: Span,
    },
    /// A module published its state.
    PeerState(Arc<ModuleState>),
    /// A module published the expected items of its requests alone; the rest of its state is as it was published last.
    PeerFanOut {
        /// The module.
        module: ModuleId,
        /// Expected items by stream; empty if all have one.
        fan_out: Arc<FanOut>,
    },
    /// A stream was removed, and all its requests have ended: no more will arrive, and its number is not used again.
    StreamRemoved {
        /// The stream.
        stream: StreamId,
    },
    /// Another policy is in force. What runs, and what is bound already, goes on; what waits is ordered by it. Where requests
    /// wait (`mailbox`) stays as it was.
    PolicyApplied {
        /// The policy.
        policy: Box<Policy>,
    },
    /// A stream is to have another share under overload.
    StreamShareChanged {
        /// The stream.
        stream: StreamId,
        /// Its share.
        share: StreamShare,
    },
    /// From now on it waits for so many items before it runs a batch. On slots with a mailbox each, in pipelines, and
    /// where batches are formed ahead, it waits for none.
    InvocationChanged {
        /// What it waits for.
        invocation: InvocationSize,
    },
    /// Share of its slots' time that this module can have, beside the others on them.
    Share {
        /// From 0 to 1.
        share: f64,
    },
    /// This part of its work is to be done on the slot from now on; `None`: it has no share. Of effect where slots are not alike:
    /// on others the arbiter sees to it.
    SlotShareSet {
        /// One of the module's slots.
        slot: SlotId,
        /// From 0 to 1.
        share: Option<f64>,
    },
    /// A slot of its own pool is there.
    SlotUp {
        /// The slot.
        slot: SlotId,
    },
    /// A slot of its own pool is lost, or will be given up: what runs on it still comes back.
    SlotDown {
        /// The slot.
        slot: SlotId,
    },
    /// Time passed.
    Tick,
}

impl ModuleEvent {
    /// What the arbiter of slots decided, as a fact for the module that it concerns; `None` where it is for the driver.
    #[must_use]
    pub fn from_slots(effect: SlotEffect) -> Option<(ModuleId, Self)> {
        Some(match effect {
            SlotEffect::Grant { module, slot } => (module, Self::Granted { slot }),
            SlotEffect::Forecast {
                module,
                slot,
                free_at,
            } => (module, Self::Forecast { slot, free_at }),
            SlotEffect::Share { module, share } => (module, Self::Share { share }),
            SlotEffect::Open { .. }
            | SlotEffect::Close { .. }
            | SlotEffect::Discard { .. }
            | SlotEffect::Planned { .. }
            | SlotEffect::SetTimer { .. } => return None,
        })
    }
}

/// The items of one request in one batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchSlice {
    /// The request.
    pub request: RequestId,
    /// The first of them, by its place among the request's items.
    pub first: u32,
    /// How many.
    pub count: u32,
    /// How long the request queued before it was bound, `Q`; of its first part.
    pub queued: Span,
    /// How long it was bound before the batch ran, `W`. On a slot that prepares ahead, what is expected of it: preparation, the
    /// run before it, and the time in which outputs are read.
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
    /// Request a path through the pipelines; replaces the request before.
    RequestPath(PathRequest),
    /// Ask no more.
    CancelBid {
        /// Of which slot, where it asked of one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        slot: Option<SlotId>,
    },
    /// Give a granted slot back unused.
    Decline {
        /// The slot.
        slot: SlotId,
    },
    /// Run a batch on a granted slot.
    Run {
        /// The slot that it runs on.
        slot: SlotId,
        /// Its number.
        batch: BatchId,
        /// Its items, by request.
        slices: Vec<BatchSlice>,
        /// How long it should take.
        expected: Span,
    },
    /// Send a batch along its booked path.
    Dispatch {
        /// The booked path.
        booking: BookingId,
        /// Its number.
        batch: BatchId,
        /// Its items, by request.
        slices: Vec<BatchSlice>,
        /// How long it should take.
        expected: Span,
    },
    /// Give a booking back unused.
    CancelBooking {
        /// The booking.
        booking: BookingId,
    },
    /// Put a sequence on a slot, with what it has generated elsewhere. It is the item of that number of a request.
    Place {
        /// The slot.
        slot: SlotId,
        /// The sequence.
        sequence: SequenceId,
        /// The request.
        request: RequestId,
        /// Its number among the request's items.
        item: u32,
        /// So many of its tokens are not computed again: their cache comes with it from where it was taken off.
        cached: u32,
    },
    /// Take a sequence off a slot, once no step has it.
    Remove {
        /// The slot.
        slot: SlotId,
        /// The sequence.
        sequence: SequenceId,
        /// Whether its cache is kept for the slot that it is put on next.
        keeps_cache: bool,
    },
    /// Give up the cache of a sequence.
    EvictSequence {
        /// The slot.
        slot: SlotId,
        /// The sequence.
        sequence: SequenceId,
    },
    /// Run a step on a slot, after all that was asked of it before.
    RunStep {
        /// The slot.
        slot: SlotId,
        /// What it takes.
        step: Step,
    },
    /// The request is done here.
    Forward {
        /// The request.
        request: RequestId,
    },
    /// The request goes on from here with the answers that it has, instead of being dropped: see [`Fallback`].
    ///
    /// [`Fallback`]: crate::gears::Fallback
    Accept {
        /// The request.
        request: RequestId,
        /// What it would have been dropped for.
        reason: DropReason,
    },
    /// The request is dropped: cancel it at its siblings, and account for it.
    Drop {
        /// The request.
        request: RequestId,
        /// The reason that is reported.
        reason: DropReason,
        /// What it was short of, where it would have been late.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shortfall: Option<Shortfall>,
    },
    /// Device time went into a request.
    Spent {
        /// The request.
        request: RequestId,
        /// Its part of the batch's time.
        span: Span,
    },
    /// Tell every module this.
    Publish(Arc<ModuleState>),
    /// Tell every module the expected items of requests by stream: the rest of the state is as it was published last.
    PublishFanOut {
        /// Empty if all requests have one item.
        fan_out: Arc<FanOut>,
    },
    /// Call again then, if nothing happens before.
    SetTimer {
        /// The time of the call, at the latest.
        at: Timestamp,
    },
}
