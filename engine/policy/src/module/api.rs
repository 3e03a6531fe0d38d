//! Interface of a module: its specification, events and effects.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_types::{
    BatchId, DropReason, ModuleId, Profile, RequestId, SequenceId, Shortfall, SlotId, Span, StreamId,
    Timestamp, Topology,
};

use super::instances::GenerateSpec;
use crate::flow::stream_shares::StreamShare;
use crate::gears::InvocationSize;
use crate::generate::{Prefix, Step};
use crate::measure::fan_out::FanOut;
use crate::pard::state::ModuleState;
use crate::reservations::{BookingId, PathRequest};
use crate::slots::{Bid, SlotEffect};
use crate::strategy::Policy;
use crate::weir::joint_batching::ModuleInfo;

/// Specification of a module, fixed for its lifetime except for the policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModuleSpec {
    /// The module's index in the graph.
    pub id: ModuleId,
    /// Latency objective of requests that bring none of their own.
    pub slo: Span,
    /// Policy in force when the module starts; [`ModuleEvent::PolicyApplied`] replaces it.
    pub policy: Policy,
    /// Slots on which the module's model is placed.
    pub slots: Vec<SlotId>,
    /// Ownership of these slots: shared with other modules, the module's own, or pipelines.
    pub pool: Pool,
    /// Batch sizes that the model may run, in ascending order.
    pub batch: Vec<u32>,
    /// Duration of a batch by its size.
    pub profile: Profile,
    /// Durations by batch size on each slot, in the order of `slots`, if the slots differ in speed or are replicas with a
    /// queue each; each request then waits at one of them. `profile` describes all of them together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ends: Vec<Profile>,
    /// The graph's shape.
    pub topology: Topology,
    /// Every module of the graph, by id.
    pub peers: Vec<ModuleInfo>,
    /// Share of its slots' time that the module can have at first, from 0 to 1.
    #[serde(default = "whole")]
    pub share: f64,
    /// Shares of streams under overload, by stream id. A stream beyond the end has the default share; if
    /// empty, all streams have equal shares.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<StreamShare>,
    /// Seed of the module's random generator; the module's id is mixed in.
    pub seed: u64,
    /// Set if the module's model generates tokens: its slots are then instances that serve no other module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generate: Option<GenerateSpec>,
    /// Set if slots prepare the next batch while one runs; durations are then those of the run alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<OverlapSpec>,
}

/// Slots that prepare the next batch while one runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct OverlapSpec {
    /// Duration of preparing the inputs of a batch, by its size. `None`: as measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preparation: Option<Profile>,
    /// Slots that prepare ahead; empty: all slots of the module.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<SlotId>,
}

impl OverlapSpec {
    /// For a module on `slots` slots, of which those in `ahead` prepare the next batch; `None` if `ahead` is
    /// empty.
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

/// Default of [`ModuleSpec::share`], for slots that serve no other module.
const fn whole() -> f64 {
    1.0
}

/// Ownership of a module's slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pool {
    /// An arbiter grants them, one batch at a time.
    #[default]
    Shared,
    /// The slots belong to the module, which runs batches on them at any time and never bids.
    Own,
    /// The model is cut and spread over pooled pipelines, and each batch takes the path that was booked for
    /// it. The slots are lanes: one for each batch in flight at the planned rate. Their number is used to
    /// estimate throughput and limits nothing.
    Pipelines,
}

