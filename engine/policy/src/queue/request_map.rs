//! A map by request for requests in flight: ids rise and are short-lived, so it is a ring with a moving base. Iteration is in
//! the order of ids.

use std::collections::{BTreeMap, VecDeque};

use weir_types::RequestId;

/// Length of the ring up to which it is not compacted.
const MIN_COMPACT_LEN: usize = 4_096;
/// Ring length per entry above which the oldest entries are moved out of the ring.
const MAX_SPARSITY: usize = 8;

/// Values by request in flight.
#[derive(Debug, Clone)]
pub struct RequestMap<T> {
    base: u64,
    ring: VecDeque<Option<T>>,
    in_ring: usize,
    /// The few entries that outlived nearly all others of their time, or were inserted below the ring.
    stragglers: BTreeMap<RequestId, T>,
}

impl<T> Default for RequestMap<T> {
    fn default() -> Self {
        Self {
            base: 0,
            ring: VecDeque::new(),
            in_ring: 0,
            stragglers: BTreeMap::new(),
        }
    }
}

impl<T> RequestMap<T> {
    fn place(&self, request: RequestId) -> Option<usize> {
        let place = usize::try_from(request.0.checked_sub(self.base)?).ok()?;
        (place < self.ring.len()).then_some(place)
    }

    /// Inserts `value`; returns the previous one.
    pub fn insert(&mut self, request: RequestId, value: T) -> Option<T> {
        let previous = if self.stragglers.is_empty() {
            None
        } else {
            self.stragglers.remove(&request)
        };
        if self.ring.is_empty() {
            self.base = request.0;
        }
        if request.0 < self.base {
            if self.base - request.0 > MIN_COMPACT_LEN as u64 {
                self.stragglers.insert(request, value);
                return previous;
            }
            while request.0 < self.base {
                self.ring.push_front(None);
                self.base -= 1;
            }
        }
        while request.0 - self.base >= self.ring.len() as u64 {
            if self.is_sparse() || request.0 - self.base > 4 * MIN_COMPACT_LEN as u64 {
                self.advance(request);
                if self.ring.is_empty() {
                    self.base = request.0;
                }
            }
            self.ring.push_back(None);
        }
        let place = (request.0 - self.base) as usize;
        let found = self.ring[place].replace(value);
        self.in_ring += usize::from(found.is_none());
        found.or(previous)
    }

    fn is_sparse(&self) -> bool {
        self.ring.len() > MIN_COMPACT_LEN && self.in_ring * MAX_SPARSITY < self.ring.len()
    }

    /// Moves stragglers out of the ring's front until it is neither sparse nor too long to reach `request`.
    fn advance(&mut self, request: RequestId) {
        while (self.is_sparse() || request.0 - self.base > 4 * MIN_COMPACT_LEN as u64)
            && !self.ring.is_empty()
        {
            if let Some(Some(value)) = self.ring.pop_front() {
                self.in_ring -= 1;
                self.stragglers.insert(RequestId(self.base), value);
            }
            self.base += 1;
        }
    }

    /// The value of a request.
    pub fn get(&self, request: RequestId) -> Option<&T> {
        let found = self.place(request).and_then(|place| self.ring[place].as_ref());
        found.or_else(|| self.stragglers.get(&request))
    }

    /// As [`RequestMap::get`], to be changed.
    pub(crate) fn get_mut(&mut self, request: RequestId) -> Option<&mut T> {
        match self.place(request) {
            Some(place) if self.ring[place].is_some() => self.ring[place].as_mut(),
            _ => self.stragglers.get_mut(&request),
        }
    }

    /// Removes a request; returns its value.
    pub fn remove(&mut self, request: RequestId) -> Option<T> {
        let Some(place) = self.place(request) else {
            return self.stragglers.remove(&request);
        };
        let Some(value) = self.ring[place].take() else {
            return self.stragglers.remove(&request);
        };
        self.in_ring -= 1;
        while let Some(None) = self.ring.front() {
            self.ring.pop_front();
            self.base += 1;
        }
        Some(value)
    }

    /// Counts requests that have a value.
    pub(crate) fn len(&self) -> usize {
        self.in_ring + self.stragglers.len()
    }

    /// All entries, by id.
    pub fn iter(&self) -> impl Iterator<Item = (RequestId, &T)> {
        let stragglers = self.stragglers.iter().map(|(request, value)| (*request, value));
        let ring = (self.base..)
            .zip(&self.ring)
            .filter_map(|(number, value)| Some((RequestId(number), value.as_ref()?)));
        let mut all: Vec<(RequestId, &T)> = stragglers.chain(ring).collect();
        all.sort_by_key(|(request, _)| *request);
        all.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// For any sequence of operations it behaves like an ordered map.
        #[test]
        fn it_behaves_as_an_ordered_map(ops in prop::collection::vec((0_u8..5, 0_u64..400, 0_u64..3), 0..400)) {
            let mut ring = RequestMap::default();
            let mut map = BTreeMap::new();
            for (kind, low, jump) in ops {
                // Jumps far beyond the ring, as after a long stall.
                let request = RequestId(low + jump * 100_000);
                if kind < 3 {
                    prop_assert_eq!(ring.insert(request, low), map.insert(request, low));
                } else {
                    prop_assert_eq!(ring.remove(request), map.remove(&request));
                }
                prop_assert_eq!(ring.get(request), map.get(&request));
                prop_assert_eq!(ring.get_mut(request).copied(), map.get(&request).copied());
                prop_assert_eq!(ring.len(), map.len());
            }
            let all: Vec<_> = ring.iter().map(|(request, value)| (request, *value)).collect();
            prop_assert_eq!(all, map.into_iter().collect::<Vec<_>>());
        }
    }

    /// The ring may become empty and restart below the id of a straggler, which is still found.
    #[test]
    fn a_straggler_is_found_when_the_ring_restarts_below_it() {
        let mut ring = RequestMap::default();
        ring.insert(RequestId(10), 10);
        ring.insert(RequestId(10 + 10 * MIN_COMPACT_LEN as u64), 0);
        ring.remove(RequestId(10 + 10 * MIN_COMPACT_LEN as u64));
        ring.insert(RequestId(5), 5);
        ring.insert(RequestId(20), 20);
        assert_eq!((ring.get(RequestId(10)), ring.len()), (Some(&10), 3));
        assert_eq!(ring.remove(RequestId(10)), Some(10));
    }

    #[test]
    fn a_straggler_does_not_grow_the_ring() {
        let mut ring = RequestMap::default();
        ring.insert(RequestId(0), 0);
        for number in 1..1_000_000 {
            ring.insert(RequestId(number), number);
            ring.remove(RequestId(number));
        }
        assert_eq!((ring.len(), ring.get(RequestId(0))), (1, Some(&0)));
        assert!(ring.ring.len() <= 5 * MIN_COMPACT_LEN, "{}", ring.ring.len());
    }
}
