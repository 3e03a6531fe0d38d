//! `weir check`: every problem of a graph.

use crate::args::Check;
use crate::zoo::Zoo;
use crate::{catalog, output};

/// Says that the graph is well formed, or what is wrong with it.
///
/// # Errors
/// All problems at once.
pub(crate) fn check(args: &Check, zoo: &Zoo) -> anyhow::Result<()> {
    let graph = catalog::load(&args.graph, zoo)?;
    let counted = [
        (graph.sources().len(), "source"),
        (graph.modules().len(), "module"),
        (graph.models().len(), "model"),
        (graph.sinks().len(), "sink"),
    ];
    let counted = counted.map(|(count, noun)| format!("{count} {noun}{}", if count == 1 { "" } else { "s" }));
    output::say(&format!(
        "{}: {}, SLO {}: no problems",
        crate::printable::line(graph.name()),
        counted.join(", "),
        graph.slo()
    ))?;
    Ok(())
}
