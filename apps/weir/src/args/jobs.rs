//! Arguments of the commands of queues.

use std::path::PathBuf;

use clap::Args as Group;
use weir_types::Span;

use super::values::duration;

/// `weir submit`.
#[derive(Debug, Group)]
pub(crate) struct Submit {
    /// Folder of the queue, or nats://HOST:PORT/NAME; created if missing
    #[arg(value_name = "JOBS")]
    pub(crate) queue: PathBuf,
    /// Graph that processes the videos
    #[arg(long, value_name = "GRAPH.toml")]
    pub(crate) graph: PathBuf,
    /// Queued source of the graph for the videos; not needed if only one has this queue
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// Time from now until the job should be done, such as 2h [default: set by the source]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) within: Option<Span>,
    /// Videos to process
    #[arg(value_name = "VIDEO", required = true)]
    pub(crate) videos: Vec<PathBuf>,
}

/// `weir jobs`.
#[derive(Debug, Group)]
pub(crate) struct Jobs {
    /// Folder of the queue, or nats://HOST:PORT/NAME
    #[arg(value_name = "JOBS")]
    pub(crate) queue: PathBuf,
    /// Cancel this job; its committed results stay
    #[arg(long, value_name = "ID")]
    pub(crate) cancel: Option<u64>,
    /// Print all details of the jobs as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
