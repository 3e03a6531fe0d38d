//! Results of one stream are released in frame order, although requests may end in another order.

use std::collections::{BTreeMap, VecDeque};

use weir_types::invariant;
use weir_types::invariant::Kind;
use weir_types::{RequestId, StreamId};

#[derive(Debug, Clone)]
enum Entry<T> {
    /// The request is in flight.
    Open,
    /// Ended, with a result or dropped.
    Ended(Option<T>),
}

/// Requests of one stream, in frame order.
#[derive(Debug, Clone)]
struct Line<T> {
    /// Requests from the first that has not ended on, ascending.
    waiting: VecDeque<(RequestId, Entry<T>)>,
    /// Last request that was released, with or without a result.
    left: Option<RequestId>,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            left: None,
        }
    }
}

/// Holds results back until all before them in their stream have ended. Bounded by the requests in flight.
#[derive(Debug, Clone)]
pub struct ReorderBuffer<T> {
    streams: BTreeMap<StreamId, Line<T>>,
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
        let line = self.streams.entry(stream).or_default();
        let before = line.waiting.back().map(|(before, _)| *before).or(line.left);
        // Request ids of a stream ascend in the order of sending, which the binary search below relies on.
        let ascends = invariant!(
            before < Some(request),
            Kind::FrameOrder,
            "request {} of stream {} is sent after {before:?}",
            request.0,
            stream.0
        );
        if ascends {
            line.waiting.push_back((request, Entry::Open));
        }
    }

    /// A request ended, with a result or without; returns the results that can be released now, in order. A
    /// result whose request was not sent in order, or has ended before, is a violation and is discarded.
    pub fn on_ended(&mut self, stream: StreamId, request: RequestId, result: Option<T>) -> Vec<T> {
        let line = self.streams.entry(stream).or_default();
        let at = line
            .waiting
            .binary_search_by_key(&request, |(request, _)| *request);
        let place = at.ok().and_then(|at| line.waiting.get_mut(at));
        let open = place.filter(|(_, place)| matches!(place, Entry::Open));
        invariant!(
            open.is_some(),
            Kind::FrameOrder,
            "request {} of stream {} ends and does not wait; the last that left is {:?}",
            request.0,
            stream.0,
            line.left
        );
        if let Some((_, place)) = open {
            *place = Entry::Ended(result);
        }
        let mut leaving = Vec::new();
        while let Some((_, Entry::Ended(_))) = line.waiting.front() {
            let Some((request, Entry::Ended(result))) = line.waiting.pop_front() else {
                break;
            };
            invariant!(
                line.left < Some(request),
                Kind::FrameOrder,
                "request {} of stream {} leaves after {:?}",
                request.0,
                stream.0,
                line.left
            );
            line.left = Some(request);
            leaving.extend(result);
        }
        leaving
    }

    /// A stream is over: all its requests have ended, and no more are sent.
    pub fn remove_stream(&mut self, stream: StreamId) {
        let removed = self.streams.remove(&stream);
        invariant!(
            removed.is_none_or(|line| line.waiting.is_empty()),
            Kind::FrameOrder,
            "stream {} is removed while results of it wait",
            stream.0
        );
    }

    /// Results that wait for an earlier request.
    #[must_use]
    pub fn waiting_results(&self) -> usize {
        self.streams
            .values()
            .flat_map(|line| &line.waiting)
            .filter(|(_, place)| matches!(place, Entry::Ended(Some(_))))
            .count()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::violation::assert_violates;

    const STREAM: StreamId = StreamId(0);

    fn sent(requests: &[u64]) -> ReorderBuffer<u64> {
        let mut buffer = ReorderBuffer::default();
        for &request in requests {
            buffer.on_sent(STREAM, RequestId(request));
        }
        buffer
    }

    #[test]
    fn a_request_that_is_sent_out_of_order_is_a_violation_and_holds_nothing_back() {
        let mut buffer = assert_violates(Kind::FrameOrder, || sent(&[5, 3, 7]));
        assert_eq!(buffer.on_ended(STREAM, RequestId(5), Some(5)), [5]);
        assert_eq!(buffer.on_ended(STREAM, RequestId(7), Some(7)), [7]);
        // None before it waits any more.
        assert_violates(Kind::FrameOrder, || buffer.on_sent(STREAM, RequestId(6)));
    }

    #[test]
    fn a_request_that_ends_twice_or_was_never_sent_is_a_violation_and_does_not_leave() {
        let ends = |requests: &[u64]| {
            let mut buffer = sent(&[1, 2]);
            let ended = requests
                .iter()
                .map(|&request| buffer.on_ended(STREAM, RequestId(request), Some(request)));
            ended.flatten().collect::<Vec<_>>()
        };
        assert_eq!(assert_violates(Kind::FrameOrder, || ends(&[1, 1, 2])), [1, 2]);
        assert_eq!(assert_violates(Kind::FrameOrder, || ends(&[2, 2, 1])), [1, 2]);
        assert_eq!(assert_violates(Kind::FrameOrder, || ends(&[9, 1])), [1]);
    }

    #[test]
    fn a_stream_that_is_removed_while_results_of_it_wait_is_a_violation() {
        let mut buffer = sent(&[1, 2]);
        buffer.on_ended(STREAM, RequestId(2), Some(2));
        assert_violates(Kind::FrameOrder, || buffer.clone().remove_stream(STREAM));
        buffer.on_ended(STREAM, RequestId(1), None);
        buffer.remove_stream(STREAM);
        assert_eq!(buffer.waiting_results(), 0);
    }

    #[test]
    fn a_result_that_would_leave_out_of_order_is_a_violation() {
        assert_violates(Kind::FrameOrder, || {
            let mut buffer = sent(&[1, 2]);
            buffer.streams.entry(STREAM).or_default().left = Some(RequestId(1));
            buffer.on_ended(STREAM, RequestId(1), Some(1))
        });
    }

    proptest! {
        /// For any order in which requests end, results are released in the order of sending and none is
        /// lost.
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
