//! A run's beginning: opens workers, measures models, plans who is where, looks for sources, and only then opens sinks;
//! then the engine drives.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use weir_flow::{
    Model, RunHeader, Sink, SinkError, SinkFactory, SourceFactory, StopFlag, StreamHeader, mask_credentials,
};
use weir_graph::{Graph, SourceMode};
use weir_policy::{
    BatchBinding, ConcurrencyLimitSpec, Mailboxes, ModuleInfo, ModuleSpec, Overflow, Pool, Report, SlotsSpec,
};
use weir_types::{ModuleId, Profile, SlotId, Span, Topology};

use crate::actors::SinkLine;
use crate::assembly::{Assembly, RunError, RunOptions, Spread};
use crate::attend::{Attended, Limits, attend};
use crate::clock::Clock;
use crate::emulated::EmulatedSource;
use crate::engine::Engine;
use crate::fleet::{Fleet, Lanes, Planned, Post};
use crate::layout::{self, Shown, SlotLayout};
use crate::progress::Progress;
use crate::record::Recorder;
use crate::sink;
use crate::worker::Worker;

/// Requests of one live stream that may be under way: a fast camera for seconds; what bounds memory is
/// the bytes of all frames together.
const UNDER_WAY_LIVE: u32 = 256;

/// Requests of one lossless stream that may be under way, at least: results wait for their turn and for the sinks.
const UNDER_WAY_LOSSLESS_LEAST: u32 = 4;

/// Runs a graph until its sources end, `stop` is raised or the time is up; then lets what is under way come out.
///
/// Blocks; control lives on the calling thread.
///
/// # Errors
/// [`RunError`] where the run cannot begin. What goes wrong later is in the report.
pub fn run(assembly: Assembly, options: &RunOptions, stop: &StopFlag) -> Result<Report, RunError> {
    let Assembly {
        graph,
        sources,
        models,
        operators,
        sinks,
        spread,
    } = assembly;
    let clock = Clock::start();
    let graph = Arc::new(graph);
    let models = Arc::new(layout::models(&graph, &models));
    let slots = Arc::new(SlotLayout::of(&graph));
    let start_up = StartUp { clock, options, stop };
    let workers = {
        let (graph, models, slots) = (Arc::clone(&graph), Arc::clone(&models), Arc::clone(&slots));
        let progress = Arc::clone(&options.progress);
        start_up.attend("weir-open", move || {
            slots.workers(&graph, &models, clock, &progress)
        })??
    };
    let mut line = spread
        .map(|spread| FleetLine::begin(&graph, spread, clock, stop))
        .transpose()?;
    let planned = line.as_ref().map(|line| &line.planned);
    let (workers, profiles) = {
        let (graph, models, slots) = (Arc::clone(&graph), Arc::clone(&models), Arc::clone(&slots));
        let (planned, stop) = (planned.cloned(), stop.clone());
        let progress = Arc::clone(&options.progress);
        start_up.attend("weir-measure", move || {
            let mut workers = workers;
            let planned = planned.as_ref();
            let profiles = profiles(&graph, &models, &slots, &mut workers, planned, (&progress, &stop));
            profiles.map(|profiles| (workers, profiles))
        })??
    };
    let plan = Plan::new(&graph, &slots, &profiles, planned, options)?;

    let streams = stream_lines(&graph, sources, plan.fill(), options)?;
    let most: usize = streams.iter().map(|stream| stream.gate.max as usize).sum();
    prove(&streams, stop)?;

    // Only now that all is there to run: whatever is opened changes nothing yet, and from the headers on is completed.
    let mut opened = Vec::new();
    for (node, factory) in graph.sinks().iter().zip(sinks) {
        opened.push(start_up.sink(&node.name, factory)?);
    }
    let recorder = match &options.record {
        None => None,
        Some(path) => {
            let recorder = Recorder::create(path, &plan.modules, &plan.slots);
            Some(recorder.map_err(|reason| RunError::Record {
                path: path.clone(),
                reason,
            })?)
        }
    };
    let header = header(&graph, clock);
    let mut lines = Vec::new();
    for (index, (node, sink)) in graph.sinks().iter().zip(opened).enumerate() {
        let shown = Shown::of(&graph, index);
        let of_sink = RunHeader {
            streams: (0..)
                .zip(&header.streams)
                .filter(|(stream, _)| shown.streams.contains(stream))
                .map(|(_, stream)| stream.clone())
                .collect(),
            ..header.clone()
        };
        let room = sink::Room {
            under_way_most: most,
            waiting_most: options.sink_waiting_most,
        };
        let line = sink::SinkLine::start(&node.name, sink, node.when_slow, room, of_sink, stop)?;
        lines.push(SinkLine { line, shown });
    }

    let engine = Engine {
        graph: &graph,
        plan,
        clock,
        recorder,
        options,
        stop,
    };
    let driven = engine.drive(workers, operators, streams, lines, line.as_mut())?;
    Ok(engine.report(driven))
}

