//! Paths that are booked and batches on them: each path is used or given back once, each batch ends once.

use std::collections::BTreeMap;

use weir_partition::wire::BatchKey;
use weir_policy::reservations::BookingId;
use weir_types::Timestamp;
use weir_types::invariant;
use weir_types::invariant::Kind;

/// A batch on its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InFlightBatch {
    pub(super) booking: BookingId,
    /// When it is to be out of its path.
    pub(super) finish: Timestamp,
}

/// See the module.
#[derive(Default)]
pub(super) struct BookedBatches {
    /// The finish of each booking that its module has neither dispatched a batch on nor declined, also where its path was
    /// lost with a worker: the module is still to answer.
    booked: BTreeMap<BookingId, Timestamp>,
    in_flight: BTreeMap<BatchKey, InFlightBatch>,
}

impl BookedBatches {
    pub(super) fn on_booked(&mut self, booking: BookingId, finish: Timestamp) {
        let before = self.booked.insert(booking, finish);
        invariant!(
            before.is_none(),
            Kind::Bookings,
            "path {} is booked twice",
            booking.0
        );
    }

    /// Whether its module is still to answer a booking.
    pub(super) fn is_booked(&self, booking: BookingId) -> bool {
        self.booked.contains_key(&booking)
    }

    pub(super) fn on_declined(&mut self, booking: BookingId) {
        self.take(booking);
    }

    pub(super) fn on_dispatched(&mut self, key: BatchKey, booking: BookingId) {
        let finish = self.take(booking).unwrap_or_default();
        let before = self.in_flight.insert(key, InFlightBatch { booking, finish });
        invariant!(
            before.is_none(),
            Kind::Batches,
            "batch {} of module {} is dispatched twice",
            key.batch.0,
            key.module.0
        );
    }

    /// Its module answers a booking, by a batch or by giving it back.
    fn take(&mut self, booking: BookingId) -> Option<Timestamp> {
        let finish = self.booked.remove(&booking);
        invariant!(
            finish.is_some(),
            Kind::Bookings,
            "path {} is used or given back and is not booked; {} are",
            booking.0,
            self.booked.len()
        );
        finish
    }

    /// A batch in flight. Legal for one that is not: a use may be reported after the end.
    pub(super) fn in_flight(&self, key: BatchKey) -> Option<InFlightBatch> {
        self.in_flight.get(&key).copied()
    }

    /// A batch ended, well or not, which is reported once.
    pub(super) fn on_ended(&mut self, key: BatchKey) -> Option<InFlightBatch> {
        let batch = self.in_flight.remove(&key);
        invariant!(
            batch.is_some(),
            Kind::Batches,
            "batch {} of module {} ends and is not in flight; {} are",
            key.batch.0,
            key.module.0,
            self.in_flight.len()
        );
        batch
    }
}

#[cfg(test)]
mod tests {
    use weir_types::invariant::counted;
    use weir_types::{BatchId, ModuleId};

    use super::*;

    const BOOKING: BookingId = BookingId(4);
    const FINISH: Timestamp = Timestamp::from_micros(9);
    const KEY: BatchKey = BatchKey {
        module: ModuleId(0),
        batch: BatchId(7),
    };

    /// What `act` violates where a path is booked.
    fn violations(act: impl FnOnce(&mut BookedBatches)) -> Vec<(Kind, u64)> {
        let mut batches = BookedBatches::default();
        batches.on_booked(BOOKING, FINISH);
        counted(|| act(&mut batches)).1.iter().collect()
    }

    #[test]
    fn each_booking_is_answered_once_and_each_batch_ends_once() {
        let mut batches = BookedBatches::default();
        batches.on_booked(BOOKING, FINISH);
        batches.on_declined(BOOKING);
        assert!(!batches.is_booked(BOOKING));
        // The same number of another plan.
        batches.on_booked(BOOKING, FINISH);
        batches.on_dispatched(KEY, BOOKING);
        assert!(batches.in_flight(KEY).is_some() && !batches.is_booked(BOOKING));
        let ended = batches.on_ended(KEY);
        let (booking, finish) = (BOOKING, FINISH);
        assert_eq!(ended, Some(InFlightBatch { booking, finish }));
        assert_eq!(batches.in_flight(KEY), None, "a use that is reported late");
    }

    #[test]
    fn a_path_that_is_booked_or_answered_twice_is_a_violation() {
        let booked = violations(|batches| batches.on_booked(BOOKING, FINISH));
        assert_eq!(booked, [(Kind::Bookings, 1)]);
        let declined = violations(|batches| {
            batches.on_declined(BOOKING);
            batches.on_declined(BOOKING);
        });
        assert_eq!(declined, [(Kind::Bookings, 1)]);
        let dispatched = violations(|batches| batches.on_dispatched(KEY, BookingId(5)));
        assert_eq!(dispatched, [(Kind::Bookings, 1)]);
    }

    #[test]
    fn a_batch_that_is_dispatched_or_ends_twice_is_a_violation() {
        let dispatched = violations(|batches| {
            batches.on_dispatched(KEY, BOOKING);
            batches.on_booked(BOOKING, FINISH);
            batches.on_dispatched(KEY, BOOKING);
        });
        assert_eq!(dispatched, [(Kind::Batches, 1)]);
        let ended = violations(|batches| {
            batches.on_dispatched(KEY, BOOKING);
            assert!(batches.on_ended(KEY).is_some());
            assert!(batches.on_ended(KEY).is_none());
        });
        assert_eq!(ended, [(Kind::Batches, 1)]);
    }
}
