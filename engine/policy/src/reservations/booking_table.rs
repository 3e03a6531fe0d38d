//! What is booked on one resource, in the order of time.

use weir_types::{Span, Timestamp};

use super::api::{BookingId, ResourceUse};
use super::spec::BookingTable;

/// Which use of which booking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) booking: BookingId,
    pub(super) stage: u32,
    pub(super) used: ResourceUse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    pub(super) key: Key,
}

/// Spans that do not overlap, ascending, and when the resource was last seen to be in use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) spans: Vec<Held>,
    pub(super) used_until: Timestamp,
    /// When the last span ends: most looks need no more.
    end: Timestamp,
}

impl Table {
    /// The earliest moment, not before `from`, from which the resource is free for `length`.
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

    pub(super) fn insert(&mut self, held: Held) {
        let place = self.spans.partition_point(|span| span.from < held.from);
        self.spans.insert(place, held);
        self.note_end();
    }

    pub(super) fn remove(&mut self, key: Key) {
        if let Some(place) = self.place(key) {
            self.spans.remove(place);
            self.note_end();
        }
    }

    /// Where it stands among the others.
    pub(super) fn place(&self, key: Key) -> Option<usize> {
        self.spans.iter().position(|span| span.key == key)
    }

    /// Forgets what has ended.
    pub(super) fn forget(&mut self, now: Timestamp) {
        let ended = self.spans.iter().take_while(|span| span.to <= now).count();
        self.spans.drain(..ended);
        self.note_end();
    }

    /// Gives the span at `place` other ends.
    pub(super) fn set(&mut self, place: usize, from: Timestamp, to: Timestamp) {
        if let Some(held) = self.spans.get_mut(place) {
            (held.from, held.to) = (from, to);
        }
        self.note_end();
    }

    fn note_end(&mut self) {
        self.end = self.spans.last().map_or(Timestamp::ZERO, |last| last.to);
    }
}

/// The earliest moment, not before `from`, from which both are free for `length`.
pub(super) fn earliest_of_both(
    (one, other): (&Table, &Table),
    tables: BookingTable,
    from: Timestamp,
    length: Span,
) -> Timestamp {
    let mut at = from;
    loop {
        let first = one.earliest(tables, at, length);
        let both = other.earliest(tables, first, length);
        if both == first {
            return first;
        }
        at = both;
    }
}
