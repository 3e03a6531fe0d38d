//! A request in flight, and its branches through the graph.

use std::sync::Arc;

use weir_control::RequestInfo;
use weir_flow::{Frame, RequestResults};
use weir_policy::AreaChanges;
use weir_types::{RequestId, Span, StreamId, Timestamp};

use crate::admission::StreamPermit;
use crate::routes::Route;
use crate::source::SharedMotionGate;

/// One frame in flight.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) id: RequestId,
    pub(crate) stream: StreamId,
    /// Route of the requests of this stream through the graph.
    pub(crate) route: Arc<Route>,
    pub(crate) frame: Arc<Frame>,
    pub(crate) sent_at: Timestamp,
    /// Its own latency objective; `None`: the graph's.
    pub(crate) slo: Option<Span>,
    pub(crate) droppable: bool,
    /// Whether nothing in it changed, so that no module sees it.
    pub(crate) still: bool,
    /// The gate of its stream, which learns of its end.
    pub(crate) gate: Option<SharedMotionGate>,
    /// Last changes up to its frame by the parts of the picture, where its gate compares pictures.
    pub(crate) changes: Option<Arc<AreaChanges>>,
    /// Its place among the requests of its stream in flight; free again when the last user drops it.
    pub(crate) permit: Arc<StreamPermit>,
}

impl Request {
    /// The request as machines know it, on a route of its graph.
    pub(crate) fn info(&self, route: usize) -> RequestInfo {
        RequestInfo {
            id: self.id,
            stream: self.stream,
            sent_at: self.sent_at,
            slo: self.slo,
            droppable: self.droppable,
            route,
        }
    }
}

/// A request on one branch, with the outputs of the modules of that branch.
#[derive(Debug, Clone)]
pub(crate) struct RequestBranch {
    pub(crate) request: Arc<Request>,
    pub(crate) results: RequestResults,
}
