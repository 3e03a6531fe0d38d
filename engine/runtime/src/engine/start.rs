//! The start of a run, from top to bottom: mailboxes, threads that run batches, actors, threads of sources.

use std::collections::BTreeMap;
use std::convert::identity;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;

use actix::{Actor, Addr, AsyncContext, Context, Recipient};
use tokio::sync::oneshot;
use weir_analytics::transforms::Outline;
use weir_control::Controller;
use weir_flow::{Operator, PacketTap, mask_credentials};
use weir_graph::{GateNode, SinkNode, SourceMode, SourceNode};
use weir_policy::Backoff;
use weir_policy::generate::PrefixFinder;
use weir_types::{ModuleId, SlotId, Span, StreamId};

use super::egress_thread::EgressThread;
use super::live_streams::{LiveStream, LiveStreams};
use super::packet_observers::SinkObservations;
use super::{RunContext, RunGraph, RunParts, StartedRun, StreamContext};
use crate::actors::{
    ActorRefs, BatchDone, ControlMessage, Egress, EgressSetup, GraphActor, InstanceSaid, ModuleSetup,
    Observer, PartitionSiteSetup, PromptJob, PromptMaker, PromptsMade, RunEnded, RunLaunched, SessionChanged,
    SinkRoute, Site, SiteSetup, SlotSessions,
};
use crate::admission::{MemoryBudget, StreamAdmission};
use crate::analytics::{TrackGate, analytics_plan};
use crate::assembly::{Pace, RunError};
use crate::batch::{Job, WorkerHandle};
use crate::cascades::stages;
use crate::decoding::Decoding;
use crate::emulated::EmulatedOperator;
use crate::emulated_generator::EmulatedDescriber;
use crate::fleet::{PartitionSetup, Postprocessor, Preprocessor};
use crate::instance::{InstanceHandle, InstanceJob};
use crate::length_prediction::LengthPrediction;
use crate::prepare::shown_detect_uri;
use crate::routes::{Entrance, Route, Scene, SinkView};
use crate::session_control::SessionControl;
use crate::source::{
    GateTimes, RecordedGates, RejectionLimit, SharedDecodeLevels, SharedMotionGate, SharedTarget,
    SourceControl, SourceTarget, SourceThread,
};
use crate::stream_setup::StreamSetup;
use crate::worker::Worker;

/// Sends to the actor of the graph, in the form that threads call.
fn sender<T: Send + 'static, M>(actors: &ActorRefs, message: fn(T) -> M) -> Box<dyn Fn(T) + Send>
where
    M: actix::Message<Result = ()> + Send + 'static,
    GraphActor: actix::Handler<M>,
{
    let graph = actors.graph.clone();
    Box::new(move |of| graph.do_send(message(of)))
}

