//! The egress: where requests end. It keeps the ledger, lets results of a stream leave in frame order, and hands
//! deliveries to the sinks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actix::{Actor, Context, Handler, Message};
use tokio::sync::oneshot;
use weir_flow::{Delivery, Notice, SourceCounts, StreamState};
use weir_policy::{HealthTracker, Join, Ledger, ModuleStats, Outcome, ReorderBuffer, RunStats, StreamHealth};
use weir_types::{DropReason, ModuleId, RequestId, Span, StreamId, Timestamp};

use crate::clock::Clock;
use crate::gate::Pass;
use crate::label::label;
use crate::layout::Shown;
use crate::progress::Progress;
use crate::request::{Parcel, Request};
use crate::sink;
use crate::source::Refusal;
use crate::telemetry;

/// A request was sent.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Opened {
    pub(crate) request: RequestId,
    pub(crate) stream: StreamId,
    pub(crate) frame: FrameInfo,
    /// Why it ends at once, where the gate did not let it in.
    pub(crate) refused: Option<(DropReason, Refusal)>,
}

/// What is said of a frame that is not delivered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameInfo {
    /// Its number.
    pub(crate) index: u64,
    /// Its media time in milliseconds.
    pub(crate) pts_ms: f64,
    /// When it arrived.
    pub(crate) sent_at: Timestamp,
}

/// A parcel came out of a last module.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Completed(pub(crate) Parcel);

/// A request was let go.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Dropped {
    pub(crate) request: Arc<Request>,
    pub(crate) module: Option<ModuleId>,
    pub(crate) reason: DropReason,
}

/// Device time went into a request.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Spent {
    pub(crate) request: RequestId,
    pub(crate) module: ModuleId,
    pub(crate) span: Span,
}

/// A stream is in another state now, or is down for another reason.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct StreamStateChanged {
    pub(crate) stream: StreamId,
    pub(crate) state: StreamState,
    /// Since when: of a stream that is down, when its last frame came.
    pub(crate) since: Timestamp,
    /// Whether it is down though it was connected: it sent nothing.
    pub(crate) silent: bool,
}

/// A stream sends no more.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct StreamEnded {
    pub(crate) stream: StreamId,
    pub(crate) counts: SourceCounts,
    /// Frames that were older than the SLO when they came.
    pub(crate) stale: u64,
    pub(crate) error: Option<String>,
}

/// What is still under way is given up, and who still sends is not waited for.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Abandon;

/// What a module counted, at the end.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Tallied {
    pub(crate) module: ModuleId,
    pub(crate) tally: Box<ModuleStats>,
}

/// Why a frame of a live stream is not delivered that came out after its deadline; other reasons are those of drops.
const LATE: &str = "late";

/// A sink with what it shows.
pub(crate) struct SinkLine {
    pub(crate) line: sink::SinkLine,
    pub(crate) shown: Shown,
}

/// How a stream ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamEnd {
    pub(crate) counts: SourceCounts,
    pub(crate) stale: u64,
    pub(crate) error: Option<String>,
    pub(crate) health: StreamHealth,
}

/// All that the egress knows when the run is over.
pub(crate) struct RunEnded {
    pub(crate) ledger: Ledger,
    pub(crate) tally: RunStats,
    pub(crate) streams: BTreeMap<StreamId, StreamEnd>,
    pub(crate) sinks: Vec<sink::SinkLine>,
}

/// What the egress is made from.
pub(crate) struct EgressSetup {
    pub(crate) clock: Clock,
    pub(crate) slo: Span,
    pub(crate) streams: Vec<Arc<str>>,
    /// Names of modules, by id.
    pub(crate) module_names: Vec<Arc<str>>,
    /// How many last modules a request of each stream comes out of.
    pub(crate) parts: Vec<u32>,
    pub(crate) modules: usize,
    pub(crate) sinks: Vec<SinkLine>,
    pub(crate) progress: Arc<Progress>,
    /// Told once when all streams have ended and nothing is under way.
    pub(crate) idle: oneshot::Sender<()>,
    /// Told once when all modules have told their tallies.
    pub(crate) ended: oneshot::Sender<RunEnded>,
}

