//! From a checked graph to a run: the one place where the engine is called.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use weir_flow::{SinkFactory, StopFlag, StreamNames, Value, is_of_single_pictures};
use weir_graph::{EmulatedStream, Graph, WhenSlow};
use weir_jobs::EngineLock;
use weir_operators::PythonTransforms;
use weir_operators::sinks::recordings_overlap;
use weir_policy::{Report, StreamReport};
use weir_runtime::{Assembly, Engine, Pace, Progress, RunError, RunOptions, Sampler};

use crate::args::{RunArgs, Speed};
use crate::assemble::{DumpInputs, assemble_showing, sinks};
use crate::error::UserError;
use crate::extensions::Extensions;
use crate::fleet::{FleetNode, Membership};
use crate::jobs::{Jobs, JobsReport};
use crate::live;
use crate::outputs::Files;
use crate::printable::line;
use crate::progress::RunLine;
use crate::score::{self, Score};
use crate::service::Service;
use crate::settings::Settings;
use crate::traces::{self, Traces};
use crate::whole_file::ReservedFile;
use crate::zoo::Zoo;
use crate::{gears_watch, handles, health, interrupt, output, probe, process, reload, report, systemd};

/// Options of a run besides its graph.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LaunchOptions {
    /// Duration of the run, and the files that it writes besides those of sinks.
    pub(crate) run_args: RunArgs,
    /// Playback speed of recorded sources.
    pub(crate) speed: Speed,
    /// The folder that files of sinks go to instead of where the graph says.
    pub(crate) out: Option<PathBuf>,
    /// Destination of copies of the input tensors, if any.
    pub(crate) dump_inputs: Option<DumpInputs>,
    /// Files that are read beside those of the graph.
    pub(crate) reads: Vec<PathBuf>,
    /// The file of the graph, where videos of its queues are to be processed.
    pub(crate) graph_file: Option<PathBuf>,
}

/// Observers of a run, in addition to the graph's own sinks.
#[derive(Default)]
pub(crate) struct Observers {
    /// Takes every delivery.
    pub(crate) tap: Option<Box<dyn SinkFactory>>,
    /// Takes samples of cascades.
    pub(crate) sampler: Option<Arc<dyn Sampler>>,
}

impl LaunchOptions {
    /// The graph as it is, on its own sources.
    pub(crate) fn for_graph(run_args: RunArgs) -> Self {
        Self {
            run_args,
            speed: Speed::Own,
            out: None,
            dump_inputs: None,
            reads: Vec::new(),
            graph_file: None,
        }
    }
}

/// The report of a run, and where it is to be printed.
pub(crate) struct RunResult {
    pub(crate) report: Report,
    /// True if a sink writes to standard output.
    lines_on_output: bool,
    report_file: Option<ReservedFile>,
    jobs: Option<JobsReport>,
    /// True if a broken invariant is an error.
    strict: bool,
}

/// Runs the graph to its end.
///
/// # Errors
/// What keeps it from starting, and what cannot be written at its end. A source that could not be read to its end and
/// a sink that could not write are errors, too, after all others have been run to their end.
pub(crate) fn launch(
    graph: Graph,
    options: &LaunchOptions,
    settings: &Settings,
    zoo: &Zoo,
) -> anyhow::Result<()> {
    let ran = execute(graph, options, Observers::default(), settings, zoo)?;
    print_result(ran, None)
}

/// Runs the graph to its end, and shows it to `observers` beside the graph's own sinks.
///
/// # Errors
/// What keeps it from starting.
pub(crate) fn execute(
    graph: Graph,
    options: &LaunchOptions,
    observers: Observers,
    settings: &Settings,
    zoo: &Zoo,
) -> anyhow::Result<RunResult> {
    if graph.sources().is_empty() && (graph.queues().is_empty() || options.graph_file.is_none()) {
        let message =
            "the graph has templates and no sources: streams are added to it while `weir serve` runs it";
        return Err(UserError::new(message).into());
    }
    let report_file = prepare(&graph, options, settings, zoo)?;
    let mut ran = run(graph, options, observers, settings, zoo)?;
    ran.report_file = report_file;
    Ok(ran)
}

