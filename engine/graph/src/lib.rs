//! The operator graph of one application: read from TOML, checked whole, and then never checked again.
//!
//! Three stages: the TOML as a tree with positions, the raw tables (known keys of the right kind), and the [`Graph`],
//! whose fields are private and need no further checks. [`load`] reports every problem at once.
//!
//! Nothing here opens a model or a video: it checks that files exist, and reads labels and profiles only.

mod changes;
mod check;
mod critical_path;
mod device;
mod emulated;
mod gate_node;
mod gear_memory;
mod gears_file;
mod gpu_settings;
mod graph;
pub mod keys;
mod model_servers;
pub mod planning;
mod policy;
mod python_node;
mod queue_node;
mod raw;
mod render;
mod replicas;
mod settings;
mod shift_file;
mod slots;
mod source_node;
mod sources;
mod stream_defaults;
mod stream_places;
pub mod text_edit;
mod trace;
mod traversal;
mod worker_cluster;

use std::path::{Path, PathBuf};

use weir_config::{ConfigError, Diagnostics, Environment, nearest_sibling, parse_by_key, read_text};

pub use changes::GraphChanges;
pub use critical_path::bare_execution;
pub use device::{DeviceClass, DeviceNode, MemoryLimit, PrepareMode};
pub use emulated::{EmulatedLoad, EmulatedStream, EmulatedStreamError};
pub use gate_node::GateNode;
pub use gear_memory::GearModels;
pub use gears_file::{
    CascadeStage, GearFile, GearsFile, ReplicaFile, StageFile, cascade_stages, gears_from, parse_gears,
    parse_gears_of, read_gears,
};
pub use gpu_settings::{GpuPrecision, GpuProvider, GpuSettings};
pub use graph::{
    EMULATE, EndNode, Escalate, Graph, LengthPredictor, ModelNode, ModelOrigin, ModuleNode, OnDrop, OnLate,
    PerTrackNode, SinkNode, StageNode, TRACK, TrackerNode, TransformNode, Vertex, WhenSlow, WorkerNode,
};
pub use model_servers::{ModelServers, ServerProtocol};
pub use policy::read as read_policy;
pub use python_node::PythonNode;
pub use queue_node::QueueNode;
pub use replicas::replica_profiles;
pub use shift_file::{ShiftFile, ShiftMeasure};
pub use slots::{GraphSlots, ModelSlot, SlotNode};
pub use source_node::{Decoding, SourceMode, SourceNode};
pub use sources::Sources;
pub use stream_places::StreamPlaces;
pub use trace::{ArrivalProcess, Arrivals, MAX_CV, Trace, TraceError, read_trace_text, trace_rows};
pub use traversal::Successor;
pub use weir_flow::{Catalog, Tiling};
pub use worker_cluster::WorkerCluster;

use raw::Context;
use stream_defaults::StreamDefaults;
use weir_policy::Policy;

