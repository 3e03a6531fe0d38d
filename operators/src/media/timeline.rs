//! Presentation times of frames: from 0, strictly increasing, in plausible steps, whatever the container declares.
//! After a jump of the media clock, times are rebased and the discontinuity is counted.

/// A larger step back is a restart of the clock, not a timestamp out of order.
const RESTART_MS: f64 = 1000.0;

/// Longest plausible pause between two frames of a recording. Recorders that skip still scenes leave pauses of seconds;
/// joined files and flipped bytes cause jumps of minutes to days, for which no run should wait.
const MAX_RECORDED_STEP_MS: f64 = 10_000.0;

/// The same for a live stream, whose times the runtime compares with the clock. A camera that is silent for longer is
/// reconnected; and times stay small enough for milliseconds to be exact.
const MAX_LIVE_STEP_MS: f64 = 24.0 * 3_600_000.0;

/// Step from the previous time to that of a timestamp out of order.
const NUDGE_MS: f64 = 1.0;

/// Consecutive timestamps that do not grow and are taken as out of order; further ones are ignored.
const MAX_NUDGES: u32 = 3;

/// Range of frame rates that steps are computed from; a user may set any rate.
const MIN_FPS: f64 = 0.001;
const MAX_FPS: f64 = 1000.0;

/// Corrects the timestamps of one stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Timeline {
    /// Milliseconds between frames without timestamps.
    step_ms: f64,
    max_step_ms: f64,
    /// Offset subtracted from timestamps; set by the first.
    base_ms: Option<f64>,
    /// The previous timestamp of the container.
    last_stamp_ms: Option<f64>,
    last_ms: Option<f64>,
    /// Consecutive timestamps that did not grow.
    stale: u32,
    discontinuities: u64,
}

impl Timeline {
    /// A timeline for frames at about `fps`, of a `live` stream or a recording.
    pub(crate) fn new(fps: f64, live: bool) -> Self {
        let step_ms = 1000.0
            / if fps.is_finite() {
                fps.clamp(MIN_FPS, MAX_FPS)
            } else {
                super::DEFAULT_FPS
            };
        let max_step_ms = if live {
            MAX_LIVE_STEP_MS
        } else {
            MAX_RECORDED_STEP_MS
        };
        Self {
            step_ms,
            // Pictures of a time lapse may be minutes apart, as their rate shows.
            max_step_ms: max_step_ms.max(3.0 * step_ms),
            base_ms: None,
            last_stamp_ms: None,
            last_ms: None,
            stale: 0,
            discontinuities: 0,
        }
    }

    /// Goes on after a picture with that time stamp and time.
    pub(crate) fn going_on_from(mut self, stamp_ms: f64, time_ms: f64) -> Self {
        self.base_ms = Some(stamp_ms - time_ms);
        self.last_stamp_ms = Some(stamp_ms);
        self.last_ms = Some(time_ms);
        self
    }

    /// Number of times that the clock was rebased.
    pub(crate) fn discontinuities(&self) -> u64 {
        self.discontinuities
    }

    /// The time of the next frame in milliseconds, given the container's timestamp.
    pub(crate) fn next(&mut self, stamp_ms: Option<f64>) -> f64 {
        let time = self.corrected(stamp_ms.filter(|stamp| stamp.is_finite()));
        self.last_ms = Some(time);
        time
    }

