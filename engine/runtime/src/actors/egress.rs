//! The egress: where requests end. It keeps the ledger, releases the results of a stream in frame order, and passes
//! deliveries to the sinks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actix::{Actor, Context, Handler};
use tokio::sync::oneshot;
use weir_flow::{Delivery, Notice, SourceCounts, StreamState};
use weir_policy::{HealthTracker, Join, Ledger, Outcome, ReorderBuffer, RunStats, StreamHealth};
use weir_types::{DropReason, ModuleId, RequestId, Span, StreamId};

use super::messages::{
    Abandon, Arrived, Completed, Dropped, FrameInfo, Spent, StatsReported, StreamEnded, StreamStateChanged,
};
use crate::admission::StreamPermit;
use crate::clock::Clock;
use crate::objects::assemble_objects;
use crate::progress::Progress;
use crate::request::RequestBranch;
use crate::routes::SinkView;
use crate::sink::SinkHandle;
use crate::telemetry;

/// Why a frame of a live stream is not delivered that was complete after its deadline; other reasons are those of drops.
const LATE: &str = "late";

/// A sink, and what it shows.
pub(crate) struct SinkRoute {
    pub(crate) handle: SinkHandle,
    pub(crate) view: SinkView,
}

/// How a stream ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamSummary {
    pub(crate) counts: SourceCounts,
    pub(crate) stale: u64,
    pub(crate) error: Option<String>,
    pub(crate) health: StreamHealth,
}

/// What the egress knows when the run is over.
pub(crate) struct RunEnded {
    pub(crate) ledger: Ledger,
    pub(crate) stats: RunStats,
    pub(crate) streams: BTreeMap<StreamId, StreamSummary>,
    pub(crate) sinks: Vec<SinkHandle>,
}

/// What the egress is made from.
pub(crate) struct EgressSetup {
    pub(crate) clock: Clock,
    /// The latency objective of requests that have none of their own.
    pub(crate) slo: Span,
    /// Names of streams, by id.
    pub(crate) streams: Vec<Arc<str>>,
    /// Names of modules, by id.
    pub(crate) module_names: Vec<Arc<str>>,
    /// By stream: how many modules are the last of a branch.
    pub(crate) exits: Vec<u32>,
    pub(crate) modules: usize,
    pub(crate) sinks: Vec<SinkRoute>,
    pub(crate) progress: Arc<Progress>,
    /// Signalled once, when all streams have ended and nothing is in flight.
    pub(crate) idle: oneshot::Sender<()>,
    /// Sent once, when all modules have reported their counts.
    pub(crate) ended: oneshot::Sender<RunEnded>,
}

pub(crate) struct Egress {
    clock: Clock,
    slo: Span,
    names: Vec<Arc<str>>,
    module_names: Vec<Arc<str>>,
    exits: Vec<u32>,
    modules: usize,
    sinks: Vec<SinkRoute>,
    progress: Arc<Progress>,
    idle: Option<oneshot::Sender<()>>,
    ended: Option<oneshot::Sender<RunEnded>>,
    ledger: Ledger,
    stats: RunStats,
    join: Join<RequestBranch>,
    reorder: ReorderBuffer<RequestBranch>,
    stream_ends: BTreeMap<StreamId, StreamSummary>,
    health: Vec<HealthTracker>,
    /// Whether it was logged that no stream delivers.
    all_down_logged: bool,
    /// Whether any sink is to be given notices.
    wants_notices: bool,
    /// Frames of requests in flight, where notices are wanted.
    frames: BTreeMap<RequestId, FrameInfo>,
    /// The last state of each stream that sinks were notified of.
    states: BTreeMap<StreamId, StreamState>,
}

impl Egress {
    pub(crate) fn new(setup: EgressSetup) -> Self {
        let health = vec![HealthTracker::new(setup.clock.now()); setup.streams.len()];
        Self {
            clock: setup.clock,
            slo: setup.slo,
            names: setup.streams,
            module_names: setup.module_names,
            exits: setup.exits,
            modules: setup.modules,
            wants_notices: setup.sinks.iter().any(|sink| sink.handle.wants_notices()),
            sinks: setup.sinks,
            progress: setup.progress,
            idle: Some(setup.idle),
            ended: Some(setup.ended),
            ledger: Ledger::default(),
            stats: RunStats::default(),
            join: Join::default(),
            reorder: ReorderBuffer::default(),
            stream_ends: BTreeMap::new(),
            health,
            all_down_logged: false,
            frames: BTreeMap::new(),
            states: BTreeMap::new(),
        }
    }

