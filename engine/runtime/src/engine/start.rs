//! The start of a run, from top to bottom: mailboxes, threads that run batches, actors, threads of sources.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;

use actix::{Actor, Addr, AsyncContext, Context};
use tokio::sync::oneshot;
use weir_flow::{Operator, PacketTap, mask_credentials};
use weir_graph::{SinkNode, SourceMode, SourceNode};
use weir_policy::{Backoff, Module, Pool, Slots};
use weir_types::{ModuleId, SlotId, Span, StreamId};

use super::live_streams::{LiveStream, LiveStreams};
use super::packet_observers::SinkObservations;
use super::{RunContext, RunGraph, RunParts, StartedRun, StreamContext};
use crate::actors::{
    ActorRefs, ArbiterEvent, BatchDone, DecodeLevelActor, Egress, EgressSetup, GearActor, GearSetup,
    InstanceSaid, ModuleActor, ModuleRef, ModuleSetup, OverdueSlots, ReservationActor, ReservationSetup,
    RunEnded, RunLaunched, SinkRoute, SlotActor, SlotSessions, Supervisor, SupervisorSetup,
};
use crate::admission::{MemoryBudget, StreamAdmission};
use crate::analytics::{TrackGate, analytics_plan};
use crate::assembly::{Pace, RunError};
use crate::batch::{BatchDoneSender, BatchLaunched, BatchLaunchedSender, BatchResult, Job, WorkerHandle};
use crate::cascades::{Stage, has_cascades, stages};
use crate::decoding::Decoding;
use crate::emulated::EmulatedOperator;
use crate::emulated_generator::EmulatedDescriber;
use crate::fleet::{PartitionSetup, Postprocessor, Preprocessor};
use crate::instance::{InstanceHandle, InstanceJob, InstanceReport, InstanceReportSender};
use crate::length_prediction::LengthPrediction;
use crate::prepare::shown_detect_uri;
use crate::routes::{Entrance, Route, SinkView};
use crate::session_control::{SessionChangeSender, SessionControl};
use crate::source::{
    RejectionLimit, SharedDecodeLevels, SharedTarget, SourceControl, SourceTarget, SourceThread,
};
use crate::stream_setup::StreamSetup;
use crate::worker::Worker;

/// The mailboxes of all actors, made before any of them: addresses are good at once, and messages wait for the actor.
struct Mailboxes {
    egress: Context<Egress>,
    slots: Context<SlotActor>,
    supervisor: Context<Supervisor>,
    reservations: Option<Context<ReservationActor>>,
    gears: Option<Context<GearActor>>,
    modules: Vec<Context<ModuleActor>>,
}

