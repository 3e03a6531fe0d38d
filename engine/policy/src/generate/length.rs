//! Expected lengths of sequences without a prediction, from the lengths of sequences that ended.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use weir_types::{SequenceId, StreamId};

use crate::queue::tie_break::{GOLDEN_GAMMA, uniform_hash};

/// Source of expected lengths: `length` of `[policy]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LengthSource {
    /// Smoothed mean of all sequences that ended.
    #[default]
    Mean,
    /// A random draw from the latest sequences that ended (the baseline of GoodServe 5.4, after Past-Future).
    History,
    /// Smoothed mean of sequences of the same stream with prompts of about the same length. A prompt lists
    /// objects found in a frame, and is longer the more there are.
    Stream,
    /// Prediction by nets from the prompt, one for each tier of lengths, under a gate (GoodServe 3.2). The
    /// nets run beside the policy, and the prediction comes with the request, and again with steps if the nets
    /// read the text so far; without one, as `Mean`.
    Experts,
    /// Prediction by a single net, otherwise as `Experts`.
    Single,
}

impl LengthSource {
    /// Whether lengths come with requests, predicted by nets that run beside the policy.
    #[must_use]
    pub fn is_predicted(self) -> bool {
        matches!(self, Self::Experts | Self::Single)
    }

    /// Name of the source in `[policy]`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::History => "history",
            Self::Stream => "stream",
            Self::Experts => "experts",
            Self::Single => "single",
        }
    }
}

/// Length of an emulated sequence with this seed: pseudo-random, uniform from 1 to `max_tokens`.
#[must_use]
pub fn emulated_length(seed: u64, max_tokens: u32) -> u32 {
    1 + (uniform_hash(seed ^ 0x6765_6e65) * f64::from(max_tokens.max(1))) as u32
}

/// Emulated prediction of a known length: its logarithm has the standard deviation `error`. The same seed
/// gives the same value.
#[must_use]
pub fn emulated_prediction(length: u32, seed: u64, error: f64) -> u32 {
    // Two uniform values give a normal one (Box and Muller).
    let (first, second) = (
        uniform_hash(seed ^ PREDICTION),
        uniform_hash(seed ^ (PREDICTION << 32)),
    );
    let normal = (-2.0 * (1.0 - first).ln()).sqrt() * (std::f64::consts::TAU * second).cos();
    (f64::from(length) * (error * normal).exp())
        .round()
        .clamp(1.0, MAX_PREDICTED) as u32
}

/// Emulated prediction of the tokens that an emulated sequence still generates after `generated` ones. It errs
/// by the same factor as the first prediction, of fewer tokens.
#[must_use]
pub fn emulated_remaining((seed, max_tokens): (u64, u32), generated: u32, error: f64) -> u32 {
    let remaining = emulated_length(seed, max_tokens).saturating_sub(generated);
    emulated_prediction(remaining.max(1), seed_after(seed, generated), error)
}

/// Seed of the prediction that is made after so many tokens.
#[must_use]
pub fn seed_after(seed: u64, generated: u32) -> u64 {
    seed ^ u64::from(generated).wrapping_mul(GOLDEN_GAMMA)
}

/// Salt of the hashes for emulated predictions.
const PREDICTION: u64 = 0x7072_6564;
/// Upper bound of predicted lengths, in tokens.
pub(crate) const MAX_PREDICTED: f64 = 1e9;

/// Weight of a new length in the smoothed mean.
const GAIN: f64 = 0.05;

/// The smoothed mean of lengths, in tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MeanLength {
    mean: f64,
    seen: u64,
}

impl MeanLength {
    /// Starts at half of the maximum length.
    pub(crate) fn new(max_tokens: u32) -> Self {
        Self {
            mean: f64::from(max_tokens) / 2.0,
            seen: 0,
        }
    }

    /// Adds the length of a sequence that ended.
    pub(crate) fn on_ended(&mut self, tokens: u32) {
        self.seen += 1;
        let gain = GAIN.max(1.0 / self.seen as f64);
        self.mean += gain * (f64::from(tokens) - self.mean);
    }

