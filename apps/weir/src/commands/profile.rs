//! `weir profile`: how long models take by batch size.

use weir_graph::{Graph, ModelOrigin};

use crate::args::Profile;
use crate::catalog;
use crate::error::UserError;
use crate::zoo::{self, Zoo};

/// Measures every model of a graph, or one model.
///
/// # Errors
/// Problems of the graph, models that are not there or cannot be run, and files that cannot be written.
pub(crate) fn profile(args: &Profile, zoo: &Zoo) -> anyhow::Result<()> {
    if !args.target.is_file() {
        return Err(UserError::new(format!("there is no file {}", args.target.display())).into());
    }
    if args
        .target
        .extension()
        .is_some_and(|extension| extension == "onnx")
    {
        let head = args.head.as_deref().ok_or_else(|| {
            UserError::new("say by --head how the model is fed and read, such as --head yolox")
        })?;
        anyhow::bail!(
            "this build cannot measure {} with head {head} yet",
            args.target.display()
        );
    }
    let graph = catalog::load(&args.target, zoo)?;
    zoo::require(&graph, zoo)?;
    anyhow::bail!(
        "this build cannot measure the {} models of this graph yet",
        measurable(&graph)
    )
}

/// Models that exist as more than a declared profile.
fn measurable(graph: &Graph) -> usize {
    graph
        .models()
        .iter()
        .filter(|model| model.origin != ModelOrigin::Emulated)
        .count()
}
