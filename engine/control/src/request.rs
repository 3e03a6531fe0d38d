//! Data of a request that machines know, and its way through a graph.

use serde::{Deserialize, Serialize};
use weir_types::{ModuleId, RequestId, Span, StreamId, Timestamp, Topology};

/// A request as machines know it: a frame, without its picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestInfo {
    /// Its number, unique in a run.
    pub id: RequestId,
    /// Stream that it came on.
    pub stream: StreamId,
    /// Time of sending; the deadline is one latency objective later.
    pub sent_at: Timestamp,
    /// Its own latency objective; `None`: the graph's.
    pub slo: Option<Span>,
    /// False where it must not be dropped (a lossless source).
    pub droppable: bool,
    /// Its way through the graph, by the index of its [`Route`].
    pub route: usize,
}

/// A way through a graph, which requests of some streams take.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Route {
    /// Modules at which they begin; none: they are complete at once.
    pub entries: Vec<ModuleId>,
    /// By module: branches that make a request whole there; 0 where none arrives.
    pub branches: Vec<u32>,
    /// Branches that make it whole at the end, at least 1.
    pub exits: u32,
}

impl Route {
    /// Into the graph at every module without a predecessor.
    #[must_use]
    pub fn through(topology: &Topology) -> Self {
        let entries = topology.entry_modules();
        let modules = || (0..topology.len() as u32).map(ModuleId);
        let before = |to: ModuleId| modules().filter(move |from| topology.successors(*from).contains(&to));
        let last = modules().filter(|module| topology.successors(*module).is_empty());
        Self {
            branches: modules().map(|to| (before(to).count() as u32).max(1)).collect(),
            exits: (last.count() as u32).max(1),
            entries,
        }
    }

    /// Whether a request can be in several modules at once.
    pub(crate) fn splits(&self, topology: &Topology) -> bool {
        self.entries.len() > 1 || topology.has_branches()
    }
}
