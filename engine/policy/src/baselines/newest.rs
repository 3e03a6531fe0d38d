//! The simple rival of every policy: one loop over the streams that takes the newest frame of each in turn, runs it to
//! completion, and drops the frames in between. Frames are neither compared with their deadlines nor put together in batches.
//!
//! What waits in a module is therefore one request of each stream. A newer one takes the place of the one that waits, and its turn:
//!
//! ```text
//! turn(newer) = turn(waiting)        waiting is dropped as superseded
//! turn(newer) = now                  where none of its stream waits
//! ```
//!
//! It has no parameters. Source: programs that read cameras by OpenCV and run ONNX Runtime, such as
//! `benches/reference/latest_frame.py`.

use std::collections::BTreeMap;

use weir_types::{RequestId, StreamId};

/// The last request of each stream that came to a module.
#[derive(Debug, Clone, Default)]
pub(crate) struct NewestRequests(BTreeMap<StreamId, RequestId>);

impl NewestRequests {
    /// A request comes; gives the one of its stream that came before.
    pub(crate) fn replace(&mut self, stream: StreamId, request: RequestId) -> Option<RequestId> {
        self.0.insert(stream, request)
    }

    pub(crate) fn on_removed(&mut self, stream: StreamId) {
        self.0.remove(&stream);
    }
}
