//! Starting the actors and threads of a run.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use actix::{Actor, Addr};
use tokio::sync::oneshot;
use weir_flow::Operator;
use weir_graph::SourceMode;
use weir_policy::{Backoff, Module, ModuleSpec, Pool};
use weir_types::{SlotId, StreamId};

use super::Engine;
use crate::actors::{
    BatchDone, Egress, EgressSetup, ModuleActor, ModuleRef, ModuleSetup, ReservationActor, ReservationSetup,
    RunEnded, SinkRoute,
};
use crate::admission::{MemoryBudget, StreamAdmission};
use crate::assembly::RunError;
use crate::decoding::Decoding;
use crate::emulated::EmulatedOperator;
use crate::fleet::{PartitionSetup, Postprocessor, Preprocessor};
use crate::routes::Route;
use crate::source::{RejectionLimit, SourceThread};
use crate::stream_setup::StreamSetup;
use crate::worker::{BatchDoneSender, BatchResult, Worker, WorkerHandle};

/// Module actors by id, once they exist.
type ModuleDirectory = Arc<OnceLock<Vec<Addr<ModuleActor>>>>;

/// Module actors by id, and the threads of the workers behind them.
pub(super) struct StartedModules {
    pub(super) modules: Vec<Addr<ModuleActor>>,
    pub(super) threads: Vec<JoinHandle<()>>,
}

impl StartedModules {
    pub(super) fn refs(&self) -> Vec<ModuleRef> {
        let module_ref = |module: &Addr<ModuleActor>| ModuleRef {
            events: module.clone().recipient(),
            batches: module.clone().recipient(),
            pipelines: module.clone().recipient(),
        };
        self.modules.iter().map(module_ref).collect()
    }
}

/// Sends results of batches to their modules.
fn batch_done_sender(directory: &ModuleDirectory) -> BatchDoneSender {
    let directory = Arc::clone(directory);
    Box::new(move |result: BatchResult| {
        // Jobs are sent by module actors, so the directory is complete before the first result.
        if let Some(module) = directory
            .get()
            .and_then(|modules| modules.get(result.module.index()))
        {
            module.do_send(BatchDone(result));
        }
    })
}

