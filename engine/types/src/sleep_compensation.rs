//! Sleep durations of emulated devices and links, so that the mean equals the declared duration.

use crate::time::Span;

/// Accumulates how much longer than declared sleeps took, because a thread wakes tenths of a millisecond late, and subtracts
/// it from later ones. Uncompensated, a fast emulated device would be several percent too slow.
#[derive(Debug, Clone, Default)]
pub struct SleepCompensator {
    overslept: Span,
}

impl SleepCompensator {
    /// A longer delay is a stall of the process, for which later batches are not shortened.
    const MAX_OVERSLEPT: Span = Span::from_millis(5);

    /// Time to sleep for a declared duration: at least three quarters of it.
    #[must_use]
    pub fn sleep_duration(&self, declared: Span) -> Span {
        declared.saturating_sub(self.overslept.min(declared / 4))
    }

    /// A sleep for `declared` took `took`.
    pub fn on_slept(&mut self, declared: Span, took: Span) {
        self.overslept = (self.overslept + took)
            .saturating_sub(declared)
            .min(Self::MAX_OVERSLEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_duration_matches_the_declared_one_despite_late_wakeups() {
        let declared = Span::from_millis(10);
        let mut compensator = SleepCompensator::default();
        let mut total = Span::ZERO;
        // 0.6 ms late each time, and one stall.
        for batch in 0..1_000 {
            let late = if batch == 500 { 80_000 } else { 600 };
            let took = compensator.sleep_duration(declared) + Span::from_micros(late);
            compensator.on_slept(declared, took);
            total += took;
        }
        let stalled = total.saturating_sub(declared * 1_000);
        assert!(
            stalled >= Span::from_millis(74),
            "a stall is not compensated: {stalled:?}"
        );
        assert!(stalled <= Span::from_millis(81), "late wakeups are: {stalled:?}");
    }
}
