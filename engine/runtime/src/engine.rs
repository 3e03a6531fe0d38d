//! The run itself: starts actors and threads, waits for the end, shuts down cleanly, reports.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use actix::{Actor, Addr, System};
use tokio::sync::oneshot;
use weir_flow::{Operator, StopFlag};
use weir_graph::{Graph, SourceMode};
use weir_policy::reservations::ReserveReport;
use weir_policy::{Backoff, DecodingReport, Module, ModuleSpec, Pool, Report, RunInfo, Slots};
use weir_types::{SlotId, Span, StreamId, Timestamp};

use crate::actors::{
    Abandon, ActorRefs, BatchDone, Connect, ConnectModules, Egress, EgressSetup, ModuleActor, ModuleRef,
    ModuleSetup, ReportReservations, ReportStats, ReservationActor, ReservationSetup, RunEnded, SinkRoute,
    SlotActor, Supervisor, SupervisorSetup, SwitchPlan,
};
use crate::admission::{MemoryBudget, StreamAdmission};
use crate::assembly::{RunError, RunOptions};
use crate::clock::{Clock, duration};
use crate::decoding::Decoding;
use crate::emulated::EmulatedOperator;
use crate::fleet::{PartitionSetup, Postprocessor, Preprocessor};
use crate::policy_specs::PolicySpecs;
use crate::record::Recorder;
use crate::routes::Route;
use crate::sink::CloseTimeout;
use crate::source::{RejectionLimit, SourceThread};
use crate::stream_setup::StreamSetup;
use crate::timer::RunTimer;
use crate::worker::{BatchDoneSender, BatchResult, Worker, WorkerHandle};

/// Time between two looks whether all requests have ended.
const IDLE_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How long a thread may take to end; only one that is stuck in a batch or in a source takes any time.
const JOIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Time between two looks whether a thread has ended.
const JOIN_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// What does not change during a run.
pub(crate) struct Engine<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) specs: PolicySpecs,
    pub(crate) clock: Clock,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) options: &'a RunOptions,
    pub(crate) stop: &'a StopFlag,
}

/// A run that is over.
pub(crate) struct FinishedRun {
    pub(crate) ended: RunEnded,
    /// The moment at which sources began.
    pub(crate) began: Timestamp,
    pub(crate) reservations: Option<ReserveReport>,
    pub(crate) decoding: Option<DecodingReport>,
}

/// Module actors by id, once they exist.
type ModuleDirectory = Arc<OnceLock<Vec<Addr<ModuleActor>>>>;

/// Where plans go, and what polls for another one.
type PlanPolling<'a> = (
    &'a Addr<ReservationActor>,
    &'a mut dyn FnMut(&Addr<ReservationActor>),
);

/// Time between two looks whether another plan is to come into force.
const PLAN_POLL_INTERVAL: Span = Span::from_secs(1);

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

/// Module actors, and the threads of the workers behind them.
type StartedModules = (Vec<Addr<ModuleActor>>, Vec<JoinHandle<()>>);

