//! The messages between actors, and from the threads of sources, workers and partition workers to them. An event is named
//! in the past participle, a command in the imperative.

use std::sync::Arc;

use actix::{Message, Recipient};
use tokio::sync::oneshot;
use weir_analytics::AnalyticsPlan;
use weir_flow::{CameraEvent, RequestResults, Settings, SourceCounts, StreamState};
use weir_policy::{Outcome, SlotEvent};
use weir_types::{DropReason, ModuleId, RequestId, Shortfall, Span, StreamId, Timestamp};

use super::graph_counts::GraphStats;
use super::stream_table::{EgressCounts, RemovedStream};
use crate::batch::{BatchLaunched, BatchResult};
use crate::fleet::ActivePlan;
use crate::instance::InstanceReport;
use crate::request::Request;
use crate::routes::SinkView;
use crate::sink::SinkHandle;
use crate::source::RejectionPermit;

// To a graph.

/// A message to a machine of the graph.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct ControlMessage(pub(crate) weir_control::Message);

/// A frame was admitted and became a request. The egress knows of its arrival.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct RequestAdmitted(pub(crate) Arc<Request>);

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

/// A worker of a device whose memory does not hold all its models reports of a session.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct SessionChanged(pub(crate) SlotEvent);

/// Load another plan and switch to it.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct SwitchPlan(pub(crate) Box<ActivePlan>);

/// Answer with the plan in force; `None` where there is none, or another one is being loaded.
#[derive(Message)]
#[rtype(result = "Option<ActivePlan>")]
pub(crate) struct TakePlan;

/// The run is over: the graph sends the counts of its modules to the egress as [`StatsReported`].
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ReportStats;

/// Answer with the counts so far.
#[derive(Message)]
#[rtype(result = "GraphStats")]
pub(crate) struct TakeStats;

/// Answer with the load of each module now, in their order.
#[derive(Message)]
#[rtype(result = "Vec<ModuleLoad>")]
pub(crate) struct TakeLoads;

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

/// A frame has nothing in it that changed: it is delivered with the objects of the last one that was looked at.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct StillFrame(pub(crate) Arc<Request>);

/// A camera reported an event of its own; `None`: it is not heard any more.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct CameraReported {
    pub(crate) stream: StreamId,
    pub(crate) event: Option<CameraEvent>,
}

/// Frames of a stream were not decoded: the `count` before `next`, which are `interval` apart, and before those `still` in which
/// nothing moves or that came outside the schedule of their source.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct LeftOut {
    pub(crate) stream: StreamId,
    pub(crate) count: u64,
    pub(crate) still: u64,
    /// Number of indices from the first of them to `next`: some are of frames that the source does not sample.
    pub(crate) span: u64,
    pub(crate) next: FrameInfo,
    pub(crate) interval: Span,
    /// Free again once they are in the ledger.
    pub(crate) permit: RejectionPermit,
}

/// The frame that a notice of a dropped or left-out frame refers to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameInfo {
    /// Number of the frame in its stream.
    pub(crate) index: u64,
    /// Media time in milliseconds.
    pub(crate) pts_ms: f64,
    pub(crate) sent_at: Timestamp,
}

/// Facts of a graph, in order.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct EgressFacts(pub(crate) Vec<EgressFact>);

/// A fact of a graph. Modules have their numbers in reports.
#[derive(Debug)]
pub(crate) enum EgressFact {
    /// Device time was spent on a request.
    Spent {
        request: RequestId,
        module: ModuleId,
        span: Span,
    },
    /// A request has ended.
    Ended(Box<RequestEnded>),
}

/// The end of a request.
#[derive(Debug)]
pub(crate) struct RequestEnded {
    pub(crate) request: Arc<Request>,
    /// Outputs of all modules; `None` where it was dropped before any came.
    pub(crate) results: Option<RequestResults>,
    pub(crate) outcome: Outcome,
    /// Time from its sending to its end, where it was completed.
    pub(crate) latency: Option<Span>,
    /// Time that it was short of, where it would have been late.
    pub(crate) shortfall: Option<Shortfall>,
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

/// The frames that come next of a stream are not analysed, so that its tracks and incidents end, or are analysed again.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct ScheduleChanged {
    pub(crate) stream: StreamId,
    pub(crate) is_active: bool,
}

/// Remove a stream once its source has ended and nothing of it is in flight.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct RemoveStream {
    pub(crate) stream: StreamId,
    /// Gets what it came to.
    pub(crate) removed: oneshot::Sender<RemovedStream>,
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

/// Counts of a graph that was taken down.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct AddStats(pub(crate) GraphStats);

/// Another graph is in force: comes before any of its requests.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct SwapGraph {
    pub(crate) number: u32,
    pub(crate) graph: Recipient<ControlMessage>,
    /// Names of modules of all graphs, by their numbers in reports.
    pub(crate) module_names: Vec<Arc<str>>,
    /// Its sinks: name, what it shows, and the sink itself where it was opened for this graph.
    pub(crate) sinks: Vec<(String, SinkView, Option<SinkHandle>)>,
    /// Settings that sinks which go on take over, by name.
    pub(crate) sink_settings: Vec<(String, Settings)>,
    /// Trackers and transforms of the graph.
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

/// Counts of the graph in force at the end of the run.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct StatsReported(pub(crate) GraphStats);
