//! Sampling of frames by media time.

/// Tolerance of timestamps in milliseconds: containers round to milliseconds.
const TOLERANCE_MS: f64 = 1.0;

/// Samples frames evenly by media time: the first frame of each interval. Without a rate, all frames.
#[derive(Debug, Clone, PartialEq)]
pub struct FrameSampler {
    interval_ms: Option<f64>,
    /// Interval of the last sampled frame.
    last: Option<f64>,
}

impl FrameSampler {
    /// Samples at most `fps` frames a second of media time.
    #[must_use]
    pub fn new(fps: Option<f64>) -> Self {
        Self {
            interval_ms: fps.filter(|fps| *fps > 0.0).map(|fps| 1000.0 / fps),
            last: None,
        }
    }

    /// Whether the frame at `pts_ms` is sampled; times increase.
    pub fn sample(&mut self, pts_ms: f64) -> bool {
        let Some(interval_ms) = self.interval_ms else {
            return true;
        };
        let interval = ((pts_ms + TOLERANCE_MS.min(interval_ms / 10.0)) / interval_ms).floor();
        let is_sampled = self.last.is_none_or(|last| interval > last);
        if is_sampled {
            self.last = Some(interval);
        }
        is_sampled
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sampled(fps: Option<f64>, times: impl IntoIterator<Item = f64>) -> Vec<usize> {
        let mut sampler = FrameSampler::new(fps);
        let each = times.into_iter().enumerate();
        each.filter(|(_, time)| sampler.sample(*time))
            .map(|(index, _)| index)
            .collect()
    }

    #[test]
    fn frames_are_sampled_evenly() {
        let at = |fps: f64| (0..30).map(move |index| f64::from(index) * 1000.0 / fps);
        assert_eq!(sampled(Some(5.0), at(30.0)), [0, 6, 12, 18, 24]);
        assert_eq!(sampled(Some(5.0), at(29.97)), [0, 6, 12, 18, 24]);
        assert_eq!(
            sampled(Some(10.0), at(25.0)),
            [0, 3, 5, 8, 10, 13, 15, 18, 20, 23, 25, 28]
        );
        assert_eq!(
            sampled(Some(0.5), at(1.0)),
            (0..30).step_by(2).collect::<Vec<_>>()
        );
        assert_eq!(sampled(Some(60.0), at(25.0)).len(), 30);
        assert_eq!(sampled(None, at(25.0)).len(), 30);
        // Rounded to milliseconds by the container.
        let rounded = at(30.0).map(f64::floor);
        assert_eq!(
            sampled(Some(10.0), rounded),
            (0..30).step_by(3).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_pause_causes_no_catch_up() {
        assert_eq!(
            sampled(Some(1.0), [0.0, 5000.0, 5100.0, 5200.0, 6000.0]),
            [0, 1, 4]
        );
    }

    proptest! {
        #[test]
        fn no_second_has_more_samples_than_the_rate(
            gaps in prop::collection::vec(0.01..200.0_f64, 1..300),
            fps in 0.1..60.0_f64,
        ) {
            let mut time = 0.0;
            let times: Vec<f64> = gaps.iter().map(|gap| { time += gap; time }).collect();
            let found = sampled(Some(fps), times.iter().copied());
            prop_assert_eq!(found.first(), Some(&0));
            let intervals = (times[times.len() - 1] - times[0]) * fps / 1000.0;
            prop_assert!(found.len() as f64 <= intervals + 2.0);
        }
    }
}
