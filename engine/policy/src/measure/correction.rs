//! Correction of profiled durations by measured ones.

use weir_types::Span;

/// Exponentially smoothed ratio of measured to profiled durations, with its mean deviation. Plans then
/// reflect a busy or throttled device (as in GoodServe).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Correction {
    ratio: f64,
    deviation: f64,
}

impl Default for Correction {
    fn default() -> Self {
        Self {
            ratio: 1.0,
            deviation: 0.0,
        }
    }
}

impl Correction {
    /// Weight of a new measurement in the means.
    const GAIN: f64 = 0.1;
    /// Bound of a single ratio: one stall must not dominate the mean.
    const MAX_RATIO: f64 = 8.0;

    /// A batch that was profiled at `expected` took `actual`.
    pub(crate) fn on_measured(&mut self, expected: Span, actual: Span) {
        self.update(expected, actual, Self::GAIN);
    }

    /// The same with another weight of the measurement.
    pub(crate) fn update(&mut self, expected: Span, actual: Span, gain: f64) {
        self.update_within(Self::MAX_RATIO, (expected, actual), gain);
    }

    /// A transfer that was expected to take `expected` took `actual`. The configured bandwidth may be wrong by orders of
    /// magnitude, so a single ratio is bounded by the mean before it.
    pub(crate) fn on_transfer(&mut self, expected: Span, actual: Span) {
        self.update_within(
            Self::MAX_RATIO * self.ratio.max(1.0),
            (expected, actual),
            Self::GAIN,
        );
    }

    fn update_within(&mut self, max_ratio: f64, (expected, actual): (Span, Span), gain: f64) {
        if expected == Span::ZERO {
            return;
        }
        let ratio = (actual.micros() as f64 / expected.micros() as f64).min(max_ratio);
        self.deviation += gain * ((ratio - self.ratio).abs() - self.deviation);
        self.ratio += gain * (ratio - self.ratio);
    }

    /// Expected duration of a batch that is profiled at `duration`.
    #[must_use]
    pub(crate) fn expected_duration(&self, duration: Span) -> Span {
        duration.scale(self.ratio)
    }

    /// Expected duration plus one mean deviation; deadlines are checked against it.
    #[must_use]
    pub(crate) fn duration_with_margin(&self, duration: Span) -> Span {
        duration.scale(self.ratio + self.deviation)
    }

    /// Mean ratio of measured to expected durations.
    #[must_use]
    pub(crate) fn ratio(&self) -> f64 {
        self.ratio
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_follow_a_slow_device() {
        let mut correction = Correction::default();
        let (expected, actual) = (Span::from_millis(10), Span::from_millis(20));
        for _ in 0..100 {
            correction.on_measured(expected, actual);
        }
        assert_eq!(correction.expected_duration(expected), actual);
        correction.on_measured(expected, Span::from_secs(60));
        assert!(
            correction.expected_duration(expected) < Span::from_millis(30),
            "one stall is bounded"
        );
    }

    #[test]
    fn transfers_follow_a_link_of_a_hundredth_of_its_bandwidth() {
        let mut correction = Correction::default();
        let (expected, actual) = (Span::from_millis(1), Span::from_millis(100));
        correction.on_transfer(expected, actual);
        assert!(
            correction.expected_duration(expected) < Span::from_millis(2),
            "one stall is bounded"
        );
        for _ in 0..200 {
            correction.on_transfer(expected, actual);
        }
        let expected = correction.expected_duration(expected);
        assert!(expected > Span::from_millis(99), "{expected:?}");
    }
}