/// What may not come back while a run begins, waited for within bounds.
struct StartUp<'a> {
    clock: Clock,
    options: &'a RunOptions,
    stop: &'a StopFlag,
}

impl StartUp<'_> {
    /// Carries out `work` on a thread of its own; it is left behind where the run is asked to stop and it does not end.
    fn attend<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, RunError> {
        let limits = Limits {
            stopping: self.options.grace,
            total: None,
        };
        match attend(name, self.clock, self.stop, limits, work)? {
            Attended::Done(result) => Ok(result),
            Attended::Stopped | Attended::TimedOut => Err(RunError::Stopped),
        }
    }

    /// Opens a sink.
    fn sink(&self, name: &str, factory: Box<dyn SinkFactory>) -> Result<Box<dyn Sink>, RunError> {
        let limits = Limits {
            stopping: Duration::ZERO,
            total: Some(self.options.sink_opening),
        };
        let thread = format!("weir-sink-{name}");
        match attend(&thread, self.clock, self.stop, limits, move || factory.open())? {
            Attended::Done(opened) => Ok(opened?),
            Attended::Stopped => Err(RunError::Stopped),
            Attended::TimedOut => Err(RunError::Sink(SinkError {
                target: format!("sink {name}"),
                reason: format!(
                    "it did not open within {:.0} s: a FIFO needs somebody who reads it, a network file system its server",
                    self.options.sink_opening.as_secs_f64()
                ),
            })),
        }
    }
}

/// What the run is, with all its streams.
fn header(graph: &Graph, clock: Clock) -> RunHeader {
    let time_ms = clock.utc_ms(clock.now());
    // Seeded by the system: runs of one millisecond on many machines differ.
    let random = std::hash::RandomState::new().build_hasher().finish();
    let stream = |source: &weir_graph::SourceNode| StreamHeader {
        name: source.name.clone(),
        source: mask_credentials(&source.uri).into_owned(),
    };
    RunHeader {
        id: format!("{time_ms:x}-{random:016x}"),
        graph: graph.name().to_owned(),
        program: "weir".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        time_ms,
        streams: graph.sources().iter().map(stream).collect(),
    }
}

/// Looks whether there is anything to run on: where no source can be opened, nothing else is touched. One that cannot
/// be does not keep others from being run.
fn prove(streams: &[StreamLine], stop: &StopFlag) -> Result<(), RunError> {
    let mut first = None;
    for stream in streams {
        match stream.factory.check(stop) {
            Ok(()) => return Ok(()),
            // Somebody who is told to stop while opening says so as an error.
            Err(_) if stop.is_raised() => return Ok(()),
            Err(error) => first = first.or(Some(error)),
        }
    }
    first.map_or(Ok(()), |error| Err(error.into()))
}

/// Numbers of slots that are kept apart for the lanes of one module.
const LANES_MOST: u32 = 4_096;

/// Partition workers, the plan by which they are used, and the plans that may come.
pub(crate) struct FleetLine {
    pub(crate) planned: Planned,
    pub(crate) fleet: Fleet,
    pub(crate) post: Post,
    pub(crate) next: Option<Box<dyn FnMut() -> Option<weir_planner::Plan>>>,
}

