//! Present durations and their spread (rule `weir`): promised durations on a machine that is shared with
//! other programs.
//!
//! A batch takes `profile(size) * f * R`. The factor `f` is the present slowness: one value for all slots of
//! a module, so that it follows a change within its short window. `R` is the deviation of single batches from
//! that, with a mean of about 1. Its quantiles are kept for each class of sizes over many batches, since the
//! time slices of a neighbour average out in a long batch but not in a short one.
//!
//! ```text
//! f        = sum of measured durations / sum of profiled ones, over the last `window`
//! R        = measured / (profile(size) * f)                     f as it was when the batch ended
//! promise  = profile(size) * f * Q_p(R)
//! p        = calm_quantile + (busy_quantile - calm_quantile) * min(backlog / budget here, 1)
//! ```
//!
//! Running a request with probability `p` of being in time yields `p` deliveries for its time on the slot. If
//! the slot would otherwise be idle, any `p` is worth it. If others wait, their requests would yield more,
//! and the least `p` that is worth it rises with the backlog. So the promised quantile follows the backlog.
//!
//! Waits downstream vary with durations too. So waits are stored divided by `f` at their time, and published
//! multiplied by the present `f`; thousands of stored waits would take minutes to follow a change. The
//! expected quantile of waits rises from the estimator's own, which suits durations as profiled, to
//! `busy_quantile`, in proportion to `disturbance = min(max(Q_0.9(R) - 1 - tolerance, 0) / full_spread, 1)`,
//! which modules publish. With durations as profiled, none of this changes a decision.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use weir_types::{Span, Timestamp};

use crate::measure::window::Window;

/// Parameters of promised durations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DurationSpreadSpec {
    /// Window over which `f` is measured.
    pub window: Span,
    /// Number of recent batches of a size class that quantiles are taken over.
    pub samples: usize,
    /// Quantile that is promised if no requests wait.
    pub calm_quantile: f64,
    /// Quantile that is promised if the backlog fills the time that requests have here.
    pub busy_quantile: f64,
    /// Relative spread of durations on an undisturbed machine.
    pub tolerance: f64,
    /// Relative spread beyond the tolerance at which waits downstream are expected at `busy_quantile`.
    pub full_spread: f64,
}

impl Default for DurationSpreadSpec {
    fn default() -> Self {
        Self {
            window: Span::from_millis(500),
            samples: 100,
            calm_quantile: 0.5,
            busy_quantile: 0.95,
            tolerance: 0.1,
            full_spread: 0.3,
        }
    }
}

/// Sizes of a class are within a factor of two.
const CLASSES: usize = 8;

/// Number of batches of a class below which the quantiles of all sizes are used.
const MIN_SAMPLES: usize = 16;

/// Maximum ratio to its profiled duration with which a batch counts, so that one stall does not dominate.
const MAX_RATIO: u64 = 8;

/// Lower bound of `f`.
const MIN_FACTOR: f64 = 1e-3;

/// Recent values, in order of arrival and sorted.
#[derive(Debug, Clone, Default)]
struct Recent {
    values: VecDeque<f64>,
    sorted: Vec<f64>,
}

impl Recent {
    fn push(&mut self, value: f64, max_samples: usize) {
        if self.values.len() >= max_samples.max(1)
            && let Some(old) = self.values.pop_front()
        {
            let place = self.sorted.partition_point(|known| *known < old);
            self.sorted.remove(place);
        }
        let place = self.sorted.partition_point(|known| *known < value);
        self.sorted.insert(place, value);
        self.values.push_back(value);
    }

    /// Linear between values; 1 of none.
    fn quantile(&self, quantile: f64) -> f64 {
        let Some(last) = self.sorted.len().checked_sub(1) else {
            return 1.0;
        };
        let rank = quantile.clamp(0.0, 1.0) * last as f64;
        let low = self.sorted[rank as usize];
        let high = self.sorted[(rank as usize + 1).min(last)];
        low + (high - low) * rank.fract()
    }
}

/// Durations of a module's batches on all of its slots.
#[derive(Debug, Clone)]
pub(crate) struct DurationSpread {
    spec: DurationSpreadSpec,
    measured: Window,
    profiled: Window,
    factor: f64,
    all: Recent,
    by_class: [Recent; CLASSES],
}

impl DurationSpread {
    pub(crate) fn new(spec: DurationSpreadSpec) -> Self {
        Self {
            spec,
            measured: Window::new(spec.window),
            profiled: Window::new(spec.window),
            factor: 1.0,
            all: Recent::default(),
            by_class: Default::default(),
        }
    }

    /// The same spread without measurements.
    pub(crate) fn reset(&self) -> Self {
        Self::new(self.spec)
    }

    /// Adds a batch of `size` that was profiled at `profiled` and took `actual`.
    pub(crate) fn on_measured(&mut self, size: u32, profiled: Span, actual: Span, now: Timestamp) {
        if profiled == Span::ZERO {
            return;
        }
        // Whole microseconds: windows sum them exactly.
        let bounded = actual.min(profiled * MAX_RATIO);
        let (measured, profiled) = (bounded.micros() as f64, profiled.micros() as f64);
        self.measured.observe(measured, now);
        self.profiled.observe(profiled, now);
        self.refresh(now);
        let residual = measured / profiled / self.factor;
        self.all.push(residual, self.spec.samples);
        self.by_class[class(size)].push(residual, self.spec.samples);
    }

