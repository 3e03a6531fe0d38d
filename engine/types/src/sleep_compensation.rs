//! How long an emulated device or link sleeps, so that it takes what is declared in the mean.

use crate::time::Span;

/// By how much batches took longer than declared because a sleeping thread wakes late: tenths of a millisecond each, which
/// would make a fast device several percent slower. It is taken off those that follow.
#[derive(Debug, Default)]
pub struct SleepCompensator(Span);

impl SleepCompensator {
    /// Who wakes later than this was held up; a device is not made faster for that.
    const MAX_OVERSLEPT: Span = Span::from_millis(5);

    /// How long to sleep for a batch: at least three quarters of what is declared.
    #[must_use]
    pub fn sleep_duration(&self, declared: Span) -> Span {
        declared.saturating_sub(self.0.min(declared / 4))
    }

    /// The batch took so long.
    pub fn on_slept(&mut self, declared: Span, took: Span) {
        self.0 = (self.0 + took).saturating_sub(declared).min(Self::MAX_OVERSLEPT);
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
        // 0.6 ms late each time, but for one stall.
        for batch in 0..1_000 {
            let late = if batch == 500 { 80_000 } else { 600 };
            let took = compensator.sleep_duration(declared) + Span::from_micros(late);
            compensator.on_slept(declared, took);
            total += took;
        }
        let stalled = total.saturating_sub(declared * 1_000);
        assert!(
            stalled >= Span::from_millis(74),
            "a stall is not made up for: {stalled:?}"
        );
        assert!(stalled <= Span::from_millis(81), "late waking is: {stalled:?}");
    }
}
