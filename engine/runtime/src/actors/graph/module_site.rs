//! The part of a site for one module: the requests in it with their items and the inferences of these, the channels of
//! its workers, and its name.

use std::collections::BTreeMap;
use std::sync::Arc;

use crossbeam_channel::Sender;
use weir_flow::{Item, Operator};
use weir_policy::gears::{StageSetting, StageSettings};
use weir_policy::{BatchSlice, ModuleState, ModuleStats};
use weir_types::{BatchId, ModuleId, RequestId, SlotId, Span, StreamId};

use super::instances::Instances;
use super::output_check::OutputCheck;
use super::overdue::SlotWatch;
use super::pending::PendingRequest;
use super::prompts::PromptJob;
use crate::actors::messages::ModuleLoad;
use crate::analytics::TrackGate;
use crate::batch::Job;
use crate::cascades::Stage;
use crate::fleet::{Postprocessor, Preprocessor};
use crate::instance::InstanceJob;
use crate::length_prediction::LengthPrediction;
use crate::request::RequestBranch;
use crate::request_traces::RequestTracer;
use crate::telemetry;
use crate::timeline::Timeline;

/// The parts that the site of a module is made from.
pub(crate) struct ModuleSetup {
    pub(crate) id: ModuleId,
    /// Its number in reports, which modules of that name have in all graphs of a run.
    pub(crate) report_id: ModuleId,
    pub(crate) name: String,
    pub(crate) model: usize,
    pub(crate) operator: Arc<dyn Operator>,
    pub(crate) successors: Vec<ModuleId>,
    pub(crate) jobs: BTreeMap<SlotId, Sender<Job>>,
    /// Its instances, by their slots; empty unless its model generates.
    pub(crate) instances: BTreeMap<SlotId, Sender<InstanceJob>>,
    /// The thread that makes prompts of items, where it has instances.
    pub(crate) prompts: Option<Sender<PromptJob>>,
    /// Predicts the lengths of its texts again while they are generated.
    pub(crate) lengths: Option<LengthPrediction>,
    /// The latency objective of requests without one of their own.
    pub(crate) slo: Span,
    /// The slots, each with the name of its device; empty unless its model is on several devices.
    pub(crate) devices: Vec<(SlotId, String)>,
    pub(crate) tracer: RequestTracer,
    /// The threads before the first and after the last partition, where its model is partitioned over workers.
    pub(crate) prepost: Option<(Preprocessor, Postprocessor)>,
    /// Whether its slots prepare the next batch while one runs.
    pub(crate) overlaps: bool,
    /// Set if it runs for a track now and then.
    pub(crate) gate: Option<TrackGate>,
    /// Its place in a cascade.
    pub(crate) stage: Option<Stage>,
    /// Whether it reads frames in tiles, which a gear may set.
    pub(crate) reads_tiles: bool,
    /// Whether its workers open and close with the load.
    pub(crate) is_scaled: bool,
    /// Whether its model is a real one, whose outputs are checked.
    pub(crate) has_model: bool,
    pub(crate) timeline: Arc<Timeline>,
}

/// A batch that is away.
pub(super) struct RunningBatch {
    pub(super) slices: Vec<BatchSlice>,
    /// The items that its outputs are decoded with, while it is on a path; of a batch on a slot the worker has them.
    pub(super) items: Vec<Item>,
    /// Whether its run has begun, on a slot that prepares ahead.
    pub(super) is_launched: bool,
    /// `None` on a path of partitions, whose workers are watched by themselves.
    pub(super) watch: Option<SlotWatch>,
}

/// See the module.
pub(super) struct ModuleSite {
    pub(super) setup: ModuleSetup,
    /// Its name as the timeline has it.
    pub(super) shown_name: Arc<str>,
    /// Requests that have not come on all of their branches, with the results of those that have come.
    pub(super) arriving: BTreeMap<RequestId, RequestBranch>,
    pub(super) pending: BTreeMap<RequestId, PendingRequest>,
    pub(super) running: BTreeMap<BatchId, RunningBatch>,
    pub(super) instances: Instances,
    /// Counts that its machine does not have: by device, warnings, and steps of instances that were lost.
    pub(super) stats: ModuleStats,
    /// As published last; requests and batch size are not known here.
    load: ModuleLoad,
    pub(super) outputs: OutputCheck,
    /// Settings by gears, if it is a stage of a cascade or reads tiles.
    pub(super) settings: Option<StageSettings>,
}

impl ModuleSite {
    pub(super) fn new(mut setup: ModuleSetup) -> Self {
        let instances = std::mem::take(&mut setup.instances);
        let own = setup.stage.as_ref().map(|stage| stage.own);
        let own = own.or(setup.reads_tiles.then(|| StageSetting::asked(0.0)));
        let settings = own.map(StageSettings::new);
        let mut stats = ModuleStats::default();
        stats.set_devices(setup.devices.iter().map(|(_, device)| device.clone()));
        Self {
            instances: Instances::new(instances),
            shown_name: setup.name.as_str().into(),
            setup,
            arriving: BTreeMap::new(),
            pending: BTreeMap::new(),
            running: BTreeMap::new(),
            stats,
            load: ModuleLoad::default(),
            outputs: OutputCheck::default(),
            settings,
        }
    }

    /// Whether no batch and no step runs.
    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty() && self.instances.is_idle()
    }

    /// The slots that its model is open on.
    pub(super) fn placed_slots(&self) -> impl Iterator<Item = &SlotId> {
        self.setup.jobs.keys().chain(self.instances.jobs.keys())
    }

    /// A batch or a step ended on a slot.
    pub(super) fn count_on_slot(&mut self, slot: SlotId, items: u64, took: Span) {
        let place = self.setup.devices.iter().position(|(own, _)| *own == slot);
        if let Some(place) = place {
            self.stats.on_slot_done(place, items, took);
        }
    }

    pub(super) fn on_published(&mut self, state: &ModuleState) {
        telemetry::record_module_state(&self.setup.name, state);
        self.load.input_rate = state.input_rate;
        self.load.throughput = state.throughput;
        self.load.slots = state.workers;
    }

    pub(super) fn load(&self) -> ModuleLoad {
        ModuleLoad {
            placed_slots: self.placed_slots().count(),
            ..self.load
        }
    }

    /// Its setting for a stream, where gears may set it.
    pub(super) fn setting(&self, stream: StreamId) -> Option<StageSetting> {
        self.settings.as_ref().map(|settings| settings.of(stream))
    }

    /// A request has ended.
    pub(super) fn forget(&mut self, request: RequestId) {
        self.arriving.remove(&request);
        self.pending.remove(&request);
        self.instances.end_request(request);
    }

    /// A slot is out of use: its instance may hold sequences that go on elsewhere.
    pub(super) fn on_slot_down(&mut self, slot: SlotId) {
        if self.instances.jobs.contains_key(&slot) {
            self.instances.lose(slot);
            self.instances.reopen(slot);
        }
    }
}
