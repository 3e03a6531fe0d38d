//! The actor of one module: applies what the policy's `Module` decides, and holds what the policy only counts: the
//! requests, their items and the inferences of these.

mod batches;
mod effects;
mod generating;
mod instances;
mod output_check;
mod overdue;
mod pipelines;
mod requests;
mod slot_watch;
mod stage;

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::{Actor, ActorContext, Addr, AsyncContext, Context, Handler, MessageResult};
use crossbeam_channel::Sender;
use weir_control::{Edge, ModuleFlow, ModuleWiring, Outbox};
use weir_flow::{Inference, Item, Operator, SequenceSpec};
use weir_partition::Stage as PathStage;
use weir_policy::reservations::BookingId;
use weir_policy::{BatchSlice, Module, ModuleEffect, ModuleEvent, ModuleStats, Pool};
use weir_types::{BatchId, ModuleId, RequestId, SlotId, Span};

use instances::Instances;
use output_check::OutputCheck;
pub(crate) use overdue::OverdueSlots;
use overdue::SlotWatch;

use super::burst::{Burst, PolicyActor};
use super::egress::Egress;
use super::gears::GearActor;
use super::messages::{
    AddStats, BatchDone, Deliver, InstanceSaid, ModuleLoad, PipelineEvent, PolicyEvent, ReportStats,
    RunLaunched, StatsReported, StopActor, TakeLoad, TakeStats,
};
use super::reservations::ReservationActor;
use super::slots::SlotActor;
use super::supervisor::Supervisor;
use crate::analytics::TrackGate;
use crate::batch::Job;
use crate::cascades::Stage;
use crate::clock::{Clock, duration};
use crate::fleet::{Postprocessor, Preprocessor};
use crate::instance::{InstanceJob, InstanceReport};
use crate::length_prediction::LengthPrediction;
use crate::record::Recorder;
use crate::request::RequestBranch;
use crate::request_traces::RequestTracer;
use crate::telemetry::TICK_INTERVAL;
use crate::timeline::Timeline;

/// The actors of a run.
pub(crate) struct ActorRefs {
    pub(crate) modules: Vec<Addr<ModuleActor>>,
    pub(crate) slots: Addr<SlotActor>,
    /// Only where models are partitioned over workers.
    pub(crate) reservations: Option<Addr<ReservationActor>>,
    pub(crate) egress: Addr<Egress>,
    pub(crate) supervisor: Addr<Supervisor>,
    /// Only where the graph has cascades.
    pub(crate) gears: Option<Addr<GearActor>>,
    pub(crate) overdue: OverdueSlots,
}

/// What a module actor is made from.
pub(crate) struct ModuleSetup {
    pub(crate) id: ModuleId,
    /// Its number in reports, which modules of that name have in all graphs of a run.
    pub(crate) report_id: ModuleId,
    pub(crate) name: String,
    pub(crate) model: usize,
    pub(crate) operator: Arc<dyn Operator>,
    pub(crate) successors: Vec<ModuleId>,
    pub(crate) pool: Pool,
    pub(crate) jobs: BTreeMap<SlotId, Sender<Job>>,
    /// Where its model generates: its instances, by their slots.
    pub(crate) instances: BTreeMap<SlotId, Sender<InstanceJob>>,
    /// Most tokens of a sequence there, its prompt included.
    pub(crate) max_sequence_tokens: u32,
    /// What predicts how long its texts become.
    pub(crate) lengths: Option<LengthPrediction>,
    /// The latency objective of requests without one of their own.
    pub(crate) slo: Span,
    /// Where its model is on several devices: the slots, each with the name of its device.
    pub(crate) devices: Vec<(SlotId, String)>,
    pub(crate) clock: Clock,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) tracer: RequestTracer,
    /// The threads before the first and after the last partition, where its model is partitioned over workers.
    pub(crate) prepost: Option<(Preprocessor, Postprocessor)>,
    /// Whether its slots prepare the next batch while one runs.
    pub(crate) overlaps: bool,
    /// Whether any request can be in two modules at once, so that the others must learn of its drop; one whose stream enters
    /// several modules can in any case.
    pub(crate) splits: bool,
    /// Where it runs for a track now and then.
    pub(crate) gate: Option<TrackGate>,
    /// What it is in a cascade.
    pub(crate) stage: Option<Stage>,
    /// Whether its model is a real one, whose outputs are checked.
    pub(crate) has_model: bool,
    pub(crate) timeline: Arc<Timeline>,
    pub(crate) actors: Arc<ActorRefs>,
}

