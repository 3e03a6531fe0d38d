//! Reservations: time on device shares and links, and the path of each batch (PPipe 5.4, A.3). README.md has the rules.
//!
//! A module with a partitioned model requests a path. The answer is a booking (a path through a pooled
//! pipeline, with its end), or that the most urgent item is infeasible; it may come later. Each request has
//! exactly one answer.
//!
//! ```text
//! PathRequested ──> NoPath                          (the module drops its most urgent item and requests again)
//!    │ ──> (wait) ──SetTimer──> Tick ──┐
//!    └─────────────────────────────────┴──> Book ──Dispatched──Used...──> Finished
//!                                             ├──Declined, Failed──> freed
//!                                             └──Down──> Lost
//! ```
//!
//! [`PlannedReservations`] adds plans: the reservations of the plan in force, and the switch to another plan.

mod accuracy;
mod api;
pub(crate) mod booking_table;
mod bookings;
mod cluster_index;
mod decide;
mod planned;
mod probe;
mod reactive;
mod replan;
mod spec;

use std::collections::BTreeMap;

use weir_types::{ModuleId, PipelineId, ShareId, Span, Timestamp};

use crate::measure::starvation_reset::StarvationReset;

use bookings::Bookings;
use cluster_index::ClusterIndex;
use decide::{BatchDecision, Scratch};
use probe::BookingView;

pub use accuracy::{Accuracy, PlanReport, ReserveReport, WorkerReport};
pub use api::{BookingId, Interval, PathRequest, PathStage, ReserveEffect, ReserveEvent, ResourceUse};
pub use decide::Decision;
pub use planned::{
    GiveUpReason, PartitionLoad, PlanEffect, PlanEvent, PlanSpec, PlannedEffect, PlannedEvent,
    PlannedReservations,
};
pub use probe::Probe;
pub use reactive::{Reaction, react, stage_deadlines};
pub use replan::{ReplanOrigin, ReplanSpec};
pub use spec::{BookingTable, ReserveSpec};

/// A module that requests paths.
#[derive(Debug, Clone, Default)]
struct Requester {
    pipelines: Vec<PipelineId>,
    request: Option<PathRequest>,
    /// The head of the queue that passed the head rule last, by deadline and arrival: items that share both share the
    /// decision.
    admitted_head: Option<(Timestamp, Timestamp)>,
    /// When it must be reconsidered at the latest.
    until: Option<Timestamp>,
    /// Items it waits for.
    waiting_for: u32,
    /// Version of the tables when it was last considered.
    seen: u64,
    starvation_reset: StarvationReset,
}

/// The cluster, its bookings, and the modules that request paths.
#[derive(Debug, Clone)]
pub struct Reservations {
    cluster: ClusterIndex,
    tables: BookingTable,
    feedback: bool,
    corrected: bool,
    head_min_fraction: f64,
    bookings: Bookings,
    down: Vec<bool>,
    requesters: BTreeMap<ModuleId, Requester>,
    /// Incremented by every change of the tables.
    version: u64,
    timer_at: Option<Timestamp>,
    /// Whether all requests wait, because a switch of plans is pending.
    paused: bool,
    scratch: Scratch,
}

impl Reservations {
    /// Without bookings or requests.
    #[must_use]
    pub fn new(spec: &ReserveSpec) -> Self {
        let cluster = ClusterIndex::new(&spec.cluster);
        let mut requesters: BTreeMap<ModuleId, Requester> = BTreeMap::new();
        for (id, pipeline) in (0..).map(PipelineId).zip(&cluster.pipelines) {
            requesters.entry(pipeline.module).or_default().pipelines.push(id);
        }
        Self {
            bookings: Bookings::new(cluster.resources()),
            down: vec![false; cluster.shares()],
            cluster,
            tables: spec.tables,
            feedback: spec.feedback,
            corrected: spec.corrected,
            head_min_fraction: spec.head_min_fraction,
            requesters,
            version: 1,
            timer_at: None,
            paused: false,
            scratch: Scratch::default(),
        }
    }

