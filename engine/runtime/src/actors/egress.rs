//! The egress: where requests end. It keeps the ledger, releases the results of a stream in frame order, and passes
//! deliveries to the sinks.

mod analytics;
mod graphs;
mod privacy;
mod programs;
mod run_end;
mod sinks;
mod streams;

pub(crate) use run_end::RunEnded;
pub(crate) use sinks::{SinkRoute, descriptions, send_described};

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::{Actor, AsyncContext, Context, Handler, MessageResult, Recipient};
use tokio::sync::oneshot;
use weir_analytics::{AnalyticsPlan, TrackIdBlocks};
use weir_control::{Books, BooksMessage, Effect, Machine, Outbox, Outgoing, RequestInfo};
use weir_flow::{Notice, PictureTaker, RequestResults, StreamState, TransformPrograms};
use weir_policy::{Outcome, ReorderBuffer};
use weir_types::{DropReason, ModuleId, RequestId, Shortfall, Span, StreamId};

use super::graph_counts::GraphCounts;
use super::messages::{
    Abandon, Arrived, ControlMessage, EgressFact, EgressFacts, FrameInfo, LeftOut, RequestEnded,
    StatsReported, StillFrame, TakeCounts,
};
use super::passing::{PassingFrame, Programs};
use super::stream_table::{EgressCounts, StreamEntry};
use crate::analytics::SharedAnalytics;
use crate::clock::{Clock, duration};
use crate::control_times::ControlEvent;
use crate::processor_time::ThreadTimer;
use crate::progress::Progress;
use crate::request::{Request, RequestBranch};
use crate::request_traces::RequestTracer;
use crate::source::SharedDecodeLevels;
use crate::telemetry;
use run_end::RunEnd;
use sinks::Sinks;

/// Why a frame of a live stream is not delivered that was complete after its deadline; other reasons are those of drops.
const LATE: &str = "late";

/// The outcome of a frame that no model was to see.
const STILL: &str = "still";

/// Time between two looks at the outages of sinks.
const OUTAGE_INTERVAL: Span = Span::from_millis(500);

/// Inputs from which the [`Egress`] actor is created.
pub(crate) struct EgressSetup {
    pub(crate) clock: Clock,
    /// Names of the streams that it begins with, by id, and the objectives that they have of their own.
    pub(crate) streams: Vec<(Arc<str>, Option<Span>)>,
    /// Names of modules, by their numbers in reports.
    pub(crate) module_names: Vec<Arc<str>>,
    /// Whether the run goes on while it has no stream, until [`EndWhenIdle`].
    pub(crate) until_stopped: bool,
    pub(crate) graph: Recipient<ControlMessage>,
    pub(crate) sinks: Vec<SinkRoute>,
    /// Trackers and transforms of the first graph; later graphs bring theirs with them.
    pub(crate) analytics: Arc<AnalyticsPlan>,
    /// Tracks and transforms per stream, shared with modules that run per track.
    pub(crate) known: SharedAnalytics,
    /// Takes pictures of objects.
    pub(crate) pictures: Option<Arc<dyn PictureTaker>>,
    /// Makes the programs of transforms.
    pub(crate) programs: Option<Arc<dyn TransformPrograms>>,
    pub(crate) decode_levels: SharedDecodeLevels,
    pub(crate) progress: Arc<Progress>,
    pub(crate) tracer: RequestTracer,
    /// Signalled once, when all streams have ended and nothing is in flight.
    pub(crate) idle: oneshot::Sender<()>,
    /// Sent once, when all modules have reported their counts.
    pub(crate) ended: oneshot::Sender<RunEnded>,
}