/// A fact about a module's requests, slots or peers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum ModuleEvent {
    /// A request has arrived from all modules before this one.
    Arrived {
        /// Request that arrived.
        request: RequestId,
        /// Stream that the request belongs to.
        stream: StreamId,
        /// Time at which the request was sent; its deadline counts from here.
        sent_at: Timestamp,
        /// Number of items that the request brings; with none it passes straight through.
        items: u32,
        /// Whether the request may be dropped; false for lossless sources.
        droppable: bool,
        /// Latency objective of the request; `None`: the graph's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        slo: Option<Span>,
    },
    /// A request for a model that generates has arrived from all modules before this one, with one sequence
    /// for each item.
    Prompted {
        /// Request that arrived.
        request: RequestId,
        /// Stream that the request belongs to.
        stream: StreamId,
        /// Time at which the request was sent; its deadline counts from here.
        sent_at: Timestamp,
        /// Number of tokens of each prompt; without prompts the request passes straight through.
        prompts: Vec<u32>,
        /// Number of tokens that each sequence is predicted to generate. Empty: the module's own estimate of
        /// lengths is used.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        predicted: Vec<u32>,
        /// Beginning that each prompt shares with earlier ones. Empty: none shares one.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        prefixes: Vec<Option<Prefix>>,
        /// Whether the request may be dropped; false for lossless sources.
        droppable: bool,
        /// Latency objective of the request; `None`: the graph's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        slo: Option<Span>,
    },
    /// A step of an instance ended.
    Stepped {
        /// Slot of the instance that ran the step.
        slot: SlotId,
        /// Duration of the step.
        took: Span,
        /// Sequences of the step that generated their last token.
        finished: Vec<SequenceId>,
        /// Whether the step failed: it generated nothing, and the slot has lost all its caches.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        failed: bool,
        /// Lengths that were predicted again, from the text so far: number of tokens that a sequence still
        /// generates after this step.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        predicted: Vec<(SequenceId, u32)>,
    },
    /// The queues of several models start a sequence on a slot, where the module's model is open.
    SequenceStarted {
        /// Slot of the instance that runs the sequence.
        slot: SlotId,
        /// Sequence that starts, or continues.
        sequence: SequenceId,
        /// Number of its tokens whose cache was kept when it was recalled from this slot.
        cached: u32,
    },
    /// The queues take a sequence back for a more urgent request; it leaves its slot once no step uses it.
    SequenceRecalled {
        /// Slot that the sequence leaves.
        slot: SlotId,
        /// Sequence that is to wait again.
        sequence: SequenceId,
        /// Whether its cache is kept in host memory for its next start.
        keeps_cache: bool,
    },
    /// The queues cannot serve a sequence, because the module's model cannot be opened.
    SequenceRefused {
        /// Sequence whose request is dropped.
        sequence: SequenceId,
    },
    /// The request ended elsewhere, for example because a sibling branch dropped it.
    Cancelled {
        /// Request that ended.
        request: RequestId,
    },
    /// The arbiter grants a slot to the module for one batch.
    Granted {
        /// Slot that is granted.
        slot: SlotId,
    },
    /// A path through a pipeline is booked for a batch of this module.
    Booked {
        /// Booking to dispatch the batch along, or to cancel.
        booking: BookingId,
        /// Number of items that the booked path has room for.
        size: u32,
        /// Time at which the batch leaves the last stage.
        finish: Timestamp,
    },
    /// No path through the pipelines meets the deadline that was requested.
    NoPath {
        /// Earliest time at which one item alone would leave the last stage; [`Timestamp::MAX`] if no path is
        /// left at all.
        finish: Timestamp,
    },
    /// Another plan of the pipelines is in force.
    PlanChanged {
        /// Duration of a batch from end to end, by batch size.
        profile: Profile,
        /// The planned batch size.
        batch: u32,
        /// Number of batches in flight at the planned rate.
        lanes: u32,
        /// Fraction of the lanes' throughput that the plan allows, from 0 to 1.
        share: f64,
    },
    /// The time at which a slot is expected to be free for this module.
    Forecast {
        /// Slot that the forecast is about.
        slot: SlotId,
        /// Expected time; [`Timestamp::MAX`] if the slot is lost or the module has no share of it.
        free_at: Timestamp,
    },
    /// On a slot that prepares ahead, the inputs of a batch are ready and its run begins. Another batch may
    /// be prepared meanwhile.
    Launched {
        /// Batch that runs now.
        batch: BatchId,
        /// Time that preparing its inputs took.
        prepared: Span,
    },
    /// A batch ended with results.
    Finished {
        /// Batch that ended.
        batch: BatchId,
        /// Device time that the batch used, charged to its requests.
        took: Span,
    },
    /// A batch failed; its requests are dropped.
    Failed {
        /// Batch that failed.
        batch: BatchId,
        /// Device time that the batch used, charged to its requests.
        took: Span,
    },
    /// A batch was lost with its worker, not by a fault of its own. Requests that have time left run again,
    /// once.
    Lost {
        /// Batch that was lost.
        batch: BatchId,
        /// Time that the batch was away, charged to its requests.
        took: Span,
    },
    /// A module published its state; the sender may be this module.
    PeerState(Arc<ModuleState>),
    /// A module published the expected items of its requests; the rest of its state is as published last.
    PeerFanOut {
        /// Module that published.
        module: ModuleId,
        /// Expected items by stream; empty if every request has one item.
        fan_out: Arc<FanOut>,
    },
    /// A stream was removed and all its requests have ended: no more will arrive, and its id is not used
    /// again.
    StreamRemoved {
        /// Stream that was removed.
        stream: StreamId,
    },
    /// Another policy is in force. Running and bound batches continue; waiting requests are ordered by the
    /// new policy. The number of mailboxes (`mailbox`) stays as it was.
    PolicyApplied {
        /// Policy that is in force now.
        policy: Box<Policy>,
    },
    /// The share of a stream under overload changes.
    StreamShareChanged {
        /// Stream whose share changes.
        stream: StreamId,
        /// Share that is in force now.
        share: StreamShare,
    },
    /// The module waits for that many items before it runs a batch. No effect on slots with a mailbox each,
    /// in pipelines, and if batches are formed ahead.
    InvocationChanged {
        /// Number of items to wait for, and the longest wait.
        invocation: InvocationSize,
    },
    /// Share of its slots' time that the module can have beside other modules on them.
    Share {
        /// From 0 to 1.
        share: f64,
    },
    /// Share of the module's work that a slot gets from now on. Used if slots differ in speed; otherwise the
    /// arbiter divides the work.
    SlotShareSet {
        /// Slot that the share is for.
        slot: SlotId,
        /// From 0 to 1; `None` if the slot has no share.
        share: Option<f64>,
    },
    /// The replica on a slot waits for that many items of its queue before it runs a batch (KEN 4.3.3). Used if each slot
    /// has a mailbox, and batches are not formed ahead.
    SlotInvocationSet {
        /// Slot of the replica.
        slot: SlotId,
        /// Number of items to wait for, and the longest wait.
        invocation: InvocationSize,
    },
    /// A slot of the module's own pool can be used.
    SlotUp {
        /// Slot that returned or was added.
        slot: SlotId,
    },
    /// A slot of the module's own pool is lost or will be given up; a batch that runs on it still ends.
    SlotDown {
        /// Slot that gets no more batches.
        slot: SlotId,
    },
    /// Time has passed: the module updates its estimates and publishes its state when due.
    Tick,
}

