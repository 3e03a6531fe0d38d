//! The bookings of one resource in the order of time.

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
    /// End of the last span, which is sufficient for most queries.
    end: Timestamp,
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

    pub(super) fn insert(&mut self, added: BookedSpan) {
        let index = self.spans.partition_point(|span| span.from < added.from);
        self.spans.insert(index, added);
        self.update_end();
    }

    pub(super) fn remove(&mut self, key: UseKey) {
        if let Some(index) = self.index_of(key) {
            self.spans.remove(index);
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
        self.spans.drain(..ended);
        self.update_end();
    }

    /// Sets start and end of the span at `index`.
    pub(super) fn move_span(&mut self, index: usize, from: Timestamp, to: Timestamp) {
        if let Some(span) = self.spans.get_mut(index) {
            (span.from, span.to) = (from, to);
        }
        self.update_end();
    }

    fn update_end(&mut self) {
        self.end = self.spans.last().map_or(Timestamp::ZERO, |last| last.to);
    }
}

/// Earliest time from `from` on at which both are free for `length`.
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
