//! The run itself: waits for the end of what [`start`] starts, shuts down cleanly, reports.

mod start;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use actix::{Actor, Addr, System};
use tokio::sync::oneshot;
use weir_flow::{Operator, StopFlag};
use weir_graph::Graph;
use weir_policy::reservations::ReserveReport;
use weir_policy::{DecodingReport, Report, RunInfo, Slots};
use weir_types::{Span, Timestamp};

use crate::actors::{
    Abandon, ActorRefs, Connect, ConnectModules, Egress, ModuleActor, ReportReservations, ReportStats,
    ReservationActor, RunEnded, SinkRoute, SlotActor, Supervisor, SupervisorSetup, SwitchPlan,
};
use crate::assembly::{RunError, RunOptions};
use crate::clock::{Clock, duration};
use crate::decoding::Decoding;
use crate::fleet::PartitionSetup;
use crate::policy_specs::PolicySpecs;
use crate::record::Recorder;
use crate::routes::Route;
use crate::sink::CloseTimeout;
use crate::stream_setup::StreamSetup;
use crate::timer::RunTimer;
use crate::worker::Worker;

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

/// Where plans go, and what polls for another one.
type PlanPolling<'a> = (
    &'a Addr<ReservationActor>,
    &'a mut dyn FnMut(&Addr<ReservationActor>),
);

/// Time between two looks whether another plan is to come into force.
const PLAN_POLL_INTERVAL: Span = Span::from_secs(1);

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
            let egress = self.start_egress(&routes, sinks, idle_sender, ended_sender);
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
            let started = match self.start_modules(workers, operators, &routes, partitions.as_deref()) {
                Ok(started) => started,
                Err(error) => return (Err(error), Vec::new()),
            };
            let module_refs = started.refs();
            let (modules, mut threads) = (started.modules, started.threads);
            slots.do_send(ConnectModules(module_refs.clone()));
            let reservations = partitions
                .as_deref()
                .map(|partitions| self.start_reservations(partitions));
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
            match self.start_sources(streams, &routes, &modules, &egress, &decoding) {
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
