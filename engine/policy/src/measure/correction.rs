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
        if expected == Span::ZERO {
            return;
        }
        let ratio = (actual.micros() as f64 / expected.micros() as f64).min(Self::MAX_RATIO);
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
}
