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
    /// Whether a request counts as one item, however many tiles it is read in: gears are for rates of requests.
    by_request: bool,
    /// Requests that are here, with the number of their items.
    here: BTreeMap<RequestId, (StreamId, u32)>,
}

impl StageLoad {
    pub(crate) fn new(by_request: bool) -> Self {
        Self {
            by_request,
            ..Self::default()
        }
    }

    pub(crate) fn on_entered(&mut self, request: RequestId, stream: StreamId, items: u32) {
        *self.arrived.entry(stream).or_default() += 1;
        let items = if self.by_request { items.min(1) } else { items };
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
            by_request: self.by_request,
            here: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_that_is_read_in_tiles_waits_as_one_item() {
        for (by_request, expected) in [(false, 9), (true, 2)] {
            let mut load = StageLoad::new(by_request);
            load.on_entered(RequestId(1), StreamId(0), 7);
            load.on_entered(RequestId(2), StreamId(0), 2);
            load.on_entered(RequestId(3), StreamId(0), 0);
            let taken = load.take();
            assert_eq!(
                (taken.arrived[&StreamId(0)], taken.waiting[&StreamId(0)]),
                (3, expected)
            );
            load.on_left(RequestId(1));
            load.on_left(RequestId(2));
            assert!(load.take().waiting.is_empty());
        }
    }
}