impl ModuleEvent {
    /// Converts an arbiter's effect into an event of the module that it concerns; `None` for effects that the
    /// driver carries out.
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
    /// Request that the items belong to.
    pub request: RequestId,
    /// Index of the first of these items among the request's items.
    pub first: u32,
    /// Number of consecutive items.
    pub count: u32,
    /// Time that the request queued before its first part was bound, `Q`.
    pub queued: Span,
    /// Time that the items were bound before the batch ran, `W`. On a slot that prepares ahead this is an
    /// estimate: preparation, the rest of the run before, and the time to read the outputs.
    pub waited: Span,
}

/// Number of items in a batch.
pub(super) fn item_count(slices: &[BatchSlice]) -> u32 {
    slices.iter().map(|slice| slice.count).sum()
}

/// A fact that a module reports to the queues of several models which take turns on its slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueFact {
    /// A sequence waits to be started.
    Arrived {
        /// Sequence that waits; its number rises with arrival.
        sequence: SequenceId,
        /// Number of tokens of its prompt.
        prompt: u32,
        /// Latency objective of its request.
        slo: Span,
        /// Deadline of its request.
        deadline: Timestamp,
    },
    /// Room on a slot after a step, or after a sequence was placed there.
    Room {
        /// Slot of the instance.
        slot: SlotId,
        /// Number of further sequences that the instance can run.
        sequences: u32,
        /// Number of further tokens that fit into its cache.
        tokens: u32,
    },
    /// A sequence has its last token.
    Finished {
        /// Sequence that ended.
        sequence: SequenceId,
        /// Number of tokens that it generated.
        generated: u32,
    },
    /// A sequence has left its slot, as [`ModuleEvent::SequenceRecalled`] asked.
    Returned {
        /// Sequence that waits again.
        sequence: SequenceId,
        /// Number of tokens that it has generated.
        generated: u32,
        /// Number of tokens whose cache is kept.
        cached: u32,
    },
    /// A sequence has ended without its last token, and no step uses it.
    Cancelled {
        /// Sequence that was dropped.
        sequence: SequenceId,
    },
    /// The instance on a slot is lost, with its session and all that ran there.
    Down {
        /// Slot of the instance.
        slot: SlotId,
    },
    /// The instance on a slot that was lost can be used again.
    Up {
        /// Slot of the instance.
        slot: SlotId,
    },
}