/// A request in this module, with an inference for each item.
struct PendingRequest {
    branch: RequestBranch,
    items: Vec<Item>,
    /// `None` before the item has run.
    inferences: Vec<Option<Inference>>,
    /// Of a stage: the place of each item among those of the cascade.
    places: Vec<usize>,
    /// Where the model generates: the sequence of each item.
    sequences: Vec<SequenceSpec>,
}

/// A request that leaves with its results, and the number of branches that it is still sent on by.
struct LeavingRequest {
    branch: RequestBranch,
    branches: usize,
}

/// A batch that is away.
struct RunningBatch {
    slices: Vec<BatchSlice>,
    /// What its outputs are decoded with, while it is on a path; of a batch on a slot the worker has them.
    items: Vec<Item>,
    /// Whether its run has begun, on a slot that prepares ahead.
    is_launched: bool,
    /// `None` on a path of partitions, whose workers are watched by themselves.
    watch: Option<SlotWatch>,
}

impl RunningBatch {
    fn on_slot(slices: Vec<BatchSlice>, watch: SlotWatch) -> Self {
        Self {
            slices,
            items: Vec::new(),
            is_launched: false,
            watch: Some(watch),
        }
    }
}

pub(crate) struct ModuleActor {
    setup: ModuleSetup,
    /// Its name as the timeline has it.
    shown_name: Arc<str>,
    burst: Burst<Module>,
    flow: ModuleFlow,
    /// Requests that have not come on all of their branches, with what those that have come found.
    arriving: BTreeMap<RequestId, RequestBranch>,
    pending: BTreeMap<RequestId, PendingRequest>,
    /// The request that leaves, while its branches are sent on.
    leaving: Option<LeavingRequest>,
    running: BTreeMap<BatchId, RunningBatch>,
    /// Paths that are booked, with no batch on them yet.
    paths: BTreeMap<BookingId, Vec<PathStage>>,
    instances: Instances,
    /// Reason of the last loss of a batch, until the supervisor is informed.
    loss: Option<String>,
    /// As published last; requests and batch size are those of then only.
    load: ModuleLoad,
    outputs: OutputCheck,
    /// Whether it ends once no batch of it runs: its graph is taken down.
    is_stopping: bool,
    /// Empty lists, for their memory.
    facts: Vec<ModuleEvent>,
    out: Outbox,
}

impl ModuleActor {
    pub(crate) fn new(mut setup: ModuleSetup, module: Module) -> Self {
        let instances = std::mem::take(&mut setup.instances);
        let next = setup.successors.iter().map(|&to| Edge { to, link: None });
        let wiring = ModuleWiring {
            next: next.collect(),
            // A message says how many branches a request has: it depends on its stream.
            branches: Vec::new(),
            modules: setup.actors.modules.len() as u32,
        };
        let mut flow = ModuleFlow::new(setup.id, setup.pool, wiring);
        flow.stats_mut()
            .set_devices(setup.devices.iter().map(|(_, device)| device.clone()));
        Self {
            instances: Instances::new(instances, setup.max_sequence_tokens),
            burst: Burst::new(module, setup.clock, setup.recorder.clone()),
            shown_name: setup.name.as_str().into(),
            setup,
            flow,
            arriving: BTreeMap::new(),
            pending: BTreeMap::new(),
            leaving: None,
            running: BTreeMap::new(),
            paths: BTreeMap::new(),
            loss: None,
            load: ModuleLoad::default(),
            outputs: OutputCheck::default(),
            is_stopping: false,
            facts: Vec::new(),
            out: Outbox::default(),
        }
    }
}

impl PolicyActor for ModuleActor {
    type Machine = Module;

    fn burst(&mut self) -> &mut Burst<Module> {
        &mut self.burst
    }

    fn apply(&mut self, effect: ModuleEffect, context: &mut Context<Self>) {
        self.apply_effect(effect, context);
    }
}

impl Actor for ModuleActor {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        context.run_interval(duration(TICK_INTERVAL), |actor, context| {
            actor.watch_slots();
            actor.on_event(ModuleEvent::Tick, context)
        });
    }
}

impl Handler<StopActor> for ModuleActor {
    type Result = ();

