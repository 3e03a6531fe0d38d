//! A run under way: starts actors and threads, waits for the end, shuts down cleanly, reports.

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
    Abandon, BatchBack, Egress, EgressSetup, Laid, ModuleActor, ModuleSetup, Modules, Replan,
    ReservationActor, ReservationSetup, RunEnded, SinkLine, SlotActor, Supervisor, SupervisorSetup,
    TellReservations, TellTally, Wire, spec_of,
};
use crate::assembly::{RunError, RunOptions};
use crate::clock::{Clock, duration};
use crate::decoding::Decoding;
use crate::emulated::EmulatedOperator;
use crate::fleet::{Back, Front};
use crate::gate::{Memory, StreamGate};
use crate::layout::Route;
use crate::record::Recorder;
use crate::run::{FleetLine, Plan, StreamLine};
use crate::sink::Patience;
use crate::source::{Refusals, SourceLine};
use crate::timer::RunTimer;
use crate::worker::{Answer, Ran, Worker, WorkerHandle};

/// How often the run looks whether all requests have ended.
const LOOK_UP: Duration = Duration::from_millis(20);

/// How long a thread that was told to end may take; only one that is stuck in a batch or in a source takes any time.
const LEAVING_MOST: Duration = Duration::from_secs(2);

/// How often it looks whether a thread that was told to end has ended.
const JOIN_LOOK_UP: Duration = Duration::from_millis(1);

/// Everything of a run that does not change.
pub(crate) struct Engine<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) plan: Plan,
    pub(crate) clock: Clock,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) options: &'a RunOptions,
    pub(crate) stop: &'a StopFlag,
}

/// A run that is over.
pub(crate) struct Driven {
    pub(crate) ended: RunEnded,
    /// The moment at which sources began.
    pub(crate) began: Timestamp,
    pub(crate) reservations: Option<ReserveReport>,
    pub(crate) decoding: Option<DecodingReport>,
}

/// Module actors by id, once they are there.
type Directory = Arc<OnceLock<Vec<Addr<ModuleActor>>>>;

/// Where plans go, and what looks for another one.
type Plans<'a> = (
    &'a Addr<ReservationActor>,
    &'a mut dyn FnMut(&Addr<ReservationActor>),
);

/// How often it is looked whether another plan is to come into force.
const PLANS_EVERY: Span = Span::from_secs(1);

/// What tells a module that its batch is back.
fn answer(directory: &Directory) -> Answer {
    let directory = Arc::clone(directory);
    Box::new(move |ran: Ran| {
        // Jobs come from module actors, so the directory is complete before the first answer.
        if let Some(module) = directory
            .get()
            .and_then(|modules| modules.get(ran.module.index()))
        {
            module.do_send(BatchBack(ran));
        }
    })
}

/// Module actors, and the threads of the workers behind them.
type Started = (Vec<Addr<ModuleActor>>, Vec<JoinHandle<()>>);

