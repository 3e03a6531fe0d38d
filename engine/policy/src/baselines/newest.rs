//! The simple rival of every policy: one loop over the streams that takes the newest frame of each in turn,
//! runs it to completion, and drops the frames in between. Frames are neither compared with their deadlines
//! nor batched.
//!
//! So at most one request of each stream waits in a module. A newer one replaces the waiting one and takes
//! its turn:
//!
//! ```text
//! turn(newer) = turn(waiting)        waiting is dropped as superseded
//! turn(newer) = now                  if no request of its stream waits
//! ```
//!
//! It has no parameters. Source: programs that read cameras by OpenCV and run ONNX Runtime, such as
//! `benches/reference/latest_frame.py`.

use std::collections::BTreeMap;

use weir_types::{RequestId, StreamId};

/// Latest request of each stream that arrived at a module.
#[derive(Debug, Clone, Default)]
pub(crate) struct NewestRequests(BTreeMap<StreamId, RequestId>);

impl NewestRequests {
    /// Records a request; returns the previous one of its stream.
    pub(crate) fn replace(&mut self, stream: StreamId, request: RequestId) -> Option<RequestId> {
        self.0.insert(stream, request)
    }

    pub(crate) fn on_removed(&mut self, stream: StreamId) {
        self.0.remove(&stream);
    }
}
