//! The start of a run, from top to bottom: mailboxes, threads that run batches, actors, threads of sources.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;

use actix::{Addr, AsyncContext, Context};
use tokio::sync::oneshot;
use weir_flow::Operator;
use weir_graph::SourceMode;
use weir_policy::{Backoff, Module, Pool, Slots};
use weir_types::{ModuleId, SlotId, StreamId};

use super::{Engine, RunParts, StartedRun};
use crate::actors::{
    ActorRefs, BatchDone, Egress, EgressSetup, ModuleActor, ModuleRef, ModuleSetup, ReservationActor,
    ReservationSetup, RunEnded, SinkRoute, SlotActor, Supervisor, SupervisorSetup,
};
use crate::admission::{MemoryBudget, StreamAdmission};
use crate::assembly::RunError;
use crate::decoding::Decoding;
use crate::emulated::EmulatedOperator;
use crate::fleet::{PartitionSetup, Postprocessor, Preprocessor};
use crate::routes::Route;
use crate::source::{RejectionLimit, SourceThread};
use crate::stream_setup::StreamSetup;
use crate::worker::{BatchDoneSender, BatchResult, Job, Worker, WorkerHandle};

/// The mailboxes of all actors, made before any of them: addresses are good at once, and messages wait for the actor.
struct Mailboxes {
    egress: Context<Egress>,
    slots: Context<SlotActor>,
    supervisor: Context<Supervisor>,
    reservations: Option<Context<ReservationActor>>,
    modules: Vec<Context<ModuleActor>>,
}

impl Mailboxes {
    fn new(modules: usize, partitioned: bool) -> Self {
        Self {
            egress: Context::new(),
            slots: Context::new(),
            supervisor: Context::new(),
            reservations: partitioned.then(Context::new),
            modules: (0..modules).map(|_| Context::new()).collect(),
        }
    }

    fn addresses(&self) -> ActorRefs {
        ActorRefs {
            modules: self.modules.iter().map(AsyncContext::address).collect(),
            slots: self.slots.address(),
            reservations: self.reservations.as_ref().map(AsyncContext::address),
            egress: self.egress.address(),
            supervisor: self.supervisor.address(),
        }
    }
}

/// The modules as the actors see them that send to any of them.
fn module_refs(actors: &ActorRefs) -> Vec<ModuleRef> {
    let module_ref = |module: &Addr<ModuleActor>| ModuleRef {
        events: module.clone().recipient(),
        batches: module.clone().recipient(),
        pipelines: module.clone().recipient(),
    };
    actors.modules.iter().map(module_ref).collect()
}

/// Sends results of batches to their modules.
fn batch_done_sender(actors: &ActorRefs) -> BatchDoneSender {
    let modules = actors.modules.clone();
    Box::new(move |result: BatchResult| {
        if let Some(module) = modules.get(result.module.index()) {
            module.do_send(BatchDone(result));
        }
    })
}

/// Where the batches of modules run.
struct BatchThreads {
    jobs: BTreeMap<SlotId, crossbeam_channel::Sender<Job>>,
    /// Around each partitioned model.
    prepost: BTreeMap<ModuleId, (Preprocessor, Postprocessor)>,
}

