//! Times of sound on the time base of the pictures beside it.
//!
//! Containers and cameras have one time base for both; FFmpeg gets it from RTCP where a camera sends both by RTP. Until then, and from
//! cameras that have none, times of sound may be far from those of pictures: such sound is aligned by its arrival. A single wild time
//! is not believed: the next packet is its witness.

/// Step between two packets that needs a witness.
const MAX_STEP_MS: f64 = 1_000.0;

/// See the module.
#[derive(Debug)]
pub(super) struct SoundClock {
    /// Greatest difference in milliseconds between sound and the pictures that arrive with it.
    max_skew_ms: f64,
    /// Offset in milliseconds that is added to times of the container.
    offset_ms: f64,
    last_ms: Option<f64>,
    /// Time in the container of a packet that nothing has confirmed yet.
    suspect_ms: Option<f64>,
}

impl SoundClock {
    pub(super) fn new(max_skew_ms: f64) -> Self {
        Self {
            max_skew_ms,
            offset_ms: 0.0,
            last_ms: None,
            suspect_ms: None,
        }
    }

    /// The time of a packet that the container gives the time `own_ms`, and that arrived after a picture of `picture_ms`; `None` if
    /// its time is not believed.
    pub(super) fn time(&mut self, own_ms: f64, picture_ms: Option<f64>) -> Option<f64> {
        let is_near =
            |ms: f64| picture_ms.is_none_or(|picture_ms| (ms - picture_ms).abs() <= self.max_skew_ms);
        let (offset_ms, is_new) = if is_near(own_ms + self.offset_ms) {
            (self.offset_ms, false)
        } else if is_near(own_ms) {
            (0.0, false)
        } else {
            (picture_ms? - own_ms, true)
        };
        let ms = own_ms + offset_ms;
        let is_step = |from_ms: f64, to_ms: f64| (to_ms - from_ms).abs() <= MAX_STEP_MS;
        let follows = self.last_ms.is_none_or(|last_ms| is_step(last_ms, ms));
        let has_witness = self
            .suspect_ms
            .is_some_and(|suspect_ms| is_step(suspect_ms, own_ms));
        if !ms.is_finite() || (is_new || !follows) && !has_witness {
            self.suspect_ms = Some(own_ms);
            return None;
        }
        self.suspect_ms = None;
        self.offset_ms = offset_ms;
        self.last_ms = Some(ms);
        Some(ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times that are given to packets of 20 ms, each of which arrives with a picture.
    fn times(packets: &[(f64, f64)], max_skew_ms: f64) -> Vec<Option<f64>> {
        let mut clock = SoundClock::new(max_skew_ms);
        let times = packets.iter();
        times
            .map(|(own_ms, picture_ms)| clock.time(*own_ms, Some(*picture_ms)))
            .collect()
    }

    #[test]
    fn times_near_the_pictures_are_taken_as_they_are() {
        let packets = [(0.0, 100.0), (20.0, 120.0), (40.0, 140.0)];
        assert_eq!(times(&packets, 3_000.0), [Some(0.0), Some(20.0), Some(40.0)]);
        assert_eq!(SoundClock::new(3_000.0).time(-500.0, None), Some(-500.0));
    }

    #[test]
    fn sound_that_begins_late_at_zero_is_aligned_by_its_arrival_until_its_times_are_right() {
        let packets = [
            (0.0, 8_000.0),
            (20.0, 8_020.0),
            (40.0, 8_040.0),
            // The camera has said by RTCP what its times mean.
            (8_060.0, 8_060.0),
            (8_080.0, 8_080.0),
            (8_100.0, 8_100.0),
        ];
        let expected = [
            None,
            Some(8_020.0),
            Some(8_040.0),
            Some(8_060.0),
            Some(8_080.0),
            Some(8_100.0),
        ];
        assert_eq!(times(&packets, 3_000.0), expected);
    }

    #[test]
    fn a_wild_time_is_left_out_and_moves_nothing_else() {
        for wild in [1e12, -1e12, 2_500.0, f64::NAN, f64::INFINITY] {
            let packets = [(0.0, 0.0), (20.0, 20.0), (wild, 40.0), (60.0, 60.0), (80.0, 80.0)];
            let expected = [Some(0.0), Some(20.0), None, Some(60.0), Some(80.0)];
            assert_eq!(times(&packets, 3_000.0), expected, "{wild}");
        }
    }

    #[test]
    fn after_a_pause_sound_goes_on_at_its_place() {
        let packets = [(0.0, 0.0), (9_000.0, 9_000.0), (9_020.0, 9_020.0)];
        assert_eq!(times(&packets, 3_000.0), [Some(0.0), None, Some(9_020.0)]);
    }

    #[test]
    fn recordings_may_be_interleaved_loosely() {
        assert_eq!(times(&[(0.0, 5_000.0)], 10_000.0), [Some(0.0)]);
        assert_eq!(times(&[(0.0, 5_000.0)], 3_000.0), [None]);
    }
}