impl FleetLine {
    fn begin(graph: &Graph, spread: Spread, clock: Clock, stop: &StopFlag) -> Result<Self, RunError> {
        let Spread {
            plan,
            divided,
            loader,
            next,
        } = spread;
        let mut modules: Vec<(ModuleId, String)> = Vec::new();
        let mut models = BTreeMap::new();
        for (id, node) in (0..).map(ModuleId).zip(graph.modules()) {
            let Some(model) = divided.get(node.model).and_then(Option::as_ref) else {
                continue;
            };
            let name = graph.models()[node.model].name.clone();
            if let Some((other, _)) = modules.iter().find(|(_, used)| *used == name) {
                let other = &graph.modules()[other.index()].name;
                return Err(RunError::Workers(format!(
                    "modules \"{other}\" and \"{}\" both use the model \"{name}\", which a plan gives to one; declare it twice",
                    node.name
                )));
            }
            modules.push((id, name));
            models.insert(id, Arc::clone(model));
        }
        let planned = Planned::new(graph, plan, modules, models, (1, 0)).map_err(RunError::Workers)?;
        let post = Post::default();
        let fleet = Fleet::start(graph, &planned, loader.as_ref(), clock, &post, stop)?;
        Ok(Self {
            planned,
            fleet,
            post,
            next,
        })
    }
}

/// What the state machines are made from.
pub(crate) struct Plan {
    pub(crate) topology: Topology,
    pub(crate) modules: Vec<ModuleSpec>,
    pub(crate) slots: SlotsSpec,
}

impl Plan {
    fn new(
        graph: &Graph,
        slots: &SlotLayout,
        profiles: &[(Vec<u32>, Profile)],
        planned: Option<&Planned>,
        options: &RunOptions,
    ) -> Result<Self, RunError> {
        let topology = layout::topology(graph);
        let durations: Vec<Span> = graph
            .modules()
            .iter()
            .map(|module| profiles[module.model].1.duration(1))
            .collect();
        let bare = weir_graph::bare_execution(graph, &durations);
        let live = graph
            .sources()
            .iter()
            .any(|source| source.mode == SourceMode::Live);
        if bare > graph.slo() && live {
            return Err(RunError::SloTooShort {
                bare,
                slo: graph.slo(),
            });
        }
        let lanes: Vec<Option<Lanes>> = (0..graph.modules().len() as u32)
            .map(|id| planned.and_then(|planned| planned.lanes(ModuleId(id))))
            .collect();
        let peer = |(module, lanes): (&weir_graph::ModuleNode, &Option<Lanes>)| {
            let (batch, profile) = profiles[module.model].clone();
            let slots = slots.of_model(module.model).len() as u32;
            ModuleInfo {
                profile,
                batch,
                workers: lanes.as_ref().map_or(slots, |lanes| lanes.count),
            }
        };
        let peers: Vec<ModuleInfo> = graph.modules().iter().zip(&lanes).map(peer).collect();
        let spec = |(id, module): (u32, &weir_graph::ModuleNode)| {
            let (batch, profile) = profiles[module.model].clone();
            ModuleSpec {
                id: ModuleId(id),
                slo: graph.slo(),
                policy: graph.policy().clone(),
                slots: match &lanes[id as usize] {
                    Some(lanes) => {
                        let first = slots.slots() + id * LANES_MOST;
                        (first..first + lanes.count).map(SlotId).collect()
                    }
                    None => slots.of_model(module.model).to_vec(),
                },
                pool: match graph.policy().mailbox {
                    _ if lanes[id as usize].is_some() => Pool::Pipelines,
                    // The graph's check has seen to it that slots are not shared then.
                    Mailboxes::Worker => Pool::Own,
                    Mailboxes::Pool => Pool::Shared,
                },
                batch,
                profile,
                topology: topology.clone(),
                peers: peers.clone(),
                seed: options.seed,
            }
        };
        let modules = (0..).zip(graph.modules()).map(spec).collect();
        let slots = SlotsSpec {
            slots: slots.slots(),
            placements: slots.placements(graph),
            arbitration: graph.policy().arbitration,
            topology: topology.clone(),
            forecasts: graph.policy().forming == BatchBinding::Early,
        };
        Ok(Self {
            topology,
            modules,
            slots,
        })
    }

