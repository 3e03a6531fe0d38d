//! Survival function over ratios, looked up in constant time: the fraction of sequences that are longer than
//! a ratio times their expected length. A falling step function.
//!
//! A decision over many instances evaluates it for each of them, and for each sequence on the instances that
//! could take one more. So it stores ratios instead of logarithms, which saves computing logarithms. The
//! upper bits of a ratio, its exponent and the first [`KEY_BITS`] of its fraction, are the key of a bucket
//! with a few steps.

/// Number of fraction bits in a bucket's key: 64 buckets for each factor of two.
const KEY_BITS: u32 = 6;
/// Maximum number of buckets; steps beyond are in the last one. Five orders of magnitude need about a
/// thousand.
const MAX_BUCKETS: usize = 1_024;
/// Relative tolerance by which ratios are reduced, so that exactly the predicted number of tokens reaches an
/// exact prediction.
pub(super) const HAIR: f64 = 1e-9;

/// A survival function with its index of buckets.
#[derive(Debug, Clone)]
pub(super) struct Survival {
    /// Ratios at which the function falls, ascending, and in `parts` its value after each.
    ratios: Vec<f64>,
    parts: Vec<f64>,
    /// Key of the first bucket; `before` is the number of steps before each bucket, with one more entry at
    /// the end.
    first_key: u64,
    before: Vec<u32>,
}

fn key(ratio: f64) -> u64 {
    // Bit patterns of positive floats are ordered like their values.
    ratio.to_bits() >> (52 - KEY_BITS)
}

impl Survival {
    /// Of residuals, that is logarithms of ratios, ascending, and the part that is left after each.
    pub(super) fn new(residuals: &[(f64, f64)]) -> Self {
        let ratios: Vec<f64> = residuals
            .iter()
            .map(|(residual, _)| (residual - HAIR).exp())
            .collect();
        let first_key = ratios.first().map_or(0, |first| key(*first));
        let last_key = ratios.last().map_or(0, |last| key(*last));
        let buckets = ((last_key - first_key) as usize + 1).min(MAX_BUCKETS);
        let below = |bucket: usize| {
            let from = first_key + bucket as u64;
            ratios.partition_point(|ratio| key(*ratio) < from) as u32
        };
        let mut before: Vec<u32> = (0..buckets).map(below).collect();
        before.push(ratios.len() as u32);
        Self {
            parts: residuals.iter().map(|(_, part)| *part).collect(),
            ratios,
            first_key,
            before,
        }
    }

    /// The ratio of the first step; 0 without any.
    pub(super) fn first(&self) -> f64 {
        self.ratios.first().copied().unwrap_or(0.0)
    }

    /// The ratio of the last step; 0 without any.
    pub(super) fn last(&self) -> f64 {
        self.ratios.last().copied().unwrap_or(0.0)
    }

    /// Value after the last step; 1 without steps.
    pub(super) fn last_part(&self) -> f64 {
        self.parts.last().copied().unwrap_or(1.0)
    }

    /// Ratio below which the function is at least `part`.
    pub(super) fn ratio_with(&self, part: f64) -> f64 {
        let at = self.parts.iter().position(|left| *left < part);
        let at = at.or(self.parts.len().checked_sub(1));
        at.map_or(f64::INFINITY, |at| self.ratios[at])
    }

    /// Number of steps at or below a ratio.
    #[inline]
    fn passed(&self, ratio: f64) -> usize {
        let Some(bucket) = key(ratio).checked_sub(self.first_key) else {
            return 0;
        };
        let bucket = (bucket as usize).min(self.before.len() - 2);
        let (from, to) = (self.before[bucket] as usize, self.before[bucket + 1] as usize);
        from + self.ratios[from..to].partition_point(|step| *step <= ratio)
    }

