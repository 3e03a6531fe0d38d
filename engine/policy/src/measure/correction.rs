//! How far measured durations are from expected ones.

use weir_types::Span;

/// A smoothed ratio of measured to expected durations, by which a profile is corrected, so that a busy or throttled
/// device is believed and not its data sheet (as GoodServe does).
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
    /// Weight of a new measurement.
    const GAIN: f64 = 0.1;
    /// A single measurement counts as no more than this many times its expectation: a stall is not a trend.
    const MAX_RATIO: f64 = 8.0;

    /// Takes in one measurement.
    pub(crate) fn on_measured(&mut self, expected: Span, actual: Span) {
        if expected == Span::ZERO {
            return;
        }
        let ratio = (actual.micros() as f64 / expected.micros() as f64).min(Self::MAX_RATIO);
        self.deviation += Self::GAIN * ((ratio - self.ratio).abs() - self.deviation);
        self.ratio += Self::GAIN * (ratio - self.ratio);
    }

    /// What is to be expected of a batch that the profile gives `duration`.
    #[must_use]
    pub(crate) fn expected_duration(&self, duration: Span) -> Span {
        duration.scale(self.ratio)
    }

    /// What is to be expected with a margin of one mean deviation: what a promise is made on.
    #[must_use]
    pub(crate) fn duration_with_margin(&self, duration: Span) -> Span {
        duration.scale(self.ratio + self.deviation)
    }

    /// Mean of measured over expected.
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
            "one stall is not a trend"
        );
    }
}
