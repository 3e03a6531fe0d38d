//! Presentation times as frames carry them: from 0, strictly increasing, whatever the container says.

/// A step back of more than this is a new start of the clock, not a stamp out of place.
const RESTART_MS: f64 = 1000.0;

/// How far a stamp out of place is put behind the one before it.
const NUDGE_MS: f64 = 1.0;

/// Mends the time stamps of one stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Timeline {
    /// Milliseconds from a frame to the next where nothing says otherwise.
    step_ms: f64,
    /// What is taken off a stamp; set by the first.
    base_ms: Option<f64>,
    last_ms: Option<f64>,
}

impl Timeline {
    pub(crate) fn new(fps: f64) -> Self {
        Self {
            step_ms: 1000.0 / fps,
            base_ms: None,
            last_ms: None,
        }
    }

    /// The time of the next frame, whose container says `stamp_ms`.
    pub(crate) fn next(&mut self, stamp_ms: Option<f64>) -> f64 {
        let time = self.mended(stamp_ms.filter(|stamp| stamp.is_finite()));
        self.last_ms = Some(time);
        time
    }

    fn mended(&mut self, stamp_ms: Option<f64>) -> f64 {
        let expected = self.last_ms.map_or(0.0, |last| last + self.step_ms);
        let Some(stamp) = stamp_ms else { return expected };
        let base = *self.base_ms.get_or_insert(stamp - expected);
        let time = stamp - base;
        match self.last_ms {
            Some(last) if time < last - RESTART_MS => {
                self.base_ms = Some(stamp - expected);
                expected
            }
            Some(last) if time <= last => last + NUDGE_MS.min(self.step_ms),
            _ => time,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stamps: &[Option<f64>], expected: &[f64]) {
        let mut timeline = Timeline::new(25.0);
        let found: Vec<f64> = stamps.iter().map(|stamp| timeline.next(*stamp)).collect();
        assert_eq!(found, expected, "{stamps:?}");
    }

    #[test]
    fn times_start_at_nought_and_keep_their_distances() {
        check(&[Some(500.0), Some(533.0), Some(600.0)], &[0.0, 33.0, 100.0]);
    }

    #[test]
    fn missing_stamps_follow_the_rate() {
        check(&[None, None, None], &[0.0, 40.0, 80.0]);
        check(&[Some(7.0), None, Some(90.0)], &[0.0, 40.0, 83.0]);
        check(&[None, Some(1000.0), Some(1050.0)], &[0.0, 40.0, 90.0]);
    }

    #[test]
    fn a_stamp_that_steps_back_is_put_just_behind() {
        check(
            &[Some(0.0), Some(40.0), Some(40.0), Some(20.0), Some(120.0)],
            &[0.0, 40.0, 41.0, 42.0, 120.0],
        );
        check(&[Some(0.0), Some(f64::NAN), Some(90.0)], &[0.0, 40.0, 90.0]);
    }

    #[test]
    fn a_clock_that_starts_again_goes_on_from_here() {
        check(
            &[Some(0.0), Some(9000.0), Some(0.0), Some(40.0)],
            &[0.0, 9000.0, 9040.0, 9080.0],
        );
    }
}