pub(crate) struct Egress {
    clock: Clock,
    timer: ThreadTimer,
    streams: BTreeMap<StreamId, StreamEntry>,
    /// Ids that tracks of all streams are given.
    track_ids: TrackIdBlocks,
    module_names: Vec<Arc<str>>,
    /// By number: the graph in force and those that are drained.
    graphs: BTreeMap<u32, Recipient<ControlMessage>>,
    sinks: Sinks,
    /// By the number of the graph.
    analytics: BTreeMap<u32, Arc<AnalyticsPlan>>,
    known: SharedAnalytics,
    pictures: Option<Arc<dyn PictureTaker>>,
    programs: Programs,
    decode_levels: SharedDecodeLevels,
    progress: Arc<Progress>,
    tracer: RequestTracer,
    run_end: RunEnd,
    books: Books,
    /// Counts of graphs that were taken down, and at the end of that in force.
    counts_of_graphs: GraphCounts,
    reorder: ReorderBuffer<RequestBranch>,
    /// Whether it was logged that no stream delivers.
    all_down_logged: bool,
    /// Frames of requests in flight, where notices are wanted.
    frames: BTreeMap<RequestId, FrameInfo>,
}

impl Egress {
    /// `timer` counts the thread that it runs on.
    pub(crate) fn new(setup: EgressSetup, timer: ThreadTimer) -> Self {
        let now = setup.clock.now();
        let track_ids = TrackIdBlocks::default();
        let entry = |(name, own_slo)| StreamEntry::new(name, own_slo, &track_ids, now);
        Self {
            clock: setup.clock,
            timer,
            streams: (0..)
                .map(StreamId)
                .zip(setup.streams.into_iter().map(entry))
                .collect(),
            track_ids,
            module_names: setup.module_names,
            graphs: BTreeMap::from([(0, setup.graph)]),
            sinks: Sinks::new(setup.sinks),
            analytics: BTreeMap::from([(0, setup.analytics)]),
            known: setup.known,
            pictures: setup.pictures,
            programs: Programs::new(setup.programs),
            decode_levels: setup.decode_levels,
            progress: setup.progress,
            tracer: setup.tracer,
            run_end: RunEnd::new(setup.until_stopped, setup.idle, setup.ended),
            books: Books::default(),
            counts_of_graphs: GraphCounts::default(),
            reorder: ReorderBuffer::default(),
            all_down_logged: false,
            frames: BTreeMap::new(),
        }
    }

    /// Enters a message in the books. Where a request ends by it, gives whether its picture was decoded for nothing.
    fn enter(&mut self, message: BooksMessage) -> Option<bool> {
        let mut out = Outbox::default();
        self.books.on(message, self.clock.now(), &mut out);
        let mut ends = out.drain().filter_map(|outgoing| match outgoing {
            Outgoing::Act(Effect::Ended { unused, .. }) => Some(unused),
            Outgoing::Act(_) | Outgoing::Send { .. } | Outgoing::Tell(_) => None,
        });
        ends.next()
    }

    /// A request of a graph has ended.
    fn on_ended(&mut self, ended: RequestEnded) {
        let RequestEnded {
            request,
            results,
            outcome,
            latency,
            shortfall,
        } = ended;
        let entered = self.enter(BooksMessage::Ended {
            request: request.info(0),
            outcome,
            latency,
            shortfall,
        });
        let Some(unused) = entered else {
            return;
        };
        let late = match outcome {
            Outcome::Dropped(module, reason) => {
                let why = (reason, shortfall);
                return self.on_dropped(
                    (request.id, request.stream),
                    (module, unused),
                    why,
                    Some(&request),
                );
            }
            Outcome::Late => true,
            Outcome::Delivered => false,
        };
        let (id, stream) = (request.id, request.stream);
        self.observe_end(stream, false);
        self.progress.on_completed(late);
        telemetry::record_latency(self.name(stream), latency.unwrap_or_default());
        let outcome = if late { LATE } else { "delivered" };
        self.record_outcomes(stream, outcome, 1);
        self.tracer.on_ended(id, outcome, None);
        // A live stream has no use for what is late; an archive wants every frame.
        let is_shown = !late || !request.droppable;
        let frame = self.frames.remove(&id);
        if let Some(gate) = &request.gate {
            match &results {
                Some(results) if is_shown => gate.on_delivered(&request.frame, results),
                _ => gate.on_lost(request.frame.index),
            }
        }
        if !is_shown && let Some(frame) = frame {
            self.send_frame_notice(stream, frame, None, (LATE, None), Some(&request));
        }
        let results = results.unwrap_or_default();
        self.release(id, stream, is_shown.then_some(RequestBranch { request, results }));
    }

