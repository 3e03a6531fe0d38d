//! Time for retention. Ages are counted by the monotonic clock; the wall clock only dates what earlier runs left. A wall
//! clock that jumps against the monotonic one is not believed until the jump has held.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Time in milliseconds that the clock found at the start has to hold before anything is removed by its date.
const START_HOLD_MS: i64 = 10_000;

/// The same for a jump while running.
const JUMP_HOLD_MS: i64 = 600_000;

/// A difference in milliseconds between two looks that is no jump.
const TOLERANCE_MS: i64 = 2_000;

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct RetentionClock {
    /// Wall time minus monotonic time, as it is believed.
    offset_ms: i64,
    /// An offset that is not believed yet, and the monotonic time at which it was first seen.
    candidate: Option<(i64, i64)>,
    now_ms: i64,
    is_settled: bool,
}

impl RetentionClock {
    /// `wall_ms` after 1970 (UTC), at `now_ms` of the monotonic clock.
    pub(in super::super) fn new(wall_ms: i64, now_ms: i64) -> Self {
        Self {
            offset_ms: wall_ms - now_ms,
            candidate: Some((wall_ms - now_ms, now_ms)),
            now_ms,
            is_settled: false,
        }
    }

    /// Takes both clocks in; true if dates mean other ages from now on.
    pub(in super::super) fn observe(&mut self, wall_ms: i64, now_ms: i64) -> bool {
        self.now_ms = now_ms;
        let offset_ms = wall_ms - now_ms;
        if self.is_settled && (offset_ms - self.offset_ms).abs() <= TOLERANCE_MS {
            self.offset_ms = offset_ms;
            self.candidate = None;
            return false;
        }
        match &mut self.candidate {
            Some((candidate, since_ms)) if (offset_ms - *candidate).abs() <= TOLERANCE_MS => {
                *candidate = offset_ms;
                let hold_ms = if self.is_settled {
                    JUMP_HOLD_MS
                } else {
                    START_HOLD_MS
                };
                if now_ms - *since_ms < hold_ms {
                    return false;
                }
                if self.is_settled {
                    tracing::warn!(
                        "the wall clock has kept its new time: what is stored is dated by it from now on"
                    );
                }
                self.offset_ms = offset_ms;
                self.candidate = None;
                self.is_settled = true;
                true
            }
            candidate => {
                if candidate.is_none() {
                    tracing::warn!(
                        "the wall clock jumped by {} s: nothing that is stored is removed because of that until the new time has held \
                         for {} minutes",
                        (offset_ms - self.offset_ms) / 1000,
                        JUMP_HOLD_MS / 60_000
                    );
                }
                *candidate = Some((offset_ms, now_ms));
                false
            }
        }
    }

    /// Monotonic time of the last look, in milliseconds.
    pub(in super::super) const fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// Whether dates of files are believed.
    pub(in super::super) const fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Monotonic time of a date; a date in the future is now.
    pub(in super::super) fn monotonic(&self, date_ms: u64) -> i64 {
        let date_ms = i64::try_from(date_ms).unwrap_or(i64::MAX);
        date_ms.saturating_sub(self.offset_ms).min(self.now_ms)
    }
}

/// The wall clock in milliseconds since 1970 (UTC), and the monotonic one in milliseconds since `start`.
#[expect(clippy::disallowed_methods, reason = "dates of files are of the wall clock")]
pub(in super::super) fn clocks(start: Instant) -> (i64, i64) {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ms = |time: std::time::Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX / 2);
    (ms(wall), ms(start.elapsed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: i64 = 86_400_000;

    #[test]
    fn a_spike_of_the_wall_clock_is_not_believed() {
        let mut clock = RetentionClock::new(DAY_MS, 0);
        assert!(!clock.observe(DAY_MS + 5_000, 5_000));
        assert!(!clock.is_settled());
        assert!(clock.observe(DAY_MS + 10_000, 10_000));
        assert!(!clock.observe(31 * DAY_MS, 11_000));
        assert!(!clock.observe(DAY_MS + 12_000, 12_000));
        assert_eq!(clock.monotonic(u64::try_from(DAY_MS).unwrap()), 0);
        assert_eq!(clock.monotonic(u64::MAX), 12_000, "the future is now");
    }

    #[test]
    fn a_jump_that_holds_is_believed() {
        let mut clock = RetentionClock::new(0, 0);
        assert!(clock.observe(10_000, 10_000));
        assert!(!clock.observe(DAY_MS, 11_000));
        assert!(!clock.observe(DAY_MS + 599_000, 610_000));
        assert!(clock.observe(DAY_MS + 600_000, 611_000));
        assert_eq!(clock.monotonic(u64::try_from(DAY_MS).unwrap()), 11_000);
    }
}