impl Mailboxes {
    fn new(modules: usize, partitioned: bool, shifted: bool) -> Self {
        Self {
            egress: Context::new(),
            slots: Context::new(),
            supervisor: Context::new(),
            reservations: partitioned.then(Context::new),
            gears: shifted.then(Context::new),
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
            gears: self.gears.as_ref().map(AsyncContext::address),
            overdue: OverdueSlots::default(),
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

/// Sends what instances say to their modules.
fn instance_report_sender(actors: &ActorRefs) -> InstanceReportSender {
    let modules = actors.modules.clone();
    Box::new(move |report: InstanceReport| {
        let module = match &report {
            InstanceReport::Stepped(result) => result.module,
            InstanceReport::Back { module, .. } => *module,
        };
        if let Some(module) = modules.get(module.index()) {
            module.do_send(InstanceSaid(report));
        }
    })
}

/// Sends word of runs that begin to their modules.
fn batch_launched_sender(actors: &ActorRefs) -> BatchLaunchedSender {
    let modules = actors.modules.clone();
    Box::new(move |launched: BatchLaunched| {
        if let Some(module) = modules.get(launched.module.index()) {
            module.do_send(RunLaunched(launched));
        }
    })
}

/// Sends what became of sessions to the arbiter.
fn session_change_sender(actors: &ActorRefs) -> SessionChangeSender {
    let slots = actors.slots.clone();
    Box::new(move |change| slots.do_send(ArbiterEvent(change)))
}

/// Where the batches of modules run.
struct BatchThreads {
    jobs: BTreeMap<SlotId, crossbeam_channel::Sender<Job>>,
    /// Where steps of models that generate run.
    instances: BTreeMap<SlotId, crossbeam_channel::Sender<InstanceJob>>,
    /// Around each partitioned model.
    prepost: BTreeMap<ModuleId, (Preprocessor, Postprocessor)>,
    /// Where sessions are opened and closed: on devices whose memory does not hold all their models.
    sessions: BTreeMap<SlotId, SessionControl>,
}

impl RunContext<'_> {
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
        live: &mut LiveStreams,
    ) -> Result<StartedRun, RunError> {
        let RunParts {
            workers,
            operators,
            streams,
            sinks,
        } = parts;
        let in_force = self.in_force();
        let RunGraph { graph, specs, .. } = &*in_force;
        let route = |source| {
            let entrance = Entrance::of_source(graph, source);
            Arc::new(Route::new(in_force.number, graph, &entrance, &specs.topology))
        };
        let routes: Vec<Arc<Route>> = (0..streams.len()).map(route).collect();
        let mailboxes = Mailboxes::new(specs.modules.len(), partitions.is_some(), has_cascades(graph));
        let actors = Arc::new(mailboxes.addresses());
        let mut batch_threads = self.start_batch_threads(&in_force, workers, partitions, &actors, threads)?;
        let sessions = self.slot_sessions(&in_force, &mut batch_threads);

        let (idle_sender, idle) = oneshot::channel();
        let (ended_sender, ended) = oneshot::channel();
        let view = |(index, node): (usize, &SinkNode)| (node.name.clone(), SinkView::new(graph, index));
        let views = graph.sinks().iter().enumerate().map(view).collect();
        let observers = sinks.iter().map(|sink| sink.handle.packet_observer()).collect();
        let decode_levels = SharedDecodeLevels::default();
        let egress = self.egress_setup(sinks, decode_levels.clone(), idle_sender, ended_sender);
        mailboxes.egress.run(Egress::new(egress));
        DecodeLevelActor::new(
            decode_levels.clone(),
            graph.slo(),
            self.clock,
            in_force.recorder.clone(),
        )
        .start();
        mailboxes.supervisor.run(Supervisor::new(SupervisorSetup {
            clock: self.clock,
            recorder: in_force.recorder.clone(),
            breaker: specs.breaker,
            slots: actors.slots.clone(),
        }));
        mailboxes.slots.run(SlotActor::new(
            Slots::new(specs.slots.clone()),
            self.clock,
            in_force.recorder.clone(),
            module_refs(&actors),
            sessions,
        ));
        if let (Some(mailbox), Some(partitions)) = (mailboxes.reservations, partitions) {
            let reservations = self.reservation_setup(partitions, module_refs(&actors));
            let address = mailbox.run(ReservationActor::new(reservations));
            partitions.relay.connect(address.recipient());
        }
        let splits = routes.iter().any(|route| route.splits());
        self.run_modules(
            &in_force,
            (mailboxes.modules, mailboxes.gears),
            operators,
            splits,
            batch_threads,
            &actors,
        );

        let began = self.clock.now();
        self.options.progress.shared_timeline().set_clock(self.clock);
        self.options.progress.on_started(streams.len());
        let context = StreamContext {
            actors,
            decoding: Decoding::for_machine(),
            next_request: Arc::default(),
            rejections: RejectionLimit::default(),
            decode_levels,
            views,
            observers,
        };
        let memory = live.memory_share(streams.len());
        for ((node, setup), route) in graph.sources().iter().zip(streams).zip(routes) {
            let stream = self.start_source((live.next_id(), node, setup, memory), &route, &context);
            // Those that run already must end.
            let stream = stream.inspect_err(|_| self.stop.raise())?;
            live.insert(node.name.clone(), stream);
        }
        Ok(StartedRun {
            streams: context,
            draining: Vec::new(),
            began,
            idle,
            ended,
        })
    }

    /// Starts the workers, and the threads around partitioned models.
    fn start_batch_threads(
        &self,
        running: &RunGraph,
        workers: Vec<Worker>,
        partitions: Option<&PartitionSetup>,
        actors: &ActorRefs,
        threads: &mut Vec<JoinHandle<()>>,
    ) -> Result<BatchThreads, RunError> {
        let (mut jobs, mut instances) = (BTreeMap::new(), BTreeMap::new());
        let mut sessions = BTreeMap::new();
        for (slot, worker) in (0..).map(SlotId).zip(workers) {
            let worker = match worker.into_instance() {
                Ok(instance) => {
                    let InstanceHandle { jobs: sender, thread } =
                        instance.start(instance_report_sender(actors), &self.processor)?;
                    instances.insert(slot, sender);
                    threads.push(thread);
                    continue;
                }
                Err(worker) => worker,
            };
            let senders = (
                batch_launched_sender(actors),
                batch_done_sender(actors),
                session_change_sender(actors),
            );
            let handle = worker.start(senders, &self.processor)?;
            let WorkerHandle {
                jobs: sender,
                threads: own,
                sessions: control,
            } = handle;
            sessions.extend(control.map(|control| (slot, control)));
            jobs.insert(slot, sender);
            threads.extend(own);
        }
        let mut prepost = BTreeMap::new();
        let Some(partitions) = partitions else {
            return Ok(BatchThreads {
                jobs,
                instances,
                prepost,
                sessions,
            });
        };
        for (module, model) in &partitions.active.models {
            let name = &running.graph.modules()[module.index()].name;
            let client = Arc::clone(&partitions.fleet.client);
            let (pre, thread) = Preprocessor::start(
                name,
                model.pre_post()?,
                client,
                partitions.relay.clone(),
                &self.processor,
            )?;
            threads.push(thread);
            let on_done = batch_done_sender(actors);
            let (post, thread) =
                Postprocessor::start(name, model.pre_post()?, self.clock, on_done, &self.processor)?;
            threads.push(thread);
            prepost.insert(*module, (pre, post));
        }
        Ok(BatchThreads {
            jobs,
            instances,
            prepost,
            sessions,
        })
    }

    /// The sessions that the arbiter of a graph opens and closes.
    fn slot_sessions(&self, running: &RunGraph, threads: &mut BatchThreads) -> SlotSessions {
        let controls = std::mem::take(&mut threads.sessions);
        if !controls.is_empty() {
            self.residency.begin();
        }
        let models = running.graph.models().iter();
        SlotSessions {
            controls,
            names: models.map(|model| model.name.clone()).collect(),
            tally: Arc::clone(&self.residency),
        }
    }

    /// Starts the actors of another graph, beside those that run; `splits`: some stream enters several of its modules.
    ///
    /// # Errors
    /// [`RunError::Thread`] where the machine gives no thread.
    pub(super) fn start_graph(
        &self,
        running: &RunGraph,
        (workers, operators): (Vec<Worker>, Vec<Option<Arc<dyn Operator>>>),
        (egress, splits): (&Addr<Egress>, bool),
        threads: &mut Vec<JoinHandle<()>>,
    ) -> Result<Arc<ActorRefs>, RunError> {
        let (slots, supervisor) = (Context::new(), Context::new());
        let gears = has_cascades(&running.graph).then(Context::new);
        let modules: Vec<Context<ModuleActor>> =
            running.specs.modules.iter().map(|_| Context::new()).collect();
        let actors = Arc::new(ActorRefs {
            modules: modules.iter().map(AsyncContext::address).collect(),
            slots: slots.address(),
            reservations: None,
            egress: egress.clone(),
            supervisor: supervisor.address(),
            gears: gears.as_ref().map(AsyncContext::address),
            overdue: OverdueSlots::default(),
        });
        let mut batch_threads = self.start_batch_threads(running, workers, None, &actors, threads)?;
        let sessions = self.slot_sessions(running, &mut batch_threads);
        supervisor.run(Supervisor::new(SupervisorSetup {
            clock: self.clock,
            recorder: running.recorder.clone(),
            breaker: running.specs.breaker,
            slots: actors.slots.clone(),
        }));
        slots.run(SlotActor::new(
            Slots::new(running.specs.slots.clone()),
            self.clock,
            running.recorder.clone(),
            module_refs(&actors),
            sessions,
        ));
        self.run_modules(
            running,
            (modules, gears),
            operators,
            splits,
            batch_threads,
            &actors,
        );
        Ok(actors)
    }

    fn egress_setup(
        &self,
        sinks: Vec<SinkRoute>,
        decode_levels: SharedDecodeLevels,
        idle: oneshot::Sender<()>,
        ended: oneshot::Sender<RunEnded>,
    ) -> EgressSetup {
        let RunGraph { graph, .. } = &*self.in_force();
        EgressSetup {
            clock: self.clock,
            streams: graph
                .sources()
                .iter()
                .map(|source| (source.name.as_str().into(), source.slo))
                .collect(),
            module_names: self.module_names.borrow().clone(),
            until_stopped: self.options.until_stopped,
            modules: graph.modules().len(),
            sinks,
            analytics: analytics_plan(graph),
            known: self.analytics.clone(),
            pictures: self.options.pictures.clone(),
            decode_levels,
            progress: Arc::clone(&self.options.progress),
            tracer: self.tracer.clone(),
            idle,
            ended,
        }
    }

    fn reservation_setup(&self, partitions: &PartitionSetup, modules: Vec<ModuleRef>) -> ReservationSetup {
        let in_force = self.in_force();
        let active = partitions.active.clone();
        let workers = in_force.graph.workers();
        ReservationSetup {
            clock: self.clock,
            recorder: in_force.recorder.clone(),
            modules,
            client: Arc::clone(&partitions.fleet.client),
            available: partitions.fleet.available.clone(),
            names: workers.iter().map(|worker| worker.name.clone()).collect(),
            emulated: workers.iter().map(|worker| worker.emulated).collect(),
            policy: in_force.graph.policy().clone(),
            active,
            timeline: self.options.progress.shared_timeline(),
            module_names: in_force
                .graph
                .modules()
                .iter()
                .map(|node| node.name.as_str().into())
                .collect(),
        }
    }

    /// Starts the actors of modules; `splits`: some stream enters several of them.
    fn run_modules(
        &self,
        running: &RunGraph,
        (mailboxes, gears): (Vec<Context<ModuleActor>>, Option<Context<GearActor>>),
        operators: Vec<Option<Arc<dyn Operator>>>,
        splits: bool,
        mut threads: BatchThreads,
        actors: &Arc<ActorRefs>,
    ) {
        let RunGraph {
            graph,
            specs,
            recorder,
            report_ids,
            ..
        } = running;
        let splits = specs.topology.has_branches() || splits;
        let mut stages = stages(graph, self.options.sampler.as_ref());
        if let Some(sampler) = &self.options.sampler {
            for (spec, node) in specs.modules.iter().zip(graph.modules()) {
                let duration = |size: &u32| (*size, spec.profile.duration(*size));
                let durations: Vec<(u32, Span)> = spec.batch.iter().map(duration).collect();
                sampler.on_model(&graph.models()[node.model].name, &durations);
            }
        }
        if let Some(mailbox) = gears {
            mailbox.run(GearActor::new(GearSetup {
                clock: self.clock,
                recorder: recorder.clone(),
                gears: graph.gears().cloned(),
                stages: stages
                    .iter()
                    .map(|stage| stage.as_ref().map(Stage::controls))
                    .collect(),
                tally: Arc::clone(&self.gears),
                modules: actors
                    .modules
                    .iter()
                    .map(|module| module.clone().recipient())
                    .collect(),
                slots: specs
                    .modules
                    .iter()
                    .map(|spec| match spec.pool {
                        Pool::Shared => spec.slots.clone(),
                        Pool::Own | Pool::Pipelines => Vec::new(),
                    })
                    .collect(),
                arbiter: actors.slots.clone().recipient(),
            }));
        }
        for ((mailbox, spec), operator) in mailboxes.into_iter().zip(&specs.modules).zip(operators) {
            let node = &graph.modules()[spec.id.index()];
            let setup = ModuleSetup {
                id: spec.id,
                report_id: report_ids[spec.id.index()],
                name: node.name.clone(),
                model: node.model,
                has_model: operator.is_some(),
                gate: node
                    .per_track
                    .as_ref()
                    .map(|rule| TrackGate::new(rule, spec.id.0, running.number, self.analytics.clone())),
                stage: stages.get_mut(spec.id.index()).and_then(Option::take),
                operator: match operator {
                    Some(operator) => operator,
                    None if spec.generate.is_some() => Arc::new(EmulatedDescriber::new(&node.settings)),
                    None => Arc::new(EmulatedOperator),
                },
                successors: specs.topology.successors(spec.id).to_vec(),
                pool: spec.pool,
                jobs: spec
                    .slots
                    .iter()
                    .filter_map(|slot| Some((*slot, threads.jobs.get(slot)?.clone())))
                    .collect(),
                instances: spec
                    .slots
                    .iter()
                    .filter_map(|slot| Some((*slot, threads.instances.remove(slot)?)))
                    .collect(),
                max_sequence_tokens: spec.generate.as_ref().map_or(0, |generate| {
                    let bounds = generate.instances.iter().map(|spec| spec.max_sequence_tokens);
                    bounds.min().unwrap_or(0)
                }),
                lengths: spec
                    .generate
                    .as_ref()
                    .and_then(|generate| LengthPrediction::new(generate.length, &graph.models()[node.model])),
                slo: graph.slo(),
                devices: spec
                    .slots
                    .iter()
                    .copied()
                    .zip(specs.devices[spec.id.index()].iter().cloned())
                    .collect(),
                clock: self.clock,
                recorder: recorder.clone(),
                tracer: self.tracer.clone(),
                prepost: threads.prepost.remove(&spec.id),
                overlaps: spec.overlap.is_some(),
                splits,
                timeline: self.options.progress.shared_timeline(),
                actors: Arc::clone(actors),
            };
            mailbox.run(ModuleActor::new(setup, Module::new(spec.clone())));
        }
    }

    /// Starts the thread of a source, whose decoded frames may take so many bytes.
    ///
    /// # Errors
    /// Where the machine gives no thread.
    pub(super) fn start_source(
        &self,
        (id, node, setup, memory_bytes): (StreamId, &SourceNode, StreamSetup, u64),
        route: &Arc<Route>,
        context: &StreamContext,
    ) -> std::io::Result<LiveStream> {
        let actors = &context.actors;
        let control: Arc<SourceControl> = Arc::default();
        control.set_own_slo(node.slo);
        let target = SharedTarget::new(SourceTarget::new(route, actors));
        let memory = MemoryBudget::new(memory_bytes);
        let admission = StreamAdmission::new(setup.limit, memory, self.clock);
        let clock = self.clock;
        let tap = PacketTap::new(&node.name, move || clock.utc_ms(clock.now()));
        let mut observations = SinkObservations::default();
        observations.set(&tap, route, (&context.views, &context.observers));
        let source = SourceThread {
            stream: id,
            name: node.name.clone(),
            factory: setup.factory,
            repeat: node.repeat,
            sample: node.sample,
            droppable: setup.mode == SourceMode::Live,
            pace: if node.paced { self.options.pace } else { Pace::Max },
            admission: Arc::clone(&admission),
            clock: self.clock,
            stop: control.stop_flag(self.stop),
            run_stop: self.stop.clone(),
            control: Arc::clone(&control),
            decoding: Arc::clone(&context.decoding),
            processor: Arc::clone(&self.processor),
            decode_level: (setup.decoded_as_needed && matches!(self.options.pace, Pace::Times(_)))
                .then(|| context.decode_levels.add(id)),
            rejections: context.rejections.clone(),
            // Cameras that are lost together are tried again one after another.
            backoff: Backoff::new(
                self.options.reconnect,
                self.options.seed.wrapping_add(u64::from(id.0)),
            ),
            next_request: Arc::clone(&context.next_request),
            egress: actors.egress.clone(),
            tracer: self.tracer.clone(),
            progress: Arc::clone(&self.options.progress),
            target: Arc::clone(&target),
            tap: Arc::clone(&tap),
        };
        let thread = std::thread::Builder::new().name(format!("weir-source-{}", node.name));
        Ok(LiveStream {
            id,
            source: mask_credentials(&node.uri).into_owned(),
            detect_source: shown_detect_uri(node),
            slo: node.slo,
            share: node.share,
            mode: node.mode,
            route: Arc::clone(route),
            target,
            like: None,
            control,
            admission,
            tap,
            observations,
            thread: thread.spawn(move || source.run())?,
        })
    }
}