/// An action that a module requests from its driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "kebab-case")]
pub enum ModuleEffect {
    /// Bid for a slot; replaces the previous bid of the same mailbox.
    Bid(Bid),
    /// Request a path through the pipelines; replaces the request before.
    RequestPath(PathRequest),
    /// Withdraw a bid, or a requested path.
    CancelBid {
        /// Slot that the bid was for; `None` if it was for any slot, or for a path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        slot: Option<SlotId>,
    },
    /// Give a granted slot back unused.
    Decline {
        /// Slot that is returned.
        slot: SlotId,
    },
    /// Run a batch on a granted slot.
    Run {
        /// Granted slot, or slot of the module's own pool.
        slot: SlotId,
        /// Number of the batch, unique within the module.
        batch: BatchId,
        /// Items of the batch, by request.
        slices: Vec<BatchSlice>,
        /// Expected duration of the batch on the slot.
        expected: Span,
    },
    /// Send a batch along its booked path.
    Dispatch {
        /// The booked path.
        booking: BookingId,
        /// Number of the batch, unique within the module.
        batch: BatchId,
        /// Items of the batch, by request.
        slices: Vec<BatchSlice>,
        /// Expected time until the batch leaves the last stage.
        expected: Span,
    },
    /// Return a booking unused.
    CancelBooking {
        /// Booking that is returned.
        booking: BookingId,
    },
    /// Put a sequence on a slot with the tokens it has generated elsewhere. The sequence is item `item` of a
    /// request.
    Place {
        /// Slot of the instance that continues the sequence.
        slot: SlotId,
        /// Sequence to be placed.
        sequence: SequenceId,
        /// Request that the sequence belongs to.
        request: RequestId,
        /// Index of the sequence among the request's items.
        item: u32,
        /// Number of tokens that are not computed again, because their cache comes from the previous slot.
        cached: u32,
    },
    /// Take a sequence off a slot as soon as no step uses it.
    Remove {
        /// Slot that the sequence leaves.
        slot: SlotId,
        /// Sequence to be removed.
        sequence: SequenceId,
        /// Whether its cache is kept for the slot that the sequence is put on next.
        keeps_cache: bool,
    },
    /// Free the cache of a sequence; it is computed again later.
    EvictSequence {
        /// Slot that holds the cache.
        slot: SlotId,
        /// Sequence whose cache is freed.
        sequence: SequenceId,
    },
    /// Run a step on a slot, after all earlier effects for that slot.
    RunStep {
        /// Slot of the instance.
        slot: SlotId,
        /// Sequences of the step, with the tokens to compute.
        step: Step,
    },
    /// Tell the queues of several models a fact about a sequence or an instance.
    Queue {
        /// Fact about a sequence or an instance.
        fact: QueueFact,
    },
    /// The request has passed this module; send it to the next modules.
    Forward {
        /// Request that continues.
        request: RequestId,
    },
    /// The request continues with the answers that it has, instead of being dropped: see [`Fallback`].
    ///
    /// [`Fallback`]: crate::gears::Fallback
    Accept {
        /// Request that continues.
        request: RequestId,
        /// Reason for which the request would have been dropped.
        reason: DropReason,
    },
    /// Drop the request: cancel it at its siblings and account for it.
    Drop {
        /// Request that ends.
        request: RequestId,
        /// Reason that is reported.
        reason: DropReason,
        /// Comparison of time needed and time left, if the request would have been late.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shortfall: Option<Shortfall>,
    },
    /// A request has used device time.
    Spent {
        /// Request that the time is charged to.
        request: RequestId,
        /// The request's share of the batch's time, by items.
        span: Span,
    },
    /// Send this state to every module.
    Publish(Arc<ModuleState>),
    /// Send the expected items of requests by stream to every module; the rest of the state is as published
    /// last.
    PublishFanOut {
        /// Expected items by stream; empty if every request has one item.
        fan_out: Arc<FanOut>,
    },
    /// Call the module again at that time, if nothing happens before.
    SetTimer {
        /// Latest time of the call.
        at: Timestamp,
    },
}
