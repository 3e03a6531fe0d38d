//! File handles: a run needs some for each stream, and where the system gives none in the middle of it, whatever asks
//! next fails. So the limit is raised as far as it goes, and what is too small for a run is said before it.

use weir_graph::Graph;
use weir_operators::sinks::has_file_per_stream;

use crate::error::UserError;

/// Of any run: the standard streams, event loops and their wake-ups, a model or a library that is being opened, the
/// report and the recording, and some clients of the API.
const BASE: u64 = 40;
/// Of a source: a connection with its control, or a file that is opened again while the last is closed.
const EACH_SOURCE: u64 = 3;
/// Of a camera that is read through a relay: two ends of it and the camera's connection, twice while it is opened again.
const EACH_RELAYED: u64 = 6;
/// Of clips of a stream: each incident that goes on has a file ...
const EACH_CLIP_STREAM: u64 = 32;
/// ... up to the clips that a sink writes at a time.
const MAX_CLIPS: u64 = 256;
/// Of a partition worker: its connection, read and written by different threads, and one that is being made anew.
const EACH_WORKER: u64 = 3;

/// Raises the limit of this process to the most that it may have. Where that cannot be done it stays as it is.
pub(crate) fn raise_limit() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        if limit.current != limit.maximum {
            let _ = setrlimit(Resource::Nofile, raised);
        }
    }
}

/// Soft limit on open file handles of this process; `None` if there is no limit, or it is unknown.
fn limit() -> Option<u64> {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Resource, getrlimit};
        getrlimit(Resource::Nofile).current
    }
    #[cfg(not(target_os = "linux"))]
    None
}

/// Makes sure that a run of the graph has the handles that it is going to need.
///
/// # Errors
/// [`UserError`] that says what to raise.
pub(crate) fn require(graph: &Graph) -> Result<(), UserError> {
    let sources = graph.sources().len() as u64;
    let of_sinks = graph.sinks().iter().map(|sink| match sink.settings.text("path") {
        None | Some("-") => 0,
        Some(path) if has_file_per_stream(&sink.kind) || path.contains("{stream}") => sources,
        Some(_) => 1,
    });
    let of_sources = graph.sources().iter().map(|source| {
        let is_rtsp = source.uris().any(|uri| uri.starts_with("rtsp"));
        if is_rtsp { EACH_RELAYED } else { EACH_SOURCE }
    });
    let of_workers = graph.workers().len() as u64 * EACH_WORKER;
    let clips = graph.sinks().iter().filter(|sink| sink.kind == "clips").count() as u64;
    let of_clips = clips * (sources.max(1) * EACH_CLIP_STREAM).min(MAX_CLIPS);
    require_at_least(
        BASE + of_sources.sum::<u64>() + of_sinks.sum::<u64>() + of_clips + of_workers,
        "this run",
    )
}

/// The same for a worker with so many connections.
///
/// # Errors
/// As [`require`].
pub(crate) fn require_connections(connections: usize) -> Result<(), UserError> {
    // Each is read by one thread and written by another.
    require_at_least(BASE + 2 * connections as u64, "a worker")
}

fn require_at_least(needed: u64, what: &str) -> Result<(), UserError> {
    match limit() {
        Some(limit) if limit < needed => Err(UserError::new(format!(
            "{what} may need {needed} file handles, and this process may have {limit}: raise the limit, such as by \
             ulimit -n {}",
            needed.next_power_of_two().max(1024)
        ))),
        _ => Ok(()),
    }
}