    /// Ends a request that is complete: in time or late, by now.
    fn on_completed(&mut self, branch: RequestBranch) {
        let request = &branch.request;
        if !request.end() {
            return;
        }
        let latency = self.clock.now().since(request.sent_at);
        let late = latency > request.slo.unwrap_or(self.slo);
        let outcome = if late { Outcome::Late } else { Outcome::Delivered };
        let (id, stream) = (request.id, request.stream);
        if !self.ledger.on_ended(id, outcome) {
            return;
        }
        self.stats.on_completed(stream, latency);
        self.progress.on_completed(late);
        telemetry::record_request_ended(
            self.name(stream),
            if late { "late" } else { "delivered" },
            Some(latency),
        );
        // A live stream has no use for what is late; an archive wants every frame.
        let is_shown = !late || !request.droppable;
        let frame = self.frames.remove(&id);
        if !is_shown && let Some(frame) = frame {
            self.send_frame_notice(stream, frame, None, LATE, Some(&request.permit));
        }
        self.release(id, stream, is_shown.then_some(branch));
    }

    /// A request ended, with a result or without: delivers the results that waited for it.
    fn release(&mut self, request: RequestId, stream: StreamId, result: Option<RequestBranch>) {
        for branch in self.reorder.on_ended(stream, request, result) {
            self.deliver(branch);
        }
        self.signal_if_idle();
    }

    fn deliver(&mut self, RequestBranch { request, results }: RequestBranch) {
        let latency = self.clock.now().since(request.sent_at);
        let mut deliveries: Vec<(BTreeSet<u32>, Arc<Delivery>)> = Vec::new();
        let of_stream = |sink: &&mut SinkRoute| sink.view.streams.contains(&request.stream.0);
        for sink in self.sinks.iter_mut().filter(of_stream) {
            let existing = deliveries
                .iter()
                .find(|(view, _)| *view == sink.view.modules)
                .map(|(_, delivery)| Arc::clone(delivery));
            let delivery = existing.unwrap_or_else(|| {
                let delivery = Arc::new(Delivery {
                    stream: Arc::clone(&self.names[request.stream.index()]),
                    frame: Arc::clone(&request.frame),
                    time_ms: self.clock.utc_ms(request.sent_at),
                    latency_ms: latency.as_millis_f64(),
                    late: latency > request.slo.unwrap_or(self.slo),
                    objects: assemble_objects(&results, &sink.view.modules),
                });
                deliveries.push((sink.view.modules.clone(), Arc::clone(&delivery)));
                delivery
            });
            sink.handle.send_delivery(&delivery, &request.permit);
        }
    }

    fn on_dropped(
        &mut self,
        request: RequestId,
        stream: StreamId,
        module: Option<ModuleId>,
        reason: DropReason,
        permit: Option<&Arc<StreamPermit>>,
    ) {
        self.join.cancel(request);
        if !self.ledger.on_ended(request, Outcome::Dropped(module, reason)) {
            return;
        }
        if let Some(frame) = self.frames.remove(&request) {
            self.send_frame_notice(stream, frame, module, reason.name(), permit);
        }
        self.progress.on_dropped();
        telemetry::record_request_ended(self.name(stream), reason.name(), None);
        self.release(request, stream, None);
    }

    /// Notifies sinks of a frame that is not delivered.
    fn send_frame_notice(
        &mut self,
        stream: StreamId,
        frame: FrameInfo,
        module: Option<ModuleId>,
        reason: &'static str,
        permit: Option<&Arc<StreamPermit>>,
    ) {
        let notice = Notice::Dropped {
            stream: self.name(stream).into(),
            frame: frame.index,
            pts_ms: frame.pts_ms,
            time_ms: self.clock.utc_ms(frame.sent_at),
            module: module.and_then(|module| self.module_names.get(module.index()).cloned()),
            reason,
        };
        self.send_notice(stream, notice, permit);
    }

    /// Notifies sinks of another state of a stream, once.
    fn publish_stream_state(&mut self, stream: StreamId, state: StreamState) {
        if !self.wants_notices || self.states.get(&stream) == Some(&state) {
            return;
        }
        self.states.insert(stream, state.clone());
        let notice = Notice::State {
            stream: self.name(stream).into(),
            state,
            time_ms: self.clock.utc_ms(self.clock.now()),
        };
        self.send_notice(stream, notice, None);
    }

    fn send_notice(&mut self, stream: StreamId, notice: Notice, permit: Option<&Arc<StreamPermit>>) {
        let notice = Arc::new(notice);
        let wants =
            |sink: &&mut SinkRoute| sink.handle.wants_notices() && sink.view.streams.contains(&stream.0);
        for sink in self.sinks.iter_mut().filter(wants) {
            sink.handle.send_notice(&notice, permit);
        }
    }

    fn name(&self, stream: StreamId) -> &str {
        self.names.get(stream.index()).map_or("?", |name| name)
    }

    fn signal_if_idle(&mut self) {
        let all_ended = self.stream_ends.len() == self.names.len();
        if all_ended
            && self.ledger.total().in_flight == 0
            && let Some(idle) = self.idle.take()
        {
            // There is no receiver where the run failed meanwhile.
            let _ = idle.send(());
        }
    }
}

impl Actor for Egress {
    type Context = Context<Self>;
}