impl Engine<'_> {
    /// Starts actors and threads and waits until the last request has ended.
    pub(crate) fn drive(
        &self,
        workers: Vec<Worker>,
        operators: Vec<Option<Arc<dyn Operator>>>,
        streams: Vec<StreamSetup>,
        sinks: Vec<SinkRoute>,
        mut partitions: Option<&mut PartitionSetup>,
    ) -> Result<FinishedRun, RunError> {
        let system = System::new();
        let (result, threads) = system.block_on(async {
            let (idle_sender, idle) = oneshot::channel();
            let (ended_sender, ended) = oneshot::channel();
            let routes: Vec<Route> = (0..streams.len())
                .map(|source| Route::new(self.graph, source, &self.specs.topology))
                .collect();
            let egress = self.egress(&routes, sinks, idle_sender, ended_sender);
            let slots = SlotActor::new(
                Slots::new(self.specs.slots.clone()),
                self.clock,
                self.recorder.clone(),
            )
            .start();
            let supervisor = Supervisor::new(SupervisorSetup {
                clock: self.clock,
                slots: slots.clone(),
            })
            .start();
            let directory: ModuleDirectory = Arc::default();
            let (modules, mut threads) = match self.modules(workers, operators, &routes, &directory) {
                Ok(started) => started,
                Err(error) => return (Err(error), Vec::new()),
            };
            let module_refs: Vec<ModuleRef> = modules.iter().map(module_ref).collect();
            slots.do_send(ConnectModules(module_refs.clone()));
            let reservations = match partitions.as_deref() {
                None => None,
                Some(partitions) => match self.reservations(partitions, &directory, &mut threads) {
                    Ok(reservations) => Some(reservations),
                    Err(error) => return (Err(error), threads),
                },
            };
            if let Some(reservations) = &reservations {
                reservations.do_send(ConnectModules(module_refs));
            }
            let refs = Arc::new(ActorRefs {
                modules: modules.clone(),
                slots,
                reservations: reservations.clone(),
                egress: egress.clone(),
                supervisor,
            });
            for module in &modules {
                module.do_send(Connect(Arc::clone(&refs)));
            }
            let began = self.clock.now();
            self.options.progress.on_started(streams.len());
            let decoding = Decoding::for_machine();
            match self.sources(streams, &routes, &modules, &egress, &decoding) {
                Ok(sources) => threads.extend(sources),
                Err(error) => {
                    self.stop.raise();
                    return (Err(error), threads);
                }
            }
            let mut replan = |actor: &Addr<ReservationActor>| {
                if let Some(partitions) = partitions.as_deref_mut() {
                    self.replan(partitions, actor);
                }
            };
            let plans = reservations
                .as_ref()
                .map(|actor| (actor, &mut replan as &mut dyn FnMut(&Addr<_>)));
            let ended = self.wait(idle, &egress, &modules, plans, ended).await;
            let reservation_report = match &reservations {
                Some(actor) => actor.send(ReportReservations).await.ok(),
                None => None,
            };
            let finished = ended.map(|ended| FinishedRun {
                ended,
                began,
                reservations: reservation_report,
                decoding: decoding.report(),
            });
            (finished, threads)
        });
        // Actors hold the ends of the workers' channels; they go with the system.
        drop(system);
        self.join(threads);
        result
    }

    /// Waits for threads that are ending; one that does not is left behind, for it ends with the program.
    fn join(&self, threads: Vec<JoinHandle<()>>) {
        let began = self.clock.now();
        for thread in threads {
            while !thread.is_finished() {
                if duration(self.clock.now().since(began)) >= JOIN_TIMEOUT.min(self.options.grace) {
                    let name = thread.thread().name().unwrap_or("?");
                    tracing::error!("the thread {name} hangs and is left behind");
                    break;
                }
                std::thread::sleep(JOIN_POLL_INTERVAL);
            }
            if thread.is_finished() && thread.join().is_err() {
                tracing::error!("a thread of the engine panicked");
            }
        }
    }

    fn egress(
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

    /// Starts the module actors and the workers, which send their results to them.
    fn modules(
        &self,
        workers: Vec<Worker>,
        operators: Vec<Option<Arc<dyn Operator>>>,
        routes: &[Route],
        directory: &ModuleDirectory,
    ) -> Result<StartedModules, RunError> {
        let mut jobs = BTreeMap::new();
        let mut threads = Vec::new();
        for (slot, worker) in (0..).map(SlotId).zip(workers) {
            let WorkerHandle { jobs: sender, thread } = worker.start(batch_done_sender(directory))?;
            jobs.insert(slot, sender);
            threads.push(thread);
        }
        let branches: Arc<Vec<Vec<u32>>> =
            Arc::new(routes.iter().map(|route| route.branches.clone()).collect());
        let start = |(spec, operator): (&ModuleSpec, Option<Arc<dyn Operator>>)| {
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
                partitioned: spec.pool == Pool::Pipelines,
                splits: self.specs.topology.has_branches()
                    || routes.iter().any(|route| route.entries.len() > 1),
            };
            ModuleActor::new(setup, Module::new(spec.clone())).start()
        };
        let modules: Vec<Addr<ModuleActor>> = self.specs.modules.iter().zip(operators).map(start).collect();
        // Filled here only.
        let _ = directory.set(modules.clone());
        Ok((modules, threads))
    }

    /// The reservation actor, and the threads before and after each partitioned model.
    fn reservations(
        &self,
        partitions: &PartitionSetup,
        directory: &ModuleDirectory,
        threads: &mut Vec<JoinHandle<()>>,
    ) -> Result<Addr<ReservationActor>, RunError> {
        let mut prepost = BTreeMap::new();
        for (module, model) in &partitions.active.models {
            let name = &self.graph.modules()[module.index()].name;
            let client = Arc::clone(&partitions.fleet.client);
            let (pre, thread) =
                Preprocessor::start(name, model.pre_post()?, client, partitions.relay.clone())?;
            threads.push(thread);
            let (post, thread) =
                Postprocessor::start(name, model.pre_post()?, self.clock, batch_done_sender(directory))?;
            threads.push(thread);
            prepost.insert(*module, (pre, post));
        }
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
            prepost,
        })
        .start();
        partitions.relay.connect(actor.clone().recipient());
        Ok(actor)
    }

    /// Switches to another plan where there is one.
    fn replan(&self, partitions: &mut PartitionSetup, actor: &Addr<ReservationActor>) {
        let Some(plan) = partitions.next_plan.as_mut().and_then(|next| next()) else {
            return;
        };
        match partitions.active.replan(self.graph, plan) {
            Ok(active) => {
                partitions.active = active.clone();
                actor.do_send(SwitchPlan(Box::new(active)));
            }
            Err(reason) => tracing::error!("the new plan cannot be used, the one in force goes on: {reason}"),
        }
    }

    fn sources(
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

    /// Waits until all requests have ended; the timer drops what has not in time.
    async fn wait(
        &self,
        mut idle: oneshot::Receiver<()>,
        egress: &Addr<Egress>,
        modules: &[Addr<ModuleActor>],
        mut plans: Option<PlanPolling<'_>>,
        ended: oneshot::Receiver<RunEnded>,
    ) -> Result<RunEnded, RunError> {
        let egress = egress.clone();
        let timer = RunTimer::start(
            self.clock,
            self.stop.clone(),
            self.options.duration,
            self.options.grace,
            move || egress.do_send(Abandon),
        )?;
        let mut polled_at = self.clock.now();
        loop {
            match tokio::time::timeout(IDLE_POLL_INTERVAL, &mut idle).await {
                Ok(Ok(())) => break,
                Ok(Err(_)) => return Err(RunError::EngineFailed("the egress has ended")),
                Err(_still_running) => {}
            }
            let now = self.clock.now();
            if let Some((actor, replan)) = plans
                .as_mut()
                .filter(|_| now.since(polled_at) >= PLAN_POLL_INTERVAL)
            {
                polled_at = now;
                replan(actor);
            }
        }
        timer.end();
        for module in modules {
            module.do_send(ReportStats);
        }
        ended
            .await
            .map_err(|_| RunError::EngineFailed("the egress has ended"))
    }

    pub(crate) fn report(&self, finished: FinishedRun) -> Report {
        let FinishedRun {
            ended,
            began,
            reservations,
            decoding,
        } = finished;
        let names = |names: &mut dyn Iterator<Item = &String>| names.cloned().collect::<Vec<String>>();
        let streams = names(&mut self.graph.sources().iter().map(|source| &source.name));
        let modules = names(&mut self.graph.modules().iter().map(|module| &module.name));
        let run = RunInfo {
            graph: self.graph.name().to_owned(),
            policy: self.graph.policy().drop.name().to_owned(),
            seed: self.options.seed,
            duration_s: self.clock.now().since(began).as_secs_f64(),
        };
        let mut report = ended.stats.report(run, &ended.ledger, &streams, &modules);
        for (stream, end) in ended.streams {
            if let Some(report) = streams
                .get(stream.index())
                .and_then(|name| report.streams.get_mut(name))
            {
                report.damaged = end.counts.damaged;
                report.error = end.error;
                report.health = Some(end.health);
            }
        }
        let timeout = CloseTimeout {
            clock: self.clock,
            stop: self.stop,
            grace: self.options.grace,
        };
        let (mut sinks, now) = (ended.sinks, self.clock.now());
        sinks.iter_mut().for_each(|sink| sink.close(now));
        for (node, sink) in self.graph.sinks().iter().zip(sinks) {
            report.sinks.insert(node.name.clone(), sink.finish(&timeout));
        }
        report.reservations = reservations;
        report.decoding = decoding;
        report.recording_error = self.recorder.as_ref().and_then(Recorder::finish);
        report
    }
}

fn module_ref(module: &Addr<ModuleActor>) -> ModuleRef {
    ModuleRef {
        events: module.clone().recipient(),
        batches: module.clone().recipient(),
    }
}
