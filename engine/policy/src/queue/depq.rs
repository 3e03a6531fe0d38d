//! The mailbox of a module: a double-ended priority queue (PARD 4.3).
//!
//! The key of a request (its deadline; under FCFS its arrival) is constant while it waits, so one ordered map serves both
//! ends and removal from the middle in logarithmic time. Ties are broken by request id.

use std::collections::BTreeMap;

use weir_types::{RequestId, Timestamp};

/// An end of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The end with the smallest key: the least remaining budget, or the earliest arrival.
    Low,
    /// The largest key: the most remaining budget.
    High,
}

/// A double-ended priority queue of `T` by `(key, request)`.
#[derive(Debug, Clone)]
pub struct Depq<T> {
    entries: BTreeMap<(Timestamp, RequestId), T>,
}

impl<T> Default for Depq<T> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
        }
    }
}

impl<T> Depq<T> {
    /// Inserts `request`. An entry with the same key and id is replaced and returned.
    pub fn push(&mut self, key: Timestamp, request: RequestId, value: T) -> Option<T> {
        self.entries.insert((key, request), value)
    }

    /// The entry at `end`.
    #[must_use]
    pub fn peek(&self, end: End) -> Option<(Timestamp, RequestId, &T)> {
        let entry = match end {
            End::Low => self.entries.first_key_value(),
            End::High => self.entries.last_key_value(),
        };
        entry.map(|((key, request), value)| (*key, *request, value))
    }

    /// Removes the entry at `end`.
    pub fn pop(&mut self, end: End) -> Option<(Timestamp, RequestId, T)> {
        let entry = match end {
            End::Low => self.entries.pop_first(),
            End::High => self.entries.pop_last(),
        };
        entry.map(|((key, request), value)| (key, request, value))
    }

    /// Removes the entry with the smallest key if `accepts` returns true for it.
    pub fn pop_low_if(
        &mut self,
        accepts: impl FnOnce(Timestamp, RequestId) -> bool,
    ) -> Option<(Timestamp, RequestId, T)> {
        let first = self.entries.first_entry()?;
        let (key, request) = *first.key();
        accepts(key, request).then(|| (key, request, first.remove()))
    }

    /// Entries with keys from `key` on, smallest first.
    pub fn range_from(&self, key: Timestamp) -> impl Iterator<Item = (Timestamp, RequestId)> {
        let entries = self.entries.range((key, RequestId(0))..);
        entries.map(|((key, request), _)| (*key, *request))
    }

    /// Removes `request` from any position.
    pub fn remove(&mut self, key: Timestamp, request: RequestId) -> Option<T> {
        self.entries.remove(&(key, request))
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All entries, smallest key first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (Timestamp, RequestId, &T)> {
        self.entries
            .iter()
            .map(|((key, request), value)| (*key, *request, value))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Op {
        Push(u64, u64),
        Pop(End),
        PopLowIf(bool),
        Remove(usize),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            3 => (0_u64..20, 0_u64..50).prop_map(|(key, request)| Op::Push(key, request)),
            1 => Just(Op::Pop(End::Low)),
            1 => Just(Op::Pop(End::High)),
            1 => any::<bool>().prop_map(Op::PopLowIf),
            1 => any::<prop::sample::Index>().prop_map(|index| Op::Remove(index.index(64))),
        ]
    }

    proptest! {
        /// For any sequence of operations it behaves like a sorted list.
        #[test]
        fn behaves_as_a_sorted_list(ops in prop::collection::vec(op(), 0..200)) {
            let mut depq = Depq::default();
            let mut list: Vec<(Timestamp, RequestId)> = Vec::new();
            for op in ops {
                match op {
                    Op::Push(key, request) => {
                        let entry = (Timestamp::from_micros(key), RequestId(request));
                        let known = list.contains(&entry);
                        prop_assert_eq!(depq.push(entry.0, entry.1, ()).is_some(), known);
                        if !known {
                            list.push(entry);
                            list.sort_unstable();
                        }
                    }
                    Op::Pop(end) => {
                        let expected = match end {
                            End::Low if !list.is_empty() => Some(list.remove(0)),
                            End::High => list.pop(),
                            End::Low => None,
                        };
                        prop_assert_eq!(depq.pop(end).map(|(key, request, ())| (key, request)), expected);
                    }
                    Op::PopLowIf(accepts) => {
                        let mut seen = None;
                        let popped = depq.pop_low_if(|key, request| {
                            seen = Some((key, request));
                            accepts
                        });
                        prop_assert_eq!(seen, list.first().copied());
                        let expected = (accepts && !list.is_empty()).then(|| list.remove(0));
                        prop_assert_eq!(popped.map(|(key, request, ())| (key, request)), expected);
                    }
                    Op::Remove(index) => {
                        if let Some(&(key, request)) = list.get(index) {
                            list.remove(index);
                            prop_assert!(depq.remove(key, request).is_some());
                            prop_assert!(depq.remove(key, request).is_none());
                        }
                    }
                }
                prop_assert_eq!(depq.len(), list.len());
                let kept: Vec<_> = depq.iter().map(|(key, request, ())| (key, request)).collect();
                prop_assert_eq!(&kept, &list);
            }
        }
    }
}