    /// The part beyond a positive ratio, and whether that is beyond all steps.
    #[inline]
    pub(super) fn after(&self, ratio: f64) -> (f64, bool) {
        match self.passed(ratio) {
            0 => (1.0, false),
            passed => (self.parts[passed - 1], passed == self.ratios.len()),
        }
    }
}

/// A falling function over ratios, stored as its values at the edges of buckets and interpolated linearly:
/// evaluation needs no logarithm.
#[derive(Debug, Clone)]
pub(super) struct FallTable {
    first_key: u64,
    /// Values at the start of each bucket, up to the first that is zero.
    values: Vec<f64>,
}

/// Number of fraction bits within a bucket.
const REST_BITS: u32 = 52 - KEY_BITS;
/// Values below this count as zero.
const LEAST: f64 = 1e-20;

impl FallTable {
    /// Tabulates `at` from the bucket of `first` on, until the value is zero or for at most `max` buckets.
    pub(super) fn new(first: f64, max: usize, at: impl Fn(f64) -> f64) -> Self {
        let first_key = key(first);
        let edges = (first_key..).map(|key| f64::from_bits(key << REST_BITS));
        let mut values: Vec<f64> = edges
            .take(max)
            .map(at)
            .take_while(|value| *value >= LEAST)
            .collect();
        values.push(0.0);
        Self { first_key, values }
    }

    /// At a ratio that is not before the first.
    #[inline]
    pub(super) fn at(&self, ratio: f64) -> f64 {
        let bucket = key(ratio).saturating_sub(self.first_key) as usize;
        let Some(&[from, to]) = self.values.get(bucket..bucket + 2) else {
            return 0.0;
        };
        let rest = ratio.to_bits() & ((1 << REST_BITS) - 1);
        from + (to - from) * (rest as f64 / (1_u64 << REST_BITS) as f64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_table_falls_and_is_near_what_it_was_made_of(
            from in -4.0_f64..4.0,
            step in 0.02_f64..1.0,
            asked in prop::collection::vec(0.0_f64..45.0, 2..40),
        ) {
            let fall = |ratio: f64| (-(ratio.ln() - from).max(0.0) / step).exp();
            let table = FallTable::new(from.exp(), 1 << 14, fall);
            let mut asked = asked;
            asked.sort_by(f64::total_cmp);
            let mut last = f64::INFINITY;
            for steps in asked {
                let ratio = (from + steps * step).exp() * (1.0 + 1e-12);
                let is = table.at(ratio);
                prop_assert!((0.0..=last).contains(&is), "{is} after {last}");
                prop_assert!((is - fall(ratio)).abs() <= 0.1 * fall(ratio), "{is} for {} at {steps}", fall(ratio));
                last = is;
            }
        }

        #[test]
        fn a_look_up_finds_what_a_search_over_logarithms_finds(
            steps in prop::collection::vec(-12.0_f64..12.0, 0..600),
            near in prop::collection::vec(-1.0_f64..1.0, 0..200),
            asked in prop::collection::vec(-15.0_f64..15.0, 1..50),
        ) {
            let mut residuals: Vec<f64> = steps.into_iter().chain(near).collect();
            residuals.sort_by(f64::total_cmp);
            residuals.dedup();
            let count = residuals.len() as f64;
            let steps: Vec<(f64, f64)> = (1..).zip(&residuals).map(|(index, at)| (*at, 1.0 - f64::from(index) / count)).collect();
            let survival = Survival::new(&steps);
            // Between steps, and at each of them exactly.
            for at in asked.iter().chain(&residuals) {
                let passed = steps.partition_point(|(step, _)| *step <= at + HAIR);
                let part = if passed == 0 { 1.0 } else { steps[passed - 1].1 };
                let near_a_step = steps.iter().any(|(step, _)| (step - at - HAIR).abs() < 1e-13);
                prop_assert!(near_a_step || survival.after(at.exp()) == (part, passed > 0 && passed == steps.len()), "at {at}");
            }
        }
    }
}
