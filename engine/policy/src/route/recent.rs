//! A sum over a sliding window.

use weir_types::{Span, Timestamp};

/// Number of slices of the window; a whole slice at a time leaves it.
const SLICES: usize = 12;

/// Amounts added within a window, summed by slices.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Recent {
    slice: Span,
    /// Number of the newest slice, counted from time 0.
    newest: u64,
    sums: [f64; SLICES],
}

impl Recent {
    pub(crate) fn new(window: Span) -> Self {
        Self {
            slice: Span::from_micros((window.micros() / SLICES as u64).max(1)),
            newest: 0,
            sums: [0.0; SLICES],
        }
    }

    pub(crate) fn add(&mut self, amount: f64, now: Timestamp) {
        let slice = now.micros() / self.slice.micros();
        let passed = slice.saturating_sub(self.newest).min(SLICES as u64);
        for number in 0..passed {
            self.sums[((self.newest + 1 + number) % SLICES as u64) as usize] = 0.0;
        }
        if passed > 0 {
            // If more than a window has passed, all slices were cleared.
            self.newest = slice;
        }
        self.sums[(self.newest % SLICES as u64) as usize] += amount;
    }

    /// Sum of the amounts within the window that ends at `now`.
    pub(crate) fn sum(&self, now: Timestamp) -> f64 {
        let slice = now.micros() / self.slice.micros();
        let passed = slice.saturating_sub(self.newest).min(SLICES as u64);
        (passed..SLICES as u64)
            .filter_map(|back| (self.newest + passed).checked_sub(back))
            .map(|number| self.sums[(number % SLICES as u64) as usize])
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_than_the_window_does_not_count() {
        let mut recent = Recent::new(Span::from_secs(12));
        let at = |secs: u64| Timestamp::from_micros(secs * 1_000_000);
        recent.add(1.0, at(0));
        recent.add(2.0, at(5));
        for (secs, sum) in [(5, 3.0), (11, 3.0), (12, 2.0), (16, 2.0), (17, 0.0), (900, 0.0)] {
            assert_eq!(recent.sum(at(secs)), sum, "{secs} s");
        }
        recent.add(4.0, at(100));
        assert_eq!(recent.sum(at(100)), 4.0);
        recent.add(8.0, at(108));
        assert_eq!((recent.sum(at(111)), recent.sum(at(112))), (12.0, 8.0));
    }
}
