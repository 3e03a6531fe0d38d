//! The run itself: waits for the end of what [`start`] starts, shuts down cleanly, reports.

mod changes;
mod commands;
mod draining;
mod egress_thread;
mod live_streams;
mod packet_observers;
mod start;
mod swap;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;
use std::time::Duration;

use actix::System;
use tokio::sync::{mpsc, oneshot};
use weir_control::{ControlSpec, GearMessage};
use weir_flow::{Operator, StopFlag};
use weir_graph::{DeviceClass, DeviceNode, Graph};
use weir_policy::gears::GearTally;
use weir_policy::reservations::ReserveReport;
use weir_policy::{DecodingReport, EfficiencyReport, IdleWatch, Policy, Report, RunCosts, RunInfo};
use weir_types::{DropReason, ModuleId, Span, StreamId, Timestamp};

use crate::actors::{
    Abandon, ActorRefs, EgressCounts, EndWhenIdle, ReportStats, ReservationCounts, RunEnded, SinkRoute,
    SwitchPlan, descriptions, send_described,
};
use crate::analytics::SharedAnalytics;
use crate::assembly::{NextGears, RunError, RunOptions};

use crate::clock::{Clock, duration};
use crate::command::{Command, Service};
use crate::decoding::Decoding;
use crate::fleet::PartitionSetup;
use crate::policy_specs::PolicySpecs;
use crate::processor_time::ProcessorTimes;
use crate::record::Recorder;
use crate::request_traces::RequestTracer;
use crate::residency_tally::ResidencyTally;
use crate::routes::SinkView;
use crate::sink::CloseTimeout;
use crate::source::{RecordedGates, RejectionLimit, SharedDecodeLevels};
use crate::stream_setup::{InFlightLimits, StreamSetup};
use crate::timer::RunTimer;
use crate::violations::RunViolations;
use crate::worker::Worker;
use draining::DrainingGraph;
use egress_thread::EgressThread;
use live_streams::LiveStreams;
use packet_observers::SinkObserver;

/// Time between two looks whether the run is to stop, or its plan or gears are to change.
const IDLE_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Longest wait for a thread to end. Only a thread that is blocked in a batch or in a source needs any time.
const JOIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Time between two looks whether a thread has ended.
const JOIN_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// A graph that runs.
pub(crate) struct RunGraph {
    /// From 0; the graph that takes its place has the next one.
    pub(crate) number: u32,
    pub(crate) graph: Arc<Graph>,
    pub(crate) specs: PolicySpecs,
    /// The specification of its machines.
    pub(crate) control: ControlSpec,
    pub(crate) limits: InFlightLimits,
    /// Of its steps.
    pub(crate) recorder: Option<Recorder>,
    /// Numbers of its modules in reports, by id: modules of one name have one in all graphs.
    pub(crate) report_ids: Vec<ModuleId>,
}

/// State of the control thread for the whole run; a graph that replaces another one keeps it.
pub(crate) struct RunContext<'a> {
    /// The graph in force.
    pub(crate) in_force: RefCell<Rc<RunGraph>>,
    /// In force, which is the graph's in the beginning.
    pub(crate) policy: RefCell<Policy>,
    /// Names of the modules of all graphs, by their numbers in reports.
    pub(crate) module_names: RefCell<Vec<Arc<str>>>,
    /// Tracks and transforms per stream, shared by the egress and the graphs.
    pub(crate) analytics: SharedAnalytics,
    pub(crate) tracer: RequestTracer,
    pub(crate) clock: Clock,
    pub(crate) options: &'a RunOptions,
    pub(crate) stop: &'a StopFlag,
    pub(crate) violations: RunViolations,
    pub(crate) processor: Arc<ProcessorTimes>,
    /// Use of the processor while frames were dropped.
    pub(crate) idle: Rc<Cell<IdleWatch>>,
    pub(crate) residency: Arc<ResidencyTally>,
    pub(crate) next_gears: RefCell<Option<NextGears>>,
    /// The partition workers; `None` in a graph without partitioned models.
    pub(crate) partitions: RefCell<Option<PartitionSetup>>,
}

/// Workers, operators, streams and sinks with which a run starts.
pub(crate) struct RunParts {
    pub(crate) workers: Vec<Worker>,
    /// By module; `None` where the model is emulated.
    pub(crate) operators: Vec<Option<Arc<dyn Operator>>>,
    pub(crate) streams: Vec<StreamSetup>,
    pub(crate) sinks: Vec<SinkRoute>,
}

/// Shared state that every new stream needs, also a stream that is added while the engine runs.
struct StreamContext {
    actors: ActorRefs,
    decoding: Arc<Decoding>,
    /// The id of the next request of any stream.
    next_request: Arc<AtomicU64>,
    rejections: RejectionLimit,
    decode_levels: SharedDecodeLevels,
    gates: RecordedGates,
    /// Sinks of the graph in force by their indices: names, and what they show.
    views: Vec<(String, SinkView)>,
    /// Packet observers of these sinks, in the same order.
    observers: Vec<SinkObserver>,
}