impl Engine<'_> {
    /// Starts actors and threads and waits until the last request has ended; gives the moment at which sources began.
    pub(crate) fn drive(
        &self,
        workers: Vec<Worker>,
        operators: Vec<Option<Arc<dyn Operator>>>,
        streams: Vec<StreamLine>,
        sinks: Vec<SinkLine>,
        mut fleet: Option<&mut FleetLine>,
    ) -> Result<Driven, RunError> {
        let system = System::new();
        let (result, threads) = system.block_on(async {
            let (idle_sender, idle) = oneshot::channel();
            let (ended_sender, ended) = oneshot::channel();
            let routes: Vec<Route> = (0..streams.len())
                .map(|source| Route::of(self.graph, source, &self.plan.topology))
                .collect();
            let egress = self.egress(&routes, sinks, idle_sender, ended_sender);
            let slots = SlotActor::new(
                Slots::new(self.plan.slots.clone()),
                self.clock,
                self.recorder.clone(),
            )
            .start();
            let supervisor = Supervisor::new(SupervisorSetup {
                clock: self.clock,
                slots: slots.clone(),
            })
            .start();
            let directory: Directory = Arc::default();
            let (modules, mut threads) = match self.modules(workers, operators, &routes, &directory) {
                Ok(started) => started,
                Err(error) => return (Err(error), Vec::new()),
            };
            slots.do_send(Modules(modules.clone()));
            let reservations = match fleet.as_deref() {
                None => None,
                Some(line) => match self.reservations(line, &directory, &mut threads) {
                    Ok(reservations) => Some(reservations),
                    Err(error) => return (Err(error), threads),
                },
            };
            if let Some(reservations) = &reservations {
                reservations.do_send(Modules(modules.clone()));
            }
            let wire = Arc::new(Wire {
                modules: modules.clone(),
                slots,
                reservations: reservations.clone(),
                egress: egress.clone(),
                supervisor,
            });
            for module in &modules {
                module.do_send(Laid(Arc::clone(&wire)));
            }
            let began = self.clock.now();
            self.options.progress.begins(streams.len());
            let decoding = Decoding::of_machine();
            match self.sources(streams, &routes, &modules, &egress, &decoding) {
                Ok(sources) => threads.extend(sources),
                Err(error) => {
                    self.stop.raise();
                    return (Err(error), threads);
                }
            }
            let mut replan = |actor: &Addr<ReservationActor>| {
                if let Some(line) = fleet.as_deref_mut() {
                    self.replan(line, actor);
                }
            };
            let plans = reservations
                .as_ref()
                .map(|actor| (actor, &mut replan as &mut dyn FnMut(&Addr<_>)));
            let ended = self.wait(idle, &egress, &modules, plans, ended).await;
            let told = match &reservations {
                Some(actor) => actor.send(TellReservations).await.ok(),
                None => None,
            };
            let driven = ended.map(|ended| Driven {
                ended,
                began,
                reservations: told,
                decoding: decoding.report(),
            });
            (driven, threads)
        });
        // Actors hold the ends of the workers' channels; they go with the system.
        drop(system);
        self.join(threads);
        result
    }

    /// Waits for threads that have been told to end; one that does not is left behind, for it ends with the program.
    fn join(&self, threads: Vec<JoinHandle<()>>) {
        let began = self.clock.now();
        for thread in threads {
            while !thread.is_finished() {
                if duration(self.clock.now().since(began)) >= LEAVING_MOST.min(self.options.grace) {
                    let name = thread.thread().name().unwrap_or("?");
                    tracing::error!("the thread {name} hangs and is left behind");
                    break;
                }
                std::thread::sleep(JOIN_LOOK_UP);
            }
            if thread.is_finished() && thread.join().is_err() {
                tracing::error!("a thread of the engine panicked");
            }
        }
    }

    fn egress(
        &self,
        routes: &[Route],
        sinks: Vec<SinkLine>,
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
            parts: routes.iter().map(|route| route.ends).collect(),
            modules: self.graph.modules().len(),
            sinks,
            progress: Arc::clone(&self.options.progress),
            idle,
            ended,
        })
        .start()
    }

    /// Starts module actors and, once they have addresses to answer to, the workers.
    fn modules(
        &self,
        workers: Vec<Worker>,
        operators: Vec<Option<Arc<dyn Operator>>>,
        routes: &[Route],
        directory: &Directory,
    ) -> Result<Started, RunError> {
        let mut jobs = BTreeMap::new();
        let mut threads = Vec::new();
        for (slot, worker) in (0..).map(SlotId).zip(workers) {
            let WorkerHandle { jobs: sender, thread } = worker.start(answer(directory))?;
            jobs.insert(slot, sender);
            threads.push(thread);
        }
        let parts: Arc<Vec<Vec<u32>>> = Arc::new(routes.iter().map(|route| route.parts.clone()).collect());
        let start = |(spec, operator): (&ModuleSpec, Option<Arc<dyn Operator>>)| {
            let node = &self.graph.modules()[spec.id.index()];
            let setup = ModuleSetup {
                id: spec.id,
                name: node.name.clone(),
                model: node.model,
                infers: operator.is_some(),
                operator: operator.unwrap_or_else(|| Arc::new(EmulatedOperator)),
                successors: self.plan.topology.successors(spec.id).to_vec(),
                parts: Arc::clone(&parts),
                jobs: spec
                    .slots
                    .iter()
                    .filter_map(|slot| Some((*slot, jobs.get(slot)?.clone())))
                    .collect(),
                clock: self.clock,
                recorder: self.recorder.clone(),
                planned: spec.pool == Pool::Pipelines,
                splits: self.plan.topology.splits() || routes.iter().any(|route| route.entries.len() > 1),
            };
            ModuleActor::new(setup, Module::new(spec.clone())).start()
        };
        let modules: Vec<Addr<ModuleActor>> = self.plan.modules.iter().zip(operators).map(start).collect();
        // The only filling; a second one cannot happen.
        let _ = directory.set(modules.clone());
        Ok((modules, threads))
    }

    /// The reservation actor, and the threads at the two ends of each model that is cut.
    fn reservations(
        &self,
        line: &FleetLine,
        directory: &Directory,
        threads: &mut Vec<JoinHandle<()>>,
    ) -> Result<Addr<ReservationActor>, RunError> {
        let mut ends = BTreeMap::new();
        for (module, model) in &line.planned.models {
            let name = &self.graph.modules()[module.index()].name;
            let client = Arc::clone(&line.fleet.client);
            let (front, thread) = Front::start(name, model.pre_post()?, client, line.post.clone())?;
            threads.push(thread);
            let (back, thread) = Back::start(name, model.pre_post()?, self.clock, answer(directory))?;
            threads.push(thread);
            ends.insert(*module, (front, back));
        }
        let planned = line.planned.clone();
        if let Some(recorder) = &self.recorder {
            recorder.plan(&spec_of(&planned, self.graph.policy()));
        }
        let actor = ReservationActor::new(ReservationSetup {
            clock: self.clock,
            recorder: self.recorder.clone(),
            client: Arc::clone(&line.fleet.client),
            up: line.fleet.up.clone(),
            names: self
                .graph
                .workers()
                .iter()
                .map(|worker| worker.name.clone())
                .collect(),
            emulated: self
                .graph
                .workers()
                .iter()
                .map(|worker| worker.emulated)
                .collect(),
            policy: self.graph.policy().clone(),
            planned,
            ends,
        })
        .start();
        line.post.deliver_to(actor.clone());
        Ok(actor)
    }

    /// Looks whether another plan is to come into force.
    fn replan(&self, line: &mut FleetLine, actor: &Addr<ReservationActor>) {
        let Some(plan) = line.next.as_mut().and_then(|next| next()) else {
            return;
        };
        match line.planned.replanned(self.graph, plan) {
            Ok(planned) => {
                line.planned = planned.clone();
                actor.do_send(Replan(Box::new(planned)));
            }
            Err(reason) => tracing::error!("the new plan cannot be used, the one in force goes on: {reason}"),
        }
    }

    fn sources(
        &self,
        streams: Vec<StreamLine>,
        routes: &[Route],
        modules: &[Addr<ModuleActor>],
        egress: &Addr<Egress>,
        decoding: &Arc<Decoding>,
    ) -> Result<Vec<JoinHandle<()>>, RunError> {
        // Shared out evenly: a decoder keeps the buffers that its stream had at its most, so only what no stream can exceed
        // is a bound on the whole, and one large camera cannot starve the others.
        let share = self.options.memory_bytes / streams.len().max(1) as u64;
        let numbers = Arc::new(AtomicU64::new(0));
        let refusals = Refusals::default();
        let mut threads = Vec::new();
        for ((stream, line), route) in (0..).zip(streams).zip(routes) {
            let node = &self.graph.sources()[stream as usize];
            let live = line.mode == SourceMode::Live;
            let source = SourceLine {
                stream: StreamId(stream),
                name: node.name.clone(),
                factory: line.factory,
                repeat: node.repeat,
                sample: node.sample,
                droppable: live,
                pace: self.options.pace,
                slo: self.graph.slo(),
                gate: StreamGate::new(line.gate, Memory::new(share), self.clock),
                clock: self.clock,
                stop: self.stop.clone(),
                decoding: Arc::clone(decoding),
                refusals: refusals.clone(),
                // Streams that go away together come back one after another.
                backoff: Backoff::new(
                    self.options.reconnect,
                    self.options.seed.wrapping_add(u64::from(stream)),
                ),
                numbers: Arc::clone(&numbers),
                egress: egress.clone(),
                progress: Arc::clone(&self.options.progress),
                entries: route
                    .entries
                    .iter()
                    .map(|id| (modules[id.index()].clone(), route.parts[id.index()]))
                    .collect(),
            };
            let thread = std::thread::Builder::new().name(format!("weir-source-{}", node.name));
            threads.push(thread.spawn(move || source.run())?);
        }
        Ok(threads)
    }

    /// Waits for the end of all requests; the timer sees to it that there is one.
    async fn wait(
        &self,
        mut idle: oneshot::Receiver<()>,
        egress: &Addr<Egress>,
        modules: &[Addr<ModuleActor>],
        mut plans: Option<Plans<'_>>,
        ended: oneshot::Receiver<RunEnded>,
    ) -> Result<RunEnded, RunError> {
        let abandoned = egress.clone();
        let timer = RunTimer::start(
            self.clock,
            self.stop.clone(),
            self.options.duration,
            self.options.grace,
            move || abandoned.do_send(Abandon),
        )?;
        let mut looked_at = self.clock.now();
        loop {
            match tokio::time::timeout(LOOK_UP, &mut idle).await {
                Ok(Ok(())) => break,
                Ok(Err(_)) => return Err(RunError::BrokeOff("the egress is gone")),
                Err(_still_running) => {}
            }
            let now = self.clock.now();
            if let Some((actor, replan)) = plans.as_mut().filter(|_| now.since(looked_at) >= PLANS_EVERY) {
                looked_at = now;
                replan(actor);
            }
        }
        timer.end();
        for module in modules {
            module.do_send(TellTally);
        }
        ended.await.map_err(|_| RunError::BrokeOff("the egress is gone"))
    }

    pub(crate) fn report(&self, driven: Driven) -> Report {
        let Driven {
            ended,
            began,
            reservations,
            decoding,
        } = driven;
        let names = |names: &mut dyn Iterator<Item = &String>| names.cloned().collect::<Vec<String>>();
        let streams = names(&mut self.graph.sources().iter().map(|source| &source.name));
        let modules = names(&mut self.graph.modules().iter().map(|module| &module.name));
        let run = RunInfo {
            graph: self.graph.name().to_owned(),
            policy: self.graph.policy().drop.name().to_owned(),
            seed: self.options.seed,
            duration_s: self.clock.now().since(began).as_secs_f64(),
        };
        let mut report = ended.tally.report(run, &ended.ledger, &streams, &modules);
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
        let patience = Patience {
            clock: self.clock,
            stop: self.stop,
            grace: self.options.grace,
        };
        let (mut sinks, now) = (ended.sinks, self.clock.now());
        sinks.iter_mut().for_each(|line| line.close(now));
        for (node, line) in self.graph.sinks().iter().zip(sinks) {
            report.sinks.insert(node.name.clone(), line.finish(&patience));
        }
        report.reservations = reservations;
        report.decoding = decoding;
        report.recording_error = self.recorder.as_ref().and_then(Recorder::finish);
        report
    }
}
