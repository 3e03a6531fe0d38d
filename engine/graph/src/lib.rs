//! The operator graph of one application: read from TOML, checked whole, and then never checked again.
//!
//! Three types on the way: the TOML as a tree with places, the raw tables (known keys of the right kind), and the
//! [`Graph`], whose fields are private and need no second look. [`load`] reports every problem at once.
//!
//! Nothing here opens a model or a video: it looks whether files are there, and reads labels and profiles only.

mod check;
mod document;
mod emulated;
mod fields;
mod graph;
pub mod planning;
mod policy;
mod problem;
mod rate;
mod raw;
pub mod reading;
mod render;
mod settings;
mod spelling;
mod trace;
mod variables;
mod walk;

use std::path::Path;

use weir_files::FileError;
use weir_flow::Catalog;

pub use emulated::{BadEmulatedStream, EmulatedStream, Load};
pub use graph::{
    DeviceClass, DeviceNode, Graph, ModelNode, ModelOrigin, ModuleNode, SinkNode, SourceMode, SourceNode,
    Vertex, WhenSlow, WorkerNode,
};
pub use problem::{Problem, Problems};
pub use raw::MODULE_KEYS;
pub use trace::{Arrivals, GREATEST_CV, Process, Trace, TraceError};
pub use walk::{Successor, bare_execution};

use problem::Reports;
use raw::Context;

/// The operator that is known without a catalog: it needs no head, takes frames or boxes, and runs models on emulated
/// devices only.
pub const EMULATE: &str = "emulate";

/// Graphs, labels and profiles are written by hand; what is larger was named by mistake.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Which streams a graph is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sources {
    /// Its own: their files must be there.
    #[default]
    Own,
    /// Others take their place (see [`Graph::with_streams`]): files of its own need not be there, and variables that
    /// name them need not be set.
    Replaced,
}

impl Sources {
    /// [`Sources::Replaced`] where there are others.
    #[must_use]
    pub fn instead_of(others: bool) -> Self {
        if others { Self::Replaced } else { Self::Own }
    }
}

/// Reads and checks the graph at `path`; `environment` gives the variables that its texts name.
///
/// # Errors
/// All [`Problems`] at once, each with its file, line and hint.
pub fn load(
    path: &Path,
    catalog: &Catalog,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Graph, Problems> {
    load_for(Sources::Own, path, catalog, environment)
}

/// As [`load`], for the streams that are to be.
///
/// # Errors
/// As [`load`].
pub fn load_for(
    sources: Sources,
    path: &Path,
    catalog: &Catalog,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Graph, Problems> {
    let text = read_text(path).map_err(|reason| {
        let meant = settings::meant_beside(path).map(|meant| format!("did you mean \"{meant}\" beside it?"));
        let hint = Some(
            meant.unwrap_or_else(|| "give the path of a graph, a TOML file, before any video".to_owned()),
        );
        Problems::of_file(path, format!("cannot be read: {reason}"), hint)
    })?;
    parse_for(sources, &text, path, catalog, environment)
}

/// Reads and checks a graph that is at hand as text. `path` is where it would stand: its folder is what relative paths
/// are relative to, its name is that of the problems.
///
/// # Errors
/// As [`load`].
pub fn parse(
    text: &str,
    path: &Path,
    catalog: &Catalog,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Graph, Problems> {
    parse_for(Sources::Own, text, path, catalog, environment)
}

fn parse_for(
    sources: Sources,
    text: &str,
    path: &Path,
    catalog: &Catalog,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Graph, Problems> {
    let mut reports = Reports::new(path, text);
    let document = document::parse(sources, text, environment, &mut reports);
    let whole = std::path::absolute(path).map_err(|error| {
        Problems::of_file(
            path,
            format!("the current folder: {}", weir_files::io_reason(&error)),
            None,
        )
    })?;
    let folder = whole.parent().unwrap_or(&whole);
    let raw = raw::read(
        &document,
        &mut Context {
            catalog,
            folder,
            environment,
            sources,
            reports: &mut reports,
        },
    );
    let graph = check::check(raw, &whole, catalog, &mut reports);
    let files = reports.files();
    let warnings = reports.finish()?;
    match graph {
        Some(graph) => Ok(Graph {
            warnings,
            files,
            ..graph
        }),
        None => Err(Problems::of_file(path, "cannot be made into a graph", None)),
    }
}

/// The text of a file of reasonable size.
///
/// # Errors
/// The reason why it cannot be read.
pub(crate) fn read_text(path: &Path) -> Result<String, String> {
    weir_files::read_text(path, MAX_FILE_BYTES).map_err(|error| match error {
        FileError::TooLarge { .. } => format!("{error}, which no graph, labels or profile does"),
        error => error.to_string(),
    })
}
