//! Preparation of a graph before it runs or replaces another one: models are opened and measured first, then
//! sinks are opened.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use weir_flow::{
    Model, Operator, RunHeader, Settings, Sink, SinkError, SinkFactory, StopFlag, StreamHeader,
    mask_credentials,
};
use weir_graph::{Graph, SinkNode, SourceNode};
use weir_policy::ConcurrencyLimitSpec;
use weir_types::SlotId;

use crate::assembly::{Assembly, Partitioning, RunError, RunOptions};
use crate::bounded_wait::{BoundedOutcome, WaitLimits, run_bounded};
use crate::cascades;
use crate::clock::Clock;
use crate::ends::{EndModels, end_models};
use crate::fleet::{ActivePlan, PreparedPlan};
use crate::policy_specs::PolicySpecs;
use crate::processor_time::ProcessorTimes;
use crate::profiles::profiles;
use crate::routes::SinkView;
use crate::sink::{QueueLimits, SinkHandle};
use crate::slot_layout::SlotLayout;
use crate::stream_setup::InFlightLimits;
use crate::worker::Worker;

/// The workers of a graph, which its models are measured on next.
pub(crate) struct OpenedGraph {
    models: Arc<EndModels>,
    slots: Arc<SlotLayout>,
    workers: Vec<Worker>,
}

/// A prepared graph without its operators and sinks.
pub(crate) struct ReadyGraph {
    pub(crate) specs: PolicySpecs,
    pub(crate) limits: InFlightLimits,
    pub(crate) workers: Vec<Worker>,
}

/// The graph in force, beside which another one is made ready.
pub(crate) struct GraphInForce {
    pub(crate) graph: Arc<Graph>,
    /// The plan of its partitioned models; `None` where it has none, or another plan is being loaded.
    pub(crate) plan: Option<ActivePlan>,
    /// Counts the processor time of its threads.
    pub(crate) processor: Arc<ProcessorTimes>,
}

/// Another graph that is ready to run beside the one in force.
pub(crate) struct PreparedGraph {
    pub(crate) graph: Arc<Graph>,
    pub(crate) specs: PolicySpecs,
    pub(crate) limits: InFlightLimits,
    pub(crate) workers: Vec<Worker>,
    /// By module; `None` where the model is emulated.
    pub(crate) operators: Vec<Option<Arc<dyn Operator>>>,
    /// By sink; `None` where the one that runs goes on.
    pub(crate) sinks: Vec<Option<SinkHandle>>,
    /// Sinks that go on with other settings, by name.
    pub(crate) sink_settings: Vec<(String, Settings)>,
    /// The plan of its partitioned models; `None` where it has none.
    pub(crate) plan: Option<PreparedPlan>,
}

/// Makes another graph ready to take the place of `before`: opens and measures its models, then opens sinks that `before` has
/// not. Its sources are not looked at.
///
/// # Errors
/// [`RunError`], and nothing is left of it.
pub(crate) fn prepare_swap(
    assembly: Assembly,
    before: &GraphInForce,
    clock: Clock,
    options: &RunOptions,
    stop: &StopFlag,
) -> Result<PreparedGraph, RunError> {
    let graph = Arc::new(assembly.graph);
    let factories = graph.sinks().iter().zip(&assembly.sinks);
    let goes_on = factories.map(|(node, factory)| goes_on(node, before.graph.sinks(), factory.live_keys()));
    let goes_on: Vec<bool> = goes_on.collect::<Result<_, _>>()?;
    let plan = prepare_plan(assembly.partitioning, before, &graph)?;
    let start_up = StartUp { clock, options, stop };
    let opened = start_up.open(&graph, &assembly.models)?;
    let ready = start_up.measure(&graph, opened, plan.as_ref().map(|plan| &plan.active))?;
    let header = run_header(&graph, clock);
    let mut sinks = Vec::new();
    let mut sink_settings = Vec::new();
    let factories = graph.sinks().iter().zip(assembly.sinks).zip(goes_on);
    for (index, ((node, factory), goes_on)) in factories.enumerate() {
        if goes_on {
            sinks.push(None);
            let known = before.graph.sinks().iter().find(|known| known.name == node.name);
            if known.is_some_and(|known| known.settings != node.settings) {
                sink_settings.push((node.name.clone(), node.settings.clone()));
            }
            continue;
        }
        let sink = start_up.open_sink(&node.name, factory)?;
        let limits = QueueLimits {
            max_in_flight: None,
            max_waiting: options.max_sink_waiting,
        };
        let header = sink_header(&header, &SinkView::new(&graph, index));
        sinks.push(Some(SinkHandle::start(
            &node.name,
            sink,
            node.when_slow,
            limits,
            header,
            (stop, &before.processor),
        )?));
    }
    let ReadyGraph {
        specs,
        limits,
        workers,
    } = ready;
    Ok(PreparedGraph {
        graph,
        specs,
        limits,
        workers,
        operators: assembly.operators,
        sinks,
        sink_settings,
        plan,
    })
}

