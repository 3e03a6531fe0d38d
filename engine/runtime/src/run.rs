//! A run from beginning to end: opens workers, measures models, places them, looks for sources, and only then opens sinks;
//! then the engine drives the run.

use std::cell::RefCell;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use weir_flow::{RunHeader, Sink, SinkError, SinkFactory, StopFlag, StreamHeader, mask_credentials};
use weir_graph::Graph;
use weir_policy::Report;

use crate::actors::SinkRoute;
use crate::assembly::{Assembly, RunError, RunOptions};
use crate::bounded_wait::{BoundedOutcome, WaitLimits, run_bounded};
use crate::clock::Clock;
use crate::command::Service;
use crate::engine::{RunContext, RunParts};
use crate::fleet::PartitionSetup;
use crate::policy_specs::PolicySpecs;
use crate::processor_time::ProcessorTimes;
use crate::profiles::{models, profiles};
use crate::record::Recorder;
use crate::routes::SinkView;
use crate::sink::{QueueLimits, SinkHandle};
use crate::slot_layout::SlotLayout;
use crate::stream_setup::{InFlightLimits, StreamSetup, check_sources};
use crate::violations::RunViolations;

/// Runs a graph until its sources end, `stop` is raised or the time is up; then waits for what is in flight.
///
/// Blocks; control lives on the calling thread.
///
/// # Errors
/// [`RunError`] where the run cannot begin. What goes wrong later is in the report.
pub fn run(assembly: Assembly, options: &RunOptions, stop: &StopFlag) -> Result<Report, RunError> {
    run_and_serve(assembly, options, stop, None)
}

/// As [`run`], and carries out the commands of `service` meanwhile.
pub(crate) fn run_and_serve(
    assembly: Assembly,
    options: &RunOptions,
    stop: &StopFlag,
    service: Option<Service>,
) -> Result<Report, RunError> {
    let Assembly {
        graph,
        sources,
        models: given,
        operators,
        sinks,
        partitioning,
    } = assembly;
    let violations = RunViolations::start();
    let clock = Clock::start();
    let graph = Arc::new(graph);
    let models = Arc::new(models(&graph, &given));
    let slots = Arc::new(SlotLayout::new(&graph));
    let start_up = StartUp { clock, options, stop };
    let workers = {
        let (graph, models, slots) = (Arc::clone(&graph), Arc::clone(&models), Arc::clone(&slots));
        let progress = Arc::clone(&options.progress);
        start_up.run_bounded("weir-open", move || {
            slots.open_workers(&graph, &models, clock, &progress)
        })??
    };
    let mut partitions = partitioning
        .map(|partitioning| PartitionSetup::start(&graph, partitioning, clock, stop))
        .transpose()?;
    let active = partitions.as_ref().map(|partitions| &partitions.active);
    let (workers, profiles) = {
        let (graph, models, slots) = (Arc::clone(&graph), Arc::clone(&models), Arc::clone(&slots));
        let (active, stop) = (active.cloned(), stop.clone());
        let progress = Arc::clone(&options.progress);
        start_up.run_bounded("weir-measure", move || {
            let mut workers = workers;
            let active = active.as_ref();
            let profiles = profiles(&graph, &models, &slots, &mut workers, active, (&progress, &stop));
            profiles.map(|profiles| (workers, profiles))
        })??
    };
    let specs = PolicySpecs::new(&graph, &slots, &profiles, active, options)?;

    let limits = InFlightLimits {
        slo: graph.slo(),
        fixed: options.max_in_flight,
        lossless: specs.initial_lossless_limit(),
    };
    let count = graph.sources().len();
    let setups = (0..).zip(graph.sources()).zip(sources);
    let setups = setups.map(|((index, node), given)| StreamSetup::new(node, given, (index, count), limits));
    let streams = setups.collect::<Result<Vec<StreamSetup>, _>>()?;
    let max_in_flight: usize = streams.iter().map(|stream| stream.limit.max as usize).sum();
    if !options.until_stopped {
        check_sources(&streams, stop)?;
    }

    // Only now that all is ready: opening a sink changes nothing yet, and from its header on a sink is completed.
    let mut opened = Vec::new();
    for (node, factory) in graph.sinks().iter().zip(sinks) {
        opened.push(start_up.open_sink(&node.name, factory)?);
    }
    let recorder = match &options.record {
        None => None,
        Some(path) => {
            let recorder = Recorder::create(path, &specs.modules, &specs.slots, specs.breaker);
            Some(recorder.map_err(|reason| RunError::Record {
                path: path.clone(),
                reason,
            })?)
        }
    };
    let processor = ProcessorTimes::start();
    let header = run_header(&graph, clock);
    let mut routes = Vec::new();
    for (index, (node, sink)) in graph.sinks().iter().zip(opened).enumerate() {
        let view = SinkView::new(&graph, index);
        let sink_header = RunHeader {
            streams: (0..)
                .zip(&header.streams)
                .filter(|(stream, _)| view.streams.contains(stream))
                .map(|(_, stream)| stream.clone())
                .collect(),
            ..header.clone()
        };
        let limits = QueueLimits {
            max_in_flight: service.is_none().then_some(max_in_flight),
            max_waiting: options.max_sink_waiting,
        };
        let handle = SinkHandle::start(
            &node.name,
            sink,
            node.when_slow,
            limits,
            sink_header,
            (stop, &processor),
        )?;
        routes.push(SinkRoute { handle, view });
    }

    let context = RunContext {
        graph: &graph,
        policy: RefCell::new(graph.policy().clone()),
        specs,
        limits,
        clock,
        recorder,
        options,
        stop,
        violations,
        processor,
    };
    let parts = RunParts {
        workers,
        operators,
        streams,
        sinks: routes,
    };
    let finished = context.drive(parts, partitions.as_mut(), service)?;
    Ok(context.report(finished))
}

/// Bounded waits for work that may hang while a run begins.
struct StartUp<'a> {
    clock: Clock,
    options: &'a RunOptions,
    stop: &'a StopFlag,
}

impl StartUp<'_> {
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
    fn open_sink(&self, name: &str, factory: Box<dyn SinkFactory>) -> Result<Box<dyn Sink>, RunError> {
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

/// The header of the run, with all its streams.
fn run_header(graph: &Graph, clock: Clock) -> RunHeader {
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
