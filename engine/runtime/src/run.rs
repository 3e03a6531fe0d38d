//! A run from beginning to end: opens workers, measures models, places them, looks for sources, and only then opens sinks;
//! then the engine drives the run.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use weir_flow::{Sink, StopFlag};
use weir_graph::{Graph, SinkNode};
use weir_policy::Report;
use weir_types::ModuleId;

use crate::actors::SinkRoute;
use crate::analytics::SharedAnalytics;
use crate::assembly::{Assembly, RunError, RunOptions};
use crate::clock::Clock;
use crate::command::Service;
use crate::engine::{RunContext, RunGraph, RunParts};
use crate::fleet::PartitionSetup;
use crate::prepare::{ReadyGraph, StartUp, run_header, sink_header};
use crate::processor_time::ProcessorTimes;
use crate::record::Recorder;
use crate::request_traces::RequestTracer;
use crate::routes::SinkView;
use crate::sink::{QueueLimits, SinkHandle};
use crate::stream_setup::{StreamSetup, check_sources};
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
        next_gears,
    } = assembly;
    let violations = RunViolations::start();
    let clock = service
        .as_ref()
        .map_or_else(Clock::start, |service| service.clock);
    let graph = Arc::new(graph);
    let start_up = StartUp { clock, options, stop };
    let opened = start_up.open(&graph, &given)?;
    let partitions = partitioning
        .map(|partitioning| PartitionSetup::start(&graph, partitioning, clock, stop))
        .transpose()?;
    let active = partitions.as_ref().map(|partitions| &partitions.active);
    let ready = start_up.measure(&graph, opened, active)?;
    let ReadyGraph {
        specs,
        limits,
        workers,
    } = ready;
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
    let mut control = specs.control(&graph);
    control.plan = active.map(|active| active.spec(graph.policy()));
    let record = |path: &PathBuf| {
        Recorder::create(path, &control).map_err(|reason| RunError::Record {
            path: path.clone(),
            reason,
        })
    };
    let recorder = options.record.as_ref().map(record).transpose()?;
    let processor = ProcessorTimes::start();
    let limits_of_sinks = QueueLimits {
        max_in_flight: service.is_none().then_some(max_in_flight),
        max_waiting: options.max_sink_waiting,
    };
    let routes = start_sinks(&graph, opened, limits_of_sinks, (clock, stop, &processor))?;

    let names = graph.modules().iter().map(|module| module.name.as_str().into());
    let running = RunGraph {
        number: 0,
        report_ids: (0..graph.modules().len() as u32).map(ModuleId).collect(),
        graph: Arc::clone(&graph),
        specs,
        control,
        limits,
        recorder,
    };
    let context = RunContext {
        in_force: RefCell::new(Rc::new(running)),
        policy: RefCell::new(graph.policy().clone()),
        module_names: RefCell::new(names.collect()),
        analytics: SharedAnalytics::default(),
        tracer: RequestTracer::new(options.traces.as_ref(), clock),
        clock,
        options,
        stop,
        violations,
        processor,
        idle: Rc::default(),
        residency: Arc::default(),
        next_gears: RefCell::new(next_gears),
        partitions: RefCell::new(partitions),
    };
    let parts = RunParts {
        workers,
        operators,
        streams,
        sinks: routes,
    };
    let finished = context.drive(parts, service)?;
    Ok(context.report(finished))
}

/// Starts the threads of the opened sinks, with their headers.
fn start_sinks(
    graph: &Graph,
    opened: Vec<Box<dyn Sink>>,
    limits: QueueLimits,
    (clock, stop, processor): (Clock, &StopFlag, &Arc<ProcessorTimes>),
) -> Result<Vec<SinkRoute>, RunError> {
    let header = run_header(graph, clock);
    let start = |(index, (node, sink)): (usize, (&SinkNode, Box<dyn Sink>))| -> Result<SinkRoute, RunError> {
        let view = SinkView::new(graph, index);
        let header = sink_header(&header, &view);
        let handle = SinkHandle::start(
            &node.name,
            sink,
            node.when_slow,
            limits,
            header,
            (stop, processor),
        )?;
        Ok(SinkRoute {
            name: node.name.clone(),
            handle,
            views: BTreeMap::from([(0, view)]),
        })
    };
    graph.sinks().iter().zip(opened).enumerate().map(start).collect()
}