/// Checks before a run replaces any file: handles, and conflicts between inputs and outputs. Returns the
/// reserved file of the report, if one was requested.
fn prepare(
    graph: &Graph,
    options: &LaunchOptions,
    settings: &Settings,
    zoo: &Zoo,
) -> anyhow::Result<Option<ReservedFile>> {
    handles::require(graph)?;
    files(graph, options, settings, zoo)?.check()?;
    let report = options.run_args.report.as_deref();
    report.map(report::reserve).transpose()
}

/// All files that a run reads and writes.
///
/// # Errors
/// A sink that cannot be made.
pub(crate) fn files(
    graph: &Graph,
    options: &LaunchOptions,
    settings: &Settings,
    zoo: &Zoo,
) -> anyhow::Result<Files> {
    let mut files = Files::default();
    let mut recorded: Vec<(&str, PathBuf)> = Vec::new();
    for source in graph.sources() {
        for uri in source.uris() {
            let path = uri.strip_prefix("file:").unwrap_or(uri);
            if !path.contains("://") && !path.starts_with(EmulatedStream::SCHEME) {
                files.read_source(format!("source {}", source.name), path);
            }
        }
    }
    for path in graph.files() {
        files.read("the graph", path);
    }
    // Keys of heads and operators may name models, too.
    let models = graph.models().iter().map(|model| &model.settings);
    let keys = models.chain(graph.modules().iter().map(|module| &module.settings));
    for text in keys.flat_map(|keys| keys.0.values()) {
        if let Value::Text(text) = text
            && std::path::Path::new(text).is_file()
        {
            files.read("the graph", text);
        }
    }
    for path in zoo.files() {
        files.read("the zoo", path);
    }
    if let Some(path) = &settings.file {
        files.read("the settings file", path);
    }
    for path in &options.reads {
        files.read("the score", path);
    }
    for (node, sink) in graph.sinks().iter().zip(sinks(
        graph,
        (options.out.as_deref(), zoo),
        &Extensions::default(),
    )?) {
        for path in sink.targets() {
            files.write(format!("sink {}", node.name), path);
        }
        if let Some(folders) = sink.stream_folders() {
            require_apart(&recorded, &node.name, &folders)?;
            recorded.push((&node.name, folders));
        }
    }
    for (option, path) in [
        ("--report", &options.run_args.report),
        ("--record", &options.run_args.record),
    ] {
        if let Some(path) = path {
            files.write(option, path);
        }
    }
    if let Some(dump) = &options.dump_inputs {
        for model in graph.models() {
            files.write(
                "--dump-inputs",
                weir_operators::dump_index(&dump.folder, &model.name),
            );
        }
    }
    Ok(files)
}

/// Checks that a sink records into no folder that another may record into: each removes old files.
fn require_apart(recorded: &[(&str, PathBuf)], sink: &str, folders: &Path) -> Result<(), UserError> {
    let other = recorded
        .iter()
        .find(|(_, other)| recordings_overlap(other, folders));
    let Some((other, their)) = other else {
        return Ok(());
    };
    Err(UserError::new(format!(
        "sinks {other} and {sink} record into {} and {}, of which one may lie in the other, and each removes its old files: give \
         each a folder of its own, such as \"archive/{{stream}}\" and \"clips/{{stream}}\"",
        their.display(),
        folders.display()
    )))
}

/// Prints the result of a run as a table or into the report file, with the accuracy if it is known.
///
/// # Errors
/// Output that cannot be written, and all failures of the run.
pub(crate) fn print_result(ran: RunResult, accuracy: Option<&Score>) -> anyhow::Result<()> {
    let RunResult {
        report,
        lines_on_output,
        report_file,
        jobs,
        strict,
    } = ran;
    let report = &report;
    let mut failures = failures(report);
    failures.extend(
        jobs.iter()
            .flat_map(|jobs| jobs.stopped.iter().chain(&jobs.reasons).cloned()),
    );
    let table = || {
        let accuracy = accuracy.map(|score| format!("\n\n{}", score::table(score)));
        let jobs = jobs.as_ref().map(|jobs| format!("\n\n{}", jobs.line()));
        report::table(report) + &jobs.unwrap_or_default() + &accuracy.unwrap_or_default()
    };
    match report_file {
        Some(file) => {
            let written = report::write(
                &ReportFile {
                    report,
                    jobs: jobs.as_ref(),
                    accuracy,
                },
                file,
            );
            if written.is_err() {
                // What a long run came to is not lost with its file.
                output::remark(&table());
            }
            written?;
        }
        // A table of noughts says nothing beside the reason for them.
        None if report.requests.arrived == 0 && !failures.is_empty() => {}
        // A reader of event lines on standard output wants nothing else there.
        None if lines_on_output => output::remark(&table()),
        None => output::say(&table())?,
    }
    match report::violations(report).filter(|_| strict) {
        // What else went wrong may have come of it.
        Some(violations) => Err(anyhow::anyhow!([vec![violations], failures].concat().join("; "))),
        None if failures.is_empty() => Ok(()),
        None => Err(UserError::new(failures.join("; ")).into()),
    }
}