impl Handler<Arrived> for Egress {
    type Result = ();

    fn handle(&mut self, arrived: Arrived, _context: &mut Self::Context) {
        let Arrived {
            request,
            stream,
            frame,
            rejected,
        } = arrived;
        if self.wants_notices {
            self.frames.insert(request, frame);
        }
        self.ledger.on_arrived(request, stream);
        self.reorder.on_sent(stream, request);
        self.progress.on_arrived(stream);
        if let Some((reason, _)) = rejected {
            self.on_dropped(request, stream, None, reason, None);
        }
    }
}

impl Handler<Completed> for Egress {
    type Result = ();

    fn handle(&mut self, Completed(branch): Completed, _context: &mut Self::Context) {
        if branch.request.has_ended() {
            return;
        }
        let exits = self
            .exits
            .get(branch.request.stream.index())
            .copied()
            .unwrap_or(1);
        let request = branch.request.id;
        let joined = self.join.on_branch(request, exits, branch, |joined, branch| {
            joined.results.merge(&branch.results)
        });
        if let Some(branch) = joined {
            self.on_completed(branch);
        }
    }
}

impl Handler<Dropped> for Egress {
    type Result = ();

    fn handle(&mut self, dropped: Dropped, _context: &mut Self::Context) {
        let Dropped {
            request,
            module,
            reason,
        } = dropped;
        self.on_dropped(request.id, request.stream, module, reason, Some(&request.permit));
    }
}

impl Handler<Spent> for Egress {
    type Result = ();

    fn handle(
        &mut self,
        Spent {
            request,
            module,
            span,
        }: Spent,
        _context: &mut Self::Context,
    ) {
        self.ledger.on_spent(request, module, span);
    }
}

impl Handler<StreamStateChanged> for Egress {
    type Result = ();

    fn handle(&mut self, changed: StreamStateChanged, _context: &mut Self::Context) {
        let Some(health) = self.health.get_mut(changed.stream.index()) else {
            return;
        };
        match &changed.state {
            StreamState::Running => health.on_running(changed.since),
            StreamState::Down { reason } => health.on_down(reason, changed.silent, changed.since),
            StreamState::Ended { .. } => health.on_ended(),
        }
        if !self.all_down_logged && self.health.iter().all(HealthTracker::is_down) {
            self.all_down_logged = true;
            tracing::error!(
                "no source delivers; they are tried again until the run is stopped or its duration is over"
            );
        }
        self.publish_stream_state(changed.stream, changed.state);
    }
}

impl Handler<StreamEnded> for Egress {
    type Result = ();

    fn handle(&mut self, ended: StreamEnded, _context: &mut Self::Context) {
        let StreamEnded {
            stream,
            counts,
            stale,
            error,
        } = ended;
        self.progress.on_stream_ended(stream);
        if !matches!(self.states.get(&stream), Some(StreamState::Ended { .. })) {
            self.publish_stream_state(stream, StreamState::Ended { error: error.clone() });
        }
        let end = StreamSummary {
            counts,
            stale,
            error,
            health: StreamHealth::default(),
        };
        self.stream_ends.insert(stream, end);
        self.signal_if_idle();
    }
}

impl Handler<Abandon> for Egress {
    type Result = ();

    fn handle(&mut self, _: Abandon, _context: &mut Self::Context) {
        for (request, stream) in self.ledger.open_requests() {
            self.on_dropped(request, stream, None, DropReason::Stopped, None);
        }
        for stream in (0..self.names.len() as u32).map(StreamId) {
            self.stream_ends.entry(stream).or_insert_with(|| StreamSummary {
                error: Some("its source did not stop when it was asked to".to_owned()),
                ..StreamSummary::default()
            });
        }
        self.signal_if_idle();
    }
}

impl Handler<StatsReported> for Egress {
    type Result = ();

    fn handle(&mut self, StatsReported { module, stats }: StatsReported, _context: &mut Self::Context) {
        self.stats.modules.insert(module, *stats);
        if self.stats.modules.len() < self.modules {
            return;
        }
        if let Some(ended) = self.ended.take() {
            let sinks = std::mem::take(&mut self.sinks)
                .into_iter()
                .map(|sink| sink.handle)
                .collect();
            let now = self.clock.now();
            let mut streams = std::mem::take(&mut self.stream_ends);
            for (stream, health) in (0..).map(StreamId).zip(&self.health) {
                let end = streams.entry(stream).or_default();
                end.health = health.health(now);
                end.health.concealed = end.counts.concealed;
                end.health.discontinuities = end.counts.discontinuities;
                end.health.not_sampled = end.counts.not_sampled;
                end.health.unreadable = end.counts.unreadable;
                end.health.stale = end.stale;
            }
            let _ = ended.send(RunEnded {
                ledger: std::mem::take(&mut self.ledger),
                stats: std::mem::take(&mut self.stats),
                streams,
                sinks,
            });
        }
    }
}
