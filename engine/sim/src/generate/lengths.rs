//! Predicted output lengths of sequences, in tokens.

use serde::{Deserialize, Serialize};
use weir_policy::{GOLDEN_GAMMA, uniform_hash};
use weir_types::SequenceId;

/// Number of most recent lengths that are remembered.
const MAX_SEEN: usize = 1_000;

/// Source of predicted lengths.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LengthRule {
    /// Mean length of finished sequences that were longer than this one is already.
    Mean,
    /// Random draw from the same lengths (the Past-Future scheduler; the paper's baseline).
    History,
    /// Prediction that comes with the request, from a predictor beside the router.
    Given,
    /// True length times a log-normal error, one draw per sequence. Since the sequence is known to be longer
    /// than what it has generated, its expected length is the median of the rest of that distribution.
    Oracle {
        /// Standard deviation of the error's logarithm; 0: exact.
        error: f64,
    },
}

/// Predicts the lengths of sequences.
#[derive(Debug, Clone)]
pub struct Lengths {
    rule: LengthRule,
    /// Length in tokens that is expected if no finished sequence was long enough.
    prior: u32,
    seed: u64,
    /// The most recent lengths, ascending.
    sorted: Vec<u32>,
    latest: std::collections::VecDeque<u32>,
}

impl Lengths {
    /// Before anything was seen: sequences are expected to have `prior` tokens.
    #[must_use]
    pub fn new(rule: LengthRule, prior: u32, seed: u64) -> Self {
        Self {
            rule,
            prior,
            seed,
            sorted: Vec::new(),
            latest: std::collections::VecDeque::new(),
        }
    }

    /// Records the length of a finished sequence in tokens.
    pub fn on_finished(&mut self, length: u32) {
        if self.latest.len() >= MAX_SEEN
            && let Some(oldest) = self.latest.pop_front()
            && let Ok(at) = self.sorted.binary_search(&oldest)
        {
            self.sorted.remove(at);
        }
        self.latest.push_back(length);
        let at = self.sorted.partition_point(|seen| *seen < length);
        self.sorted.insert(at, length);
    }

    /// Number of tokens that a sequence is expected to generate after `generated`. The arguments are the true
    /// length, used only by the oracle, and the predicted length (0: none).
    #[must_use]
    pub fn rest(&self, sequence: SequenceId, [length, predicted]: [u32; 2], generated: u32) -> u32 {
        let total = match self.rule {
            LengthRule::Mean => self.mean(generated),
            LengthRule::History => self.draw(sequence, generated),
            LengthRule::Given if predicted == 0 => self.mean(generated),
            // A sequence longer than its prediction is expected to grow by a tenth of its length.
            LengthRule::Given => predicted.max(generated.saturating_add(generated / 10)),
            LengthRule::Oracle { error } => self.oracle(sequence, length, generated, error),
        };
        total.saturating_sub(generated).max(1)
    }

    fn longer(&self, generated: u32) -> &[u32] {
        let from = self.sorted.partition_point(|seen| *seen <= generated);
        &self.sorted[from..]
    }

    fn mean(&self, generated: u32) -> u32 {
        let longer = self.longer(generated);
        if longer.is_empty() {
            return self.prior;
        }
        let sum: u64 = longer.iter().map(|seen| u64::from(*seen)).sum();
        (sum / longer.len() as u64) as u32
    }

    fn uniform(&self, sequence: SequenceId, draw: u64) -> f64 {
        let number = sequence.0.wrapping_mul(1 << 20).wrapping_add(draw);
        uniform_hash(self.seed.wrapping_mul(GOLDEN_GAMMA) ^ number)
    }

    fn draw(&self, sequence: SequenceId, generated: u32) -> u32 {
        let longer = self.longer(generated);
        let at = (self.uniform(sequence, u64::from(generated)) * longer.len() as f64) as usize;
        longer.get(at).or(longer.last()).copied().unwrap_or(self.prior)
    }