    /// Number of further tokens expected from a sequence that has generated `generated` of at most
    /// `max_tokens`; at least 1.
    pub(crate) fn remaining(&self, generated: u32, max_tokens: u32) -> u32 {
        let expected = (self.mean.round() as u32).clamp(1, max_tokens.max(1));
        expected.saturating_sub(generated).max(1)
    }
}

/// Number of latest lengths that `history` draws from.
const MAX_LATEST: usize = 256;
/// Width of a tier of prompt lengths, in tokens.
const PROMPT_STEP: u32 = 8;
/// Maximum number of means over all streams; beyond it those of the stream with the lowest id are removed.
const MAX_MEANS: usize = 4_096;
/// Salt of the hashes for draws, so that they are independent of other draws.
const DRAW: u64 = 0x6c65_6e67;

/// Lengths of sequences that ended, as the source needs them.
#[derive(Debug, Clone)]
pub(crate) struct Lengths {
    source: LengthSource,
    all: MeanLength,
    latest: VecDeque<u32>,
    by_stream: BTreeMap<(StreamId, u32), MeanLength>,
    max_tokens: u32,
}

impl Lengths {
    pub(crate) fn new(source: LengthSource, max_tokens: u32) -> Self {
        Self {
            source,
            all: MeanLength::new(max_tokens),
            latest: VecDeque::new(),
            by_stream: BTreeMap::new(),
            max_tokens,
        }
    }

    /// Predicted length of a sequence of this stream with such a prompt; `None`: the mean of all applies.
    pub(crate) fn predict(&self, sequence: SequenceId, stream: StreamId, prompt: u32) -> Option<u32> {
        match self.source {
            LengthSource::Mean | LengthSource::Experts | LengthSource::Single => None,
            LengthSource::History => {
                let at = uniform_hash(sequence.0 ^ DRAW) * self.latest.len() as f64;
                self.latest.get(at as usize).copied()
            }
            LengthSource::Stream => {
                let tier = prompt / PROMPT_STEP;
                let below = self.by_stream.range((stream, 0)..=(stream, tier)).next_back();
                let above = self.by_stream.range((stream, tier)..=(stream, u32::MAX)).next();
                let apart = |((_, of), _): &(&(StreamId, u32), &MeanLength)| of.abs_diff(tier);
                let nearest = below.into_iter().chain(above).min_by_key(apart);
                nearest.map(|(_, mean)| mean.remaining(0, self.max_tokens))
            }
        }
    }

    /// Adds a sequence that ended.
    pub(crate) fn on_ended(&mut self, stream: StreamId, prompt: u32, tokens: u32) {
        self.all.on_ended(tokens);
        match self.source {
            LengthSource::Mean | LengthSource::Experts | LengthSource::Single => {}
            LengthSource::History => {
                if self.latest.len() >= MAX_LATEST {
                    self.latest.pop_front();
                }
                self.latest.push_back(tokens);
            }
            LengthSource::Stream => {
                let key = (stream, prompt / PROMPT_STEP);
                if self.by_stream.len() >= MAX_MEANS && !self.by_stream.contains_key(&key) {
                    self.by_stream.pop_first();
                }
                let max_tokens = self.max_tokens;
                let mean = self.by_stream.entry(key);
                mean.or_insert_with(|| MeanLength::new(max_tokens))
                    .on_ended(tokens);
            }
        }
    }

