//! Arguments of the commands of queues.

use std::path::PathBuf;

use clap::Args as Group;
use weir_types::Span;

use super::values::duration;

/// `weir submit`.
#[derive(Debug, Group)]
pub(crate) struct Submit {
    /// Folder of the queue, or nats://HOST:PORT/NAME; it is made where it is not there
    #[arg(value_name = "JOBS")]
    pub(crate) queue: PathBuf,
    /// The graph that is to process the videos
    #[arg(long, value_name = "GRAPH.toml")]
    pub(crate) graph: PathBuf,
    /// The queued source of the graph that takes them, where it has several of this queue
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// Time from now until all of it should be done; without it the source says how long
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) within: Option<Span>,
    /// The videos
    #[arg(value_name = "VIDEO", required = true)]
    pub(crate) videos: Vec<PathBuf>,
}

/// `weir jobs`.
#[derive(Debug, Group)]
pub(crate) struct Jobs {
    /// Folder of the queue, or nats://HOST:PORT/NAME
    #[arg(value_name = "JOBS")]
    pub(crate) queue: PathBuf,
    /// Cancel this job: what is committed of it stays
    #[arg(long, value_name = "ID")]
    pub(crate) cancel: Option<u64>,
    /// Print all that is known of the jobs as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
