//! From a checked graph to a run: the one place where the engine is called.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use weir_flow::StopFlag;
use weir_graph::Graph;
use weir_policy::Span;
use weir_runtime::{Pace, Progress, RunError, RunOptions};

use crate::args::Speed;
use crate::assemble::{DumpInputs, assemble};
use crate::error::UserError;
use crate::settings::Settings;
use crate::zoo::Zoo;
use crate::{interrupt, output, report};

/// How a graph is run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LaunchOptions {
    /// Stop after this time.
    pub(crate) duration: Option<Span>,
    /// How fast recorded sources go.
    pub(crate) speed: Speed,
    /// Where the report goes as JSON; a table is printed where this is not given.
    pub(crate) report: Option<PathBuf>,
    /// Where the event log goes.
    pub(crate) record: Option<PathBuf>,
    /// The folder that files of sinks go to instead of where the graph says.
    pub(crate) out: Option<PathBuf>,
    /// Where input tensors go.
    pub(crate) dump_inputs: Option<DumpInputs>,
}

/// Runs the graph to its end.
///
/// # Errors
/// What keeps it from starting, and what cannot be written at its end. A source that could not be read at all is an
/// error, too, after the others have been run to their end.
pub(crate) fn launch(
    graph: Graph,
    options: &LaunchOptions,
    settings: &Settings,
    zoo: &Zoo,
) -> anyhow::Result<()> {
    if let Some(path) = &options.report {
        writable(path)?;
    }
    let assembly = assemble(graph, zoo, options.out.as_deref(), options.dump_inputs.as_ref())?;
    let stop = StopFlag::default();
    interrupt::watch(&stop)?;
    let progress: Arc<Progress> = Arc::default();
    let run = RunOptions {
        duration: options.duration.map(|span| Duration::from_micros(span.micros())),
        pace: match options.speed {
            Speed::Own => Pace::Times(1.0),
            Speed::Times(times) => Pace::Times(times),
            Speed::Max => Pace::Max,
        },
        memory_bytes: settings.frame_memory.0,
        sink_waiting_most: settings.sink_events.0,
        record: options.record.clone(),
        progress: Arc::clone(&progress),
        ..RunOptions::default()
    };
    let shown = Shown::start(progress)?;
    let ended = weir_runtime::run(assembly, &run, &stop);
    shown.end();
    let report = ended.map_err(mendable)?;
    match &options.report {
        Some(path) => report::write(&report, path)?,
        None => output::say(&report::table(&report))?,
    }
    let unread: Vec<&str> = report
        .streams
        .values()
        .filter(|stream| stream.requests.arrived == 0)
        .filter_map(|s| s.error.as_deref())
        .collect();
    if unread.is_empty() {
        Ok(())
    } else {
        Err(UserError::new(unread.join("\n")).into())
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
