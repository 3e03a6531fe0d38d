//! Messages between machines, and their effects on the world. The table of the crate says who may send them to whom.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_policy::gears::{Gears, StageSetting};
use weir_policy::generate::{Prefix, Step};
use weir_policy::reservations::{BookingId, GiveUpReason, PathStage, PlannedEvent, ResourceUse};
use weir_policy::{
    BatchSlice, BreakerEvent, FanOut, ModuleEvent, ModuleState, Outcome, QueueFact, SlotEffect, SlotEvent,
    StageCounts, WorkerEvent,
};
use weir_types::{
    BatchId, Conditions, DropReason, ModuleId, PipelineId, RequestId, SequenceId, Shortfall, SlotId, Span,
    StreamId, Timestamp,
};

use crate::request::{RequestInfo, Route};

/// Name of a machine of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Address {
    /// Address of one module.
    Module(ModuleId),
    /// The arbiter of slots.
    Slots,
    /// The breaker of slots.
    Breaker,
    /// The reservations of pipelines.
    Reservations,
    /// The egress, at which requests begin and end.
    Egress,
    /// The books, in which each request is counted by its outcome.
    Books,
    /// The gears of cascades.
    Gears,
    /// The queues of models that generate and take turns.
    Queues,
}

/// A message with its receiver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Message {
    /// Message for a module.
    Module(ModuleId, ModuleMessage),
    /// A fact for the policies of all modules. Of a stream that is removed the gears learn, too.
    Modules(ModuleEvent),
    /// Message for the arbiter of slots.
    Slots(SlotEvent),
    /// Message for the breaker of slots.
    Breaker(BreakerEvent),
    /// Message for the reservations.
    Reservations(ReservationMessage),
    /// Message for the egress.
    Egress(EgressMessage),
    /// Message for the books.
    Books(BooksMessage),
    /// Message for the gears.
    Gears(GearMessage),
    /// Message for the queues of models that take turns.
    Queues(QueueMessage),
    /// A request goes to a module on one of its branches; not where it has ended meanwhile.
    Goes(RequestId, ModuleId),
    /// Look at the load of a module's own pool, whose workers open and close with it.
    Scale(ModuleId),
    /// The time of [`Effect::SetTimer`] has come.
    TimerFired(Address),
    /// Time passed: to modules, slots and reservations, and to pools whose workers open and close with the load.
    Tick,
}

impl Message {
    /// The machine that takes it in; of what comes to all, the egress.
    #[must_use]
    pub fn address(&self) -> Address {
        match self {
            Self::Module(module, _) | Self::Goes(_, module) | Self::Scale(module) => Address::Module(*module),
            Self::Slots(_) => Address::Slots,
            Self::Breaker(_) => Address::Breaker,
            Self::Reservations(_) => Address::Reservations,
            Self::TimerFired(of) => *of,
            Self::Books(_) => Address::Books,
            Self::Gears(_) => Address::Gears,
            Self::Queues(_) => Address::Queues,
            Self::Egress(_) | Self::Modules(_) | Self::Tick => Address::Egress,
        }
    }

    /// Makes a fact for the policy of a module.
    #[must_use]
    pub fn fact(module: ModuleId, event: ModuleEvent) -> Self {
        Self::Module(module, ModuleMessage::Fact(event))
    }

    /// Makes a fact for the policy of the reservations.
    pub fn planned(event: impl Into<PlannedEvent>) -> Self {
        Self::Reservations(ReservationMessage::Planned(event.into()))
    }
}

impl From<SlotEvent> for Message {
    fn from(event: SlotEvent) -> Self {
        Self::Slots(event)
    }
}

impl From<GearMessage> for Message {
    fn from(message: GearMessage) -> Self {
        Self::Gears(message)
    }
}

