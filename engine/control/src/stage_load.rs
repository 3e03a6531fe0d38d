//! The load of a stage of a cascade, by stream.

use std::collections::BTreeMap;

use weir_types::{RequestId, StreamId};

/// Requests that came to a stage, and items that wait or run there.
#[derive(Debug, Clone, Default)]
pub(crate) struct StageLoad {
    /// Requests since the last look.
    pub(crate) arrived: BTreeMap<StreamId, u64>,
    /// Items that wait or run; streams without any are not here.
    pub(crate) waiting: BTreeMap<StreamId, u64>,
    /// Requests that are here, with the number of their items.
    here: BTreeMap<RequestId, (StreamId, u32)>,
}

impl StageLoad {
    pub(crate) fn on_entered(&mut self, request: RequestId, stream: StreamId, items: u32) {
        *self.arrived.entry(stream).or_default() += 1;
        if items > 0 {
            *self.waiting.entry(stream).or_default() += u64::from(items);
            self.here.insert(request, (stream, items));
        }
    }

    /// A request has left, or has ended.
    pub(crate) fn on_left(&mut self, request: RequestId) {
        let Some((stream, items)) = self.here.remove(&request) else {
            return;
        };
        let left = self.waiting.get_mut(&stream).map(|waiting| {
            *waiting = waiting.saturating_sub(u64::from(items));
            *waiting
        });
        if left == Some(0) {
            self.waiting.remove(&stream);
        }
    }

    /// Gives the load since the last look.
    pub(crate) fn take(&mut self) -> Self {
        Self {
            arrived: std::mem::take(&mut self.arrived),
            waiting: self.waiting.clone(),
            here: BTreeMap::new(),
        }
    }
}