    /// Requests that keep every slot busy with some to spare, at the batch sizes that frames will be run in: what lossless
    /// streams may have under way together in the beginning. More would only wait, and count as late.
    fn fill(&self) -> u32 {
        let firsts = |module: ModuleId| {
            !self
                .modules
                .iter()
                .any(|spec| self.topology.leads_to(spec.id, module))
        };
        let batch = |spec: &ModuleSpec| {
            if firsts(spec.id) {
                spec.profile.batch_size(&spec.batch, spec.slo / 2)
            } else {
                1
            }
        };
        let batch = self.modules.iter().map(batch).max().unwrap_or(1);
        let lanes = self.modules.iter().filter(|spec| spec.pool == Pool::Pipelines);
        let lanes: u32 = lanes.map(|spec| spec.slots.len() as u32).sum();
        4 * (self.slots.slots + lanes).max(1) * batch + 4
    }
}

/// Batch sizes and durations of every model.
fn profiles(
    graph: &Graph,
    models: &[Arc<dyn Model>],
    slots: &SlotLayout,
    workers: &mut [Worker],
    planned: Option<&Planned>,
    (progress, stop): (&Progress, &StopFlag),
) -> Result<Vec<(Vec<u32>, Profile)>, RunError> {
    let mut profiles = Vec::new();
    for (index, node) in graph.models().iter().enumerate() {
        if stop.is_raised() {
            return Err(RunError::Stopped);
        }
        let module = (0..)
            .zip(graph.modules())
            .find(|(_, module)| module.model == index);
        let lanes = module.and_then(|(id, _)| planned?.lanes(ModuleId(id)));
        if let Some(lanes) = lanes {
            profiles.push((vec![lanes.batch], lanes.profile));
            continue;
        }
        progress.prepares("measuring models", index + 1, models.len(), &node.name);
        let first = slots.of_model(index).first().copied().unwrap_or(SlotId(0));
        profiles.push(layout::profile(
            node,
            index,
            &models[index],
            &mut workers[first.index()],
            stop,
        )?);
    }
    Ok(profiles)
}

/// A stream before its thread starts.
pub(crate) struct StreamLine {
    pub(crate) factory: Box<dyn SourceFactory>,
    pub(crate) mode: SourceMode,
    pub(crate) gate: ConcurrencyLimitSpec,
}

fn stream_lines(
    graph: &Graph,
    sources: Vec<Option<Box<dyn SourceFactory>>>,
    fill: u32,
    options: &RunOptions,
) -> Result<Vec<StreamLine>, RunError> {
    let lossless = fill
        .div_ceil(graph.sources().len().max(1) as u32)
        .max(UNDER_WAY_LOSSLESS_LEAST);
    let mut lines = Vec::new();
    for ((index, node), given) in (0..).zip(graph.sources()).zip(sources) {
        let factory = match given {
            Some(factory) => factory,
            None => Box::new(EmulatedSource::parse(&node.uri, index)?),
        };
        let (overflow, begin, most) = match node.mode {
            SourceMode::Live => (Overflow::Drop, UNDER_WAY_LIVE, UNDER_WAY_LIVE),
            SourceMode::Lossless => (Overflow::Backpressure, lossless, 4 * lossless),
        };
        let (begin, most) = options.under_way.map_or((begin, most), |fixed| (fixed, fixed));
        let gate = ConcurrencyLimitSpec {
            overflow,
            initial: begin,
            max: most,
            slo: graph.slo(),
        };
        lines.push(StreamLine {
            factory,
            mode: node.mode,
            gate,
        });
    }
    Ok(lines)
}