    /// A request ended, with a result or without: delivers the results that waited for it.
    fn release(&mut self, request: RequestId, stream: StreamId, result: Option<RequestBranch>) {
        if result.is_none() {
            self.known.on_dropped(stream, request);
        }
        for branch in self.reorder.on_ended(stream, request, result) {
            self.deliver(branch);
        }
        self.remove_if_idle(stream);
        self.signal_if_idle();
    }

    fn deliver(&mut self, RequestBranch { request, results }: RequestBranch) {
        if !self.streams.contains_key(&request.stream) {
            return;
        }
        let results = self.results_to_show(&request, results);
        self.settle_privacy(&request, &results);
        let time_ms = self.clock.utc_ms(request.sent_at);
        let found = self.analyse(&request, &results, time_ms);
        self.pass(PassingFrame::new(request, results, found, time_ms));
    }

    /// The results of a frame: of one in which nothing changed, those of the last frame of its stream that was looked at.
    fn results_to_show(&mut self, request: &Request, results: RequestResults) -> RequestResults {
        if request.gate.is_none() {
            return results;
        }
        let Some(entry) = self.streams.get_mut(&request.stream) else {
            return results;
        };
        let graph = request.route.graph;
        if !request.still {
            entry.looked = Some((graph, results.clone()));
            return results;
        }
        match &entry.looked {
            Some((of, looked)) if *of == graph => looked.clone(),
            _ => results,
        }
    }

    /// A request was dropped, by a module where one dropped it. `unused`: its picture was decoded for nothing.
    fn on_dropped(
        &mut self,
        (request, stream): (RequestId, StreamId),
        (module, unused): (Option<ModuleId>, bool),
        (reason, shortfall): (DropReason, Option<Shortfall>),
        admitted: Option<&Request>,
    ) {
        self.observe_end(stream, unused);
        if let Some(request) = admitted
            && let Some(gate) = &request.gate
        {
            gate.on_lost(request.frame.index);
        }
        if let Some(frame) = self.frames.remove(&request) {
            self.send_frame_notice(stream, frame, module, (reason.name(), shortfall), admitted);
        }
        self.progress.on_dropped();
        self.record_outcomes(stream, reason.name(), 1);
        let module = module.and_then(|module| self.module_names.get(module.index()));
        self.tracer.on_ended(request, reason.name(), module.map(label));
        self.release(request, stream, None);
    }

    /// Counts frames that no model was to see: nothing changed in them, or they came outside the schedule of their source.
    fn on_still(&mut self, stream: StreamId, count: u64) {
        if count > 0 {
            self.enter(BooksMessage::Still { stream, count });
            self.progress.on_still(stream, count);
            self.record_outcomes(stream, STILL, count);
        }
    }

    /// Counts the end of a request for the levels of decoding.
    fn observe_end(&self, stream: StreamId, unused: bool) {
        if let Some(level) = self.decode_levels.get(stream) {
            level.on_request_ended(unused);
        }
    }