/// Reads and checks the graph at `path`; `environment` looks up the variables in its texts.
///
/// # Errors
/// All [`ConfigError`] at once, each with its file, line and hint.
pub fn load(
    path: &Path,
    catalog: &Catalog,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Graph, ConfigError> {
    load_for(Sources::Own, path, catalog, environment)
}

/// As [`load`], for its own streams or for others.
///
/// # Errors
/// As [`load`].
pub fn load_for(
    sources: Sources,
    path: &Path,
    catalog: &Catalog,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Graph, ConfigError> {
    let text = read_text(path).map_err(|reason| {
        let meant = nearest_sibling(path).map(|meant| format!("did you mean \"{meant}\" beside it?"));
        let hint = Some(
            meant.unwrap_or_else(|| "give the path of a graph, a TOML file, before any video".to_owned()),
        );
        ConfigError::for_file(path, format!("cannot be read: {reason}"), hint)
    })?;
    parse_for(sources, &text, path, catalog, environment)
}

/// Reads and checks the text of a graph. `path` is its notional location: relative paths are relative to its folder, and
/// problems name it.
///
/// # Errors
/// As [`load`].
pub fn parse(
    text: &str,
    path: &Path,
    catalog: &Catalog,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Graph, ConfigError> {
    parse_for(Sources::Own, text, path, catalog, environment)
}

/// Reads and checks streams that are added to a graph: a text with tables `[sources.NAME]` alone, as in a graph at `path`.
/// No variable is looked up: the text may be that of a client, which is not to learn what they hold.
///
/// # Errors
/// As [`load`].
pub fn parse_streams(text: &str, path: &Path) -> Result<Vec<SourceNode>, ConfigError> {
    read_streams(text, path, &Catalog::default(), &StreamDefaults::default())
}

impl Graph {
    /// As [`parse_streams`], for streams that are added to this graph: they have its `[defaults]` where these have a meaning for
    /// them, and the masks and time zone of the table with their name.
    ///
    /// # Errors
    /// As [`parse_streams`]. A problem of the defaults names none of their values, which may come from variables.
    pub fn parse_streams(
        &self,
        text: &str,
        path: &Path,
        catalog: &Catalog,
    ) -> Result<Vec<SourceNode>, ConfigError> {
        parse_streams(text, path)?;
        let streams = read_streams(text, path, catalog, &self.stream_defaults).map_err(|_| {
            let hint = "correct [defaults] and the table of the stream's name in the graph's file";
            ConfigError::for_file(
                path,
                "the defaults of the graph cannot be used for the stream",
                Some(hint.to_owned()),
            )
        })?;
        let streams = streams.into_iter();
        // Without a time zone of their own, their schedules are in that of the graph in force, which a reload changes.
        Ok(streams.map(|stream| stream.in_zone(None)).collect())
    }
}

fn read_streams(
    text: &str,
    path: &Path,
    catalog: &Catalog,
    defaults: &StreamDefaults,
) -> Result<Vec<SourceNode>, ConfigError> {
    let mut diagnostics = Diagnostics::new(path, text);
    let nothing = |_: &str| None;
    let document = parse_by_key(text, &|_| &nothing, &mut diagnostics);
    let whole = absolute_path(path)?;
    let raw = raw::read_sources(
        &document,
        defaults,
        &mut Context {
            catalog,
            folder: whole.parent().unwrap_or(&whole),
            environment: &nothing,
            sources: Sources::Own,
            diagnostics: &mut diagnostics,
        },
    );
    diagnostics.finish()?;
    Ok(raw.into_iter().filter_map(check::source_node).collect())
}

/// Reads and checks a policy: a text with the table `[policy]` alone, as in a graph at `path`.
///
/// # Errors
/// As [`load`].
pub fn parse_policy(text: &str, path: &Path) -> Result<Policy, ConfigError> {
    let mut diagnostics = Diagnostics::new(path, text);
    let nothing = |_: &str| None;
    let document = parse_by_key(text, &|_| &nothing, &mut diagnostics);
    let entry = document.iter().find(|entry| entry.name == "policy");
    let policy = entry.map(|entry| policy::read(entry, &mut diagnostics));
    diagnostics.finish()?;
    Ok(policy.unwrap_or_default())
}

/// The absolute form of a path.
fn absolute_path(path: &Path) -> Result<PathBuf, ConfigError> {
    std::path::absolute(path).map_err(|error| {
        ConfigError::for_file(
            path,
            format!("the current folder: {}", weir_files::io_reason(&error)),
            None,
        )
    })
}

fn parse_for(
    sources: Sources,
    text: &str,
    path: &Path,
    catalog: &Catalog,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Graph, ConfigError> {
    let mut diagnostics = Diagnostics::new(path, text);
    // Variables of sources that are replaced need not be set: they are left as written.
    let lenient = |name: &str| Some(environment(name).unwrap_or_else(|| format!("${{{name}}}")));
    let environment_of = |section: &str| -> Environment<'_> {
        if sources == Sources::Replaced && ["sources", "cameras", "defaults"].contains(&section) {
            &lenient
        } else {
            environment
        }
    };
    let document = parse_by_key(text, &environment_of, &mut diagnostics);
    let whole = absolute_path(path)?;
    let folder = whole.parent().unwrap_or(&whole);
    let raw = raw::read(
        &document,
        &mut Context {
            catalog,
            folder,
            environment,
            sources,
            diagnostics: &mut diagnostics,
        },
    );
    let graph = check::check(raw, &whole, catalog, &mut diagnostics);
    let files = diagnostics.files();
    let warnings = diagnostics.finish()?;
    match graph {
        Some(graph) => Ok(Graph {
            warnings,
            files,
            ..graph
        }),
        None => Err(ConfigError::for_file(path, "cannot be made into a graph", None)),
    }
}
