//! The reservation actor: passes the requests of modules and the events of partition workers to the policy's
//! `PlannedReservations`, follows batches on their paths, and switches plans as that decides.

mod booked_batches;
mod plan_switch;
mod worker_events;

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::{Actor, AsyncContext, Context, Handler};
use weir_partition::wire::BatchKey;
use weir_partition::{Client, WorkerId, WorkerInfo};
use weir_policy::reservations::{
    Accuracy, Interval, PathStage, PlanEvent, PlanReport, PlannedEffect, PlannedReservations, ReserveEffect,
    ReserveEvent, WorkerReport,
};
use weir_policy::{ModuleEvent, Policy};
use weir_types::{ModuleId, SlotId, Span};

use booked_batches::BookedBatches;

use super::burst::{Burst, PolicyActor};
use super::messages::{
    BatchDone, Dispatched, ModuleRef, PipelineEvent, PolicyEvent, ReportReservations, ReservationEvent,
    SwitchPlan,
};
use crate::batch::{BatchResult, StepTimes};
use crate::clock::{Clock, duration};
use crate::fleet::{ActivePlan, WorkerEvent};
use crate::record::Recorder;
use crate::telemetry::TICK_INTERVAL;
use crate::timeline::{Lane, Timeline};

/// What the actor is made from.
pub(crate) struct ReservationSetup {
    pub(crate) clock: Clock,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) modules: Vec<ModuleRef>,
    pub(crate) client: Arc<Client>,
    /// Workers that are up as the run begins.
    pub(crate) available: BTreeMap<WorkerId, WorkerInfo>,
    /// Names of all workers.
    pub(crate) names: Vec<String>,
    /// By worker: whether the graph declares that it emulates another device.
    pub(crate) emulated: Vec<bool>,
    pub(crate) policy: Policy,
    pub(crate) active: ActivePlan,
    pub(crate) timeline: Arc<Timeline>,
    pub(crate) module_names: Vec<Arc<str>>,
}

pub(crate) struct ReservationActor {
    setup: ReservationSetup,
    burst: Burst<PlannedReservations>,
    batches: BookedBatches,
    /// Plans that are neither given up nor in force, by number.
    offers: BTreeMap<u64, Box<ActivePlan>>,
    accuracy: Accuracy,
    workers: BTreeMap<WorkerId, WorkerReport>,
    plans: Vec<PlanReport>,
}

impl ReservationActor {
    pub(crate) fn new(setup: ReservationSetup) -> Self {
        let plan = setup.active.spec(&setup.policy);
        if let Some(recorder) = &setup.recorder {
            recorder.record_plan(&plan);
        }
        let reservations = PlannedReservations::new(&plan);
        let mut actor = Self {
            burst: Burst::new(reservations, setup.clock, setup.recorder.clone()),
            batches: BookedBatches::default(),
            offers: BTreeMap::new(),
            accuracy: Accuracy::default(),
            workers: BTreeMap::new(),
            plans: Vec::new(),
            setup,
        };
        for worker in (0..actor.setup.names.len() as u32).map(WorkerId) {
            match actor.setup.available.get(&worker).cloned() {
                Some(info) => actor.on_worker_info(worker, &info),
                None => actor.burst.push(PlanEvent::WorkerDown { worker }.into()),
            }
        }
        actor
    }

    fn on_worker_info(&mut self, worker: WorkerId, info: &WorkerInfo) {
        let declared = self
            .setup
            .emulated
            .get(worker.0 as usize)
            .copied()
            .unwrap_or(false);
        let report = self.workers.entry(worker).or_default();
        report.class.clone_from(&info.class);
        report.emulated = info.emulated || declared;
    }

    fn send_pipeline_event(&self, module: ModuleId, event: PipelineEvent) {
        if let Some(module) = self.setup.modules.get(module.index()) {
            module.pipelines.do_send(event);
        }
    }

    fn send_event(&self, module: ModuleId, event: ModuleEvent) {
        if let Some(module) = self.setup.modules.get(module.index()) {
            module.events.do_send(PolicyEvent(event));
        }
    }

