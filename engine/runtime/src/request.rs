//! A request on its way, and the parcels that carry it from vertex to vertex.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_flow::{Frame, RequestResults};
use weir_types::{RequestId, StreamId, Timestamp};

use crate::gate::Pass;

/// One frame on its way through the graph.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) id: RequestId,
    pub(crate) stream: StreamId,
    pub(crate) frame: Arc<Frame>,
    pub(crate) sent_at: Timestamp,
    pub(crate) droppable: bool,
    /// Its place among the requests of its stream that may be under way; free again when the last user is done.
    pub(crate) pass: Arc<Pass>,
    ended: AtomicBool,
}

impl Request {
    pub(crate) fn new(
        id: RequestId,
        stream: StreamId,
        frame: Arc<Frame>,
        sent_at: Timestamp,
        droppable: bool,
        pass: Arc<Pass>,
    ) -> Self {
        Self {
            id,
            stream,
            frame,
            sent_at,
            droppable,
            pass,
            ended: AtomicBool::new(false),
        }
    }

    /// Ends it; says whether it had not ended before.
    pub(crate) fn end(&self) -> bool {
        !self.ended.swap(true, Ordering::Relaxed)
    }

    /// Whether it ended: its parcels need not go on.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}

/// A request with what is known of it on this branch.
#[derive(Debug, Clone)]
pub(crate) struct Parcel {
    pub(crate) request: Arc<Request>,
    pub(crate) results: RequestResults,
}
