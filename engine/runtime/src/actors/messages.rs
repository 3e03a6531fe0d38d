//! The messages between actors, and from the threads of sources, workers and partition workers to them. An event is named
//! in the past participle, a command in the imperative.

use std::sync::Arc;

use actix::{Message, Recipient};
use tokio::sync::oneshot;
use weir_analytics::AnalyticsPlan;
use weir_flow::{SourceCounts, StreamState, Tensor};
use weir_partition::Stage;
use weir_partition::wire::BatchKey;
use weir_policy::reservations::{BookingId, ReserveEvent, ReserveReport};
use weir_policy::{ModuleEvent, ModuleStats, SlotEvent, StreamReport};
use weir_types::{BatchId, DropReason, ModuleId, RequestId, Shortfall, SlotId, Span, StreamId, Timestamp};

use super::stream_table::EgressCounts;
use crate::batch::{BatchLaunched, BatchResult};
use crate::fleet::ActivePlan;
use crate::instance::InstanceReport;
use crate::request::{Request, RequestBranch};
use crate::routes::SinkView;
use crate::sink::SinkHandle;
use crate::source::RejectionPermit;

// To a module.

/// A request reached a module on one branch; it is complete there with all `branches`.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Deliver {
    pub(crate) branch: RequestBranch,
    pub(crate) branches: u32,
}

/// An event for the policy of the module.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct PolicyEvent(pub(crate) ModuleEvent);

/// A batch ended, well or not.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct BatchDone(pub(crate) BatchResult);

/// A step of a model that generates ended, well or not; or an instance that was gone is back.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct InstanceSaid(pub(crate) InstanceReport);

/// The inputs of a batch are prepared, and its run begins.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct RunLaunched(pub(crate) BatchLaunched);

/// Something happened to what a module has on pipelines, or is to send there.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) enum PipelineEvent {
    /// A path is booked: `size` items may go along `path`, and will be out of it at `finish`.
    Booked {
        booking: BookingId,
        size: u32,
        finish: Timestamp,
        path: Vec<Stage>,
    },
    /// A booked path was lost with a worker.
    PathLost { booking: BookingId },
    /// A batch left the last stage; its outputs are to be decoded.
    OutputsReceived {
        batch: BatchId,
        outputs: Vec<Tensor>,
        /// On the shares of all stages.
        device_time: Span,
    },
}

/// The run is over: the module sends its counts to the egress as [`StatsReported`].
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ReportStats;

/// Answer with what was counted so far.
#[derive(Message)]
#[rtype(result = "ModuleStats")]
pub(crate) struct TakeStats;

/// Answer with the load of the module now.
#[derive(Message)]
#[rtype(result = "ModuleLoad")]
pub(crate) struct TakeLoad;

/// The load of a module at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ModuleLoad {
    /// Requests in it: in its mailbox, in a batch that forms, or on a slot.
    pub(crate) requests: usize,
    /// The batch size that it aims at.
    pub(crate) batch_size: u32,
    /// Items a second that arrive.
    pub(crate) input_rate: f64,
    /// Items a second that it can do.
    pub(crate) throughput: f64,
    /// Slots that it has, or its share of them.
    pub(crate) slots: f64,
    /// Slots that its model is open on.
    pub(crate) placed_slots: usize,
    /// Those of them that are out of use, since a batch there does not end.
    pub(crate) overdue_slots: usize,
}

/// A module as the arbiter of slots and the reservations see it.
#[derive(Clone)]
pub(crate) struct ModuleRef {
    pub(crate) events: Recipient<PolicyEvent>,
    pub(crate) batches: Recipient<BatchDone>,
    pub(crate) pipelines: Recipient<PipelineEvent>,
}

// To the slot actor.

/// An event for the arbiter of the slots.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct ArbiterEvent(pub(crate) SlotEvent);

// To the reservation actor.

/// An event for the reservations.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct ReservationEvent(pub(crate) ReserveEvent);

/// A batch is sent along the path that was booked for it. Comes before anything that workers report of it.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Dispatched {
    pub(crate) booking: BookingId,
    pub(crate) key: BatchKey,
    pub(crate) items: u32,
}

/// Load another plan and switch to it.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct SwitchPlan(pub(crate) Box<ActivePlan>);

/// The run is over: answer with what was counted.
#[derive(Message)]
#[rtype(result = "ReserveReport")]
pub(crate) struct ReportReservations;

// To the supervisor.

/// A batch was lost; its worker has discarded the session and builds a new one for the next batch.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct BatchLost {
    pub(crate) module: String,
    pub(crate) slot: SlotId,
    pub(crate) reason: String,
}

/// A request was lost outside a batch.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct RequestLost {
    pub(crate) module: String,
    pub(crate) reason: String,
}

