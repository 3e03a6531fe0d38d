//! Future events in the order of time. Events at the same time come out in the order in which they were
//! pushed.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use weir_types::Timestamp;

/// Event heap with deterministic order of ties, and beside it a FIFO for events that are pushed in order.
#[derive(Debug)]
pub struct EventQueue<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    /// Events pushed in the order of their times, which need no heap.
    line: VecDeque<Entry<T>>,
    pushed: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: Timestamp,
    number: u64,
    event: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl<T> Default for EventQueue<T> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            line: VecDeque::new(),
            pushed: 0,
        }
    }
}

impl<T> EventQueue<T> {
    /// Adds an event.
    pub fn push(&mut self, at: Timestamp, event: T) {
        let entry = self.numbered(at, event);
        self.heap.push(Reverse(entry));
    }

    /// As [`Self::push`], but cheap for events that always follow after the same delay, so that their times
    /// ascend.
    pub fn push_in_order(&mut self, at: Timestamp, event: T) {
        let entry = self.numbered(at, event);
        if self.line.back().is_some_and(|last| last.at > at) {
            self.heap.push(Reverse(entry));
        } else {
            self.line.push_back(entry);
        }
    }

    fn numbered(&mut self, at: Timestamp, event: T) -> Entry<T> {
        let number = self.pushed;
        self.pushed += 1;
        Entry { at, number, event }
    }

    /// True if the next event is in the FIFO.
    fn is_line_first(&self) -> bool {
        match (self.line.front(), self.heap.peek()) {
            (Some(in_line), Some(Reverse(on_heap))) => in_line < on_heap,
            (in_line, _) => in_line.is_some(),
        }
    }

    /// Time of the next event.
    pub fn next_time(&self) -> Option<Timestamp> {
        let in_line = self.line.front().map(|entry| entry.at);
        let on_heap = self.heap.peek().map(|Reverse(entry)| entry.at);
        in_line.into_iter().chain(on_heap).min()
    }

    /// Removes and returns the next event.
    pub fn pop(&mut self) -> Option<(Timestamp, T)> {
        let next = if self.is_line_first() {
            self.line.pop_front()
        } else {
            self.heap.pop().map(|Reverse(entry)| entry)
        };
        next.map(|entry| (entry.at, entry.event))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whichever way they are noted: by time, and as they were noted among equals.
        #[test]
        fn they_come_by_time_and_then_as_noted(all in prop::collection::vec((0_u64..20, any::<bool>(), any::<bool>()), 0..100)) {
            let mut event_queue = EventQueue::default();
            let mut left = Vec::new();
            for (number, (at, in_line, take)) in all.into_iter().enumerate() {
                let at = Timestamp::from_micros(at);
                if in_line {
                    event_queue.push_in_order(at, number);
                } else {
                    event_queue.push(at, number);
                }
                left.push((at, number));
                if take {
                    left.sort_unstable();
                    prop_assert_eq!(event_queue.next_time(), Some(left[0].0));
                    prop_assert_eq!(event_queue.pop(), Some(left.remove(0)));
                }
            }
            left.sort_unstable();
            prop_assert_eq!(std::iter::from_fn(|| event_queue.pop()).collect::<Vec<_>>(), left);
        }
    }
}
