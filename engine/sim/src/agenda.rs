//! What is to come, in the order of time; what was noted first comes first among equals.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_policy::Timestamp;

/// An event heap with deterministic ties.
#[derive(Debug)]
pub(crate) struct Agenda<T> {
    heap: BinaryHeap<Reverse<Place<T>>>,
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
            noted: 0,
        }
    }
}

impl<T> Agenda<T> {
    pub(crate) fn note(&mut self, at: Timestamp, what: T) {
        let number = self.noted;
        self.noted += 1;
        self.heap.push(Reverse(Place { at, number, what }));
    }

    /// When the next one is.
    pub(crate) fn next_at(&self) -> Option<Timestamp> {
        self.heap.peek().map(|Reverse(place)| place.at)
    }

    pub(crate) fn next(&mut self) -> Option<(Timestamp, T)> {
        self.heap.pop().map(|Reverse(place)| (place.at, place.what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_come_in_the_order_in_which_they_were_noted() {
        let mut agenda = Agenda::default();
        for (at, what) in [(5, 'c'), (1, 'a'), (5, 'd'), (1, 'b')] {
            agenda.note(Timestamp::from_micros(at), what);
        }
        let order: String = std::iter::from_fn(|| agenda.next())
            .map(|(_, what)| what)
            .collect();
        assert_eq!(order, "abcd");
    }
}
