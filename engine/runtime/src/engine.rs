//! The run itself: waits for the end of what [`start`] starts, shuts down cleanly, reports.

mod start;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use actix::{Addr, System};
use tokio::sync::oneshot;
use weir_flow::{Operator, StopFlag};
use weir_graph::Graph;
use weir_policy::reservations::ReserveReport;
use weir_policy::{DecodingReport, Report, RunInfo};
use weir_types::{Span, Timestamp};

use crate::actors::{
    Abandon, ActorRefs, ReportReservations, ReportStats, ReservationActor, RunEnded, SinkRoute, SwitchPlan,
};
use crate::assembly::{RunError, RunOptions};
use crate::clock::{Clock, duration};
use crate::decoding::Decoding;
use crate::fleet::PartitionSetup;
use crate::policy_specs::PolicySpecs;
use crate::record::Recorder;
use crate::sink::CloseTimeout;
use crate::stream_setup::StreamSetup;
use crate::timer::RunTimer;
use crate::violations::RunViolations;
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
    pub(crate) violations: RunViolations,
}

/// What a run is started with.
pub(crate) struct RunParts {
    pub(crate) workers: Vec<Worker>,
    /// By module; `None` where the model is emulated.
    pub(crate) operators: Vec<Option<Arc<dyn Operator>>>,
    pub(crate) streams: Vec<StreamSetup>,
    pub(crate) sinks: Vec<SinkRoute>,
}

/// A run that has begun.
struct StartedRun {
    actors: Arc<ActorRefs>,
    decoding: Arc<Decoding>,
    /// The moment at which sources began.
    began: Timestamp,
    /// Comes once all streams have ended and nothing is in flight.
    idle: oneshot::Receiver<()>,
    /// Comes once all modules have reported their counts.
    ended: oneshot::Receiver<RunEnded>,
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
        parts: RunParts,
        partitions: Option<&mut PartitionSetup>,
    ) -> Result<FinishedRun, RunError> {
        let system = System::new();
        let mut threads = Vec::new();
        let result = system.block_on(async {
            let started = self.start(parts, partitions.as_deref(), &mut threads)?;
            self.finish(started, partitions).await
        });
        // Actors hold the ends of the workers' channels; they go with the system.
        drop(system);
        self.join(threads);
        result
    }

    /// Waits for the end of a run, and takes what its actors counted.
    async fn finish(
        &self,
        started: StartedRun,
        mut partitions: Option<&mut PartitionSetup>,
    ) -> Result<FinishedRun, RunError> {
        let reservations = started.actors.reservations.as_ref();
        let mut replan = |actor: &Addr<ReservationActor>| {
            if let Some(partitions) = partitions.as_deref_mut() {
                self.replan(partitions, actor);
            }
        };
        let plans = reservations.map(|actor| (actor, &mut replan as &mut dyn FnMut(&Addr<_>)));
        self.wait(started.idle, &started.actors, plans).await?;
        for module in &started.actors.modules {
            module.do_send(ReportStats);
        }
        let ended = started.ended.await;
        let ended = ended.map_err(|_| RunError::EngineFailed("the egress has ended"))?;
        let reservations = match reservations {
            Some(actor) => actor.send(ReportReservations).await.ok(),
            None => None,
        };
        Ok(FinishedRun {
            ended,
            began: started.began,
            reservations,
            decoding: started.decoding.report(),
        })
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
        actors: &ActorRefs,
        mut plans: Option<PlanPolling<'_>>,
    ) -> Result<(), RunError> {
        let egress = actors.egress.clone();
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
            if self.violations.poll() && self.options.strict {
                self.stop.raise();
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
        Ok(())
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
            duration_s: self.clock.now().since(began).as_secs_f64(),
            ..RunInfo::new(self.graph.name(), self.graph.policy(), self.options.seed)
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
        for node in self.graph.sources() {
            if let Some(report) = report.streams.get_mut(&node.name) {
                report.slo_ms = node.slo.map(Span::as_millis_f64);
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
        report.invariants = self.violations.counts();
        report
    }
}