/// A run that has begun.
struct StartedRun {
    streams: StreamContext,
    /// Ends with the run.
    _egress: EgressThread,
    /// Graphs that another one has taken the place of.
    draining: Vec<DrainingGraph>,
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
    pub(crate) decoding: Option<DecodingReport>,
}

/// Time between two looks whether another plan is to come into force.
const PLAN_POLL_INTERVAL: Span = Span::from_secs(1);

/// Time between two looks whether other gears are.
const GEARS_POLL_INTERVAL: Span = Span::from_millis(250);

/// The next command; never comes where none are served.
async fn next_command(commands: &mut Option<mpsc::Receiver<Command>>) -> Option<Command> {
    match commands {
        Some(commands) => commands.recv().await,
        None => std::future::pending().await,
    }
}

impl RunContext<'_> {
    /// The graph in force.
    pub(crate) fn in_force(&self) -> Rc<RunGraph> {
        Rc::clone(&self.in_force.borrow())
    }

    /// Starts actors and threads and waits until the last request has ended.
    pub(crate) fn drive(&self, parts: RunParts, service: Option<Service>) -> Result<FinishedRun, RunError> {
        let system = System::new();
        let mut threads = Vec::new();
        let mut live = LiveStreams::new(self.options.memory_bytes);
        let result = system.block_on(async {
            let started = self.start(parts, &mut threads, &mut live)?;
            let commands = service.map(|service| {
                // There is no receiver where the engine was given up meanwhile.
                let _ = service.started.send(());
                service.commands
            });
            self.finish(started, &mut live, commands, &mut threads).await
        });
        // Actors hold the ends of the workers' channels; they go with the system.
        drop(system);
        threads.extend(live.into_threads());
        self.join(threads);
        result
    }

    /// Waits for the end of a run, and takes what its actors counted.
    async fn finish(
        &self,
        mut started: StartedRun,
        live: &mut LiveStreams,
        commands: Option<mpsc::Receiver<Command>>,
        threads: &mut Vec<JoinHandle<()>>,
    ) -> Result<FinishedRun, RunError> {
        self.wait(&mut started, live, commands, threads).await?;
        self.add_stats_of_draining(&started).await;
        started.streams.actors.graph.do_send(ReportStats);
        let ended = started.ended.await;
        let ended = ended.map_err(|_| RunError::EngineFailed("the egress has ended"))?;
        Ok(FinishedRun {
            ended,
            began: started.began,
            decoding: started.streams.decoding.report(),
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

    /// Switches to another plan where there is one. A graph that is not down yet uses the partitions of the plan in force.
    fn poll_plan(&self, started: &StartedRun) {
        if !started.draining.is_empty() {
            return;
        }
        let mut partitions = self.partitions.borrow_mut();
        let next = partitions
            .as_mut()
            .and_then(|partitions| partitions.poll(&self.in_force().graph));
        if let Some(next) = next {
            started.streams.actors.graph.do_send(SwitchPlan(Box::new(next)));
        }
    }

    /// Puts other gears into force where there are any.
    fn poll_gears(&self, actors: &ActorRefs) {
        let mut next = self.next_gears.borrow_mut();
        let Some(gears) = next.as_mut().and_then(|next| next()) else {
            return;
        };
        actors.tell(GearMessage::Applied(Some(Box::new(gears))));
    }

    /// Waits until all requests have ended, and carries out commands meanwhile; the timer drops what has not ended in time.
    async fn wait(
        &self,
        started: &mut StartedRun,
        live: &mut LiveStreams,
        mut commands: Option<mpsc::Receiver<Command>>,
        threads: &mut Vec<JoinHandle<()>>,
    ) -> Result<(), RunError> {
        let egress = started.streams.actors.egress.clone();
        let timer = RunTimer::start(
            self.clock,
            self.stop.clone(),
            self.options.duration,
            self.options.grace,
            {
                let egress = egress.clone();
                move || egress.do_send(Abandon)
            },
        )?;
        let mut polled_at = self.clock.now();
        let mut gears_polled_at = polled_at;
        let mut ends_when_idle = !self.options.until_stopped;
        loop {
            let interval = if live.has_removals() || !started.draining.is_empty() {
                JOIN_POLL_INTERVAL
            } else {
                IDLE_POLL_INTERVAL
            };
            tokio::select! {
                idle = &mut started.idle => match idle {
                    Ok(()) => break,
                    Err(_) => return Err(RunError::EngineFailed("the egress has ended")),
                },
                Some(command) = next_command(&mut commands) => self.on_command(command, started, live, threads).await,
                () = tokio::time::sleep(interval) => {}
            }
            if self.violations.poll() && self.options.strict {
                self.stop.raise();
            }
            if self.stop.is_raised() && !ends_when_idle {
                ends_when_idle = true;
                egress.do_send(EndWhenIdle);
            }
            let now = self.clock.now();
            self.complete_removals(&started.streams, live, now);
            started.draining.retain_mut(|graph| !graph.is_down());
            if now.since(polled_at) >= PLAN_POLL_INTERVAL {
                polled_at = now;
                self.poll_plan(started);
            }
            if now.since(gears_polled_at) >= GEARS_POLL_INTERVAL {
                gears_polled_at = now;
                self.poll_gears(&started.streams.actors);
            }
        }
        self.complete_removals(&started.streams, live, self.clock.now());
        timer.end();
        Ok(())
    }

    /// The report of what was counted so far, without what sinks and the recording come to.
    fn report_of(&self, mut counts: EgressCounts, began: Timestamp) -> Report {
        let modules = self.module_names.borrow();
        let modules: Vec<String> = modules.iter().map(|name| name.to_string()).collect();
        let run = RunInfo {
            duration_s: self.clock.now().since(began).as_secs_f64(),
            ..RunInfo::new(
                self.in_force().graph.name(),
                &self.policy.borrow(),
                self.options.seed,
            )
        };
        let streams = counts.streams.iter().map(|(id, stream)| (*id, &*stream.name));
        let streams: Vec<(StreamId, &str)> = streams.collect();
        counts.stats.modules = std::mem::take(&mut counts.graphs.modules);
        let mut report = counts.stats.report_of(run, &counts.ledger, &streams, &modules);
        let not_decoded = counts
            .ledger
            .drops()
            .filter(|(_, reason, _)| *reason == DropReason::NotDecoded);
        let not_decoded: u64 = not_decoded.map(|(_, _, count)| count).sum();
        self.add_processor(&mut report, not_decoded);
        report.control = counts.graphs.control.report();
        report.transforms = std::mem::take(&mut counts.transforms);
        report.reservations = counts
            .graphs
            .reservations
            .as_ref()
            .map(|counts| self.reserve_report(counts));
        report.gears = counts.graphs.gears.as_ref().and_then(GearTally::report);
        report.residency = self.residency.report();
        report.queues = self.residency.queues_report();
        for stream in counts.streams.into_values() {
            if let Some(report) = report.streams.get_mut(&*stream.name) {
                stream.complete(report);
            }
        }
        report
    }

    /// Adds the processor time so far, and how well it was used where all models run on the processor.
    fn add_processor(&self, report: &mut Report, not_decoded: u64) {
        let processor = self.processor.report();
        report.processor = Some(processor);
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let costs = RunCosts {
            seconds: report.run.duration_s,
            cores: u32::try_from(cores).unwrap_or(u32::MAX),
            requests: report.requests,
            pictures: report
                .requests
                .arrived
                .saturating_sub(report.requests.still + not_decoded),
            processor,
            invalid_rate: report.invalid_rate,
        };
        let in_force = self.in_force();
        let on_processor = |device: &DeviceNode| device.class == DeviceClass::Cpu;
        if !in_force.graph.devices().iter().all(on_processor) || !in_force.graph.workers().is_empty() {
            return;
        }
        let (dropping_s, idle) = self.idle.get().idle(costs.cores);
        report.efficiency = costs.bound_rps().map(|bound_rps| EfficiencyReport {
            bound_rps,
            of_bound: (report.goodput_rps / bound_rps).min(1.0),
            dropping_s,
            idle,
        });
    }

    /// The report of reservations, with how often workers were lost.
    fn reserve_report(&self, counts: &ReservationCounts) -> ReserveReport {
        let mut report = counts.report();
        let losses = self
            .partitions
            .borrow()
            .as_ref()
            .map(|partitions| partitions.relay.losses());
        for (worker, losses) in losses.into_iter().flatten() {
            let graph = &self.in_force().graph;
            let node = graph.workers().get(worker.0 as usize);
            if let Some(worker) = node.and_then(|node| report.workers.get_mut(&node.name)) {
                worker.downs = losses;
            }
        }
        report
    }

    pub(crate) fn report(&self, finished: FinishedRun) -> Report {
        let FinishedRun {
            ended,
            began,
            decoding,
        } = finished;
        let mut report = self.report_of(ended.counts, began);
        let timeout = CloseTimeout {
            clock: self.clock,
            stop: self.stop,
            grace: self.options.grace,
        };
        let mut finish = |sinks: &mut [SinkRoute]| {
            let now = self.clock.now();
            sinks.iter_mut().for_each(|sink| sink.handle.close(now));
            for sink in sinks {
                let finished = sink.handle.finish(&timeout);
                report.sinks.entry(sink.name.clone()).or_default().merge(finished);
            }
        };
        // Sinks that describe incidents finish first, because the other sinks receive their last descriptions.
        let (mut describing, mut others): (Vec<SinkRoute>, Vec<SinkRoute>) =
            ended.sinks.into_iter().partition(|sink| sink.handle.describes());
        finish(&mut describing);
        for sink in &describing {
            let notices = descriptions(&sink.name, &sink.handle);
            send_described(&mut others, &ended.streams, &notices);
        }
        finish(&mut others);
        report.processor = Some(self.processor.report());
        report.decoding = decoding;
        report.recording_error = self.in_force().recorder.as_ref().and_then(Recorder::finish);
        report.invariants = self.violations.counts();
        report
    }
}