// To the egress.

/// A frame became a request.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Arrived {
    pub(crate) request: RequestId,
    pub(crate) stream: StreamId,
    pub(crate) frame: FrameInfo,
    /// Why the request ends at once, where it was not admitted.
    pub(crate) rejected: Option<(DropReason, RejectionPermit)>,
}

/// Frames of a stream were not decoded: the `count` before `next`, which are `interval` apart.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct LeftOut {
    pub(crate) stream: StreamId,
    pub(crate) count: u64,
    pub(crate) next: FrameInfo,
    pub(crate) interval: Span,
    /// Free again once they are in the ledger.
    pub(crate) permit: RejectionPermit,
}

/// What a notice says of a frame that is not delivered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameInfo {
    /// Number of the frame in its stream.
    pub(crate) index: u64,
    /// Media time in milliseconds.
    pub(crate) pts_ms: f64,
    pub(crate) sent_at: Timestamp,
}

/// A branch of a request left its last module.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Completed(pub(crate) RequestBranch);

/// A request was dropped, by `module` where one dropped it.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Dropped {
    pub(crate) request: Arc<Request>,
    pub(crate) module: Option<ModuleId>,
    pub(crate) reason: DropReason,
    /// What it was short of, where it would have been late.
    pub(crate) shortfall: Option<Shortfall>,
}

/// Device time was spent on a request.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Spent {
    pub(crate) request: RequestId,
    pub(crate) module: ModuleId,
    pub(crate) span: Span,
}

/// A stream is in another state, or in the same one for another reason.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct StreamStateChanged {
    pub(crate) stream: StreamId,
    pub(crate) state: StreamState,
    /// When the state began.
    pub(crate) since: Timestamp,
    /// When the last frame of the stream arrived.
    pub(crate) last_frame: Timestamp,
}

/// A stream sends no more frames.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct StreamEnded {
    pub(crate) stream: StreamId,
    pub(crate) counts: SourceCounts,
    /// Frames that were older than the SLO when they arrived.
    pub(crate) stale: u64,
    pub(crate) error: Option<String>,
}

/// A stream begins: comes before any of its frames.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct AddStream {
    pub(crate) stream: StreamId,
    pub(crate) name: Arc<str>,
    /// The latency objective of its own, where it has one.
    pub(crate) own_slo: Option<Span>,
    /// Number of the graph, and names of its sinks that are shown it.
    pub(crate) graph: u32,
    pub(crate) sinks: Vec<String>,
}

/// A stream has another latency objective; `None`: the graph's.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct SetStreamSlo {
    pub(crate) stream: StreamId,
    pub(crate) own_slo: Option<Span>,
}

/// The source of a stream is paused, or goes on.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct StreamPaused {
    pub(crate) stream: StreamId,
    pub(crate) paused: bool,
    pub(crate) since: Timestamp,
}

/// Remove a stream once its source has ended and nothing of it is in flight.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct RemoveStream {
    pub(crate) stream: StreamId,
    /// Gets what it came to.
    pub(crate) removed: oneshot::Sender<StreamReport>,
}

/// Drop what is in flight of one stream, and wait for its source no longer.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct AbandonStream(pub(crate) StreamId);

/// Signal the end of the run once all streams have ended and nothing is in flight: none is added any more.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct EndWhenIdle;

/// Answer with what was counted so far.
#[derive(Message)]
#[rtype(result = "EgressCounts")]
pub(crate) struct TakeCounts;

/// Drop what is in flight, and wait for no source any longer.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Abandon;

/// A module of a graph that was taken down counted this.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct AddStats {
    /// Its number in reports.
    pub(crate) module: ModuleId,
    pub(crate) stats: Box<ModuleStats>,
}

/// Another graph is in force: comes before any of its requests.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct SwapGraph {
    pub(crate) number: u32,
    /// How many modules it has.
    pub(crate) modules: usize,
    /// Names of modules of all graphs, by their numbers in reports.
    pub(crate) module_names: Vec<Arc<str>>,
    /// Its sinks: name, what it shows, and the sink itself where it was opened for this graph.
    pub(crate) sinks: Vec<(String, SinkView, Option<SinkHandle>)>,
    /// What it asks to be known over time.
    pub(crate) analytics: Arc<AnalyticsPlan>,
}

/// No request of that graph is in flight any more: its views go, and sinks that no other graph has are closed.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct DropGraph {
    pub(crate) number: u32,
}

/// The graph of the actor is taken down: it ends.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub(crate) struct StopActor;

/// What a module counted in the run.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct StatsReported {
    pub(crate) module: ModuleId,
    pub(crate) stats: Box<ModuleStats>,
}