    /// Notifies sinks of a frame that is not delivered: those of the graph that its request entered, or would have.
    fn send_frame_notice(
        &mut self,
        stream: StreamId,
        frame: FrameInfo,
        module: Option<ModuleId>,
        (reason, shortfall): (&'static str, Option<Shortfall>),
        admitted: Option<&Request>,
    ) {
        let notice = Notice::Dropped {
            stream: self.name(stream).into(),
            frame: frame.index,
            pts_ms: frame.pts_ms,
            time_ms: self.clock.utc_ms(frame.sent_at),
            module: module.and_then(|module| self.module_names.get(module.index()).map(label)),
            reason,
            shortfall,
        };
        let graph = admitted.map_or_else(|| self.graph_in_force(), |request| request.route.graph);
        self.sinks
            .send_notice(stream, graph, notice, admitted.map(|request| &request.permit));
    }

    /// Notifies sinks of another state of a stream, once.
    fn publish_stream_state(&mut self, stream: StreamId, state: StreamState) {
        let Some(entry) = self.streams.get_mut(&stream) else {
            return;
        };
        let is_news = match &entry.notified {
            _ if state == StreamState::Connecting => false,
            // Once for an outage and its reason: a stream that stalls is waiting next.
            Some(last) if last.is_down() && state.is_down() => last.reason() != state.reason(),
            Some(last) => *last != state,
            None => true,
        };
        if !self.sinks.wants_notices() || !is_news {
            return;
        }
        entry.notified = Some(state.clone());
        let notice = Notice::State {
            stream: self.name(stream).into(),
            state,
            time_ms: self.clock.utc_ms(self.clock.now()),
        };
        let graph = self.graph_in_force();
        self.sinks.send_notice(stream, graph, notice, None);
    }

    /// Those before it are drained.
    fn graph_in_force(&self) -> u32 {
        self.analytics.keys().next_back().copied().unwrap_or_default()
    }

    /// Notifies sinks of outages that began or ended since the last look.
    fn report_outages(&mut self) {
        let time_ms = self.clock.utc_ms(self.clock.now());
        self.sinks.report_outages(time_ms);
    }

    /// Passes new descriptions on to the sinks that show their incidents.
    fn send_descriptions(&mut self) {
        let notices = self.sinks.take_descriptions();
        if !notices.is_empty() {
            let streams = self.numbers_of_streams();
            self.sinks.send_described(&streams, &notices);
        }
    }

    /// Numbers of the streams by name.
    fn numbers_of_streams(&self) -> BTreeMap<Arc<str>, u32> {
        let streams = self.streams.iter();
        streams
            .map(|(id, entry)| (Arc::clone(&entry.name), id.0))
            .collect()
    }

    fn name(&self, stream: StreamId) -> &str {
        self.streams.get(&stream).map_or("?", |stream| &*stream.name)
    }

    /// Takes a snapshot of all counts, with those of sinks that were closed earlier.
    fn counts(&mut self) -> EgressCounts {
        self.timer.update();
        let now = self.clock.now();
        let streams = self.streams.iter();
        EgressCounts {
            ledger: self.books.ledger().clone(),
            stats: self.books.stats().clone(),
            graphs: self.counts_of_graphs.clone(),
            streams: streams.map(|(id, stream)| (*id, stream.counts(now))).collect(),
            sinks: self.sinks.reports(),
            transforms: self.programs.reports(),
        }
    }

    fn signal_if_idle(&mut self) {
        let all_ended = || self.streams.values().all(|stream| stream.summary.is_some());
        if self.run_end.awaits_idle()
            && all_ended()
            && self.books.ledger().total().in_flight == 0
            && self.streams.values().all(|stream| stream.passing.is_empty())
        {
            self.run_end.on_idle();
        }
    }
}

impl Actor for Egress {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        let on_done = context.address().recipient();
        for (graph, plan) in &self.analytics {
            self.programs.start(*graph, plan, self.clock, &on_done);
        }
        context.run_interval(duration(telemetry::KEEP_INTERVAL), |egress, _| {
            egress.keep_series()
        });
        context.run_interval(duration(OUTAGE_INTERVAL), |egress, _| {
            egress.report_outages();
            egress.send_descriptions();
        });
    }
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
        if self.run_end.was_idle() || !self.streams.contains_key(&stream) {
            // Its source did not stop when it was asked to, and the stream was removed, or the run ended, without it.
            self.tracer.forget(request);
            return;
        }
        if self.sinks.wants_notices() {
            self.frames.insert(request, frame);
        }
        self.reorder.on_sent(stream, request);
        self.progress.on_arrived(stream);
        let Some((reason, _permit)) = rejected else {
            self.enter(BooksMessage::Arrived { request, stream });
            return;
        };
        let info = RequestInfo {
            id: request,
            stream,
            sent_at: frame.sent_at,
            slo: None,
            droppable: true,
            route: 0,
        };
        let ended = self.enter(BooksMessage::Rejected {
            request: info,
            reason,
        });
        if let Some(unused) = ended {
            self.on_dropped((request, stream), (None, unused), (reason, None), None);
        }
    }
}

impl Handler<LeftOut> for Egress {
    type Result = ();