    /// Number of further tokens expected from a sequence without a prediction.
    pub(crate) fn remaining(&self, generated: u32) -> u32 {
        self.all.remaining(generated, self.max_tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEW: u32 = 10;
    const MANY: u32 = 60;

    /// Two streams: one with short outputs for short prompts and long ones for long prompts, the other with
    /// outputs of equal length.
    fn seen(source: LengthSource) -> Lengths {
        let mut lengths = Lengths::new(source, 200);
        for _ in 0..200 {
            lengths.on_ended(StreamId(1), FEW, 20);
            lengths.on_ended(StreamId(1), MANY, 120);
            lengths.on_ended(StreamId(2), MANY, 5);
        }
        lengths
    }

    #[test]
    fn a_stream_says_as_much_as_it_did_about_as_much() {
        let lengths = seen(LengthSource::Stream);
        let of = |stream, prompt| lengths.predict(SequenceId(7), StreamId(stream), prompt);
        assert_eq!(
            (of(1, FEW), of(1, MANY), of(2, MANY)),
            (Some(20), Some(120), Some(5))
        );
        // The nearest tier of the same stream is used; an unknown stream has no prediction.
        assert_eq!(
            (of(1, 0), of(1, 50), of(1, 1_000)),
            (Some(20), Some(120), Some(120))
        );
        assert_eq!((of(2, FEW), of(3, FEW)), (Some(5), None));
        assert_eq!(lengths.remaining(0), seen(LengthSource::Mean).remaining(0));
    }

    #[test]
    fn draws_are_as_often_each_length_as_it_was_seen() {
        let lengths = seen(LengthSource::History);
        let draws: Vec<u32> = (0..3_000)
            .filter_map(|number| lengths.predict(SequenceId(number), StreamId(1), FEW))
            .collect();
        for length in [5, 20, 120] {
            let count = draws.iter().filter(|draw| **draw == length).count();
            assert!((900..=1_100).contains(&count), "{length}: {count}");
        }
        assert_eq!(
            lengths.predict(SequenceId(9), StreamId(1), FEW),
            lengths.predict(SequenceId(9), StreamId(2), MANY)
        );
        assert_eq!(
            Lengths::new(LengthSource::History, 200).predict(SequenceId(9), StreamId(1), 1),
            None
        );
    }

    #[test]
    fn where_no_prediction_came_the_mean_stands_in() {
        for source in [LengthSource::Experts, LengthSource::Single] {
            let lengths = seen(source);
            assert_eq!(lengths.predict(SequenceId(7), StreamId(1), FEW), None);
            assert_eq!(lengths.remaining(0), seen(LengthSource::Mean).remaining(0));
        }
    }

    #[test]
    fn emulated_predictions_are_off_by_as_much_as_is_asked_for() {
        assert!((0..100).all(|seed| emulated_prediction(100, seed, 0.0) == 100));
        for error in [0.1, 0.3, 0.6] {
            let logs =
                (0..4_000).map(|seed| (f64::from(emulated_prediction(10_000, seed, error)) / 1e4).ln());
            let logs: Vec<f64> = logs.collect();
            let mean = logs.iter().sum::<f64>() / logs.len() as f64;
            let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / logs.len() as f64;
            assert!(mean.abs() < 0.05 * error, "{error}: mean {mean}");
            assert!(
                (variance.sqrt() / error - 1.0).abs() < 0.05,
                "{error}: {}",
                variance.sqrt()
            );
        }
    }

    #[test]
    fn emulated_predictions_are_closer_the_more_tokens_there_are() {
        let error_after = |fraction: f64| {
            let errors = (0..2_000).map(|seed| {
                let length = emulated_length(seed, 1_000);
                let generated = (fraction * f64::from(length)) as u32;
                let total = generated + emulated_remaining((seed, 1_000), generated, 0.4);
                f64::from(total.abs_diff(length))
            });
            errors.sum::<f64>() / 2_000.0
        };
        let [first, half, late] = [0.0, 0.5, 0.9].map(error_after);
        assert!(half < 0.6 * first && late < 0.3 * half, "{first} {half} {late}");
        let length = emulated_length(7, 1_000);
        let is_exact = |generated| generated + emulated_remaining((7, 1_000), generated, 0.0) == length;
        assert!((0..length).all(is_exact));
    }

    #[test]
    fn what_is_kept_of_streams_is_bounded() {
        let mut lengths = Lengths::new(LengthSource::Stream, 200);
        for stream in 0..2 * MAX_MEANS as u32 {
            lengths.on_ended(StreamId(stream), FEW, 20);
        }
        assert_eq!(lengths.by_stream.len(), MAX_MEANS);
        let last = StreamId(2 * MAX_MEANS as u32 - 1);
        assert_eq!(lengths.predict(SequenceId(1), last, FEW), Some(20));
    }
}