    fn apply_reserve_effect(&mut self, effect: ReserveEffect, context: &mut Context<Self>) {
        match effect {
            ReserveEffect::Book {
                module,
                booking,
                pipeline,
                size,
                path,
                finish,
                ..
            } => {
                self.batches.on_booked(booking, finish);
                self.show_booking(module, &path, size);
                let ActivePlan {
                    partitions,
                    assignment,
                    ..
                } = &self.setup.active;
                let path = partitions.path(assignment, pipeline, &path);
                let booked = PipelineEvent::Booked {
                    booking,
                    size,
                    finish,
                    path,
                };
                self.send_pipeline_event(module, booked);
            }
            ReserveEffect::NoPath { module, finish } => {
                self.send_event(module, ModuleEvent::NoPath { finish })
            }
            // Batches in flight fail by themselves; one that is not dispatched yet finds its path gone. Known until the
            // module has answered it: no plan is switched before.
            ReserveEffect::Lost { module, booking } => {
                if self.batches.is_booked(booking) {
                    self.send_pipeline_event(module, PipelineEvent::PathLost { booking });
                }
            }
            ReserveEffect::SetTimer { at } => self.set_timer(at, context, |actor, context| {
                actor.on_event(ReserveEvent::Tick.into(), context);
            }),
        }
    }

    /// The shares and links of a path as they are booked.
    fn show_booking(&self, module: ModuleId, path: &[PathStage], items: u32) {
        let Some(module) = self.setup.module_names.get(module.index()) else {
            return;
        };
        for stage in path {
            let (worker, share) = self.setup.active.assignment.owners[stage.share.index()];
            let worker = self.setup.names.get(worker.0 as usize);
            let worker: Arc<str> = worker.map_or("?", String::as_str).into();
            let record = |lane, time: Interval| {
                let time = (time.from, time.to);
                self.setup.timeline.record(lane, module, time, items);
            };
            if let Some(transfer) = stage.transfer {
                record(Lane::Link(Arc::clone(&worker)), transfer);
            }
            record(Lane::Share(worker, share), stage.run);
        }
    }

    /// Reports a batch to its module that failed, or was `lost` with a worker and may run again.
    fn report_failure(&self, BatchKey { module, batch }: BatchKey, lost: bool, reason: String) {
        let result = BatchResult {
            slot: SlotId(0),
            module,
            batch,
            took: Span::ZERO,
            steps: StepTimes::default(),
            lost,
            result: Err(reason),
        };
        if let Some(module) = self.setup.modules.get(module.index()) {
            module.batches.do_send(BatchDone(result));
        }
    }
}

impl PolicyActor for ReservationActor {
    type Machine = PlannedReservations;

    fn burst(&mut self) -> &mut Burst<PlannedReservations> {
        &mut self.burst
    }

    fn apply(&mut self, effect: PlannedEffect, context: &mut Context<Self>) {
        match effect {
            PlannedEffect::Reserve(effect) => self.apply_reserve_effect(effect, context),
            PlannedEffect::Plan(effect) => self.apply_plan_effect(effect),
        }
    }
}

impl Actor for ReservationActor {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        context.run_interval(duration(TICK_INTERVAL), |actor, context| {
            actor.on_event(ReserveEvent::Tick.into(), context);
        });
    }
}

impl Handler<ReservationEvent> for ReservationActor {
    type Result = ();

    fn handle(&mut self, ReservationEvent(event): ReservationEvent, context: &mut Self::Context) {
        if let ReserveEvent::Declined { booking } = event {
            self.batches.on_declined(booking);
            self.accuracy.on_unused();
        }
        self.on_event(event.into(), context);
    }
}

impl Handler<WorkerEvent> for ReservationActor {
    type Result = ();

    fn handle(&mut self, WorkerEvent(event): WorkerEvent, context: &mut Self::Context) {
        self.on_worker_event(event, context);
    }
}

impl Handler<Dispatched> for ReservationActor {
    type Result = ();

    fn handle(&mut self, dispatched: Dispatched, context: &mut Self::Context) {
        let Dispatched { booking, key, items } = dispatched;
        self.batches.on_dispatched(key, booking);
        self.on_event(ReserveEvent::Dispatched { booking, items }.into(), context);
    }
}

impl Handler<SwitchPlan> for ReservationActor {
    type Result = ();

    fn handle(&mut self, SwitchPlan(next): SwitchPlan, context: &mut Self::Context) {
        self.offer_plan(next, context);
    }
}

impl Handler<ReportReservations> for ReservationActor {
    type Result = actix::MessageResult<ReportReservations>;

    fn handle(&mut self, _: ReportReservations, _context: &mut Self::Context) -> Self::Result {
        let mut report = self.accuracy.report();
        let named = self
            .workers
            .iter()
            .map(|(worker, report)| (self.name(*worker).to_owned(), report.clone()));
        report.workers = named.collect();
        report.plans.clone_from(&self.plans);
        actix::MessageResult(report)
    }
}