/// Messages to a module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModuleMessage {
    /// A request has come on one of its branches.
    Branch {
        /// The request that came.
        request: RequestInfo,
        /// Number of branches that make it whole here, at least 1.
        branches: u32,
    },
    /// Answers [`Effect::Enter`].
    Entered(RequestInfo, Entry),
    /// Answers [`Effect::Leave`], where the module is a stage of a cascade or went without an answer.
    Left {
        /// Items of the request by what became of them at the stage.
        stage: Option<StageCounts>,
        /// True where the module adds no results to the request.
        is_degraded: bool,
    },
    /// A fact for its policy.
    Fact(ModuleEvent),
    /// A worker of its own pool was opened or closed.
    Worker(WorkerEvent),
    /// Number of items that a request which came to the graph will bring here. Drivers that know it send it to a pool that
    /// [follows it](weir_policy::ScalingSpec::is_foretold).
    Foretold(u32),
    /// The run of a batch begins on a slot that prepares the inputs of batches ahead.
    Launched {
        /// Slot that prepared it.
        slot: SlotId,
        /// Number of the batch in its module.
        batch: BatchId,
        /// Time in which its inputs were prepared.
        prepared: Span,
    },
    /// A batch came back, or was lost.
    BatchEnded {
        /// Number of the batch in its module.
        batch: BatchId,
        /// Time that it had its slot, or the shares of its path.
        took: Span,
        /// Its end, well or not.
        end: BatchEnd,
    },
    /// A step of a model that generates ended.
    Stepped {
        /// Slot of the instance.
        slot: SlotId,
        /// Duration of the step.
        took: Span,
        /// Sequences that generated their last token.
        finished: Vec<SequenceId>,
        /// True where it gave nothing: the slot has lost all its caches.
        failed: bool,
        /// Tokens that sequences are now predicted to generate after this step, from their text so far.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        predicted: Vec<(SequenceId, u32)>,
    },
}

/// Work that a request brings to a module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Entry {
    /// So many items for its model.
    Items(u32),
    /// A sequence for each item, of a model that generates.
    Prompts {
        /// Tokens of each prompt.
        prompts: Vec<u32>,
        /// Tokens that each is predicted to generate; empty where nothing predicts it.
        predicted: Vec<u32>,
        /// Beginning that each shares with earlier prompts; empty where no instance caches prefixes.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        prefixes: Vec<Option<Prefix>>,
    },
    /// The operator failed: the request is dropped.
    Failed,
}

/// The end of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BatchEnd {
    /// Well, on a slot.
    Done(SlotId),
    /// It failed on a slot, which counts against that.
    Failed(SlotId),
    /// It was lost with its slot, which is out of use.
    LostWith(SlotId),
    /// Well, out of its path.
    Out,
    /// It failed on its path.
    FailedOnPath,
    /// It was lost on its path for no fault of its own: what still has time runs again.
    LostOnPath,
}

impl BatchEnd {
    /// True where it brought no results.
    #[must_use]
    pub fn is_failure(self) -> bool {
        !matches!(self, Self::Done(_) | Self::Out)
    }

    pub(crate) fn slot(self) -> Option<SlotId> {
        match self {
            Self::Done(slot) | Self::Failed(slot) | Self::LostWith(slot) => Some(slot),
            Self::Out | Self::FailedOnPath | Self::LostOnPath => None,
        }
    }
}

/// Messages to the reservations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReservationMessage {
    /// A fact for their policy.
    Planned(PlannedEvent),
    /// A batch is sent along a booked path.
    Dispatched {
        /// Booking that is used.
        booking: BookingId,
        /// Module that booked it.
        module: ModuleId,
        /// Number of the batch in its module.
        batch: BatchId,
        /// Items of the batch, at most as many as were booked.
        items: u32,
    },
    /// A share or a link was used for a batch.
    Used {
        /// Booking of the batch.
        booking: BookingId,
        /// Index of the stage, from 0.
        stage: u32,
        /// A transfer over links, or a run on a share.
        used: ResourceUse,
        /// Beginning of the use.
        from: Timestamp,
        /// End of the use, not later than now.
        to: Timestamp,
    },
    /// A batch is out of its path.
    Finished {
        /// Booking of the batch.
        booking: BookingId,
        /// End of its last stage.
        at: Timestamp,
    },
    /// A batch is lost on its path, or failed there.
    Failed {
        /// Booking of the batch.
        booking: BookingId,
        /// Time that shares have spent on it.
        took: Span,
        /// True where it was lost for no fault of its own, and may run again.
        is_lost: bool,
    },
}

/// Messages to the egress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EgressMessage {
    /// A frame became a request, with a number that no other had.
    Arrived(RequestInfo),
    /// Requests of another route come: its index is the number of those before it.
    RouteAdded(Route),
    /// A branch of a request left its last module.
    Completed(RequestId),
    /// A module drops a request.
    Dropped {
        /// Number of the request.
        request: RequestId,
        /// Module that drops it.
        module: ModuleId,
        /// Reason that is reported.
        reason: DropReason,
        /// Time that it was short of, where it would have been late.
        shortfall: Option<Shortfall>,
    },
    /// Drop what is in flight of a stream; `None`: of all, and what comes later.
    Abandon(Option<StreamId>),
}