    fn handle(&mut self, _: StopActor, context: &mut Self::Context) {
        self.is_stopping = true;
        self.stop_when_idle(context);
    }
}

impl Handler<Deliver> for ModuleActor {
    type Result = ();

    fn handle(&mut self, Deliver { branch, branches }: Deliver, context: &mut Self::Context) {
        self.on_branch(branch, branches, context);
    }
}

impl Handler<PolicyEvent> for ModuleActor {
    type Result = ();

    fn handle(&mut self, PolicyEvent(event): PolicyEvent, context: &mut Self::Context) {
        if let ModuleEvent::Cancelled { request } = event {
            self.flow.forget(request);
            self.arriving.remove(&request);
            self.instances.end_request(request);
            if self.take_pending(request).is_none() {
                return;
            }
        }
        if let ModuleEvent::SlotDown { slot } = event
            && !self.instances.is_empty()
        {
            // Its session may hold what goes on elsewhere now.
            self.instances.lose(slot);
            self.instances.reopen(slot);
        }
        self.on_event(event, context);
    }
}

impl Handler<RunLaunched> for ModuleActor {
    type Result = ();

    fn handle(&mut self, RunLaunched(launched): RunLaunched, context: &mut Self::Context) {
        self.on_launched(launched.slot, launched.batch, launched.prepared, context);
    }
}

impl Handler<BatchDone> for ModuleActor {
    type Result = ();

    fn handle(&mut self, BatchDone(result): BatchDone, context: &mut Self::Context) {
        self.on_batch_done(result, context);
        self.stop_when_idle(context);
    }
}

impl Handler<InstanceSaid> for ModuleActor {
    type Result = ();

    fn handle(&mut self, InstanceSaid(report): InstanceSaid, context: &mut Self::Context) {
        match report {
            InstanceReport::Stepped(result) => self.on_step_done(result, context),
            InstanceReport::Back { slot, .. } => self.on_instance_back(slot, context),
        }
        self.stop_when_idle(context);
    }
}

impl Handler<PipelineEvent> for ModuleActor {
    type Result = ();

    fn handle(&mut self, event: PipelineEvent, context: &mut Self::Context) {
        self.on_pipeline_event(event, context);
    }
}

impl ModuleActor {
    /// Ends where that is asked for and no batch runs: what was counted goes to the egress.
    fn stop_when_idle(&mut self, context: &mut Context<Self>) {
        if !self.is_stopping || !self.running.is_empty() || !self.instances.is_idle() {
            return;
        }
        let stats = Box::new(self.stats());
        self.setup.actors.egress.do_send(AddStats {
            module: self.setup.report_id,
            stats,
        });
        context.stop();
    }

    /// The slots that its model is open on.
    fn placed_slots(&self) -> impl Iterator<Item = &SlotId> {
        self.setup.jobs.keys().chain(self.instances.jobs.keys())
    }

    /// A batch or a step ended on a slot.
    fn count_on_slot(&mut self, slot: SlotId, items: u64, took: Span) {
        let place = self.setup.devices.iter().position(|(own, _)| *own == slot);
        if let Some(place) = place {
            self.flow.stats_mut().on_slot_done(place, items, took);
        }
    }

    /// What was counted so far.
    fn stats(&self) -> ModuleStats {
        self.flow.stats(self.burst.machine())
    }
}

impl Handler<TakeStats> for ModuleActor {
    type Result = MessageResult<TakeStats>;

    fn handle(&mut self, _: TakeStats, _context: &mut Self::Context) -> Self::Result {
        MessageResult(self.stats())
    }
}

impl Handler<TakeLoad> for ModuleActor {
    type Result = MessageResult<TakeLoad>;

    fn handle(&mut self, _: TakeLoad, _context: &mut Self::Context) -> Self::Result {
        let machine = self.burst.machine();
        MessageResult(ModuleLoad {
            requests: machine.requests(),
            batch_size: machine.batch_size(),
            placed_slots: self.placed_slots().count(),
            overdue_slots: self.setup.actors.overdue.count(self.placed_slots()),
            ..self.load
        })
    }
}

impl Handler<ReportStats> for ModuleActor {
    type Result = ();

    fn handle(&mut self, _: ReportStats, _context: &mut Self::Context) {
        let stats = Box::new(self.stats());
        self.setup.actors.egress.do_send(StatsReported {
            module: self.setup.report_id,
            stats,
        });
    }
}