pub(crate) struct Egress {
    clock: Clock,
    slo: Span,
    names: Vec<Arc<str>>,
    module_names: Vec<Arc<str>>,
    parts: Vec<u32>,
    modules: usize,
    sinks: Vec<SinkLine>,
    progress: Arc<Progress>,
    idle: Option<oneshot::Sender<()>>,
    ended: Option<oneshot::Sender<RunEnded>>,
    ledger: Ledger,
    tally: RunStats,
    join: Join<Parcel>,
    release: ReorderBuffer<Parcel>,
    stream_ends: BTreeMap<StreamId, StreamEnd>,
    health: Vec<HealthTracker>,
    /// Whether it was said that no stream delivers.
    said_all_down: bool,
    /// Whether any sink is to be given notices.
    wants_notices: bool,
    /// Frames of requests in flight, where notices are wanted.
    frames: BTreeMap<RequestId, FrameInfo>,
    /// The last state that was said of each stream.
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
            parts: setup.parts,
            modules: setup.modules,
            wants_notices: setup.sinks.iter().any(|sink| sink.line.wants_notices()),
            sinks: setup.sinks,
            progress: setup.progress,
            idle: Some(setup.idle),
            ended: Some(setup.ended),
            ledger: Ledger::default(),
            tally: RunStats::default(),
            join: Join::default(),
            release: ReorderBuffer::default(),
            stream_ends: BTreeMap::new(),
            health,
            said_all_down: false,
            frames: BTreeMap::new(),
            states: BTreeMap::new(),
        }
    }

    /// Ends a request that came out: in time or late, by the moment of coming out.
    fn came_out(&mut self, parcel: Parcel) {
        let request = &parcel.request;
        if !request.end() {
            return;
        }
        let latency = self.clock.now().since(request.sent_at);
        let late = latency > self.slo;
        let outcome = if late { Outcome::Late } else { Outcome::Delivered };
        let (id, stream) = (request.id, request.stream);
        if !self.ledger.ended(id, outcome) {
            return;
        }
        self.tally.came_out(stream, latency);
        self.progress.came_out(late);
        telemetry::request_ended(
            self.name(stream),
            if late { "late" } else { "delivered" },
            Some(latency),
        );
        // A live stream has no use for what is late; an archive wants every frame.
        let shown = !late || !request.droppable;
        let frame = self.frames.remove(&id);
        if !shown && let Some(frame) = frame {
            self.frame_notice(stream, frame, None, LATE, Some(&request.pass));
        }
        self.leave(id, stream, shown.then_some(parcel));
    }

    /// A request has ended, with a result or with nothing: what waited for it leaves.
    fn leave(&mut self, request: RequestId, stream: StreamId, result: Option<Parcel>) {
        for parcel in self.release.on_ended(stream, request, result) {
            self.deliver(parcel);
        }
        self.look_whether_idle();
    }

    fn deliver(&mut self, Parcel { request, results }: Parcel) {
        let latency = self.clock.now().since(request.sent_at);
        let mut made: Vec<(BTreeSet<u32>, Arc<Delivery>)> = Vec::new();
        let of_stream = |sink: &&mut SinkLine| sink.shown.streams.contains(&request.stream.0);
        for sink in self.sinks.iter_mut().filter(of_stream) {
            let known = made
                .iter()
                .find(|(shown, _)| *shown == sink.shown.modules)
                .map(|(_, delivery)| Arc::clone(delivery));
            let delivery = known.unwrap_or_else(|| {
                let delivery = Arc::new(Delivery {
                    stream: Arc::clone(&self.names[request.stream.index()]),
                    frame: Arc::clone(&request.frame),
                    time_ms: self.clock.utc_ms(request.sent_at),
                    latency_ms: latency.as_millis_f64(),
                    late: latency > self.slo,
                    objects: label(&results, &sink.shown.modules),
                });
                made.push((sink.shown.modules.clone(), Arc::clone(&delivery)));
                delivery
            });
            sink.line.take(&delivery, &request.pass);
        }
    }

    fn dropped(
        &mut self,
        request: RequestId,
        stream: StreamId,
        module: Option<ModuleId>,
        reason: DropReason,
        pass: Option<&Arc<Pass>>,
    ) {
        self.join.cancel(request);
        if !self.ledger.ended(request, Outcome::Dropped(module, reason)) {
            return;
        }
        if let Some(frame) = self.frames.remove(&request) {
            self.frame_notice(stream, frame, module, reason.name(), pass);
        }
        self.progress.dropped();
        telemetry::request_ended(self.name(stream), reason.name(), None);
        self.leave(request, stream, None);
    }

    /// Says that a frame will not be delivered.
    fn frame_notice(
        &mut self,
        stream: StreamId,
        frame: FrameInfo,
        module: Option<ModuleId>,
        reason: &'static str,
        pass: Option<&Arc<Pass>>,
    ) {
        let notice = Notice::Dropped {
            stream: self.name(stream).into(),
            frame: frame.index,
            pts_ms: frame.pts_ms,
            time_ms: self.clock.utc_ms(frame.sent_at),
            module: module.and_then(|module| self.module_names.get(module.index()).cloned()),
            reason,
        };
        self.publish_notice(stream, notice, pass);
    }

    /// Says that a stream is in another state, once.
    fn stream_state(&mut self, stream: StreamId, state: StreamState) {
        if !self.wants_notices || self.states.get(&stream) == Some(&state) {
            return;
        }
        self.states.insert(stream, state.clone());
        let notice = Notice::State {
            stream: self.name(stream).into(),
            state,
            time_ms: self.clock.utc_ms(self.clock.now()),
        };
        self.publish_notice(stream, notice, None);
    }

    fn publish_notice(&mut self, stream: StreamId, notice: Notice, pass: Option<&Arc<Pass>>) {
        let notice = Arc::new(notice);
        let wanting =
            |sink: &&mut SinkLine| sink.line.wants_notices() && sink.shown.streams.contains(&stream.0);
        for sink in self.sinks.iter_mut().filter(wanting) {
            sink.line.take_notice(&notice, pass);
        }
    }

    fn name(&self, stream: StreamId) -> &str {
        self.names.get(stream.index()).map_or("?", |name| name)
    }

    fn look_whether_idle(&mut self) {
        let all_ended = self.stream_ends.len() == self.names.len();
        if all_ended
            && self.ledger.total().in_flight == 0
            && let Some(idle) = self.idle.take()
        {
            // Nobody listens where the run was abandoned meanwhile.
            let _ = idle.send(());
        }
    }
}

