//! The best rows of a scan, in bounded memory.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::row::Row;

/// Key by which tracks are ordered: similarity, then time. The place makes it unique.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Key {
    pub(super) similarity: f32,
    pub(super) time_ms: u64,
    pub(super) segment: usize,
    pub(super) number: u64,
}

impl Eq for Key {}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        let place = |key: &Self| (key.time_ms, Reverse(key.segment), key.number);
        self.similarity
            .total_cmp(&other.similarity)
            .then_with(|| place(self).cmp(&place(other)))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A row with its key, by which alone it is compared.
pub(super) struct Ranked {
    pub(super) key: Key,
    pub(super) row: Row,
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

/// The best of a scan so far, at most a number of them.
pub(super) struct Best {
    limit: usize,
    heap: BinaryHeap<Reverse<Ranked>>,
}

impl Best {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            heap: BinaryHeap::with_capacity(limit + 1),
        }
    }

    /// True if a track with that key would be among the best.
    pub(super) fn takes(&self, key: &Key) -> bool {
        let least = self.heap.peek().map(|Reverse(least)| &least.key);
        self.heap.len() < self.limit || least.is_some_and(|least| key > least)
    }

    pub(super) fn add(&mut self, key: Key, row: Row) {
        if self.takes(&key) {
            self.heap.push(Reverse(Ranked { key, row }));
            if self.heap.len() > self.limit {
                self.heap.pop();
            }
        }
    }

    /// The rows, the best first.
    pub(super) fn into_sorted(self) -> impl Iterator<Item = Ranked> {
        self.heap
            .into_sorted_vec()
            .into_iter()
            .map(|Reverse(ranked)| ranked)
    }
}