/// Channels to the threads that run the batches of modules.
struct BatchThreads {
    jobs: BTreeMap<SlotId, crossbeam_channel::Sender<Job>>,
    /// Channels to the instances of generative models, by slot.
    instances: BTreeMap<SlotId, crossbeam_channel::Sender<InstanceJob>>,
    /// Channels to the threads that make the prompts of generative models, by module.
    prompts: BTreeMap<ModuleId, crossbeam_channel::Sender<PromptJob>>,
    /// Pre- and postprocessors of partitioned models, by module.
    prepost: BTreeMap<ModuleId, (Preprocessor, Postprocessor)>,
    /// Control of sessions, by slot; only for devices whose memory does not hold all their models.
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
            let scene = Scene::new(graph, &graph.sources()[source], None);
            Arc::new(Route::new(
                (in_force.number, graph),
                &entrance,
                &specs.topology,
                scene,
            ))
        };
        let routes: Vec<Arc<Route>> = (0..streams.len()).map(route).collect();
        // Made before its actor: the address is good at once, and messages wait for the actor.
        let mailbox = Context::new();
        let (idle_sender, idle) = oneshot::channel();
        let (ended_sender, ended) = oneshot::channel();
        let view = |(index, node): (usize, &SinkNode)| (node.name.clone(), SinkView::new(graph, index));
        let views = graph.sinks().iter().enumerate().map(view).collect();
        let observers = sinks.iter().map(|sink| sink.handle.packet_observer()).collect();
        let decode_levels = SharedDecodeLevels::default();
        let gates = RecordedGates::default();
        let signals = (idle_sender, ended_sender);
        let setup = self.egress_setup(
            sinks,
            decode_levels.clone(),
            mailbox.address().recipient(),
            signals,
        );
        let egress = EgressThread::start(setup, &self.processor, threads)?;
        let actors = ActorRefs {
            graph: mailbox.address(),
            egress: egress.address.clone(),
        };
        let batch_threads = self.start_batch_threads(&in_force, workers, &actors, threads)?;
        Observer::new(
            (decode_levels.clone(), gates.clone()),
            (Rc::clone(&self.idle), Arc::clone(&self.options.progress)),
            graph.slo(),
            self.clock,
            in_force.recorder.clone(),
        )
        .start();
        self.run_graph(&in_force, mailbox, operators, batch_threads, &actors);

        let began = self.clock.now();
        self.options.progress.shared_timeline().set_clock(self.clock);
        self.options.progress.on_started(streams.len());
        let context = StreamContext {
            actors,
            decoding: Decoding::for_machine(),
            next_request: Arc::default(),
            rejections: RejectionLimit::default(),
            decode_levels,
            gates,
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
            _egress: egress,
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
        actors: &ActorRefs,
        threads: &mut Vec<JoinHandle<()>>,
    ) -> Result<BatchThreads, RunError> {
        let (mut jobs, mut instances) = (BTreeMap::new(), BTreeMap::new());
        let mut sessions = BTreeMap::new();
        for (slot, worker) in (0..).map(SlotId).zip(workers) {
            let worker = match worker.into_instance() {
                Ok(instance) => {
                    let senders = (sender(actors, InstanceSaid), sender(actors, SessionChanged));
                    let InstanceHandle {
                        jobs: sender,
                        thread,
                        sessions: control,
                    } = instance.start(senders, &self.processor)?;
                    sessions.extend(control.map(|control| (slot, control)));
                    instances.insert(slot, sender);
                    threads.push(thread);
                    continue;
                }
                Err(worker) => worker,
            };
            let senders = (
                sender(actors, RunLaunched),
                sender(actors, BatchDone),
                sender(actors, SessionChanged),
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
        let prompts = self.start_prompt_makers(running, actors, threads)?;
        let mut prepost = BTreeMap::new();
        let partitions = self.partitions.borrow();
        let Some(partitions) = &*partitions else {
            return Ok(BatchThreads {
                jobs,
                instances,
                prompts,
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
            let on_done = sender(actors, BatchDone);
            let (post, thread) =
                Postprocessor::start(name, model.pre_post()?, self.clock, on_done, &self.processor)?;
            threads.push(thread);
            prepost.insert(*module, (pre, post));
        }
        Ok(BatchThreads {
            jobs,
            instances,
            prompts,
            prepost,
            sessions,
        })
    }

    /// Starts the threads that make prompts.
    fn start_prompt_makers(
        &self,
        running: &RunGraph,
        actors: &ActorRefs,
        threads: &mut Vec<JoinHandle<()>>,
    ) -> Result<BTreeMap<ModuleId, crossbeam_channel::Sender<PromptJob>>, RunError> {
        let mut prompts = BTreeMap::new();
        for (spec, node) in running.specs.modules.iter().zip(running.graph.modules()) {
            let Some(generate) = &spec.generate else { continue };
            let bounds = generate.instances.iter().map(|spec| spec.max_sequence_tokens);
            let caches_prefixes = generate.instances.iter().any(|spec| spec.prefix_tokens > 0);
            let maker = PromptMaker {
                module: spec.id,
                max_sequence_tokens: bounds.min().unwrap_or(0),
                lengths: LengthPrediction::new(generate, &running.graph.models()[node.model]),
                prefixes: caches_prefixes.then(PrefixFinder::default),
            };
            let on_made = sender(actors, identity::<PromptsMade>);
            let (sender, thread) = maker.start(&node.name, on_made, &self.processor)?;
            threads.push(thread);
            prompts.insert(spec.id, sender);
        }
        Ok(prompts)
    }

    /// The sessions that the arbiter of a graph and its pools open and close.
    fn slot_sessions(&self, running: &RunGraph, threads: &mut BatchThreads) -> SlotSessions {
        let controls = std::mem::take(&mut threads.sessions);
        if !running.specs.slots.memory.is_empty() || !running.specs.queues.is_empty() {
            self.residency.begin();
        }
        let models = running.graph.models().iter();
        SlotSessions {
            controls,
            names: models.map(|model| model.name.clone()).collect(),
            tally: Arc::clone(&self.residency),
        }
    }

    /// Starts the actors of another graph, beside those that run.
    ///
    /// # Errors
    /// [`RunError::Thread`] where the machine gives no thread.
    pub(super) fn start_graph(
        &self,
        running: &RunGraph,
        (workers, operators): (Vec<Worker>, Vec<Option<Arc<dyn Operator>>>),
        egress: &Addr<Egress>,
        threads: &mut Vec<JoinHandle<()>>,
    ) -> Result<ActorRefs, RunError> {
        let mailbox = Context::new();
        let actors = ActorRefs {
            graph: mailbox.address(),
            egress: egress.clone(),
        };
        let batch_threads = self.start_batch_threads(running, workers, &actors, threads)?;
        self.run_graph(running, mailbox, operators, batch_threads, &actors);
        Ok(actors)
    }

    fn egress_setup(
        &self,
        sinks: Vec<SinkRoute>,
        decode_levels: SharedDecodeLevels,
        graph_actor: Recipient<ControlMessage>,
        (idle, ended): (oneshot::Sender<()>, oneshot::Sender<RunEnded>),
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
            graph: graph_actor,
            sinks,
            analytics: analytics_plan(graph),
            known: self.analytics.clone(),
            pictures: self.options.pictures.clone(),
            programs: self.options.programs.clone(),
            decode_levels,
            progress: Arc::clone(&self.options.progress),
            tracer: self.tracer.clone(),
            idle,
            ended,
        }
    }

    /// Connects a graph to the partition workers.
    fn partition_setup(
        &self,
        partitions: &PartitionSetup,
        running: &RunGraph,
        actors: &ActorRefs,
    ) -> PartitionSiteSetup {
        let workers = running.graph.workers();
        let events = actors.graph.clone().recipient();
        PartitionSiteSetup {
            client: Arc::clone(&partitions.fleet.client),
            available: partitions.relay.connect(running.number, events),
            names: workers.iter().map(|worker| worker.name.clone()).collect(),
            emulated: workers.iter().map(|worker| worker.emulated).collect(),
            policy: running.graph.policy().clone(),
            active: partitions.active.clone(),
            timeline: self.options.progress.shared_timeline(),
            replans: partitions.replanner.requests(),
        }
    }

    /// Starts the actor of a graph.
    fn run_graph(
        &self,
        running: &RunGraph,
        mailbox: Context<GraphActor>,
        operators: Vec<Option<Arc<dyn Operator>>>,
        mut threads: BatchThreads,
        actors: &ActorRefs,
    ) {
        let RunGraph {
            graph,
            specs,
            recorder,
            report_ids,
            ..
        } = running;
        let sessions = self.slot_sessions(running, &mut threads);
        let mut stages = stages(graph, self.options.sampler.as_ref());
        if let Some(sampler) = &self.options.sampler {
            for (spec, node) in specs.modules.iter().zip(graph.modules()) {
                let duration = |size: &u32| (*size, spec.profile.duration(*size));
                let durations: Vec<(u32, Span)> = spec.batch.iter().map(duration).collect();
                sampler.on_model(&graph.models()[node.model].name, &durations);
            }
        }
        let mut modules = Vec::new();
        for (spec, operator) in specs.modules.iter().zip(operators) {
            let node = &graph.modules()[spec.id.index()];
            modules.push(ModuleSetup {
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
                reads_tiles: node.tiling().is_some(),
                is_scaled: graph.models()[node.model].scaling.is_some(),
                operator: match operator {
                    Some(operator) => operator,
                    None if spec.generate.is_some() => Arc::new(EmulatedDescriber::new(&node.settings)),
                    None => Arc::new(EmulatedOperator::new(&node.settings)),
                },
                successors: specs.topology.successors(spec.id).to_vec(),
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
                prompts: threads.prompts.remove(&spec.id),
                lengths: spec
                    .generate
                    .as_ref()
                    .and_then(|generate| LengthPrediction::new(generate, &graph.models()[node.model])),
                slo: graph.slo(),
                devices: spec
                    .slots
                    .iter()
                    .copied()
                    .zip(specs.devices[spec.id.index()].iter().cloned())
                    .collect(),
                tracer: self.tracer.clone(),
                prepost: threads.prepost.remove(&spec.id),
                overlaps: spec.overlap.is_some(),
                timeline: self.options.progress.shared_timeline(),
            });
        }
        let partitions = self.partitions.borrow();
        let partitions = partitions.as_ref();
        let site = Site::new(SiteSetup {
            graph: running.number,
            modules,
            sessions,
            clock: self.clock,
            egress: actors.egress.clone(),
            partitions: partitions.map(|partitions| self.partition_setup(partitions, running, actors)),
            cooldown: specs.breaker.cooldown,
            is_recorded: recorder.is_some(),
        });
        let controller = Controller::new(running.control.clone());
        let actor = GraphActor::new(controller, site, self.clock, recorder.clone());
        mailbox.run(actor);
    }

    /// The gate of a source that has one.
    fn gate_of(
        &self,
        (id, node): (StreamId, &SourceNode),
        target: &Arc<SharedTarget>,
        context: &StreamContext,
    ) -> Option<SharedMotionGate> {
        let gate = node.gate.as_ref()?;
        let (ignored, hold_ms) = match gate {
            GateNode::Motion { ignore } => (&ignore[..], None),
            GateNode::Camera { hold } => (&[][..], Some(hold.as_millis_f64())),
        };
        let corners = |outline: &Outline| {
            let points = outline.points.iter();
            points.map(|point| (point.x as f32, point.y as f32)).collect()
        };
        let clock = self.clock;
        let times = node.gate_schedule.clone().map(|schedule| {
            // Requests hold the gate, and must not keep their graph by it.
            let target = Arc::downgrade(target);
            GateTimes::new(move || {
                let now_ms = clock.utc_ms(clock.now());
                target
                    .upgrade()
                    .is_some_and(|target| target.contains(&schedule, now_ms))
            })
        });
        let gate = SharedMotionGate::new(ignored.iter().map(corners).collect(), hold_ms, times);
        if self.options.record.is_some() {
            context.gates.add(id, &gate);
        }
        Some(gate)
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
        let withheld = route.scene.withheld();
        let tap = PacketTap::withholding(withheld, &node.name, move || clock.utc_ms(clock.now()));
        let mut observations = SinkObservations::default();
        observations.set(&tap, (route, &node.name), (&context.views, &context.observers));
        let source = SourceThread {
            stream: id,
            name: node.name.clone(),
            factory: setup.factory,
            repeat: node.repeat,
            sample: node.sample,
            droppable: setup.mode == SourceMode::Live,
            joined_at: node.joined_at,
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
            active: node.active.clone().map(Arc::new),
            gate: self.gate_of((id, node), &target, context),
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
            groups: node.groups.clone(),
            mode: node.mode,
            route: Arc::clone(route),
            target,
            like: None,
            entered: None,
            control,
            admission,
            tap,
            observations,
            thread: thread.spawn(move || source.run())?,
        })
    }
}
