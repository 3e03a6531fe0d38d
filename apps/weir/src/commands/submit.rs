//! `weir submit`: recorded videos become a job of a queue.

use std::path::Path;

use weir_graph::QueueNode;
use weir_jobs::{Queue, QueuePlace, Submission};

use crate::args::Submit;
use crate::error::UserError;
use crate::jobs::{check, identity, mendable, now_ms, server_options};
use crate::zoo::Zoo;
use crate::{catalog, output};

/// Submits the videos as one job, and says its number.
///
/// # Errors
/// Problems of the graph, a graph that takes nothing from the queue, videos that are not there, a queue that is full.
pub(crate) fn submit(args: &Submit, zoo: &Zoo) -> anyhow::Result<()> {
    let graph = catalog::load(&args.graph, zoo)?;
    check(&graph)?;
    let place = match QueuePlace::of(&args.queue).map_err(mendable)? {
        QueuePlace::Folder(folder) => QueuePlace::Folder(std::path::absolute(folder)?),
        server @ QueuePlace::Server(_) => server,
    };
    let takes = |node: &&QueueNode| {
        args.source.as_ref().is_none_or(|source| *source == node.source) && is_same(&node.queue, &place)
    };
    let sources: Vec<&QueueNode> = graph.queues().iter().filter(takes).collect();
    let source = match sources.as_slice() {
        [one] => one.source.clone(),
        [] => {
            let words = format!(
                "{}: no source of the graph takes its videos from {}: give one mode = \"queued\" and queue = \"...\"",
                args.graph.display(),
                args.queue.display()
            );
            return Err(UserError::new(words).into());
        }
        several => {
            let names: Vec<&str> = several.iter().map(|node| node.source.as_str()).collect();
            let words = format!(
                "several sources take videos from this queue: --source {}",
                names.join(" or ")
            );
            return Err(UserError::new(words).into());
        }
    };
    let mut videos = Vec::new();
    for video in &args.videos {
        let wrong = |reason: &str| UserError::new(format!("{}: {reason}", video.display()));
        let path = video.canonicalize().map_err(|error| wrong(&error.to_string()))?;
        if !path.is_file() {
            return Err(wrong("it is not a file: a job takes recorded videos").into());
        }
        let path = path
            .to_str()
            .ok_or_else(|| wrong("its name is no text: rename it"))?;
        videos.push(path.to_owned());
    }
    let (graph, digest) = identity(&args.graph)?;
    let submission = Submission {
        graph,
        digest,
        source,
        videos,
        within_ms: args.within.map(|within| within.micros().div_ceil(1_000)),
    };
    let queue = Queue::create(&place, &server_options()).map_err(mendable)?;
    let id = queue.submit(&submission, now_ms()).map_err(mendable)?;
    output::say(&format!("job {id}: {} videos", submission.videos.len()))
}

/// True if a source takes its videos from `place`.
fn is_same(named: &Path, place: &QueuePlace) -> bool {
    match place {
        QueuePlace::Server(_) => QueuePlace::of(named).is_ok_and(|named| named == *place),
        QueuePlace::Folder(queue) => {
            named == queue
                || named.canonicalize().ok() == queue.canonicalize().ok()
                || !queue.exists() && normal(named) == normal(queue)
        }
    }
}

/// The path without `.` and `..`, for folders that are not there yet.
fn normal(path: &Path) -> std::path::PathBuf {
    let mut normal = std::path::PathBuf::new();
    for component in path.components() {
        match component {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}