    fn handle(&mut self, left_out: LeftOut, _context: &mut Self::Context) {
        const REASON: DropReason = DropReason::NotDecoded;
        let LeftOut {
            stream,
            count,
            still,
            span,
            next,
            interval,
            permit: _permit,
        } = left_out;
        // Its source did not stop when it was asked to, and the stream was removed, or the run ended, without it.
        if self.run_end.was_idle() || !self.streams.contains_key(&stream) {
            return;
        }
        self.on_still(stream, still);
        if still > 0 && self.sinks.wants_notices() {
            let earlier = interval * span;
            let notice = Notice::Still {
                stream: self.name(stream).into(),
                frame: next.index.saturating_sub(span),
                frames: still,
                last_frame: next.index.saturating_sub(count + 1),
                pts_ms: next.pts_ms - earlier.as_millis_f64(),
                time_ms: self.clock.utc_ms(next.sent_at.saturating_sub(earlier)),
            };
            let graph = self.graph_in_force();
            self.sinks.send_notice(stream, graph, notice, None);
        }
        if count == 0 {
            return;
        }
        self.enter(BooksMessage::LeftOut {
            stream,
            reason: REASON,
            count,
        });
        self.progress.on_left_out(stream, count);
        self.record_outcomes(stream, REASON.name(), count);
        if !self.sinks.wants_notices() {
            return;
        }
        for before in (1..=count).rev() {
            let earlier = interval * before;
            let frame = FrameInfo {
                index: next.index.saturating_sub(before),
                pts_ms: next.pts_ms - earlier.as_millis_f64(),
                sent_at: next.sent_at.saturating_sub(earlier),
            };
            self.send_frame_notice(stream, frame, None, (REASON.name(), None), None);
        }
    }
}

impl Handler<StillFrame> for Egress {
    type Result = ();

    fn handle(&mut self, StillFrame(request): StillFrame, _context: &mut Self::Context) {
        let (id, stream) = (request.id, request.stream);
        if self.run_end.was_idle() || !self.streams.contains_key(&stream) {
            return;
        }
        self.on_still(stream, 1);
        // It was decoded to be compared, and that is a use.
        self.observe_end(stream, false);
        self.reorder.on_sent(stream, id);
        let results = RequestResults::default();
        self.release(id, stream, Some(RequestBranch { request, results }));
    }
}

impl Handler<EgressFacts> for Egress {
    type Result = ();

    fn handle(&mut self, EgressFacts(facts): EgressFacts, _context: &mut Self::Context) {
        let began = self.clock.now();
        for fact in facts {
            match fact {
                EgressFact::Spent {
                    request,
                    module,
                    span,
                } => {
                    _ = self.enter(BooksMessage::Spent {
                        request,
                        module,
                        span,
                    })
                }
                EgressFact::Ended(ended) => self.on_ended(*ended),
            }
        }
        let took = self.clock.now().since(began);
        self.counts_of_graphs
            .control
            .observe(ControlEvent::Delivery, took);
    }
}

impl Handler<Abandon> for Egress {
    type Result = ();

    fn handle(&mut self, _: Abandon, _context: &mut Self::Context) {
        self.run_end.end_when_idle();
        self.abandon(None);
    }
}

impl Handler<TakeCounts> for Egress {
    type Result = MessageResult<TakeCounts>;

    fn handle(&mut self, _: TakeCounts, _context: &mut Self::Context) -> Self::Result {
        MessageResult(self.counts())
    }
}

impl Handler<StatsReported> for Egress {
    type Result = ();

    fn handle(&mut self, StatsReported(stats): StatsReported, _context: &mut Self::Context) {
        self.counts_of_graphs.add(stats);
        if let Some(ended) = self.run_end.take_ended() {
            let counts = self.counts();
            let sinks = self.sinks.take_all();
            let streams = self.numbers_of_streams();
            let _ = ended.send(RunEnded {
                counts,
                sinks,
                streams,
            });
        }
    }
}

/// The name of a module as sinks know it: without the number of a stage.
fn label(name: &Arc<str>) -> Arc<str> {
    match name.split_once('/') {
        Some((cascade, _)) => cascade.into(),
        None => Arc::clone(name),
    }
}
