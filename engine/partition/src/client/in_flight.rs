//! The batches in flight: each is entered once and removed once.

use std::collections::BTreeMap;

use weir_types::{Span, Timestamp, WorkerId};

use crate::wire::BatchKey;

struct BatchState {
    path: Vec<WorkerId>,
    /// The stage that its inputs have come in for, as far as reported.
    reached: usize,
    last_report_at: Timestamp,
}

/// See the module.
#[derive(Default)]
pub(super) struct InFlight {
    batches: BTreeMap<BatchKey, BatchState>,
}

/// A batch and the stage that it had reached.
pub(super) type FailedBatch = (BatchKey, u32);

impl InFlight {
    pub(super) fn len(&self) -> usize {
        self.batches.len()
    }

    pub(super) fn contains(&self, key: BatchKey) -> bool {
        self.batches.contains_key(&key)
    }

    pub(super) fn insert(&mut self, key: BatchKey, path: Vec<WorkerId>, now: Timestamp) {
        let state = BatchState {
            path,
            reached: 0,
            last_report_at: now,
        };
        let before = self.batches.insert(key, state);
        debug_assert!(before.is_none(), "a batch is entered once");
    }

    /// Removes a batch; returns false if it was not in flight.
    pub(super) fn remove(&mut self, key: BatchKey) -> bool {
        self.batches.remove(&key).is_some()
    }

    /// Records a use of a resource by the batch. When a stage has its inputs, the workers of earlier stages
    /// are done with the batch.
    pub(super) fn on_used(&mut self, key: BatchKey, stage: u32, now: Timestamp) {
        if let Some(batch) = self.batches.get_mut(&key) {
            let stage = stage as usize;
            if stage < batch.path.len() {
                batch.reached = batch.reached.max(stage);
            }
            batch.last_report_at = now;
        }
    }

    fn fail_where(&mut self, which: impl Fn(&BatchState) -> bool) -> Vec<FailedBatch> {
        let failed = self.batches.extract_if(.., |_, batch| which(batch));
        failed.map(|(key, batch)| (key, batch.reached as u32)).collect()
    }

    /// Removes batches that a worker still has, or would get.
    pub(super) fn fail_on_worker(&mut self, worker: WorkerId) -> Vec<FailedBatch> {
        self.fail_where(|batch| batch.path[batch.reached..].contains(&worker))
    }

    /// Removes batches about which nothing was received for longer than `most`.
    pub(super) fn fail_overdue(&mut self, now: Timestamp, most: Span) -> Vec<FailedBatch> {
        self.fail_where(|batch| now.since(batch.last_report_at) > most)
    }

    pub(super) fn fail_all(&mut self) -> Vec<FailedBatch> {
        self.fail_where(|_| true)
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
            graph: 0,
            module: ModuleId(0),
            batch: BatchId(batch),
        }
    }

    fn in_flight(paths: &[&[u32]]) -> InFlight {
        let mut in_flight = InFlight::default();
        for (number, path) in (0..).zip(paths) {
            let path = path.iter().copied().map(WorkerId).collect();
            in_flight.insert(key(number), path, Timestamp::ZERO);
        }
        in_flight
    }

    #[test]
    fn a_batch_falls_with_a_worker_that_it_still_needs() {
        let mut in_flight = in_flight(&[&[1, 2], &[1, 2], &[1, 2], &[3]]);
        in_flight.on_used(key(1), 0, Timestamp::ZERO);
        in_flight.on_used(key(2), 1, Timestamp::ZERO);
        assert_eq!(
            in_flight.fail_on_worker(WorkerId(1)),
            [(key(0), 0), (key(1), 0)],
            "a batch that ran may still be on its way out; one that came in at the next is safe"
        );
        assert_eq!(in_flight.fail_on_worker(WorkerId(2)), [(key(2), 1)]);
        assert_eq!(in_flight.fail_all(), [(key(3), 0)]);
    }

    #[test]
    fn a_batch_is_lost_when_nothing_is_heard_of_it() {
        let mut in_flight = in_flight(&[&[1], &[1]]);
        let at = Timestamp::from_micros;
        in_flight.on_used(key(1), 0, at(500));
        assert_eq!(
            in_flight.fail_overdue(at(1_000), Span::from_micros(900)),
            [(key(0), 0)]
        );
        assert_eq!(
            in_flight.fail_overdue(at(1_500), Span::from_micros(900)),
            [(key(1), 0)]
        );
    }

    proptest! {
        #[test]
        fn every_batch_ends_once(
            paths in vec(vec(0..4_u32, 1..4), 0..12),
            events in vec((0..5_u8, 0..12_u64, 0..4_u32), 0..60),
        ) {
            let paths: Vec<&[u32]> = paths.iter().map(Vec::as_slice).collect();
            let mut in_flight = in_flight(&paths);
            let mut ended = BTreeSet::new();
            for (time, (what, batch, other)) in (0..).zip(events) {
                let now = Timestamp::from_micros(time);
                let failed = match what {
                    0 => if in_flight.remove(key(batch)) { vec![(key(batch), 0)] } else { vec![] },
                    1 => in_flight.fail_on_worker(WorkerId(other)),
                    2 => in_flight.fail_overdue(now, Span::from_micros(20)),
                    _ => { in_flight.on_used(key(batch), other, now); vec![] }
                };
                for (key, _) in failed {
                    prop_assert!(ended.insert(key), "{key:?} ended twice");
                }
            }
            for (key, _) in in_flight.fail_all() {
                prop_assert!(ended.insert(key), "{key:?} ended twice");
            }
            prop_assert_eq!(ended.len(), paths.len());
            prop_assert_eq!(in_flight.len(), 0);
        }
    }
}
