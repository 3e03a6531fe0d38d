//! Margin of estimated finishes, learned for each instance from sequences that ended there.
//!
//! ```text
//! r          = actual / estimated time from routing to the last token, for the tokens that it generated
//! mean      <- mean + gain (r - mean)
//! deviation <- deviation + gain (max(r - mean, 0) - deviation)        sequences that took longer than the mean
//! margin     = mean + deviations x deviation, at least 1
//! ```
//!
//! The error of the length is not part of `r`: `belief.rs` has that. A sequence that is dropped because its
//! deadline has passed counts with the least ratio that it can have, if that is above the mean: without such
//! sequences, a slow instance would look the better the more of them it makes late. Gain: 0.05, more for the
//! first ones.

/// Weight of a ratio once many have been measured.
const GAIN: f64 = 0.05;
/// Number of sequences that the initial mean of 1 counts as.
const PRIOR: f64 = 3.0;
/// Bounds of a ratio: a single stalled sequence says little about others.
const BOUNDS: [f64; 2] = [0.25, 4.0];

/// Ratio of actual to estimated times on one instance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Margin {
    mean: f64,
    deviation: f64,
    measured: f64,
}

impl Margin {
    pub(super) fn new() -> Self {
        Self {
            mean: 1.0,
            deviation: 0.0,
            measured: 0.0,
        }
    }

    /// Adds a sequence that ended.
    pub(super) fn on_ended(&mut self, actual_s: f64, estimated_s: f64) {
        if estimated_s <= 0.0 || !actual_s.is_finite() {
            return;
        }
        let ratio = (actual_s / estimated_s).clamp(BOUNDS[0], BOUNDS[1]);
        self.measured += 1.0;
        let gain = (1.0 / (PRIOR + self.measured)).max(GAIN);
        self.deviation += gain * ((ratio - self.mean).max(0.0) - self.deviation);
        self.mean += gain * (ratio - self.mean);
    }

    /// Adds a sequence that was late before it ended.
    pub(super) fn on_late(&mut self, actual_s: f64, estimated_s: f64) {
        if actual_s > self.mean * estimated_s {
            self.on_ended(actual_s, estimated_s);
        }
    }

    /// Mean ratio of actual to estimated times.
    pub(super) fn mean(&self) -> f64 {
        self.mean
    }

    /// Factor by which estimated times are lengthened.
    #[inline]
    pub(super) fn factor(&self, deviations: f64) -> f64 {
        (self.mean + deviations * self.deviation).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_estimates_have_no_margin_and_scattered_ones_do() {
        let mut exact = Margin::new();
        let mut scattered = Margin::new();
        for number in 0..500 {
            exact.on_ended(2.0, 2.0);
            scattered.on_ended(if number % 2 == 0 { 2.0 } else { 3.0 }, 2.0);
        }
        assert!((exact.factor(2.0) - 1.0).abs() < 1e-9);
        // Half of the ratios are 1, the others 1.5.
        assert!((scattered.mean() - 1.25).abs() < 0.05, "{}", scattered.mean());
        assert!(
            (scattered.factor(2.0) - 1.5).abs() < 0.1,
            "{}",
            scattered.factor(2.0)
        );
    }

    #[test]
    fn late_sequences_only_raise_the_margin() {
        let mut margin = Margin::new();
        margin.on_late(1.0, 2.0);
        assert_eq!(margin, Margin::new());
        margin.on_late(4.0, 2.0);
        assert!(margin.mean() > 1.2);
    }
}
