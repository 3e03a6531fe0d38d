//! From a checked graph to a run: the one place where the engine is called.

use std::path::PathBuf;

use weir_graph::Graph;
use weir_policy::{Report, Span};

use crate::args::Speed;
use crate::settings::Settings;
use crate::zoo::Zoo;
use crate::{output, report};

/// How a graph is run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LaunchOptions {
    /// Stop after this time.
    pub(crate) duration: Option<Span>,
    /// How fast recorded sources go.
    pub(crate) speed: Speed,
    /// Whether recorded sources start again at their end.
    pub(crate) repeat: bool,
    /// Where the report goes as JSON; a table is printed where this is not given.
    pub(crate) report: Option<PathBuf>,
    /// Where the event log goes.
    pub(crate) record: Option<PathBuf>,
    /// The folder that files of sinks go to instead of where the graph says.
    pub(crate) out: Option<PathBuf>,
    /// The folder that input tensors go to.
    pub(crate) dump_inputs: Option<PathBuf>,
}

/// Runs the graph to its end.
///
/// # Errors
/// What keeps it from starting, and what cannot be written at its end.
#[expect(clippy::needless_pass_by_value, reason = "a run consumes its graph")]
pub(crate) fn launch(
    graph: Graph,
    options: LaunchOptions,
    settings: &Settings,
    zoo: &Zoo,
) -> anyhow::Result<()> {
    let _ = (&options, settings, zoo);
    anyhow::bail!(
        "this build cannot run graphs yet (graph \"{}\" is well formed)",
        graph.name()
    )
}

/// What a run ends with: its report as a file where one is wanted, else as a table.
///
/// # Errors
/// Where neither can be written.
#[expect(dead_code, reason = "for when graphs can be run")]
fn conclude(of_run: &Report, options: &LaunchOptions) -> anyhow::Result<()> {
    match &options.report {
        Some(path) => report::write(of_run, path),
        None => Ok(output::say(&report::table(of_run))?),
    }
}
