//! Bookings of one resource, in the order of time.

use weir_types::{Span, Timestamp};

use super::api::{BookingId, ResourceUse};
use super::spec::BookingTable;

/// Identifies one use of a booking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct UseKey {
    pub(super) booking: BookingId,
    pub(super) stage: u32,
    pub(super) used: ResourceUse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BookedSpan {
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    pub(super) key: UseKey,
}

/// Disjoint spans, ascending, and the last reported end of use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ResourceTable {
    pub(super) spans: Vec<BookedSpan>,
    pub(super) used_until: Timestamp,
    /// End of the last span; most queries need no more.
    end: Timestamp,
    /// Number of spans that begin before the previous one has ended: zero, except while spans are timed
    /// again.
    pub(super) overlaps: usize,
}

impl ResourceTable {
    /// Earliest time from `from` on at which the resource is free for `length`.
    pub(super) fn earliest(&self, tables: BookingTable, from: Timestamp, length: Span) -> Timestamp {
        match tables {
            BookingTable::Intervals if self.end > from => self.first_gap(from, length),
            BookingTable::Intervals | BookingTable::BusyUntil => from.max(self.end),
        }
    }

    fn first_gap(&self, from: Timestamp, length: Span) -> Timestamp {
        let mut at = from;
        for span in &self.spans {
            if span.to <= at {
                continue;
            }
            if span.from >= at + length {
                break;
            }
            at = span.to;
        }
        at
    }

    pub(super) fn insert(&mut self, held: BookedSpan) {
        let place = self.spans.partition_point(|span| span.from < held.from);
        let before = self.overlaps_at(place);
        self.spans.insert(place, held);
        self.overlaps = self.overlaps + self.overlaps_at(place) + self.overlaps_at(place + 1) - before;
        self.update_end();
    }

    pub(super) fn remove(&mut self, key: UseKey) {
        if let Some(place) = self.index_of(key) {
            let before = self.overlaps_at(place) + self.overlaps_at(place + 1);
            self.spans.remove(place);
            self.overlaps = self.overlaps + self.overlaps_at(place) - before;
            self.update_end();
        }
    }

    /// Index of a use.
    pub(super) fn index_of(&self, key: UseKey) -> Option<usize> {
        self.spans.iter().position(|span| span.key == key)
    }

    /// Removes spans that have ended.
    pub(super) fn remove_ended(&mut self, now: Timestamp) {
        let ended = self.spans.iter().take_while(|span| span.to <= now).count();
        self.overlaps -= (1..=ended).map(|place| self.overlaps_at(place)).sum::<usize>();
        self.spans.drain(..ended);
        self.update_end();
    }

    /// Changes the ends of the span at `place`.
    pub(super) fn move_span(&mut self, place: usize, from: Timestamp, to: Timestamp) {
        let before = self.overlaps_at(place) + self.overlaps_at(place + 1);
        if let Some(held) = self.spans.get_mut(place) {
            (held.from, held.to) = (from, to);
        }
        self.overlaps = self.overlaps + self.overlaps_at(place) + self.overlaps_at(place + 1) - before;
        self.update_end();
    }

    /// The first two spans that overlap.
    pub(super) fn first_overlap(&self) -> Option<(BookedSpan, BookedSpan)> {
        let place = (1..self.spans.len()).find(|&place| self.overlaps_at(place) > 0)?;
        Some((*self.spans.get(place - 1)?, *self.spans.get(place)?))
    }

    /// Returns 1 if the span at `place` begins before the previous one has ended. Empty spans take no time.
    fn overlaps_at(&self, place: usize) -> usize {
        let ahead = place.checked_sub(1).and_then(|ahead| self.spans.get(ahead));
        let (Some(ahead), Some(span)) = (ahead, self.spans.get(place)) else {
            return 0;
        };
        usize::from(ahead.to > span.from && ahead.from < ahead.to && span.from < span.to)
    }

    fn update_end(&mut self) {
        self.end = self.spans.last().map_or(Timestamp::ZERO, |last| last.to);
    }
}

/// Earliest time from `from` on at which both resources are free for `length`.
pub(super) fn earliest_common(
    (one, other): (&ResourceTable, &ResourceTable),
    tables: BookingTable,
    from: Timestamp,
    length: Span,
) -> Timestamp {
    let mut at = from;
    loop {
        let first = one.earliest(tables, at, length);
        let common = other.earliest(tables, first, length);
        if common == first {
            return first;
        }
        at = common;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn held(booking: u64, from: u64, to: u64) -> BookedSpan {
        BookedSpan {
            from: Timestamp::from_micros(from),
            to: Timestamp::from_micros(to),
            key: UseKey {
                booking: BookingId(booking),
                stage: 0,
                used: ResourceUse::Run,
            },
        }
    }

    proptest! {
        /// The stored count of overlaps equals a new count after any bookings, moves and removals.
        #[test]
        fn overlaps_are_counted(changes in prop::collection::vec((0_u8..4, 0_u64..12, 0_u64..30, 0_u64..6), 0..80)) {
            let mut table = ResourceTable::default();
            for (change, booking, from, length) in changes {
                let held = held(booking, from, from + length);
                match (change, table.index_of(held.key)) {
                    (0, None) => table.insert(held),
                    (1, _) => table.remove(held.key),
                    (2, Some(place)) => table.move_span(place, held.from, held.to),
                    (3, _) => table.remove_ended(held.from),
                    _ => {}
                }
                let counted: usize = (1..table.spans.len()).map(|place| table.overlaps_at(place)).sum();
                prop_assert_eq!(table.overlaps, counted);
                prop_assert_eq!(table.first_overlap().is_some(), counted > 0);
            }
        }
    }
}