/// The report as it is written.
#[derive(Serialize)]
struct ReportFile<'a> {
    #[serde(flatten)]
    report: &'a Report,
    #[serde(skip_serializing_if = "Option::is_none")]
    jobs: Option<&'a JobsReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    accuracy: Option<&'a Score>,
}

/// Name of the tap; no sink of a graph can have it.
const TAP: &str = "(tap)";

/// Runs the graph; says also whether a sink writes to standard output.
fn run(
    graph: Graph,
    options: &LaunchOptions,
    observers: Observers,
    settings: &Settings,
    zoo: &Zoo,
) -> anyhow::Result<RunResult> {
    let lines_on_output = writes_lines(&graph);
    let progress: Arc<Progress> = Arc::default();
    let shown = RunLine::start(Arc::clone(&progress), options.run_args.duration, lines_on_output)?;
    let (out, dump) = (options.out.as_deref(), options.dump_inputs.as_ref());
    let jobs = open_jobs(&graph, options)?;
    let programs = Arc::<PythonTransforms>::default();
    let mut assembly = assemble_showing(graph, zoo, out, dump, &progress, &programs)?;
    stage(jobs.as_ref(), &mut assembly);
    if let Some(tap) = observers.tap {
        assembly.graph = assembly
            .graph
            .with_observer(TAP, "tap", WhenSlow::Wait, StreamNames::default());
        assembly.sinks.push(tap);
    }
    assembly.next_gears = gears_watch::watch(&assembly.graph);
    // It leaves the fleet when the run has ended.
    let node = join_fleet(options, &mut assembly)?;
    let stop = StopFlag::default();
    interrupt::watch(&stop, STOPPING)?;
    let traces = traces::start(settings)?;
    let run = RunOptions {
        sampler: observers.sampler,
        traces: traces.as_ref().map(|traces| traces.options.clone()),
        programs: Some(programs),
        ..run_options(options, settings, progress)
    };
    let ended = match &jobs {
        None => weir_runtime::run(assembly, &run, &stop),
        Some((jobs, _locks)) => {
            let run = RunOptions {
                until_stopped: true,
                ..run
            };
            let handle = Engine::start(assembly, run, &stop).map_err(mendable)?;
            let feeder = jobs.start(handle.control(), &stop, false)?;
            let ended = handle.wait();
            stop.raise();
            let _ = feeder.join();
            ended
        }
    };
    drop((shown, node));
    traces.into_iter().for_each(Traces::finish);
    let mut report = ended.map_err(mendable)?;
    // The report lists the graph's sinks; a tap that did not fail is none of them.
    if report.sinks.get(TAP).is_some_and(|tap| tap.error.is_none()) {
        report.sinks.remove(TAP);
    }
    Ok(RunResult {
        report,
        lines_on_output,
        report_file: None,
        jobs: jobs.map(|(jobs, _locks)| jobs.report()),
        strict: options.run_args.strict,
    })
}

/// Joins the fleet whose workers hold the partitions of the graph, where one is named.
fn join_fleet(options: &LaunchOptions, assembly: &mut Assembly) -> anyhow::Result<Option<FleetNode>> {
    let Some(place) = options.run_args.fleet.place() else {
        return Ok(None);
    };
    let Some(partitioning) = &mut assembly.partitioning else {
        let message = "a run is a node of a fleet for its workers, and the graph has no model with a plan: leave --fleet out, or \
                       share its streams by weir serve";
        return Err(UserError::new(message).into());
    };
    let node = FleetNode::open_engine(&place)?;
    partitioning.carrier = Some(node.carrier()?);
    node.announce()?;
    Ok(Some(node))
}

