//! The reservation actor: passes the requests of modules and the events of partition workers to the policy's
//! `Reservations`, follows batches on their paths, and switches plans.

mod booked_batches;
mod plan_switch;
mod switching;
mod worker_events;

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::{Actor, AsyncContext, Context, Handler};
use weir_partition::wire::BatchKey;
use weir_partition::{Client, WorkerId, WorkerInfo};
use weir_policy::reservations::{
    Accuracy, PlanReport, Reservations, ReserveEffect, ReserveEvent, WorkerReport,
};
use weir_policy::{ModuleEvent, Policy};
use weir_types::{ModuleId, ShareId, SlotId, Span};

use booked_batches::BookedBatches;
use plan_switch::PlanSwitch;

use super::burst::{Burst, PolicyActor};
use super::messages::{
    BatchDone, Dispatched, ModuleRef, PipelineEvent, PolicyEvent, ReportReservations, ReservationEvent,
    SwitchPlan,
};
use crate::clock::{Clock, duration};
use crate::fleet::{ActivePlan, WorkerEvent};
use crate::record::Recorder;
use crate::telemetry::TICK_INTERVAL;
use crate::worker::{BatchResult, StepTimes};

/// What the actor is made from.
pub(crate) struct ReservationSetup {
    pub(crate) clock: Clock,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) modules: Vec<ModuleRef>,
    pub(crate) client: Arc<Client>,
    /// Workers that are up.
    pub(crate) available: BTreeMap<WorkerId, WorkerInfo>,
    /// Names of all workers.
    pub(crate) names: Vec<String>,
    /// By worker: whether the graph declares that it emulates another device.
    pub(crate) emulated: Vec<bool>,
    pub(crate) policy: Policy,
    pub(crate) active: ActivePlan,
}

pub(crate) struct ReservationActor {
    setup: ReservationSetup,
    burst: Burst<Reservations>,
    batches: BookedBatches,
    /// What modules request while a switch of plans is paused, the last of each.
    deferred: BTreeMap<ModuleId, ReserveEvent>,
    switch: Option<PlanSwitch>,
    accuracy: Accuracy,
    workers: BTreeMap<WorkerId, WorkerReport>,
    plans: Vec<PlanReport>,
}

/// The reservations of the plan in force, with nothing booked.
fn burst(setup: &ReservationSetup) -> Burst<Reservations> {
    let reservations = Reservations::new(&setup.active.reserve_spec(&setup.policy));
    Burst::new(reservations, setup.clock, setup.recorder.clone())
}

impl ReservationActor {
    pub(crate) fn new(setup: ReservationSetup) -> Self {
        let mut actor = Self {
            burst: burst(&setup),
            batches: BookedBatches::default(),
            deferred: BTreeMap::new(),
            switch: None,
            accuracy: Accuracy::default(),
            workers: BTreeMap::new(),
            plans: Vec::new(),
            setup,
        };
        for (worker, info) in actor.setup.available.clone() {
            actor.on_worker_info(worker, &info);
        }
        actor.report_down_shares();
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

    /// Takes in an event for each share whose worker is not up.
    fn report_down_shares(&mut self) {
        let owners = (0..).map(ShareId).zip(&self.setup.active.assignment.owners);
        for (share, _) in owners.filter(|(_, (worker, _))| !self.setup.available.contains_key(worker)) {
            self.burst.push(ReserveEvent::Down { share });
        }
    }

    /// Takes in what a module requests, or defers it while a switch of plans is paused.
    fn on_request(&mut self, module: ModuleId, event: ReserveEvent, context: &mut Context<Self>) {
        if self.is_paused() {
            self.deferred.insert(module, event);
            self.decide_soon(context);
        } else {
            self.on_event(event, context);
        }
    }

    fn is_paused(&self) -> bool {
        self.switch.as_ref().is_some_and(PlanSwitch::is_paused)
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
    type Machine = Reservations;

    fn burst(&mut self) -> &mut Burst<Reservations> {
        &mut self.burst
    }

    fn decided(&mut self, context: &mut Context<Self>) {
        self.advance_plan_switch(context);
    }

    fn apply(&mut self, effect: ReserveEffect, context: &mut Context<Self>) {
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
                let shares: Vec<ShareId> = path.iter().map(|stage| stage.share).collect();
                let ActivePlan {
                    partitions,
                    assignment,
                    ..
                } = &self.setup.active;
                let path = partitions.path(assignment, pipeline, &shares);
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
                actor.on_event(ReserveEvent::Tick, context);
            }),
        }
    }
}

impl Actor for ReservationActor {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        context.run_interval(duration(TICK_INTERVAL), |actor, context| {
            actor.on_event(ReserveEvent::Tick, context);
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
        match event {
            ReserveEvent::PathRequested { module, .. } | ReserveEvent::RequestCancelled { module } => {
                self.on_request(module, event, context);
            }
            _ => self.on_event(event, context),
        }
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

    fn handle(&mut self, Dispatched { booking, key }: Dispatched, _context: &mut Self::Context) {
        self.batches.on_dispatched(key, booking);
    }
}

impl Handler<SwitchPlan> for ReservationActor {
    type Result = ();

    fn handle(&mut self, SwitchPlan(next): SwitchPlan, _context: &mut Self::Context) {
        self.start_plan_switch(next);
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
