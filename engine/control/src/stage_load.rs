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
    /// Requests that wait or run, at a look; streams without any are not here.
    pub(crate) requests: BTreeMap<StreamId, u64>,
    /// Items that wait or run, each tile of a frame counted.
    in_work: u64,
    /// Whether a request counts as one item, however many tiles it is read in: gears are for rates of requests.
    by_request: bool,
    /// Requests that are here, with the number of their items as they count, and of all.
    here: BTreeMap<RequestId, (StreamId, [u32; 2])>,
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
        let counted = if self.by_request { items.min(1) } else { items };
        if counted > 0 {
            *self.waiting.entry(stream).or_default() += u64::from(counted);
            self.in_work += u64::from(items);
            self.here.insert(request, (stream, [counted, items]));
        }
    }

    /// A request has left, or has ended.
    pub(crate) fn on_left(&mut self, request: RequestId) {
        let Some((stream, [counted, items])) = self.here.remove(&request) else {
            return;
        };
        self.in_work = self.in_work.saturating_sub(u64::from(items));
        let left = self.waiting.get_mut(&stream).map(|waiting| {
            *waiting = waiting.saturating_sub(u64::from(counted));
            *waiting
        });
        if left == Some(0) {
            self.waiting.remove(&stream);
        }
    }

    /// Number of items that wait or run, of all streams, each tile of a frame counted.
    pub(crate) fn items(&self) -> u64 {
        self.in_work
    }

    /// Gives the load since the last look.
    pub(crate) fn take(&mut self) -> Self {
        let mut requests: BTreeMap<StreamId, u64> = BTreeMap::new();
        for (stream, _) in self.here.values() {
            *requests.entry(*stream).or_default() += 1;
        }
        Self {
            arrived: std::mem::take(&mut self.arrived),
            waiting: self.waiting.clone(),
            requests,
            in_work: self.in_work,
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
            assert_eq!(taken.requests[&StreamId(0)], 2);
            assert_eq!(taken.items(), 9, "each tile is work");
            load.on_left(RequestId(1));
            load.on_left(RequestId(2));
            let taken = load.take();
            assert!(taken.waiting.is_empty() && taken.items() == 0);
        }
    }
}
