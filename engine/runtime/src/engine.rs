//! A run under way: starts actors and threads, waits for the end, shuts down cleanly, reports.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;
use std::time::Duration;

use actix::{Actor, Addr, System};
use tokio::sync::oneshot;
use weir_flow::{Operator, StopFlag};
use weir_graph::{Graph, SourceMode};
use weir_policy::{Module, ModuleSpec, Report, RunInfo, SlotId, Slots, StreamId, Timestamp};

use crate::actors::{
    Abandon, BatchBack, Egress, EgressSetup, Laid, ModuleActor, ModuleSetup, Modules, RunEnded, SinkLine,
    SlotActor, Supervisor, SupervisorSetup, TellTally, Wire,
};
use crate::assembly::{RunError, RunOptions};
use crate::clock::{Clock, duration};
use crate::emulated::EmulatedOperator;
use crate::gate::{Memory, StreamGate};
use crate::layout::Route;
use crate::record::Recorder;
use crate::run::{Plan, StreamLine};
use crate::sink::Patience;
use crate::source::SourceLine;
use crate::worker::{Ran, Worker, WorkerHandle};

/// How often the run looks whether it is to stop.
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
    ) -> Result<(RunEnded, Timestamp), RunError> {
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
            let (modules, mut threads) = match self.modules(workers, operators, &routes) {
                Ok(started) => started,
                Err(error) => return (Err(error), Vec::new()),
            };
            slots.do_send(Modules(modules.clone()));
            let wire = Arc::new(Wire {
                modules: modules.clone(),
                slots,
                egress: egress.clone(),
                supervisor,
            });
            for module in &modules {
                module.do_send(Laid(Arc::clone(&wire)));
            }
            let began = self.clock.now();
            match self.sources(streams, &routes, &modules, &egress) {
                Ok(sources) => threads.extend(sources),
                Err(error) => {
                    self.stop.raise();
                    return (Err(error), threads);
                }
            }
            let ended = self.wait(idle, &egress, &modules, ended).await;
            (ended.map(|ended| (ended, began)), threads)
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
    ) -> Result<Started, RunError> {
        let directory: Arc<std::sync::OnceLock<Vec<Addr<ModuleActor>>>> = Arc::default();
        let mut jobs = BTreeMap::new();
        let mut threads = Vec::new();
        for (slot, worker) in (0..).map(SlotId).zip(workers) {
            let directory = Arc::clone(&directory);
            let answer = move |ran: Ran| {
                // Jobs come from module actors, so the directory is complete before the first answer.
                if let Some(module) = directory
                    .get()
                    .and_then(|modules| modules.get(ran.module.index()))
                {
                    module.do_send(BatchBack(ran));
                }
            };
            let WorkerHandle { jobs: sender, thread } = worker.start(Box::new(answer))?;
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
                splits: self.plan.topology.splits() || routes.iter().any(|route| route.entries.len() > 1),
            };
            ModuleActor::new(setup, Module::new(spec.clone())).start()
        };
        let modules: Vec<Addr<ModuleActor>> = self.plan.modules.iter().zip(operators).map(start).collect();
        // The only filling; a second one cannot happen.
        let _ = directory.set(modules.clone());
        Ok((modules, threads))
    }

    fn sources(
        &self,
        streams: Vec<StreamLine>,
        routes: &[Route],
        modules: &[Addr<ModuleActor>],
        egress: &Addr<Egress>,
    ) -> Result<Vec<JoinHandle<()>>, RunError> {
        // Shared out evenly: a decoder keeps the buffers that its stream had at its most, so only what no stream can exceed
        // is a bound on the whole, and one large camera cannot starve the others.
        let share = self.options.memory_bytes / streams.len().max(1) as u64;
        let numbers = Arc::new(AtomicU64::new(0));
        let mut threads = Vec::new();
        for ((stream, line), route) in (0..).zip(streams).zip(routes) {
            let node = &self.graph.sources()[stream as usize];
            let live = line.mode == SourceMode::Live;
            let source = SourceLine {
                stream: StreamId(stream),
                name: node.name.clone(),
                factory: line.factory,
                repeat: node.repeat,
                droppable: live,
                pace: self.options.pace,
                gate: StreamGate::new(line.gate, Memory::new(share), self.clock),
                clock: self.clock,
                stop: self.stop.clone(),
                numbers: Arc::clone(&numbers),
                egress: egress.clone(),
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

    /// Waits for the end: of the sources, of the time, or of somebody's patience.
    async fn wait(
        &self,
        mut idle: oneshot::Receiver<()>,
        egress: &Addr<Egress>,
        modules: &[Addr<ModuleActor>],
        ended: oneshot::Receiver<RunEnded>,
    ) -> Result<RunEnded, RunError> {
        let began = self.clock.now();
        let mut stopped_at = None;
        let mut abandoned = false;
        loop {
            match tokio::time::timeout(LOOK_UP, &mut idle).await {
                Ok(Ok(())) => break,
                Ok(Err(_)) => return Err(RunError::BrokeOff("the egress is gone")),
                Err(_still_running) => {}
            }
            let now = self.clock.now();
            let elapsed = Duration::from_micros(now.since(began).micros());
            if self.options.duration.is_some_and(|duration| elapsed >= duration) {
                self.stop.raise();
            }
            if self.stop.raised() {
                let since = now.since(*stopped_at.get_or_insert(now));
                if !abandoned && Duration::from_micros(since.micros()) >= self.options.grace {
                    abandoned = true;
                    egress.do_send(Abandon);
                }
            }
        }
        for module in modules {
            module.do_send(TellTally);
        }
        ended.await.map_err(|_| RunError::BrokeOff("the egress is gone"))
    }

    pub(crate) fn report(&self, ended: RunEnded, began: Timestamp) -> Report {
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
                report.damaged = end.damaged;
                report.error = end.error;
            }
        }
        let patience = Patience {
            clock: self.clock,
            stop: self.stop,
            grace: self.options.grace,
        };
        for (node, line) in self.graph.sinks().iter().zip(ended.sinks) {
            report.sinks.insert(node.name.clone(), line.finish(&patience));
        }
        report.recording_error = self.recorder.as_ref().and_then(Recorder::finish);
        report
    }
}