    fn corrected(&mut self, stamp_ms: Option<f64>) -> f64 {
        let expected = self.last_ms.map_or(0.0, |last| last + self.step_ms);
        let Some(stamp) = stamp_ms else { return expected };
        let grew = self.last_stamp_ms.replace(stamp).is_none_or(|last| stamp > last);
        self.stale = if grew { 0 } else { self.stale.saturating_add(1) };
        if self.stale == MAX_NUDGES + 1 {
            // The clock stands still or runs backwards: from here on it is ignored.
            self.discontinuities += 1;
        }
        let base = *self.base_ms.get_or_insert(stamp - expected);
        let time = stamp - base;
        let Some(last) = self.last_ms else { return expected };
        if time < last - RESTART_MS && (grew || self.stale <= MAX_NUDGES) || time > last + self.max_step_ms {
            self.base_ms = Some(stamp - expected);
            self.discontinuities += 1;
            return expected;
        }
        if time > last {
            return time;
        }
        if self.stale > MAX_NUDGES {
            expected
        } else {
            last + NUDGE_MS.min(self.step_ms)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn times(live: bool, stamps: &[Option<f64>]) -> (Vec<f64>, u64) {
        let mut timeline = Timeline::new(25.0, live);
        let found = stamps.iter().map(|stamp| timeline.next(*stamp)).collect();
        (found, timeline.discontinuities())
    }

    fn check(stamps: &[Option<f64>], expected: &[f64], discontinuities: u64) {
        let found = times(false, stamps);
        assert_eq!(found, (expected.to_vec(), discontinuities), "{stamps:?}");
    }

    #[test]
    fn times_start_at_zero_and_keep_their_distances() {
        check(&[Some(500.0), Some(533.0), Some(600.0)], &[0.0, 33.0, 100.0], 0);
    }

    #[test]
    fn missing_timestamps_follow_the_rate() {
        check(&[None, None, None], &[0.0, 40.0, 80.0], 0);
        check(&[Some(7.0), None, Some(90.0)], &[0.0, 40.0, 83.0], 0);
        check(&[None, Some(1000.0), Some(1050.0)], &[0.0, 40.0, 90.0], 0);
    }

    #[test]
    fn a_timestamp_that_steps_back_follows_closely() {
        check(
            &[Some(0.0), Some(40.0), Some(40.0), Some(20.0), Some(120.0)],
            &[0.0, 40.0, 41.0, 42.0, 120.0],
            0,
        );
        check(&[Some(0.0), Some(f64::NAN), Some(90.0)], &[0.0, 40.0, 90.0], 0);
    }

    #[test]
    fn a_restarted_clock_is_rebased() {
        check(
            &[Some(0.0), Some(9000.0), Some(0.0), Some(40.0)],
            &[0.0, 9000.0, 9040.0, 9080.0],
            1,
        );
    }

    #[test]
    fn a_clock_that_stands_still_or_runs_backwards_is_ignored() {
        let expected = [0.0, 1.0, 2.0, 3.0, 43.0, 83.0, 123.0];
        check(&[Some(7.0); 7], &expected, 1);
        let falling = [70, 60, 50, 40, 30, 20, 10].map(|stamp| Some(f64::from(stamp)));
        check(&falling, &expected, 1);
        // It goes again.
        let (found, discontinuities) = times(
            false,
            &[[Some(7.0); 40].as_slice(), &[Some(47.0), Some(87.0)]].concat(),
        );
        assert_eq!(found[41] - found[40], 40.0);
        assert_eq!(discontinuities, 2);
    }

    #[test]
    fn an_hour_long_pause_is_rebased_in_a_recording_and_kept_in_a_live_stream() {
        let hour = 3_600_000.0;
        let joined = [0.0, 40.0, hour, hour + 40.0].map(Some);
        check(&joined, &[0.0, 40.0, 80.0, 120.0], 1);
        assert_eq!(times(true, &joined), (vec![0.0, 40.0, hour, hour + 40.0], 0));
        // One flipped byte: there and back again.
        check(&[0.0, 40.0, hour, 120.0].map(Some), &[0.0, 40.0, 80.0, 120.0], 2);
    }

    #[test]
    fn pictures_of_a_time_lapse_may_be_minutes_apart() {
        let mut timeline = Timeline::new(1.0 / 60.0, false);
        assert_eq!(
            [0.0, 60e3, 120e3].map(|stamp| timeline.next(Some(stamp))),
            [0.0, 60e3, 120e3]
        );
        assert_eq!(timeline.discontinuities(), 0);
    }

    /// Stamps as containers have them and as they have not.
    fn stamps() -> impl Strategy<Value = Vec<Option<f64>>> {
        let stamp = prop_oneof![
            1 => Just(None),
            4 => (0..20_000_i32).prop_map(|ms| Some(f64::from(ms))),
            1 => any::<i64>().prop_map(|ticks| Some(ticks as f64 / 90.0)),
            1 => any::<f64>().prop_map(Some),
            1 => prop::sample::select(vec![
                i64::MIN as f64, i64::MAX as f64, f64::MAX, f64::MIN, f64::NAN, f64::INFINITY, 95_443_717.7,
            ])
            .prop_map(Some),
        ];
        prop_oneof![
            prop::collection::vec(stamp.clone(), 0..200),
            // Runs of one stamp, and even steps with something odd between them.
            (stamp.clone(), 0..100_usize).prop_map(|(stamp, count)| vec![stamp; count]),
            (prop::collection::vec(stamp, 100), -100.0..100.0_f64).prop_map(|(odd, step)| {
                let even = |index: usize| Some(index as f64 * step);
                let each = odd.into_iter().enumerate();
                each.map(|(index, odd)| if index % 17 == 5 { odd } else { even(index) })
                    .collect()
            }),
        ]
    }

    proptest! {
        #[test]
        fn times_increase_by_plausible_steps(
            stamps in stamps(),
            fps in prop_oneof![0.1..200.0_f64, any::<f64>()],
            live: bool,
        ) {
            let mut timeline = Timeline::new(fps, live);
            let mut last: Option<f64> = None;
            for stamp in stamps {
                let time = timeline.next(stamp);
                prop_assert!(time.is_finite());
                prop_assert!(last.is_some() || time == 0.0);
                if let Some(last) = last {
                    let step = time - last;
                    prop_assert!(step > 0.0 && step <= timeline.max_step_ms * 1.001, "{last} -> {time}");
                }
                last = Some(time);
            }
        }
    }
}