/// Messages to the books.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BooksMessage {
    /// A frame became a request.
    Arrived {
        /// Number of the request.
        request: RequestId,
        /// Stream that it came on.
        stream: StreamId,
    },
    /// A frame became a request that ends at once, since it is not admitted.
    Rejected {
        /// The request that is not admitted.
        request: RequestInfo,
        /// Reason that is reported.
        reason: DropReason,
    },
    /// Frames of a stream became no requests.
    LeftOut {
        /// Stream of the frames.
        stream: StreamId,
        /// Reason that is reported.
        reason: DropReason,
        /// Number of frames.
        count: u64,
    },
    /// No request was made of frames of a stream: nothing had changed in them, or they came outside its schedule.
    Still {
        /// Stream of the frames.
        stream: StreamId,
        /// Number of frames.
        count: u64,
    },
    /// Device time went into a request.
    Spent {
        /// Number of the request, which may have ended.
        request: RequestId,
        /// Module that spent it.
        module: ModuleId,
        /// Its part of the time of a batch.
        span: Span,
    },
    /// A request has ended.
    Ended {
        /// The request, which no message names any more.
        request: RequestInfo,
        /// Its outcome for the books.
        outcome: Outcome,
        /// Time from its sending to its end, where it was completed.
        latency: Option<Span>,
        /// Time that it was short of, where it would have been late.
        shortfall: Option<Shortfall>,
    },
    /// A stream is removed, once nothing of it is in flight.
    RemoveStream(StreamId),
}

/// Messages to the gears.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GearMessage {
    /// The graph begins: stages are set to the gears of its specification.
    Begun,
    /// Other gears are in force, or none.
    Applied(Option<Box<Gears>>),
    /// A stream was removed, and nothing of it is in flight.
    StreamRemoved(StreamId),
    /// Look at the load, each [`GEAR_INTERVAL`](crate::GEAR_INTERVAL).
    Look,
}

/// Messages to the queues of models that generate and take turns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueMessage {
    /// A module reports a fact about its sequences or instances.
    Fact(ModuleId, QueueFact),
    /// A session was opened or closed, or could not be opened.
    Session(SlotEvent),
    /// The periodic tick of the controller came: deadlines and intervals of the queues may be over.
    Tick,
}

