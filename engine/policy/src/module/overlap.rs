//! Latency of a batch beside its run, on a slot that prepares ahead: preparation of its inputs while the
//! batch before runs, and reading of its outputs while the next batch runs.
//!
//! The slot is busy for the run alone, so the profile describes the run; a request's latency includes all
//! three. For a batch of `n` items, `preparation` is either declared as a profile and corrected by
//! measurements, or `n` times the median time of an item over the latest batches; `read_out` is `n` times
//! such a median. With a median, a first batch that takes a hundred times as long as the next, as on an idle
//! device, matters only briefly.

use std::collections::VecDeque;

use weir_types::{SlotId, Span, Timestamp};

use super::api::OverlapSpec;
use crate::measure::correction::Correction;

/// Number of latest batches that medians are taken over.
const BATCHES: usize = 15;

/// Measured and declared times before and after the run of a batch.
#[derive(Debug, Clone)]
pub(super) struct Overlap {
    spec: OverlapSpec,
    correction: Correction,
    /// Measured preparation, used if none is declared.
    prepared: ItemTime,
    read: ItemTime,
}

/// Time that one item takes, measured over batches.
#[derive(Debug, Clone, Default)]
struct ItemTime {
    /// Microseconds an item, for each of the latest batches.
    latest: VecDeque<f64>,
    median: f64,
}

impl ItemTime {
    /// Adds a measurement: a batch of `size` took `took`.
    fn push(&mut self, size: u32, took: Span) {
        if self.latest.len() == BATCHES {
            self.latest.pop_front();
        }
        self.latest
            .push_back(took.micros() as f64 / f64::from(size.max(1)));
        let mut sorted: Vec<f64> = self.latest.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        // Of an even number of values, the lower one in the middle.
        self.median = sorted[(sorted.len() - 1) / 2];
    }

    /// Expected time for `size` items.
    fn of(&self, size: u32) -> Span {
        Span::from_micros(1).scale(self.median * f64::from(size))
    }
}

impl Overlap {
    pub(super) fn new(spec: &OverlapSpec) -> Self {
        Self {
            spec: spec.clone(),
            correction: Correction::default(),
            prepared: ItemTime::default(),
            read: ItemTime::default(),
        }
    }

    /// Drops all measurements.
    pub(super) fn forget(&mut self) {
        *self = Self::new(&self.spec);
    }

    /// Whether a slot prepares ahead.
    pub(super) fn is_on(&self, slot: SlotId) -> bool {
        self.spec.is_on(slot)
    }

    /// Expected time to prepare the inputs of a batch of `size`.
    pub(super) fn preparation(&self, size: u32) -> Span {
        match &self.spec.preparation {
            Some(profile) => self.correction.expected_duration(profile.duration(size)),
            None => self.prepared.of(size),
        }
    }

    /// Expected time to read the outputs of a batch of `size` after its run.
    pub(super) fn read_out(&self, size: u32) -> Span {
        self.read.of(size)
    }

    /// Expected time of a batch of `size` before and after its run.
    pub(super) fn beside(&self, size: u32) -> Span {
        self.preparation(size) + self.read_out(size)
    }

    /// Time at which a batch of `size` started now begins to run on a slot that is free for it at `free_at`.
    pub(super) fn run_start(&self, size: u32, free_at: Timestamp, now: Timestamp) -> Timestamp {
        (now + self.preparation(size)).max(free_at)
    }

    /// The inputs of a batch of `size` were prepared in `took`.
    pub(super) fn on_prepared(&mut self, size: u32, took: Span) {
        match &self.spec.preparation {
            Some(profile) => self.correction.on_measured(profile.duration(size), took),
            None => self.prepared.push(size, took),
        }
    }

    /// Records that reading the outputs of a batch of `size` took `took`.
    pub(super) fn on_read(&mut self, size: u32, took: Span) {
        self.read.push(size, took);
    }
}

#[cfg(test)]
mod tests {
    use weir_types::Profile;

    use super::*;

    fn ms(ms: u64) -> Span {
        Span::from_millis(ms)
    }

    fn of(preparation: Option<Profile>) -> OverlapSpec {
        let slots = Vec::new();
        OverlapSpec { preparation, slots }
    }

    #[test]
    fn preparation_is_declared_and_corrected_or_measured_by_item() {
        let profile = Profile::new(vec![(1, ms(4)), (2, ms(6))]);
        let mut declared = Overlap::new(&of(profile));
        assert_eq!((declared.preparation(1), declared.preparation(2)), (ms(4), ms(6)));
        declared.on_prepared(2, ms(12));
        assert_eq!(declared.preparation(1), ms(4).scale(1.1));

        let mut measured = Overlap::new(&of(None));
        assert_eq!(measured.preparation(8), Span::ZERO);
        measured.on_prepared(4, ms(8));
        assert_eq!(measured.preparation(3), ms(6));
        measured.on_read(2, ms(4));
        assert_eq!(measured.read_out(1), ms(2));
    }

    #[test]
    fn a_first_batch_that_is_slow_decides_nothing_for_long() {
        let mut measured = Overlap::new(&of(None));
        measured.on_prepared(8, ms(400));
        assert_eq!(measured.preparation(1), ms(50));
        measured.on_prepared(8, ms(8));
        assert_eq!(measured.preparation(8), ms(8), "with the next it is over");
        measured.forget();
        assert_eq!(measured.preparation(8), Span::ZERO);
    }

    #[test]
    fn a_batch_runs_when_it_is_prepared_and_its_slot_is_free() {
        let overlap = Overlap::new(&of(Profile::new(vec![(1, ms(4))])));
        let at = |ms: u64| Timestamp::from_micros(ms * 1_000);
        assert_eq!(overlap.run_start(1, at(0), at(10)), at(14));
        assert_eq!(overlap.run_start(1, at(30), at(10)), at(30));
    }
}