/// The queues of the graph with their locks, where its jobs are to be processed.
fn open_jobs(graph: &Graph, options: &LaunchOptions) -> anyhow::Result<Option<(Arc<Jobs>, Vec<EngineLock>)>> {
    match &options.graph_file {
        Some(file) => Jobs::open(graph, file),
        None => Ok(None),
    }
}

/// Wraps the sinks, so that they stage the results of job videos.
fn stage(jobs: Option<&(Arc<Jobs>, Vec<EngineLock>)>, assembly: &mut Assembly) {
    if let Some((jobs, _)) = jobs {
        let sinks = std::mem::take(&mut assembly.sinks);
        assembly.sinks = jobs.stage(&assembly.graph, sinks);
    }
}

/// Serves the graph until it is asked to end: `service` answers meanwhile, and takes what changes in the file of the graph
/// where it `watches` it, or where SIGHUP asks for it. `on_started` is called once the graph runs: its models and sinks are open.
///
/// # Errors
/// As [`launch`].
pub(crate) fn serve(
    graph: Graph,
    options: &LaunchOptions,
    (service, on_started): (&Arc<Service>, &dyn Fn() -> anyhow::Result<()>),
    watches: bool,
    settings: &Settings,
    zoo: &Zoo,
) -> anyhow::Result<()> {
    let report_file = prepare(&graph, options, settings, zoo)?;
    let place = options.run_args.fleet.place();
    let mut fleet = place
        .map(|place| Membership::prepare(&place, &graph))
        .transpose()?;
    let lines_on_output = writes_lines(&graph);
    let progress = service.progress();
    let shown = RunLine::start(Arc::clone(&progress), options.run_args.duration, lines_on_output)?;
    let stop = StopFlag::default();
    let (ask, asked) = std::sync::mpsc::channel();
    let reload = move || {
        weir_operators::reopen();
        // Nothing is reloaded any more where the other end is gone.
        let _ = ask.send(());
    };
    interrupt::watch_serving(&stop, STOPPING, reload)?;
    probe::end_on(&stop);
    // What changes in the file from now on is seen.
    let text = weir_config::read_text(service.graph_file()).unwrap_or_default();
    let loaded = graph.clone();
    let jobs = open_jobs(&graph, options)?;
    let graph = if fleet.is_some() {
        graph.with_streams_to_come()
    } else {
        graph
    };
    let programs = Arc::<PythonTransforms>::default();
    let mut assembly = assemble_showing(graph, zoo, None, None, &progress, &programs)?;
    stage(jobs.as_ref(), &mut assembly);
    if let (Some(fleet), Some(partitioning)) = (&fleet, &mut assembly.partitioning) {
        partitioning.carrier = Some(fleet.carrier()?);
    }
    let assembly = service.observe(assembly);
    let traces = traces::start(settings)?;
    if let Some(traces) = &traces {
        service.count_spans(Arc::clone(&traces.counts));
    }
    let run = RunOptions {
        until_stopped: true,
        traces: traces.as_ref().map(|traces| traces.options.clone()),
        programs: Some(programs),
        ..run_options(options, settings, progress)
    };
    let handle = Engine::start(assembly, run, &stop).map_err(mendable)?;
    service.connect(handle.control(), (loaded, text), (options, settings));
    if let Some(fleet) = &mut fleet {
        fleet.begin(handle.control(), &stop, service)?;
    }
    service.restore_streams();
    on_started()?;
    systemd::watch(handle.control())?;
    let watching = Arc::clone(service);
    // Both end with the program.
    std::thread::Builder::new()
        .name("weir-watch".to_owned())
        .spawn(move || reload::watch(watching.graph_file(), watches, &asked, &watching))?;
    std::thread::Builder::new()
        .name("weir-memory".to_owned())
        .spawn(process::keep_memory_low)?;
    let feeder = match &jobs {
        Some((jobs, _)) => Some(jobs.start(handle.control(), &stop, true)?),
        None => None,
    };
    let ended = handle.wait();
    stop.raise();
    let _ = feeder.map(std::thread::JoinHandle::join);
    fleet.into_iter().for_each(Membership::end);
    drop(shown);
    traces.into_iter().for_each(Traces::finish);
    let mut report = ended.map_err(mendable)?;
    report.sinks.remove(live::NAME);
    let ran = RunResult {
        report,
        lines_on_output,
        report_file,
        jobs: jobs.map(|(jobs, _locks)| jobs.report()),
        strict: options.run_args.strict,
    };
    print_result(ran, None)
}

