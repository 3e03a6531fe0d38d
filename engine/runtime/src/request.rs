//! A request in flight, and its branches through the graph.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_flow::{Frame, RequestResults};
use weir_types::{RequestId, Span, StreamId, Timestamp};

use crate::admission::StreamPermit;
use crate::routes::Route;

/// One frame in flight.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) id: RequestId,
    pub(crate) stream: StreamId,
    /// How the requests of its stream pass through the graph.
    pub(crate) route: Arc<Route>,
    pub(crate) frame: Arc<Frame>,
    pub(crate) sent_at: Timestamp,
    /// Its own latency objective; `None`: the graph's.
    pub(crate) slo: Option<Span>,
    pub(crate) droppable: bool,
    /// Its place among the requests of its stream in flight; free again when the last user drops it.
    pub(crate) permit: Arc<StreamPermit>,
    ended: AtomicBool,
}

impl Request {
    pub(crate) fn new(
        id: RequestId,
        (stream, route): (StreamId, Arc<Route>),
        frame: Arc<Frame>,
        sent_at: Timestamp,
        slo: Option<Span>,
        droppable: bool,
        permit: Arc<StreamPermit>,
    ) -> Self {
        Self {
            id,
            stream,
            route,
            frame,
            sent_at,
            slo,
            droppable,
            permit,
            ended: AtomicBool::new(false),
        }
    }

    /// Ends it; `false` where it had ended before.
    pub(crate) fn end(&self) -> bool {
        !self.ended.swap(true, Ordering::Relaxed)
    }

    /// Whether it has ended: its branches stop where they are.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}

/// A request on one branch, with the outputs of the modules of that branch.
#[derive(Debug, Clone)]
pub(crate) struct RequestBranch {
    pub(crate) request: Arc<Request>,
    pub(crate) results: RequestResults,
}