    /// Updates `f` to the window that ends at `now`; unchanged if no batch ended within it.
    pub(crate) fn refresh(&mut self, now: Timestamp) {
        let profiled = self.profiled.sum(now);
        if profiled >= 1.0 {
            self.factor = (self.measured.sum(now) / profiled).max(MIN_FACTOR);
        }
    }

    /// `f`.
    pub(crate) fn factor(&self) -> f64 {
        self.factor
    }

    /// `Q_p(R)` for batches of `size`, with a backlog of `pressure` relative to the time that requests have
    /// here.
    pub(crate) fn promise(&self, size: u32, pressure: f64) -> f64 {
        let (calm, busy) = (self.spec.calm_quantile, self.spec.busy_quantile);
        self.quantile(size, calm + (busy - calm) * pressure.clamp(0.0, 1.0))
    }

    fn quantile(&self, size: u32, quantile: f64) -> f64 {
        let of_class = &self.by_class[class(size)];
        if of_class.values.len() >= MIN_SAMPLES {
            of_class.quantile(quantile)
        } else {
            self.all.quantile(quantile)
        }
    }

    /// Degree to which durations vary more than on an undisturbed machine, 0 to 1.
    pub(crate) fn disturbance(&self) -> f64 {
        let spread = self.all.quantile(0.9) - 1.0 - self.spec.tolerance;
        (spread.max(0.0) / self.spec.full_spread.max(1e-6)).min(1.0)
    }
}

/// Class of a batch size: its power of two, up to the last class.
fn class(size: u32) -> usize {
    (size.max(1).ilog2() as usize).min(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILED: Span = Span::from_millis(20);

    /// Batches of one item that end every 20 ms for a second from `from_ms` on, at each of `ratios` in turn.
    fn second(spread: &mut DurationSpread, from_ms: u64, ratios: &[f64]) -> Timestamp {
        let mut now = Timestamp::ZERO;
        for number in 0..50 {
            now = Timestamp::from_micros((from_ms + 20 * number) * 1_000);
            let ratio = ratios[number as usize % ratios.len()];
            spread.on_measured(1, PROFILED, PROFILED.scale(ratio), now);
        }
        now
    }

    fn spread() -> DurationSpread {
        DurationSpread::new(DurationSpreadSpec::default())
    }

    #[test]
    fn durations_as_profiled_are_promised_as_profiled() {
        let mut spread = spread();
        second(&mut spread, 0, &[1.0]);
        assert_eq!((spread.factor(), spread.disturbance()), (1.0, 0.0));
        assert_eq!((spread.promise(1, 0.0), spread.promise(64, 9.0)), (1.0, 1.0));
    }

    #[test]
    fn the_common_factor_follows_both_edges_within_a_second() {
        let mut spread = spread();
        for (from_ms, ratio) in [(0, 1.0), (1_000, 2.5), (2_000, 1.0)] {
            second(&mut spread, from_ms, &[ratio]);
            assert!(
                (spread.factor() - ratio).abs() < 1e-9,
                "{ratio}: {}",
                spread.factor()
            );
        }
        let later = Timestamp::from_micros(60_000_000);
        spread.refresh(later);
        assert!((spread.factor() - 1.0).abs() < 1e-9, "as it was last");
    }

    #[test]
    fn a_long_queue_is_promised_what_nearly_all_batches_keep() {
        let mut spread = spread();
        for from_ms in [0, 1_000] {
            second(&mut spread, from_ms, &[1.0, 1.0, 2.0]);
        }
        let promised = |pressure| spread.promise(1, pressure) * spread.factor();
        assert!((promised(0.0) - 1.0).abs() < 0.1, "{}", promised(0.0));
        assert!((promised(1.0) - 2.0).abs() < 0.1, "{}", promised(1.0));
        assert!(promised(0.5) <= promised(1.0));
        assert_eq!(promised(3.0), promised(1.0));
        assert_eq!(spread.disturbance(), 1.0);
    }

    #[test]
    fn sizes_have_their_own_spread_once_enough_of_them_ran() {
        let mut spread = spread();
        for turn in 0..100_u64 {
            let now = Timestamp::from_micros(turn * 20_000);
            let ratio = if turn % 2 == 0 { 1.0 } else { 2.0 };
            spread.on_measured(1, PROFILED, PROFILED.scale(ratio), now);
            spread.on_measured(8, PROFILED * 8, PROFILED.scale(12.0), now);
        }
        assert!(spread.promise(1, 1.0) > 1.2, "{}", spread.promise(1, 1.0));
        assert!(
            (spread.promise(8, 1.0) - 1.0).abs() < 0.05,
            "long batches are even"
        );
        let unknown = spread.promise(64, 1.0);
        assert!(unknown > 1.2, "as of all sizes: {unknown}");
    }

    #[test]
    fn one_stall_counts_as_eight_batches_and_old_batches_do_not() {
        let mut spread = spread();
        spread.on_measured(1, PROFILED, Span::from_secs(60), Timestamp::ZERO);
        assert_eq!(spread.factor(), 8.0);
        let spec = spread.spec;
        for second_from in 1..=10 {
            second(&mut spread, second_from * 1_000, &[1.0]);
        }
        assert_eq!(spread.promise(1, 1.0), 1.0, "{} batches since", 10 * 50);
        assert!(spread.all.values.len() <= spec.samples);
    }
}
