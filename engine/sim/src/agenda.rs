//! What is to come, in the order of time; what was noted first comes first among equals.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use weir_types::Timestamp;

/// An event heap with deterministic ties, and a line beside it.
#[derive(Debug)]
pub(crate) struct Agenda<T> {
    heap: BinaryHeap<Reverse<Place<T>>>,
    /// What was noted in the order of time already: it need not be sorted.
    line: VecDeque<Place<T>>,
    noted: u64,
}

#[derive(Debug)]
struct Place<T> {
    at: Timestamp,
    number: u64,
    what: T,
}

impl<T> PartialEq for Place<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl<T> Eq for Place<T> {}

impl<T> PartialOrd for Place<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Place<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            line: VecDeque::new(),
            noted: 0,
        }
    }
}

impl<T> Agenda<T> {
    pub(crate) fn note(&mut self, at: Timestamp, what: T) {
        let place = self.place(at, what);
        self.heap.push(Reverse(place));
    }

    /// As [`Self::note`], for what always comes equally long after it is noted.
    pub(crate) fn note_in_line(&mut self, at: Timestamp, what: T) {
        let place = self.place(at, what);
        if self.line.back().is_some_and(|last| last.at > at) {
            self.heap.push(Reverse(place));
        } else {
            self.line.push_back(place);
        }
    }

    fn place(&mut self, at: Timestamp, what: T) -> Place<T> {
        let number = self.noted;
        self.noted += 1;
        Place { at, number, what }
    }

    /// Whether the line holds the next one.
    fn is_in_line(&self) -> bool {
        match (self.line.front(), self.heap.peek()) {
            (Some(in_line), Some(Reverse(on_heap))) => in_line < on_heap,
            (in_line, _) => in_line.is_some(),
        }
    }

    /// When the next one is.
    pub(crate) fn next_at(&self) -> Option<Timestamp> {
        let in_line = self.line.front().map(|place| place.at);
        let on_heap = self.heap.peek().map(|Reverse(place)| place.at);
        in_line.into_iter().chain(on_heap).min()
    }

    pub(crate) fn next(&mut self) -> Option<(Timestamp, T)> {
        let next = if self.is_in_line() {
            self.line.pop_front()
        } else {
            self.heap.pop().map(|Reverse(place)| place)
        };
        next.map(|place| (place.at, place.what))
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
            let mut agenda = Agenda::default();
            let mut left = Vec::new();
            for (number, (at, in_line, take)) in all.into_iter().enumerate() {
                let at = Timestamp::from_micros(at);
                if in_line {
                    agenda.note_in_line(at, number);
                } else {
                    agenda.note(at, number);
                }
                left.push((at, number));
                if take {
                    left.sort_unstable();
                    prop_assert_eq!(agenda.next_at(), Some(left[0].0));
                    prop_assert_eq!(agenda.next(), Some(left.remove(0)));
                }
            }
            left.sort_unstable();
            prop_assert_eq!(std::iter::from_fn(|| agenda.next()).collect::<Vec<_>>(), left);
        }
    }
}