impl Engine<'_> {
    /// Starts the threads and actors of a run. The handles of all threads that were started are in `threads`, also where
    /// another one cannot be.
    ///
    /// # Errors
    /// [`RunError`] where the machine gives no thread, or a partitioned model no ends.
    pub(super) fn start(
        &self,
        parts: RunParts,
        partitions: Option<&PartitionSetup>,
        threads: &mut Vec<JoinHandle<()>>,
    ) -> Result<StartedRun, RunError> {
        let RunParts {
            workers,
            operators,
            streams,
            sinks,
        } = parts;
        let routes: Vec<Route> = (0..streams.len())
            .map(|source| Route::new(self.graph, source, &self.specs.topology))
            .collect();
        let mailboxes = Mailboxes::new(self.specs.modules.len(), partitions.is_some());
        let actors = Arc::new(mailboxes.addresses());
        let batch_threads = self.start_batch_threads(workers, partitions, &actors, threads)?;

        let (idle_sender, idle) = oneshot::channel();
        let (ended_sender, ended) = oneshot::channel();
        let egress = self.egress_setup(&routes, sinks, idle_sender, ended_sender);
        mailboxes.egress.run(Egress::new(egress));
        mailboxes.supervisor.run(Supervisor::new(SupervisorSetup {
            clock: self.clock,
            recorder: self.recorder.clone(),
            breaker: self.specs.breaker,
            slots: actors.slots.clone(),
        }));
        mailboxes.slots.run(SlotActor::new(
            Slots::new(self.specs.slots.clone()),
            self.clock,
            self.recorder.clone(),
            module_refs(&actors),
        ));
        if let (Some(mailbox), Some(partitions)) = (mailboxes.reservations, partitions) {
            let reservations = self.reservation_setup(partitions, module_refs(&actors));
            let address = mailbox.run(ReservationActor::new(reservations));
            partitions.relay.connect(address.recipient());
        }
        self.run_modules(mailboxes.modules, operators, &routes, batch_threads, &actors);

        let began = self.clock.now();
        self.options.progress.on_started(streams.len());
        let decoding = Decoding::for_machine();
        self.start_sources(streams, &routes, &actors, &decoding, threads)?;
        Ok(StartedRun {
            actors,
            decoding,
            began,
            idle,
            ended,
        })
    }

    /// Starts the workers, and the threads around partitioned models.
    fn start_batch_threads(
        &self,
        workers: Vec<Worker>,
        partitions: Option<&PartitionSetup>,
        actors: &ActorRefs,
        threads: &mut Vec<JoinHandle<()>>,
    ) -> Result<BatchThreads, RunError> {
        let mut jobs = BTreeMap::new();
        for (slot, worker) in (0..).map(SlotId).zip(workers) {
            let WorkerHandle { jobs: sender, thread } = worker.start(batch_done_sender(actors))?;
            jobs.insert(slot, sender);
            threads.push(thread);
        }
        let mut prepost = BTreeMap::new();
        let Some(partitions) = partitions else {
            return Ok(BatchThreads { jobs, prepost });
        };
        for (module, model) in &partitions.active.models {
            let name = &self.graph.modules()[module.index()].name;
            let client = Arc::clone(&partitions.fleet.client);
            let (pre, thread) =
                Preprocessor::start(name, model.pre_post()?, client, partitions.relay.clone())?;
            threads.push(thread);
            let on_done = batch_done_sender(actors);
            let (post, thread) = Postprocessor::start(name, model.pre_post()?, self.clock, on_done)?;
            threads.push(thread);
            prepost.insert(*module, (pre, post));
        }
        Ok(BatchThreads { jobs, prepost })
    }

    fn egress_setup(
        &self,
        routes: &[Route],
        sinks: Vec<SinkRoute>,
        idle: oneshot::Sender<()>,
        ended: oneshot::Sender<RunEnded>,
    ) -> EgressSetup {
        EgressSetup {
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
        }
    }

    fn reservation_setup(&self, partitions: &PartitionSetup, modules: Vec<ModuleRef>) -> ReservationSetup {
        let active = partitions.active.clone();
        let workers = self.graph.workers();
        ReservationSetup {
            clock: self.clock,
            recorder: self.recorder.clone(),
            modules,
            client: Arc::clone(&partitions.fleet.client),
            available: partitions.fleet.available.clone(),
            names: workers.iter().map(|worker| worker.name.clone()).collect(),
            emulated: workers.iter().map(|worker| worker.emulated).collect(),
            policy: self.graph.policy().clone(),
            active,
        }
    }

    fn run_modules(
        &self,
        mailboxes: Vec<Context<ModuleActor>>,
        operators: Vec<Option<Arc<dyn Operator>>>,
        routes: &[Route],
        mut threads: BatchThreads,
        actors: &Arc<ActorRefs>,
    ) {
        let branches: Arc<Vec<Vec<u32>>> =
            Arc::new(routes.iter().map(|route| route.branches.clone()).collect());
        let splits = self.specs.topology.has_branches() || routes.iter().any(|route| route.entries.len() > 1);
        for ((mailbox, spec), operator) in mailboxes.into_iter().zip(&self.specs.modules).zip(operators) {
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
                    .filter_map(|slot| Some((*slot, threads.jobs.get(slot)?.clone())))
                    .collect(),
                clock: self.clock,
                recorder: self.recorder.clone(),
                prepost: threads.prepost.remove(&spec.id),
                shared: spec.pool == Pool::Shared,
                splits,
                actors: Arc::clone(actors),
            };
            mailbox.run(ModuleActor::new(setup, Module::new(spec.clone())));
        }
    }

    /// Starts a thread for each source.
    fn start_sources(
        &self,
        streams: Vec<StreamSetup>,
        routes: &[Route],
        actors: &ActorRefs,
        decoding: &Arc<Decoding>,
        threads: &mut Vec<JoinHandle<()>>,
    ) -> Result<(), RunError> {
        // Equal shares: a decoder keeps the buffers that its stream had at its peak, so only what no stream can exceed
        // bounds them all, and one large camera cannot starve the others.
        let share = self.options.memory_bytes / streams.len().max(1) as u64;
        let next_request = Arc::new(AtomicU64::new(0));
        let rejections = RejectionLimit::default();
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
                slo: node.slo.unwrap_or(self.graph.slo()),
                own_slo: node.slo,
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
                egress: actors.egress.clone(),
                progress: Arc::clone(&self.options.progress),
                entries: route
                    .entries
                    .iter()
                    .map(|id| (actors.modules[id.index()].clone(), route.branches[id.index()]))
                    .collect(),
            };
            let thread = std::thread::Builder::new().name(format!("weir-source-{}", node.name));
            // Those that run already must end.
            let thread = thread
                .spawn(move || source.run())
                .inspect_err(|_| self.stop.raise())?;
            threads.push(thread);
        }
        Ok(())
    }
}
