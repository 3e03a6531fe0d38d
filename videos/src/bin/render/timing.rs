//! Presentation times of the frames of a clip.

use weir_videos::Seed;

/// Ticks a second of the time stamps in a clip, so that what the truth says is what a reader finds.
const TICKS: f64 = 90_000.0;

/// A moment in ticks since the beginning of the clip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(i64);

impl Moment {
    /// Presentation timestamp in milliseconds.
    pub(crate) fn pts_ms(self) -> f64 {
        self.0 as f64 * 1000.0 / TICKS
    }

    /// Time in seconds, as worlds take it.
    pub(crate) fn seconds(self) -> f32 {
        (self.0 as f64 / TICKS) as f32
    }
}

/// The moments of a clip of `seconds` at a constant `fps`; at least the first.
pub(crate) fn steady(seconds: f64, fps: f64) -> Vec<Moment> {
    let count = ((seconds * fps).round() as i64).max(1);
    (0..count)
        .map(|index| Moment((index as f64 * TICKS / fps).round() as i64))
        .collect()
}

/// The same times with an eighth left out, and the others shifted by up to a third of a frame. The first
/// stays.
pub(crate) fn uneven(seconds: f64, fps: f64, seed: Seed) -> Vec<Moment> {
    let frame = TICKS / fps;
    let moved = |(index, moment): (usize, Moment)| {
        let chance = seed.key(&format!("moment {index}"));
        if index == 0 {
            return Some(moment);
        }
        let late = ((chance >> 8) % 1000) as f64 / 1500.0 - 1.0 / 3.0;
        (!chance.is_multiple_of(8)).then(|| Moment(moment.0 + (late * frame) as i64))
    };
    steady(seconds, fps)
        .into_iter()
        .enumerate()
        .filter_map(moved)
        .collect()
}

#[cfg(test)]
mod tests {
    use weir_videos::Part;

    use super::*;

    #[test]
    fn a_steady_clip_has_so_many_frames_a_second() {
        let moments = steady(2.0, 30.0);
        assert_eq!(moments.len(), 60);
        assert_eq!(moments[1], Moment(3000));
        assert!((moments[59].pts_ms() - 59_000.0 / 30.0).abs() < 0.01);
        assert_eq!(steady(0.001, 25.0).len(), 1);
    }

    #[test]
    fn an_uneven_clip_goes_forwards_with_steps_of_all_sizes() {
        for number in 0..20 {
            let moments = uneven(8.0, 25.0, Seed::new(Part::Clip, number));
            assert_eq!(moments[0], Moment(0));
            assert!((140..200).contains(&moments.len()), "{}", moments.len());
            let steps: Vec<i64> = moments.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
            let shortest = steps.iter().min().copied().unwrap_or_default();
            let longest = steps.iter().max().copied().unwrap_or_default();
            assert!(
                (1000..2600).contains(&shortest) && longest > 6000,
                "{shortest} {longest}"
            );
        }
    }
}