/// Gives the plan in force as `graph` uses it; `None` where no model is partitioned.
fn prepare_plan(
    partitioning: Option<Partitioning>,
    before: &GraphInForce,
    graph: &Graph,
) -> Result<Option<PreparedPlan>, RunError> {
    let refused = |reason: &str| Err(RunError::Workers(reason.to_owned()));
    match (partitioning, before.graph.plan(), &before.plan) {
        (None, None, _) => Ok(None),
        (Some(partitioning), Some(_), Some(in_force)) => {
            PreparedPlan::new(in_force, (&before.graph, graph), partitioning).map(Some)
        }
        (Some(_), Some(_), None) => {
            refused("workers are loading another plan: apply the graph again once that plan is in force")
        }
        _ => refused(
            "the first model with a `plan` cannot be added to a graph that runs, nor the last one removed: start it again",
        ),
    }
}

/// Whether a sink is one that is open, and not to be opened beside it. It may differ in `live` keys, which the open one takes over.
///
/// # Errors
/// A sink that can neither go on nor be opened: its name or its file is that of one with other settings. One that writes another
/// file than before is opened beside it.
fn goes_on(node: &SinkNode, open: &[SinkNode], live: &[&str]) -> Result<bool, RunError> {
    let known = open.iter().find(|known| known.name == node.name);
    let settings = |node: &SinkNode| {
        let mut settings = node.settings.clone();
        settings.0.retain(|key, _| !live.contains(&key.as_str()));
        (node.kind.clone(), node.when_slow, settings)
    };
    if known.is_some_and(|known| settings(known) == settings(node)) {
        return Ok(true);
    }
    let file = |node: &SinkNode| {
        let path = node.settings.text("path").filter(|path| *path != "-");
        path.map(str::to_owned)
    };
    let own = file(node);
    let is_open = own.is_some() && open.iter().any(|known| file(known) == own);
    if is_open || (known.is_some() && own.is_none()) {
        return Err(RunError::Sink(SinkError {
            target: format!("sink {}", node.name),
            reason: "its name or its file is that of a sink with other settings, which is open: give it another path"
                .to_owned(),
        }));
    }
    Ok(false)
}

/// Bounded waits for work that may hang while a run begins.
pub(crate) struct StartUp<'a> {
    pub(crate) clock: Clock,
    pub(crate) options: &'a RunOptions,
    pub(crate) stop: &'a StopFlag,
}