/// Printed when a run is asked to stop.
pub(crate) const STOPPING: &str = "stopping: finishing frames in progress; press Ctrl-C again to quit now";

/// True if a sink writes to standard output.
pub(crate) fn writes_lines(graph: &Graph) -> bool {
    let mut sinks = graph.sinks().iter();
    sinks.any(|sink| sink.settings.text("path") == Some("-"))
}

pub(crate) fn run_options(
    options: &LaunchOptions,
    settings: &Settings,
    progress: Arc<Progress>,
) -> RunOptions {
    RunOptions {
        duration: options
            .run_args
            .duration
            .map(|span| Duration::from_micros(span.micros())),
        pace: match options.speed {
            Speed::Own => Pace::Times(1.0),
            Speed::Times(times) => Pace::Times(times),
            Speed::Max => Pace::Max,
        },
        memory_bytes: settings.frame_memory.0,
        max_sink_waiting: settings.sink_events.0,
        record: options.run_args.record.clone(),
        strict: options.run_args.strict,
        progress,
        pictures: Some(Arc::new(weir_operators::ObjectPictures::default())),
        programs: Some(Arc::new(PythonTransforms::default())),
        ..RunOptions::default()
    }
}

/// Streams whose failure is said one by one where a run ends; the report has them all.
const MAX_STREAMS_LISTED: usize = 10;

/// Failures of streams and sinks in a run that went on to its end, in words.
#[must_use]
pub fn failures(report: &Report) -> Vec<String> {
    // The first picture of a client may come when the run ends.
    let expected = |name: &str, stream: &StreamReport| !is_of_single_pictures(name) || stream.error.is_some();
    let streams = report
        .streams
        .iter()
        .filter(|(name, stream)| expected(name, stream));
    let streams = streams.filter_map(|(name, stream)| {
        let failure = health::stream_failure(stream)?;
        Some(format!("stream {}: {}", line(name), line(&failure)))
    });
    let mut streams: Vec<String> = streams.collect();
    let more = streams.len().saturating_sub(MAX_STREAMS_LISTED);
    if more > 0 {
        streams.truncate(MAX_STREAMS_LISTED);
        streams.push(format!("{more} more streams failed (--report names them)"));
    }
    let sinks = report.sinks.iter().filter_map(|(name, sink)| {
        let error = sink.error.as_ref()?;
        let (lost, all) = (sink.lost, sink.written + sink.lost);
        Some(if lost > 0 {
            format!("sink {name} lost {lost} of {all} results: {error}")
        } else {
            format!("sink {name}: {error}")
        })
    });
    streams
        .into_iter()
        .chain(sinks)
        .chain(report.recording_error.clone())
        .collect()
}

/// Exit code 2 for what the user can mend.
pub(crate) fn mendable(error: RunError) -> anyhow::Error {
    match error {
        RunError::Thread(_) | RunError::EngineFailed(_) => error.into(),
        error => UserError::new(error.to_string()).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::is_mendable;

    fn result(strict: bool, report: &Report, path: &std::path::Path) -> anyhow::Result<()> {
        let ran = RunResult {
            report: report.clone(),
            lines_on_output: false,
            report_file: Some(report::reserve(path)?),
            jobs: None,
            strict,
        };
        print_result(ran, None)
    }

    #[test]
    fn a_broken_invariant_fails_a_strict_run_after_its_report_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        let mut report = Report::default();
        assert!(result(true, &report, &path).is_ok());
        report.invariants = [("slots".to_owned(), 2)].into();
        assert!(result(false, &report, &path).is_ok());
        report.recording_error = Some("the disk is full".to_owned());
        assert!(is_mendable(&result(false, &report, &path).unwrap_err()));

        let error = result(true, &report, &path).unwrap_err();
        assert!(!is_mendable(&error));
        let words = error.to_string();
        assert!(
            words.contains("slots 2") && words.contains("the disk is full"),
            "{words}"
        );
        let written = std::fs::read_to_string(&path).unwrap();
        let written: Report = serde_json::from_str(&written).unwrap();
        assert_eq!(written.invariants, report.invariants);
    }
}