/// An effect on the world. A driver carries it out at once; a message answers later where it takes time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// Answer with [`ModuleMessage::Entered`]: which items has this request in this module? Not at once where its prompts are
    /// to be made, and not at all where it has ended meanwhile.
    Enter(ModuleId, RequestInfo),
    /// A request leaves a module: its answers are settled. Answered at once with [`ModuleMessage::Left`], where there is
    /// anything to count.
    Leave {
        /// Module that it leaves.
        module: ModuleId,
        /// Number of the request.
        request: RequestId,
        /// Reason to go on with the answers that it has, where not all items have run.
        fallback: Option<DropReason>,
    },
    /// Run a batch on a slot.
    Run {
        /// Module of the batch.
        module: ModuleId,
        /// Slot that is granted to the module, or its own.
        slot: SlotId,
        /// Number of the batch in its module.
        batch: BatchId,
        /// Its items, by request.
        slices: Vec<BatchSlice>,
        /// Duration that the policy expects.
        expected: Span,
    },
    /// A batch goes along a booked path; [`Effect::SetOut`] follows where the path is there.
    Dispatch {
        /// Module of the batch.
        module: ModuleId,
        /// Number of the batch in its module.
        batch: BatchId,
        /// Its items, by request.
        slices: Vec<BatchSlice>,
        /// Duration that the policy expects, from end to end.
        expected: Span,
    },
    /// Send a dispatched batch along its path.
    SetOut {
        /// Booking that it uses.
        booking: BookingId,
        /// Module of the batch.
        module: ModuleId,
        /// Number of the batch in its module.
        batch: BatchId,
        /// Items of the batch.
        items: u32,
        /// The path as it was booked.
        path: BookedPath,
    },
    /// The path of a batch that is on its way is lost; answered with [`ReservationMessage::Failed`], at once or later.
    PathLost(BookingId),
    /// A batch of a module is over, well or not.
    BatchOver {
        /// Module of the batch.
        module: ModuleId,
        /// Number of the batch in its module.
        batch: BatchId,
        /// True where it brought no results.
        failed: bool,
    },
    /// Put a sequence on a slot: the item of that number of a request, with what it has generated elsewhere.
    Place {
        /// Module of the sequence.
        module: ModuleId,
        /// Slot of the instance.
        slot: SlotId,
        /// Number of the sequence in its module.
        sequence: SequenceId,
        /// Number of its request.
        request: RequestId,
        /// Its number among the request's items.
        item: u32,
        /// So many of its tokens are not computed again: their cache comes with it.
        cached: u32,
    },
    /// Take a sequence off a slot, once no step has it.
    Remove {
        /// Module of the sequence.
        module: ModuleId,
        /// Slot of the instance.
        slot: SlotId,
        /// Number of the sequence in its module.
        sequence: SequenceId,
        /// True where its cache is kept for the slot that it is put on next.
        keeps_cache: bool,
    },
    /// Give up the cache of a sequence.
    Evict {
        /// Module of the sequence.
        module: ModuleId,
        /// Slot of the instance.
        slot: SlotId,
        /// Number of the sequence in its module.
        sequence: SequenceId,
    },
    /// Run a step on a slot, after all that was asked of it before.
    RunStep {
        /// Module of the instance.
        module: ModuleId,
        /// Slot of the instance.
        slot: SlotId,
        /// Sequences and tokens of the step.
        step: Step,
    },
    /// Open or close a session, discard one, or show that an order was planned.
    Session(SlotEffect),
    /// Open the worker of a module's own pool; answered with [`ModuleMessage::Worker`].
    OpenWorker {
        /// Module of the pool.
        module: ModuleId,
        /// Slot of the worker.
        slot: SlotId,
    },
    /// Close the worker of a module's own pool, on which nothing runs; answered with [`ModuleMessage::Worker`].
    CloseWorker {
        /// Module of the pool.
        module: ModuleId,
        /// Slot of the worker.
        slot: SlotId,
    },
    /// A slot lost too many batches and is taken out of use for a while.
    TakenOut(SlotId),
    /// Load the partitions of the plan of that number.
    LoadPlan(u64),
    /// The plan of that number is given up.
    GiveUpPlan(u64, GiveUpReason),
    /// The plan of that number is in force; its modules are given `PlanChanged`.
    SwitchPlan {
        /// Number of the plan.
        plan: u64,
        /// From the offer until its partitions were loaded.
        preload: Span,
        /// Time in which nothing was booked.
        pause: Span,
    },
    /// Solve the plan in force again for these conditions, in the background; answered with a plan that is offered, or not at
    /// all where there is no other.
    Replan(Conditions),
    /// Items of a stage are settled by this setting from now on: those of a stream, or of all streams that have none of
    /// their own.
    StageSet {
        /// Module of the stage.
        module: ModuleId,
        /// `None`: all streams without a setting of their own.
        stream: Option<StreamId>,
        /// Its new setting.
        setting: StageSetting,
    },
    /// A stream has no settings of its own any more, of any stage; `None`: no stream has.
    StagesUnset(Option<StreamId>),
    /// Another gear is in force.
    Shifted {
        /// The gear by its index.
        gear: usize,
        /// The load that it was chosen for, in requests a second.
        rate: f64,
        /// Stream that it is for; `None`: all.
        stream: Option<StreamId>,
    },
    /// A module published its state, which goes to all others.
    Published(ModuleId, Published),
    /// A request has ended.
    Ended {
        /// The request, which no message names any more.
        request: RequestInfo,
        /// Its outcome in the books.
        outcome: Outcome,
        /// True where its picture was decoded for nothing.
        unused: bool,
        /// Time that it was short of, where it would have been late.
        shortfall: Option<Shortfall>,
    },
    /// Give the machine [`Message::TimerFired`] then, instead of at any time that it asked for before.
    SetTimer {
        /// Machine that asks.
        of: Address,
        /// Time of the call, at the latest.
        at: Timestamp,
    },
    /// Deliver a message to a machine that is elsewhere, or after the time that messages take between actors or over a link.
    /// Those from one machine to another arrive in order.
    Carry {
        /// Machine that sends it.
        from: Address,
        /// The message with its receiver.
        message: Message,
        /// Index of the link that it crosses.
        link: Option<usize>,
    },
}

/// A path as it was booked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BookedPath {
    /// Pipeline of its stages.
    pub pipeline: PipelineId,
    /// Items that it has room for.
    pub size: u32,
    /// The share and the reserved times of each stage.
    pub stages: Vec<PathStage>,
    /// Time at which the batch is to be out of it.
    pub finish: Timestamp,
}

/// State that a module publishes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Published {
    /// Its whole state.
    State(Arc<ModuleState>),
    /// The expected items of its requests alone.
    FanOut(Arc<FanOut>),
}

impl Published {
    /// Gives its size on a wire, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::State(state) => state.bytes(),
            Self::FanOut(fan_out) => fan_out.bytes(),
        }
    }
}
