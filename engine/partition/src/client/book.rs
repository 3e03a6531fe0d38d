//! The book of batches under way: every one that is entered is struck out once.

use std::collections::BTreeMap;

use weir_types::{Span, Timestamp};

use super::event::WorkerId;
use crate::wire::BatchKey;

struct UnderWay {
    way: Vec<WorkerId>,
    /// The stage that its inputs have come in for, as far as it was told.
    reached: usize,
    heard: Timestamp,
}

/// See the module.
#[derive(Default)]
pub(super) struct Book {
    batches: BTreeMap<BatchKey, UnderWay>,
}

/// A batch and the stage that it had reached.
pub(super) type Struck = (BatchKey, u32);

impl Book {
    pub(super) fn len(&self) -> usize {
        self.batches.len()
    }

    pub(super) fn holds(&self, key: BatchKey) -> bool {
        self.batches.contains_key(&key)
    }

    pub(super) fn enter(&mut self, key: BatchKey, way: Vec<WorkerId>, now: Timestamp) {
        let under_way = UnderWay {
            way,
            reached: 0,
            heard: now,
        };
        let before = self.batches.insert(key, under_way);
        debug_assert!(before.is_none(), "a batch is entered once");
    }

    /// Strikes a batch out; false where it was not in.
    pub(super) fn end(&mut self, key: BatchKey) -> bool {
        self.batches.remove(&key).is_some()
    }

    /// A resource was used for it. The workers of the stages before one whose inputs have come in are done with it.
    pub(super) fn used(&mut self, key: BatchKey, stage: u32, now: Timestamp) {
        if let Some(batch) = self.batches.get_mut(&key) {
            let stage = stage as usize;
            if stage < batch.way.len() {
                batch.reached = batch.reached.max(stage);
            }
            batch.heard = now;
        }
    }

    fn strike(&mut self, which: impl Fn(&UnderWay) -> bool) -> Vec<Struck> {
        let struck = self.batches.extract_if(.., |_, batch| which(batch));
        struck.map(|(key, batch)| (key, batch.reached as u32)).collect()
    }

    /// Strikes out batches that a worker still has, or would get.
    pub(super) fn down(&mut self, worker: WorkerId) -> Vec<Struck> {
        self.strike(|batch| batch.way[batch.reached..].contains(&worker))
    }

    /// Strikes out batches of which nothing was heard for longer than `most`.
    pub(super) fn overdue(&mut self, now: Timestamp, most: Span) -> Vec<Struck> {
        self.strike(|batch| now.since(batch.heard) > most)
    }

    pub(super) fn all(&mut self) -> Vec<Struck> {
        self.strike(|_| true)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use weir_types::{BatchId, ModuleId};

    use super::*;

    fn key(batch: u64) -> BatchKey {
        BatchKey {
            module: ModuleId(0),
            batch: BatchId(batch),
        }
    }

    fn book(ways: &[&[u32]]) -> Book {
        let mut book = Book::default();
        for (number, way) in (0..).zip(ways) {
            let way = way.iter().copied().map(WorkerId).collect();
            book.enter(key(number), way, Timestamp::ZERO);
        }
        book
    }

    #[test]
    fn a_batch_falls_with_a_worker_that_it_still_needs() {
        let mut book = book(&[&[1, 2], &[1, 2], &[1, 2], &[3]]);
        book.used(key(1), 0, Timestamp::ZERO);
        book.used(key(2), 1, Timestamp::ZERO);
        assert_eq!(
            book.down(WorkerId(1)),
            [(key(0), 0), (key(1), 0)],
            "a batch that ran may still be on its way out; one that came in at the next is safe"
        );
        assert_eq!(book.down(WorkerId(2)), [(key(2), 1)]);
        assert_eq!(book.all(), [(key(3), 0)]);
    }

    #[test]
    fn a_batch_is_lost_when_nothing_is_heard_of_it() {
        let mut book = book(&[&[1], &[1]]);
        let at = Timestamp::from_micros;
        book.used(key(1), 0, at(500));
        assert_eq!(book.overdue(at(1_000), Span::from_micros(900)), [(key(0), 0)]);
        assert_eq!(book.overdue(at(1_500), Span::from_micros(900)), [(key(1), 0)]);
    }

    proptest! {
        #[test]
        fn every_batch_ends_once(
            ways in vec(vec(0..4_u32, 1..4), 0..12),
            events in vec((0..5_u8, 0..12_u64, 0..4_u32), 0..60),
        ) {
            let ways: Vec<&[u32]> = ways.iter().map(Vec::as_slice).collect();
            let mut book = book(&ways);
            let mut ended = BTreeSet::new();
            for (time, (what, batch, other)) in (0..).zip(events) {
                let now = Timestamp::from_micros(time);
                let struck = match what {
                    0 => if book.end(key(batch)) { vec![(key(batch), 0)] } else { vec![] },
                    1 => book.down(WorkerId(other)),
                    2 => book.overdue(now, Span::from_micros(20)),
                    _ => { book.used(key(batch), other, now); vec![] }
                };
                for (key, _) in struck {
                    prop_assert!(ended.insert(key), "{key:?} ended twice");
                }
            }
            for (key, _) in book.all() {
                prop_assert!(ended.insert(key), "{key:?} ended twice");
            }
            prop_assert_eq!(ended.len(), ways.len());
            prop_assert_eq!(book.len(), 0);
        }
    }
}
