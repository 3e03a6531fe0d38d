//! From a checked graph to a run: the one place where the engine is called.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use weir_flow::StopFlag;
use weir_graph::Graph;
use weir_policy::Report;
use weir_runtime::{Pace, Progress, RunError, RunOptions};

use crate::args::{Course, Speed};
use crate::assemble::{DumpInputs, assemble};
use crate::error::UserError;
use crate::settings::Settings;
use crate::zoo::Zoo;
use crate::{interrupt, output, report};

/// How a graph is run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LaunchOptions {
    /// When it stops, and what is kept of it.
    pub(crate) course: Course,
    /// How fast recorded sources go.
    pub(crate) speed: Speed,
    /// The folder that files of sinks go to instead of where the graph says.
    pub(crate) out: Option<PathBuf>,
    /// Where input tensors go.
    pub(crate) dump_inputs: Option<DumpInputs>,
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
    if let Some(path) = &options.course.report {
        writable(path)?;
    }
    let ran = run(graph, options, settings, zoo);
    if let (Err(_), Some(path)) = (&ran, &options.course.report) {
        discard_empty(path);
    }
    let (report, lines_on_output) = ran?;
    let failures = failures(&report);
    match &options.course.report {
        Some(path) => report::write(&report, path)?,
        // A table of noughts says nothing beside the reason for them.
        None if report.requests.arrived == 0 && !failures.is_empty() => {}
        // Whoever reads event lines from standard output wants nothing else there.
        None if lines_on_output => output::remark(&report::table(&report)),
        None => output::say(&report::table(&report))?,
    }
    if failures.is_empty() {
        Ok(())
    } else {
        Err(UserError::new(failures.join("; ")).into())
    }
}

/// Runs the graph; says also whether a sink writes to standard output.
fn run(
    graph: Graph,
    options: &LaunchOptions,
    settings: &Settings,
    zoo: &Zoo,
) -> anyhow::Result<(Report, bool)> {
    let lines_on_output = graph
        .sinks()
        .iter()
        .any(|sink| sink.settings.text("path") == Some("-"));
    let assembly = assemble(graph, zoo, options.out.as_deref(), options.dump_inputs.as_ref())?;
    let stop = StopFlag::default();
    interrupt::watch(&stop)?;
    let progress: Arc<Progress> = Arc::default();
    let run = RunOptions {
        duration: options
            .course
            .duration
            .map(|span| Duration::from_micros(span.micros())),
        pace: match options.speed {
            Speed::Own => Pace::Times(1.0),
            Speed::Times(times) => Pace::Times(times),
            Speed::Max => Pace::Max,
        },
        memory_bytes: settings.frame_memory.0,
        sink_waiting_most: settings.sink_events.0,
        record: options.course.record.clone(),
        progress: Arc::clone(&progress),
        ..RunOptions::default()
    };
    let shown = Shown::start(progress)?;
    let ended = weir_runtime::run(assembly, &run, &stop);
    shown.end();
    Ok((ended.map_err(mendable)?, lines_on_output))
}

/// What was not read or not written, though the run went on to its end.
fn failures(report: &Report) -> Vec<String> {
    let streams = report.streams.iter().filter_map(|(name, stream)| {
        let error = stream.error.as_ref()?;
        Some(format!("stream {name}: {error}"))
    });
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
        .chain(sinks)
        .chain(report.recording_error.clone())
        .collect()
}

/// Takes away the file that was made to see whether it can be, where no report came to be.
fn discard_empty(path: &Path) {
    if std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() == 0) {
        // It says nothing, so leaving it does no harm either.
        let _ = std::fs::remove_file(path);
    }
}

/// What the user can mend, as such.
fn mendable(error: RunError) -> anyhow::Error {
    match error {
        RunError::Thread(_) | RunError::BrokeOff(_) => error.into(),
        error => UserError::new(error.to_string()).into(),
    }
}

/// Says before a long run, not after it, that its report cannot be written.
fn writable(path: &Path) -> anyhow::Result<()> {
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
    opened.map(drop).map_err(|error| {
        UserError::new(format!("cannot write the report {}: {error}", path.display())).into()
    })
}

/// The progress line on a terminal; nothing in a pipe.
struct Shown {
    bar: Option<(ProgressBar, StopFlag, std::thread::JoinHandle<()>)>,
}

impl Shown {
    fn start(progress: Arc<Progress>) -> anyhow::Result<Self> {
        if !std::io::stderr().is_terminal() {
            return Ok(Self { bar: None });
        }
        let bar = ProgressBar::new_spinner();
        bar.set_style(ProgressStyle::with_template(
            "{spinner} {elapsed_precise}  {msg}",
        )?);
        bar.enable_steady_tick(Duration::from_millis(120));
        let (shown, stop) = (bar.clone(), StopFlag::default());
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            while !stopped.raised() {
                let now = progress.read();
                shown.set_message(format!(
                    "{} frames: {} delivered, {} late, {} dropped",
                    now.arrived, now.delivered, now.late, now.dropped
                ));
                std::thread::sleep(Duration::from_millis(120));
            }
        });
        Ok(Self {
            bar: Some((bar, stop, thread)),
        })
    }

    fn end(self) {
        if let Some((bar, stop, thread)) = self.bar {
            stop.raise();
            // A line that cannot be shown is no reason to fail.
            let _ = thread.join();
            bar.finish_and_clear();
        }
    }
}
