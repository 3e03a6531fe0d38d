//! The least that a batch can cost: in time, and in slot time an item.

use weir_types::{Profile, Span};

/// Slot time is counted in this many parts of a microsecond, so that an item's share of a batch of any usual
/// size is an integer. A remainder is rounded down, which keeps the bound valid.
pub(super) const PARTS: u64 = 1_024;

/// Batches of one module, shortest first.
#[derive(Debug)]
pub(super) struct Costs {
    /// `(duration, least slot time an item of all batches no longer than it)`, in microseconds and parts of one.
    by_duration: Vec<(u64, u64)>,
    /// Least duration of a batch of at least this size; the index is the batch size - 1.
    at_least: Vec<u64>,
    /// Slot time per item that is saved for each microsecond of longer batch, from each entry of
    /// `by_duration` to the next. Either never increases or is empty.
    gains: Vec<f64>,
    workers: u64,
}

impl Costs {
    pub(super) fn new(profile: &Profile, largest: u32, workers: u32) -> Self {
        let durations: Vec<u64> = (1..=largest)
            .map(|size| profile.duration(size).micros())
            .collect();
        let mut by_duration: Vec<(u64, u64)> = (1_u64..)
            .zip(&durations)
            .map(|(size, &duration)| (duration, duration.saturating_mul(PARTS) / size))
            .collect();
        by_duration.sort_unstable();
        let mut least = u64::MAX;
        for (_, share) in &mut by_duration {
            least = least.min(*share);
            *share = least;
        }
        // A longer batch that is no cheaper an item is never the better choice.
        let cheaper = |a: &mut (u64, u64), b: &mut (u64, u64)| a.1 >= b.1;
        by_duration.dedup_by(|later, kept| cheaper(later, kept));
        let mut at_least = durations;
        for size in (1..at_least.len()).rev() {
            at_least[size - 1] = at_least[size - 1].min(at_least[size]);
        }
        Self {
            gains: gains(&by_duration),
            by_duration,
            at_least,
            workers: u64::from(workers.max(1)),
        }
    }

    /// Least time from the start of the first batch to the end of the last, for a request of this many items.
    /// Either one round on all workers has a batch that holds its even share, or there are two rounds; and
    /// the total slot time is a lower bound as well.
    pub(super) fn min_span(&self, items: u32) -> Span {
        let even = u64::from(items).div_ceil(self.workers).max(1);
        let twice = self.at_least[0].saturating_mul(2);
        let rounds = self
            .at_least
            .get(even as usize - 1)
            .map_or(twice, |&duration| duration.min(twice));
        let share = self.by_duration.last().map_or(0, |last| last.1);
        let work = share.saturating_mul(u64::from(items)) / PARTS / self.workers;
        Span::from_micros(rounds.max(work))
    }

    /// The slot time of an item in the quickest batch, in parts.
    pub(super) fn max_item_cost(&self) -> u64 {
        self.by_duration.first().map_or(0, |first| first.1)
    }

    /// The least of `weight` times an item's slot time plus `price` times the time in the module, of at least `least`
    /// microseconds; and that time.
    pub(super) fn min_weighted(&self, weight: f64, price: f64, least: u64) -> (f64, u64) {
        let quick = self
            .by_duration
            .partition_point(|(duration, _)| *duration < least);
        // With a shorter batch, the request still spends `least` in the module.
        let before = quick.checked_sub(1).map(|at| (least, self.by_duration[at].1));
        let after = self.by_duration[quick..].iter().copied();
        // Where longer batches gain less and less, those that gain what time costs are passed over at once.
        let worth = self
            .gains
            .get(quick..)
            .map_or(0, |gains| gains.partition_point(|gain| weight * gain > price));
        let after = after
            .skip(worth)
            .take(if self.gains.is_empty() { usize::MAX } else { 1 });
        before
            .into_iter()
            .chain(after)
            .map(|(duration, share)| (weight * share as f64 + price * duration as f64, duration))
            .fold(
                (f64::INFINITY, 0),
                |best, next| if next.0 < best.0 { next } else { best },
            )
    }

    /// The least slot time of an item, in parts, in a batch that lasts at most `window`.
    pub(super) fn item_cost(&self, window: Span) -> u64 {
        let fitting = self
            .by_duration
            .partition_point(|(duration, _)| *duration <= window.micros());
        match fitting {
            0 => u64::MAX,
            fitting => self.by_duration[fitting - 1].1,
        }
    }
}

/// Slot time per item that is saved for each microsecond by which a batch is longer, from each batch to the
/// next. Empty if the saving ever grows with the duration, since the dual then does not apply.
fn gains(by_duration: &[(u64, u64)]) -> Vec<f64> {
    let gain = |pair: &[(u64, u64)]| (pair[0].1 - pair[1].1, pair[1].0 - pair[0].0);
    let exact: Vec<(u64, u64)> = by_duration.windows(2).map(gain).collect();
    let falls = exact.windows(2).all(|pair| {
        let ((first, over), (second, above)) = (pair[0], pair[1]);
        u128::from(second) * u128::from(over) <= u128::from(first) * u128::from(above)
    });
    if !falls {
        return Vec::new();
    }
    exact
        .into_iter()
        .map(|(gain, time)| gain as f64 / time as f64)
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_least_cost_is_that_of_some_batch(
            (base, each, bend) in (1_u64..9_000, 1_u64..5_000, 0_u64..4_000),
            (weight, price) in (0.0_f64..50.0, 0.0_f64..3_000.0),
            least in 0_u64..200_000,
        ) {
            // Batches beyond eight take a step longer, so that the saving rises once.
            let points = (1..=32).map(|size| {
                let step = if size > 8 { bend } else { 0 };
                (size, Span::from_micros(base + each * u64::from(size) + step))
            });
            let profile = Profile::new(points.collect()).unwrap();
            let costs = Costs::new(&profile, 32, 2);
            let naive = (1..=32_u64)
                .map(|size| {
                    let duration = profile.duration(size as u32).micros();
                    let share = duration * PARTS / size;
                    weight * share as f64 + price * duration.max(least) as f64
                })
                .fold(f64::INFINITY, f64::min);
            let (found, time) = costs.min_weighted(weight, price, least);
            prop_assert!((found - naive).abs() <= naive * 1e-12, "{found} for {naive}");
            prop_assert!(time >= least.min(profile.duration(32).micros()));
        }
    }
}
