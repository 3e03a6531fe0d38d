//! `weir graph`: a drawing of a graph.

use crate::args::{Draw, Format};
use crate::zoo::Zoo;
use crate::{catalog, output};

/// Prints the drawing.
///
/// # Errors
/// All problems of the graph at once.
pub(crate) fn draw(args: &Draw, zoo: &Zoo) -> anyhow::Result<()> {
    let graph = catalog::load(&args.graph, zoo)?;
    let drawing = match args.format {
        Format::Mermaid => graph.to_mermaid(),
        Format::Dot => graph.to_dot(),
    };
    output::say(drawing.trim_end())
}
