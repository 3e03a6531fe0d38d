//! A source whose videos come from jobs, as the graph names it.

use std::path::PathBuf;

use weir_types::Span;

/// A source whose videos come from the jobs of a queue. It is among the [templates](crate::Graph::templates): each video is a stream
/// that is added while the graph runs.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueNode {
    /// Name of the source.
    pub source: String,
    /// Folder of the queue, absolute, or the address of one on a server.
    pub queue: PathBuf,
    /// Time that a job may take which names no deadline.
    pub slo: Span,
    /// The least length of a segment, in media time.
    pub segment: Span,
    /// Videos that are processed at a time.
    pub streams: u32,
}
