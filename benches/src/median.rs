//! The median of what was measured, and between which values it lies.

/// A median with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Median {
    /// Below it the true median is once in forty times.
    pub low: f64,
    /// Of the values.
    pub value: f64,
    /// Above it the true median is once in forty times.
    pub high: f64,
}

/// Position of a confidence interval relative to a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval is within the bound.
    Within,
    /// The whole interval is beyond the bound.
    Beyond,
    /// The interval contains the bound, so the measurement is inconclusive.
    Open,
}

impl Median {
    /// Median of at least one value, with the interval of the sign test, which makes no assumption about the
    /// distribution: the `k`-th smallest and the `k`-th largest of `n` values, where `k` is the largest
    /// number with `P(B(n, 1/2) < k) <= 2.5 %`. With fewer than six values the interval has no ends.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let value = *sorted.get(sorted.len() / 2)?;
        let count = sorted.len();
        // P(B = outcome), from B = 0 on.
        let mut probability = 0.5_f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
        let (mut below, mut rank) = (0.0, 0);
        while rank < count && below + probability <= 0.025 {
            below += probability;
            probability *= (count - rank) as f64 / (rank + 1) as f64;
            rank += 1;
        }
        let end = |place: Option<usize>, without: f64| {
            let found = place.and_then(|place| sorted.get(place));
            found.copied().unwrap_or(without)
        };
        Some(Self {
            low: end(rank.checked_sub(1), f64::NEG_INFINITY),
            value,
            high: end(rank.checked_sub(1).map(|place| count - 1 - place), f64::INFINITY),
        })
    }

    /// Whether the median is at most `bound`.
    #[must_use]
    pub fn at_most(&self, bound: f64) -> Verdict {
        if self.high <= bound {
            Verdict::Within
        } else if self.low > bound {
            Verdict::Beyond
        } else {
            Verdict::Open
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_the_sign_test() {
        // Tables of the sign test have the ranks 1 of 6, 2 of 9 and 6 of 21.
        for (count, rank) in [(6, 1), (9, 2), (21, 6)] {
            let values: Vec<f64> = (1..=count).rev().map(f64::from).collect();
            let median = Median::of(&values).expect("values");
            assert_eq!(
                (median.low, median.high),
                (f64::from(rank), f64::from(count + 1 - rank))
            );
        }
    }

    #[test]
    fn few_values_say_nothing() {
        assert_eq!(Median::of(&[]), None);
        let median = Median::of(&[0.0; 5]).expect("values");
        assert_eq!((median.value, median.at_most(1.0)), (0.0, Verdict::Open));
    }

    #[test]
    fn a_bound_within_the_interval_is_no_verdict() {
        let median = Median::of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).expect("values");
        let verdicts = [0.5, 1.0, 3.0, 5.5, 6.0].map(|bound| median.at_most(bound));
        assert_eq!(
            verdicts,
            [
                Verdict::Beyond,
                Verdict::Open,
                Verdict::Open,
                Verdict::Open,
                Verdict::Within
            ]
        );
    }
}
