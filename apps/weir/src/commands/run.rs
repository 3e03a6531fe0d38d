//! `weir run`: a graph on its own sources.

use crate::args::Run;
use crate::launch::{LaunchOptions, launch};
use crate::settings::Settings;
use crate::zoo::Zoo;
use crate::{catalog, zoo};

/// Runs a graph until its sources end, the time is up, or Ctrl-C.
///
/// # Errors
/// Problems of the graph, models that are not there, and what [`launch`] says.
pub(crate) fn run(args: Run, settings: &Settings, zoo: &Zoo) -> anyhow::Result<()> {
    let graph = catalog::load(&args.graph, zoo)?;
    zoo::require(&graph, zoo)?;
    let options = LaunchOptions {
        graph_file: Some(args.graph),
        ..LaunchOptions::for_graph(args.run_args)
    };
    launch(graph, &options, settings, zoo)
}