    /// Takes in a burst of events, decides once, and appends the resulting effects.
    pub fn step(
        &mut self,
        events: impl IntoIterator<Item = ReserveEvent>,
        now: Timestamp,
        effects: &mut Vec<ReserveEffect>,
    ) {
        for event in events {
            self.on_event(event, now, effects);
        }
        if self.feedback {
            self.bookings.extend_overdue(now);
        } else {
            self.bookings.remove_ended(now);
        }
        if !self.paused {
            self.answer_requests(now, effects);
            self.update_timer(now, effects);
        }
    }

    /// Takes over what was measured of durations under the plan before.
    fn adopt_corrections(&mut self, before: &Self) {
        self.cluster.adopt_corrections(&before.cluster);
    }

    /// Answers no request from now on; requests are still taken in.
    pub fn pause(&mut self) {
        self.paused = true;
    }

    /// Requests without an answer yet, by module.
    pub fn requests(&self) -> impl Iterator<Item = (ModuleId, PathRequest)> {
        let requesters = self.requesters.iter();
        requesters.filter_map(|(&module, requester)| Some((module, requester.request?)))
    }

    fn on_event(&mut self, event: ReserveEvent, now: Timestamp, effects: &mut Vec<ReserveEffect>) {
        match event {
            ReserveEvent::PathRequested { module, request } => self.update_requester(module, |requester| {
                // A request that waits for more items than are there need not be reconsidered.
                let keeps_waiting = requester.request.is_some_and(|before| {
                    (before.deadline, before.since) == (request.deadline, request.since)
                        && request.waiting < requester.waiting_for
                });
                requester.request = Some(request);
                if !keeps_waiting {
                    (requester.seen, requester.waiting_for) = (0, 0);
                }
            }),
            ReserveEvent::RequestCancelled { module } => self.update_requester(module, |requester| {
                requester.request = None;
                requester.until = None;
            }),
            ReserveEvent::Dispatched { booking, items } if self.feedback => {
                if self.bookings.resize(&self.cluster, booking, items) {
                    self.version += 1;
                }
            }
            ReserveEvent::Declined { booking }
            | ReserveEvent::Finished { booking }
            | ReserveEvent::Failed { booking } => {
                if self.bookings.release(booking).is_some() {
                    self.version += 1;
                }
            }
            ReserveEvent::Used {
                booking,
                stage,
                used,
                from,
                to,
            } if self.feedback => {
                let to = to.min(now);
                let from = from.min(to);
                if self.corrected {
                    match used {
                        ResourceUse::Run => self.correct_duration(booking, stage, to - from),
                        ResourceUse::Transfer => self.correct_transfer(booking, stage, to - from),
                    }
                }
                self.bookings.on_used(booking, stage, used, Interval { from, to });
                self.version += 1;
            }
            ReserveEvent::Dispatched { .. } | ReserveEvent::Used { .. } | ReserveEvent::Tick => {}
            ReserveEvent::Down { share } => self.on_share_down(share, now, effects),
            ReserveEvent::Up { share } => {
                if let Some(down) = self.down.get_mut(share.index()) {
                    *down = false;
                    self.version += 1;
                }
            }
        }
    }

    fn correct_duration(&mut self, booking: BookingId, stage: u32, took: Span) {
        let Some(booking) = self.bookings.all.get(&booking) else {
            return;
        };
        let pipeline = self.cluster.pipelines.get_mut(booking.pipeline.index());
        if let Some(stage) = pipeline.and_then(|pipeline| pipeline.stages.get_mut(stage as usize)) {
            stage.on_measured(booking.size, took);
        }
    }