impl StartUp<'_> {
    /// Opens the workers of a graph.
    pub(crate) fn open(
        &self,
        graph: &Arc<Graph>,
        given: &[Option<Arc<dyn Model>>],
    ) -> Result<OpenedGraph, RunError> {
        let (clock, options) = (self.clock, self.options);
        cascades::check(graph, given)?;
        let models = Arc::new(end_models(graph, given, clock)?);
        let slots = Arc::new(SlotLayout::new(graph));
        let workers = {
            let (graph, models, slots) = (Arc::clone(graph), Arc::clone(&models), Arc::clone(&slots));
            let progress = Arc::clone(&options.progress);
            self.run_bounded("weir-open", move || {
                slots.open_workers(&graph, &models, clock, &progress)
            })??
        };
        Ok(OpenedGraph {
            models,
            slots,
            workers,
        })
    }

    /// Measures the models of a graph. `active`: the plan of its partitioned models.
    pub(crate) fn measure(
        &self,
        graph: &Arc<Graph>,
        opened: OpenedGraph,
        active: Option<&ActivePlan>,
    ) -> Result<ReadyGraph, RunError> {
        let OpenedGraph {
            models,
            slots,
            workers,
        } = opened;
        let options = self.options;
        let (workers, profiles) = {
            let (graph, models, slots) = (Arc::clone(graph), Arc::clone(&models), Arc::clone(&slots));
            let (active, stop) = (active.cloned(), self.stop.clone());
            let progress = Arc::clone(&options.progress);
            self.run_bounded("weir-measure", move || {
                let mut workers = workers;
                let active = active.as_ref();
                let profiles = profiles(&graph, &models, &slots, &mut workers, active, (&progress, &stop))?;
                let roomy = &profiles.memory.roomy;
                let opened =
                    (0..)
                        .map(SlotId)
                        .zip(workers)
                        .map(|(slot, worker)| match roomy.contains(&slot) {
                            true => worker.into_open(),
                            false => Ok(worker),
                        });
                Ok::<_, RunError>((opened.collect::<Result<Vec<_>, _>>()?, profiles))
            })??
        };
        let specs = PolicySpecs::new(graph, &slots, &profiles, active, options)?;
        let limits = InFlightLimits {
            slo: graph.slo(),
            fixed: options.max_in_flight,
            lossless: ConcurrencyLimitSpec::initial_lossless(specs.modules.iter(), specs.slots.slots),
        };
        Ok(ReadyGraph {
            specs,
            limits,
            workers,
        })
    }

    /// Runs `work` on a thread of its own, which is left behind where the run is asked to stop and it does not end.
    fn run_bounded<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, RunError> {
        let limits = WaitLimits {
            after_stop: self.options.grace,
            total: None,
        };
        match run_bounded(name, self.clock, self.stop, limits, work)? {
            BoundedOutcome::Done(result) => Ok(result),
            BoundedOutcome::Stopped | BoundedOutcome::TimedOut => Err(RunError::Stopped),
        }
    }

    /// Opens a sink, within the time that sinks have for it.
    pub(crate) fn open_sink(
        &self,
        name: &str,
        factory: Box<dyn SinkFactory>,
    ) -> Result<Box<dyn Sink>, RunError> {
        let limits = WaitLimits {
            after_stop: Duration::ZERO,
            total: Some(self.options.sink_open_timeout),
        };
        let thread = format!("weir-sink-{name}");
        match run_bounded(&thread, self.clock, self.stop, limits, move || factory.open())? {
            BoundedOutcome::Done(opened) => Ok(opened?),
            BoundedOutcome::Stopped => Err(RunError::Stopped),
            BoundedOutcome::TimedOut => Err(RunError::Sink(SinkError {
                target: format!("sink {name}"),
                reason: format!(
                    "it did not open within {:.0} s: a FIFO needs a reader, a network file system its server",
                    self.options.sink_open_timeout.as_secs_f64()
                ),
            })),
        }
    }
}

/// The header for a sink: of the run, with the streams that it shows.
pub(crate) fn sink_header(header: &RunHeader, view: &SinkView) -> RunHeader {
    let streams = (0..).zip(&header.streams);
    let shown = streams.filter(|(stream, _)| view.streams.contains(stream));
    RunHeader {
        streams: shown.map(|(_, stream)| stream.clone()).collect(),
        ..header.clone()
    }
}

/// Address of the smaller stream that frames are read from, without credentials; `None` if the source has one
/// address.
pub(crate) fn shown_detect_uri(source: &SourceNode) -> Option<String> {
    let uri = source.detect_uri.as_deref()?;
    Some(mask_credentials(uri).into_owned())
}

/// The header of the run, with all its streams.
pub(crate) fn run_header(graph: &Graph, clock: Clock) -> RunHeader {
    let time_ms = clock.utc_ms(clock.now());
    // Seeded by the system: runs of one millisecond on many machines differ.
    let random = std::hash::RandomState::new().build_hasher().finish();
    let stream = |source: &SourceNode| StreamHeader {
        name: source.name.clone(),
        source: mask_credentials(&source.uri).into_owned(),
        detect_source: shown_detect_uri(source),
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
