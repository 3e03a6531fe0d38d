//! Results of one stream are released in frame order, although requests may overtake each other.

use std::collections::{BTreeMap, VecDeque};

use weir_types::{RequestId, StreamId};

#[derive(Debug, Clone)]
enum Entry<T> {
    /// In flight.
    Open,
    /// Ended, with a result or dropped.
    Ended(Option<T>),
}

/// Holds results until all earlier requests of their stream have ended. Bounded by the requests in flight.
#[derive(Debug, Clone)]
pub struct ReorderBuffer<T> {
    streams: BTreeMap<StreamId, VecDeque<(RequestId, Entry<T>)>>,
}

impl<T> Default for ReorderBuffer<T> {
    fn default() -> Self {
        Self {
            streams: BTreeMap::new(),
        }
    }
}

impl<T> ReorderBuffer<T> {
    /// A request of `stream` was sent, in frame order.
    pub fn on_sent(&mut self, stream: StreamId, request: RequestId) {
        self.streams
            .entry(stream)
            .or_default()
            .push_back((request, Entry::Open));
    }

    /// A request ended, with a result or dropped; returns the results that are released, in order.
    pub fn on_ended(&mut self, stream: StreamId, request: RequestId, result: Option<T>) -> Vec<T> {
        let Some(queue) = self.streams.get_mut(&stream) else {
            return Vec::new();
        };
        // Requests of a stream are numbered in the order of sending.
        if let Ok(at) = queue.binary_search_by_key(&request, |(request, _)| *request) {
            queue[at].1 = Entry::Ended(result);
        }
        let mut released = Vec::new();
        while let Some((_, Entry::Ended(_))) = queue.front() {
            if let Some((_, Entry::Ended(Some(result)))) = queue.pop_front() {
                released.push(result);
            }
        }
        released
    }

    /// Results that wait for an earlier request.
    #[must_use]
    pub fn waiting_results(&self) -> usize {
        self.streams
            .values()
            .flatten()
            .filter(|(_, entry)| matches!(entry, Entry::Ended(Some(_))))
            .count()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever the order in which requests end, results are released in the order of sending and none is lost.
        #[test]
        fn results_are_released_in_order(order in Just((0_u64..40).collect::<Vec<_>>()).prop_shuffle(), kept in prop::collection::vec(any::<bool>(), 40)) {
            let mut buffer = ReorderBuffer::default();
            let stream = |request: u64| StreamId((request % 3) as u32);
            for request in 0..40 {
                buffer.on_sent(stream(request), RequestId(request));
            }
            let mut released_by_stream: BTreeMap<StreamId, Vec<u64>> = BTreeMap::new();
            for request in order {
                let result = kept[request as usize].then_some(request);
                let released = buffer.on_ended(stream(request), RequestId(request), result);
                released_by_stream.entry(stream(request)).or_default().extend(released);
            }
            prop_assert_eq!(buffer.waiting_results(), 0);
            for (id, results) in released_by_stream {
                let expected: Vec<u64> =
                    (0..40).filter(|&request| stream(request) == id && kept[request as usize]).collect();
                prop_assert_eq!(results, expected);
            }
        }
    }
}