impl Engine<'_> {
    pub(super) fn start_egress(
        &self,
        routes: &[Route],
        sinks: Vec<SinkRoute>,
        idle: oneshot::Sender<()>,
        ended: oneshot::Sender<RunEnded>,
    ) -> Addr<Egress> {
        Egress::new(EgressSetup {
            clock: self.clock,
            slo: self.graph.slo(),
            streams: self
                .graph
                .sources()
                .iter()
                .map(|source| source.name.as_str().into())
                .collect(),
            module_names: self
                .graph
                .modules()
                .iter()
                .map(|module| module.name.as_str().into())
                .collect(),
            exits: routes.iter().map(|route| route.exits).collect(),
            modules: self.graph.modules().len(),
            sinks,
            progress: Arc::clone(&self.options.progress),
            idle,
            ended,
        })
        .start()
    }

    /// Starts the module actors, and the workers and the threads around partitioned models, which send their results to
    /// them.
    pub(super) fn start_modules(
        &self,
        workers: Vec<Worker>,
        operators: Vec<Option<Arc<dyn Operator>>>,
        routes: &[Route],
        partitions: Option<&PartitionSetup>,
    ) -> Result<StartedModules, RunError> {
        let directory = ModuleDirectory::default();
        let mut jobs = BTreeMap::new();
        let mut threads = Vec::new();
        for (slot, worker) in (0..).map(SlotId).zip(workers) {
            let WorkerHandle { jobs: sender, thread } = worker.start(batch_done_sender(&directory))?;
            jobs.insert(slot, sender);
            threads.push(thread);
        }
        let mut prepost = BTreeMap::new();
        if let Some(partitions) = partitions {
            for (module, model) in &partitions.active.models {
                let name = &self.graph.modules()[module.index()].name;
                let client = Arc::clone(&partitions.fleet.client);
                let (pre, thread) =
                    Preprocessor::start(name, model.pre_post()?, client, partitions.relay.clone())?;
                threads.push(thread);
                let on_done = batch_done_sender(&directory);
                let (post, thread) = Postprocessor::start(name, model.pre_post()?, self.clock, on_done)?;
                threads.push(thread);
                prepost.insert(*module, (pre, post));
            }
        }
        let branches: Arc<Vec<Vec<u32>>> =
            Arc::new(routes.iter().map(|route| route.branches.clone()).collect());
        let mut start = |(spec, operator): (&ModuleSpec, Option<Arc<dyn Operator>>)| {
            let node = &self.graph.modules()[spec.id.index()];
            let setup = ModuleSetup {
                id: spec.id,
                name: node.name.clone(),
                model: node.model,
                has_model: operator.is_some(),
                operator: operator.unwrap_or_else(|| Arc::new(EmulatedOperator)),
                successors: self.specs.topology.successors(spec.id).to_vec(),
                branches: Arc::clone(&branches),
                jobs: spec
                    .slots
                    .iter()
                    .filter_map(|slot| Some((*slot, jobs.get(slot)?.clone())))
                    .collect(),
                clock: self.clock,
                recorder: self.recorder.clone(),
                prepost: prepost.remove(&spec.id),
                shared: spec.pool == Pool::Shared,
                splits: self.specs.topology.has_branches()
                    || routes.iter().any(|route| route.entries.len() > 1),
            };
            ModuleActor::new(setup, Module::new(spec.clone())).start()
        };
        let modules: Vec<Addr<ModuleActor>> =
            self.specs.modules.iter().zip(operators).map(&mut start).collect();
        // Filled here only.
        let _ = directory.set(modules.clone());
        Ok(StartedModules { modules, threads })
    }

    /// Starts the reservation actor.
    pub(super) fn start_reservations(&self, partitions: &PartitionSetup) -> Addr<ReservationActor> {
        let active = partitions.active.clone();
        if let Some(recorder) = &self.recorder {
            recorder.record_plan(&active.reserve_spec(self.graph.policy()));
        }
        let workers = self.graph.workers();
        let actor = ReservationActor::new(ReservationSetup {
            clock: self.clock,
            recorder: self.recorder.clone(),
            client: Arc::clone(&partitions.fleet.client),
            available: partitions.fleet.available.clone(),
            names: workers.iter().map(|worker| worker.name.clone()).collect(),
            emulated: workers.iter().map(|worker| worker.emulated).collect(),
            policy: self.graph.policy().clone(),
            active,
        })
        .start();
        partitions.relay.connect(actor.clone().recipient());
        actor
    }

    /// Starts a thread for each source.
    pub(super) fn start_sources(
        &self,
        streams: Vec<StreamSetup>,
        routes: &[Route],
        modules: &[Addr<ModuleActor>],
        egress: &Addr<Egress>,
        decoding: &Arc<Decoding>,
    ) -> Result<Vec<JoinHandle<()>>, RunError> {
        // Equal shares: a decoder keeps the buffers that its stream had at its peak, so only what no stream can exceed
        // bounds them all, and one large camera cannot starve the others.
        let share = self.options.memory_bytes / streams.len().max(1) as u64;
        let next_request = Arc::new(AtomicU64::new(0));
        let rejections = RejectionLimit::default();
        let mut threads = Vec::new();
        for ((stream, setup), route) in (0..).zip(streams).zip(routes) {
            let node = &self.graph.sources()[stream as usize];
            let live = setup.mode == SourceMode::Live;
            let source = SourceThread {
                stream: StreamId(stream),
                name: node.name.clone(),
                factory: setup.factory,
                repeat: node.repeat,
                sample: node.sample,
                droppable: live,
                pace: self.options.pace,
                slo: self.graph.slo(),
                admission: StreamAdmission::new(setup.limit, MemoryBudget::new(share), self.clock),
                clock: self.clock,
                stop: self.stop.clone(),
                decoding: Arc::clone(decoding),
                rejections: rejections.clone(),
                // Cameras that are lost together are tried again one after another.
                backoff: Backoff::new(
                    self.options.reconnect,
                    self.options.seed.wrapping_add(u64::from(stream)),
                ),
                next_request: Arc::clone(&next_request),
                egress: egress.clone(),
                progress: Arc::clone(&self.options.progress),
                entries: route
                    .entries
                    .iter()
                    .map(|id| (modules[id.index()].clone(), route.branches[id.index()]))
                    .collect(),
            };
            let thread = std::thread::Builder::new().name(format!("weir-source-{}", node.name));
            threads.push(thread.spawn(move || source.run())?);
        }
        Ok(threads)
    }
}