impl Actor for Egress {
    type Context = Context<Self>;
}

impl Handler<Opened> for Egress {
    type Result = ();

    fn handle(&mut self, opened: Opened, _context: &mut Self::Context) {
        let Opened {
            request,
            stream,
            frame,
            refused,
        } = opened;
        if self.wants_notices {
            self.frames.insert(request, frame);
        }
        self.ledger.arrived(request, stream);
        self.release.on_sent(stream, request);
        self.progress.arrived(stream);
        if let Some((reason, _)) = refused {
            self.dropped(request, stream, None, reason, None);
        }
    }
}

impl Handler<Completed> for Egress {
    type Result = ();

    fn handle(&mut self, Completed(parcel): Completed, _context: &mut Self::Context) {
        if parcel.request.has_ended() {
            return;
        }
        let of = self
            .parts
            .get(parcel.request.stream.index())
            .copied()
            .unwrap_or(1);
        let request = parcel.request.id;
        let whole = self.join.on_branch(request, of, parcel, |whole, part| {
            whole.results.merge(&part.results)
        });
        if let Some(parcel) = whole {
            self.came_out(parcel);
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
        self.dropped(request.id, request.stream, module, reason, Some(&request.pass));
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
        self.ledger.spent(request, module, span);
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
        if !self.said_all_down && self.health.iter().all(HealthTracker::is_down) {
            self.said_all_down = true;
            tracing::error!(
                "no source delivers; they are tried again until the run is stopped or its duration is over"
            );
        }
        self.stream_state(changed.stream, changed.state);
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
        self.progress.stream_ended(stream);
        if !matches!(self.states.get(&stream), Some(StreamState::Ended { .. })) {
            self.stream_state(stream, StreamState::Ended { error: error.clone() });
        }
        let end = StreamEnd {
            counts,
            stale,
            error,
            health: StreamHealth::default(),
        };
        self.stream_ends.insert(stream, end);
        self.look_whether_idle();
    }
}

impl Handler<Abandon> for Egress {
    type Result = ();

    fn handle(&mut self, _: Abandon, _context: &mut Self::Context) {
        for (request, stream) in self.ledger.open() {
            self.dropped(request, stream, None, DropReason::Stopped, None);
        }
        for stream in (0..self.names.len() as u32).map(StreamId) {
            self.stream_ends.entry(stream).or_insert_with(|| StreamEnd {
                error: Some("its source did not stop when it was asked to".to_owned()),
                ..StreamEnd::default()
            });
        }
        self.look_whether_idle();
    }
}

impl Handler<Tallied> for Egress {
    type Result = ();

    fn handle(&mut self, Tallied { module, tally }: Tallied, _context: &mut Self::Context) {
        self.tally.modules.insert(module, *tally);
        if self.tally.modules.len() < self.modules {
            return;
        }
        if let Some(ended) = self.ended.take() {
            let sinks = std::mem::take(&mut self.sinks)
                .into_iter()
                .map(|sink| sink.line)
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
                tally: std::mem::take(&mut self.tally),
                streams,
                sinks,
            });
        }
    }
}