    fn oracle(&self, sequence: SequenceId, length: u32, generated: u32, error: f64) -> u32 {
        if error <= 0.0 {
            return length;
        }
        // Two uniform numbers give a normal one (Box, Muller).
        let (u, v) = (
            self.uniform(sequence, 1 << 18),
            self.uniform(sequence, (1 << 18) + 1),
        );
        let normal = (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos();
        let predicted = f64::from(length) * (error * normal).exp();
        let passed = (f64::from(generated.max(1)) / predicted).ln() / error;
        // Halfway between what is excluded and everything.
        let quantile = 0.5 * (1.0 + normal_cdf(passed));
        let tokens = predicted * (error * normal_quantile(quantile)).exp();
        tokens.clamp(1.0, 1e6).round() as u32
    }
}

/// The normal distribution (Abramowitz and Stegun 26.2.17, to 7.5e-8).
fn normal_cdf(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let series = [
        0.319_381_530,
        -0.356_563_782,
        1.781_477_937,
        -1.821_255_978,
        1.330_274_429,
    ];
    let sum = series.iter().rev().fold(0.0, |sum, factor| (sum + factor) * t);
    let tail = (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt() * sum;
    if x >= 0.0 { 1.0 - tail } else { tail }
}

/// Quantile of the normal distribution, by bisection, which is exact enough here.
fn normal_quantile(quantile: f64) -> f64 {
    let (mut low, mut high) = (-6.0, 6.0);
    for _ in 0..40 {
        let middle = 0.5 * (low + high);
        if normal_cdf(middle) < quantile {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_and_draws_are_of_what_is_longer_than_what_there_is() {
        let mut lengths = Lengths::new(LengthRule::Mean, 250, 1);
        assert_eq!(lengths.rest(SequenceId(0), [9, 0], 50), 200, "nothing was seen");
        for length in [100, 300, 200] {
            lengths.on_finished(length);
        }
        for (generated, rest) in [(0, 200), (100, 150), (250, 50), (300, 1)] {
            assert_eq!(
                lengths.rest(SequenceId(0), [9, 0], generated),
                rest,
                "after {generated}"
            );
        }
        let history = Lengths {
            rule: LengthRule::History,
            ..lengths
        };
        let draws: std::collections::BTreeSet<u32> = (0..100)
            .map(|number| history.rest(SequenceId(number), [9, 0], 150))
            .collect();
        assert_eq!(draws.into_iter().collect::<Vec<_>>(), [50, 150]);
    }

    #[test]
    fn only_the_latest_are_remembered() {
        let mut lengths = Lengths::new(LengthRule::Mean, 1, 1);
        for length in [7, 9]
            .into_iter()
            .flat_map(|length| std::iter::repeat_n(length, MAX_SEEN))
        {
            lengths.on_finished(length);
        }
        assert_eq!(
            (lengths.rest(SequenceId(0), [1, 0], 0), lengths.sorted.len()),
            (9, MAX_SEEN)
        );
    }

    #[test]
    fn an_oracle_errs_by_what_it_is_given() {
        let exact = Lengths::new(LengthRule::Oracle { error: 0.0 }, 1, 1);
        assert_eq!(
            (
                exact.rest(SequenceId(3), [400, 0], 0),
                exact.rest(SequenceId(3), [400, 0], 390)
            ),
            (400, 10)
        );
        let off = Lengths::new(LengthRule::Oracle { error: 0.3 }, 1, 1);
        let logs: Vec<f64> = (0..2_000)
            .map(|number| (f64::from(off.rest(SequenceId(number), [10_000, 0], 0)) / 1e4).ln())
            .collect();
        let mean = logs.iter().sum::<f64>() / 2_000.0;
        let deviation = (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / 2_000.0).sqrt();
        assert!(
            mean.abs() < 0.02 && (deviation - 0.3).abs() < 0.02,
            "{mean} {deviation}"
        );
        // A sequence that exceeds its prediction is expected to continue for a little.
        let rest = (0..200).map(|number| off.rest(SequenceId(number), [100, 0], 150));
        assert!(
            rest.clone().all(|rest| (1..150).contains(&rest)),
            "{:?}",
            rest.max()
        );
    }
}