    fn correct_transfer(&mut self, booking: BookingId, stage: u32, took: Span) {
        let Some(booking) = self.bookings.all.get(&booking) else {
            return;
        };
        let sender = stage.checked_sub(1).and_then(|sender| booking.share(sender));
        let (Some(sender), Some(receiver)) = (sender, booking.share(stage)) else {
            return;
        };
        let link = (self.cluster.server_of(sender), self.cluster.server_of(receiver));
        let bandwidth = self.cluster.bandwidth(link.0, link.1);
        let pipeline = self.cluster.pipelines.get_mut(booking.pipeline.index());
        if let Some(stage) = pipeline.and_then(|pipeline| pipeline.stages.get_mut(stage as usize)) {
            stage.on_transferred(booking.size, link, bandwidth, took);
        }
    }

    /// A use of a booking as the profile and the bandwidth have it, before it is reported.
    fn planned_use(&self, booking: BookingId, stage: u32, used: ResourceUse) -> Option<PlannedUse<'_>> {
        let booking = self.bookings.all.get(&booking)?;
        let pipeline = self.cluster.pipelines.get(booking.pipeline.index())?;
        let of_stage = pipeline.stages.get(stage as usize)?;
        let receiver = booking.share(stage)?;
        let class = self.cluster.class_of(receiver);
        let module = booking.module;
        let run = PlannedUse {
            module,
            from: None,
            class,
            expected: of_stage.profiled(booking.size),
            bandwidth_bps: 0,
        };
        if used == ResourceUse::Run {
            return Some(run);
        }
        let sender = booking.share(stage.checked_sub(1)?)?;
        let servers = [sender, receiver].map(|share| self.cluster.server_of(share));
        let bandwidth_bps = self.cluster.bandwidth(servers[0], servers[1]);
        Some(PlannedUse {
            from: Some(self.cluster.class_of(sender)),
            expected: of_stage.planned_transfer(booking.size, bandwidth_bps),
            bandwidth_bps,
            ..run
        })
    }

    fn update_requester(&mut self, module: ModuleId, change: impl FnOnce(&mut Requester)) {
        if let Some(requester) = self.requesters.get_mut(&module) {
            change(requester);
        }
    }

    fn on_share_down(&mut self, share: ShareId, now: Timestamp, effects: &mut Vec<ReserveEffect>) {
        let Some(down) = self.down.get_mut(share.index()) else {
            return;
        };
        *down = true;
        self.version += 1;
        for booking in self.bookings.bookings_on(share, now, self.feedback) {
            if let Some(lost) = self.bookings.release(booking) {
                let module = lost.module;
                effects.push(ReserveEffect::Lost { module, booking });
            }
        }
    }

    /// Reconsiders requests for which something may have changed, the most urgent first.
    fn answer_requests(&mut self, now: Timestamp, effects: &mut Vec<ReserveEffect>) {
        let mut order: Vec<(Timestamp, ModuleId)> = self
            .requesters
            .iter()
            .filter_map(|(&module, requester)| Some((requester.request?.deadline, module)))
            .collect();
        order.sort_unstable();
        for (_, module) in order {
            let Some(requester) = self.requesters.get_mut(&module) else {
                continue;
            };
            let due = requester.until.is_some_and(|until| until <= now);
            let Some(request) = requester
                .request
                .filter(|_| due || requester.seen != self.version)
            else {
                continue;
            };
            requester.seen = self.version;
            let head = (request.deadline, request.since);
            let fraction = if requester.admitted_head == Some(head) {
                0.0
            } else {
                self.head_min_fraction
            };
            let view = BookingView {
                cluster: &self.cluster,
                down: &self.down,
                tables: &self.bookings.tables,
                table_kind: self.tables,
            };
            let least = |planned| min_batch(planned, fraction);
            match self
                .scratch
                .decide(view, &requester.pipelines, request, least, now)
            {
                BatchDecision::Infeasible { finish } => {
                    (requester.request, requester.until) = (None, None);
                    if requester
                        .starvation_reset
                        .on_drop(now, StarvationReset::MAX_PATIENCE)
                    {
                        self.cluster.reset_corrections(&requester.pipelines);
                        self.version += 1;
                    }
                    effects.push(ReserveEffect::NoPath { module, finish });
                }
                BatchDecision::Wait { until, size } => {
                    (requester.admitted_head, requester.until) = (Some(head), Some(until));
                    requester.waiting_for = size;
                }
                BatchDecision::Dispatch => {
                    (requester.request, requester.until, requester.admitted_head) = (None, None, Some(head));
                    requester.starvation_reset.on_run(now);
                    effects.push(self.book(module, now));
                }
            }
        }
    }

    /// Books the chosen path.
    fn book(&mut self, module: ModuleId, now: Timestamp) -> ReserveEffect {
        self.version += 1;
        let probe = self.scratch.chosen();
        let booking = self.bookings.reserve(&self.cluster, probe, now);
        ReserveEffect::Book {
            module,
            booking,
            pipeline: probe.pipeline,
            size: probe.size,
            path: probe.path.clone(),
            start: probe.start(),
            finish: probe.finish,
        }
    }

    fn update_timer(&mut self, now: Timestamp, effects: &mut Vec<ReserveEffect>) {
        let first = self
            .requesters
            .values()
            .filter_map(|requester| requester.until)
            .min();
        // A timer in the past was good for one tick.
        if let Some(at) = first
            && self.timer_at != first
        {
            effects.push(ReserveEffect::SetTimer { at: at.max(now) });
        }
        self.timer_at = first;
    }

    /// The path of a batch of `size` items if booked now; `None` if a stage has no share that is up, or the size exceeds the
    /// planned one.
    #[must_use]
    pub fn probe(&self, pipeline: PipelineId, size: u32, now: Timestamp) -> Option<Probe> {
        let mut probe = Probe::empty();
        let view = BookingView {
            cluster: &self.cluster,
            down: &self.down,
            tables: &self.bookings.tables,
            table_kind: self.tables,
        };
        view.probe(pipeline, size, now, &mut probe).then_some(probe)
    }

    /// The decision on a request at this time, with the head rule applied as for a new head. Nothing is
    /// booked.
    pub fn decide(&mut self, module: ModuleId, request: PathRequest, now: Timestamp) -> Decision {
        let finish = Timestamp::MAX;
        let Some(requester) = self.requesters.get(&module) else {
            return Decision::Infeasible { finish };
        };
        let view = BookingView {
            cluster: &self.cluster,
            down: &self.down,
            tables: &self.bookings.tables,
            table_kind: self.tables,
        };
        let fraction = self.head_min_fraction;
        let least = |planned| min_batch(planned, fraction);
        match self
            .scratch
            .decide(view, &requester.pipelines, request, least, now)
        {
            BatchDecision::Infeasible { finish } => Decision::Infeasible { finish },
            BatchDecision::Wait { until, .. } => Decision::Wait { until },
            BatchDecision::Dispatch => Decision::Dispatch(self.scratch.chosen().clone()),
        }
    }

    /// Books a path that was probed on the same state.
    pub fn reserve(&mut self, probe: &Probe, now: Timestamp) -> BookingId {
        self.version += 1;
        self.bookings.reserve(&self.cluster, probe, now)
    }

    /// The path of a booking as scheduled now.
    #[must_use]
    pub fn booked(&self, booking: BookingId) -> Option<Vec<PathStage>> {
        self.bookings.all.get(&booking).map(bookings::Booking::path)
    }

    /// Number of probes so far.
    #[must_use]
    pub fn probes(&self) -> u64 {
        self.scratch.probes
    }
}

/// A use of a booking as it was planned.
struct PlannedUse<'a> {
    module: ModuleId,
    /// Device class of the sender; `None`: a run.
    from: Option<&'a str>,
    /// Device class that it runs on, or that receives.
    class: &'a str,
    expected: Span,
    /// Configured bandwidth of the link; 0: a run.
    bandwidth_bps: u64,
}

/// Smallest batch size that is at least this fraction of the planned size.
fn min_batch(planned: u32, fraction: f64) -> u32 {
    ((f64::from(planned) * fraction).ceil() as u32).clamp(1, planned)
}

#[cfg(test)]
mod tests;
