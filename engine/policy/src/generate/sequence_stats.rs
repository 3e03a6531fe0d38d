//! What became of the sequences of a module: when they had their first and last token, and how far estimates were off.

use serde::{Deserialize, Serialize};
use weir_types::{Span, Timestamp};

use crate::measure::histogram::{Histogram, Quantiles};

/// What was thought of a sequence when it was put somewhere first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Expectation {
    /// When that was.
    pub(crate) at: Timestamp,
    /// How long it should take from then.
    pub(crate) estimate: Span,
    /// Tokens that it should generate.
    pub(crate) tokens: u32,
}

/// Counted so far.
#[derive(Debug, Clone, Default)]
pub struct SequenceStats {
    finished: u64,
    moved: u64,
    lost: u64,
    first_token: Histogram,
    whole: Histogram,
    estimate_error: Histogram,
    /// Sum of actual less estimated, in seconds.
    late_s: f64,
    /// Sum of the differences of lengths.
    length_error: u64,
}

/// The same as it is reported.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SequenceReport {
    /// Sequences that have their last token.
    pub finished: u64,
    /// How often one went on elsewhere because it was to.
    pub moved: u64,
    /// How often one went on elsewhere because its instance was lost.
    pub lost: u64,
    /// From a request's arrival at the module to the first token of a sequence, in milliseconds.
    pub first_token_ms: Quantiles,
    /// The same to its last token.
    pub whole_ms: Quantiles,
    /// How far the time to the last token was off what was estimated when it was put on an instance first, either way, in
    /// milliseconds.
    pub estimate_error_ms: Quantiles,
    /// The mean of that.
    pub estimate_error_mean_ms: f64,
    /// The mean of actual less estimated time: above 0 where sequences take longer than is thought.
    pub estimate_late_mean_ms: f64,
    /// Mean difference between the tokens that a sequence should generate and those that it did.
    pub length_error_mean: f64,
}

impl SequenceStats {
    pub(crate) fn on_first_token(&mut self, expectation: Expectation, now: Timestamp) {
        self.first_token.observe(now.since(expectation.at));
    }

    pub(crate) fn on_finished(&mut self, expectation: Expectation, generated: u32, now: Timestamp) {
        let took = now.since(expectation.at);
        let (longer, shorter) = (took.max(expectation.estimate), took.min(expectation.estimate));
        self.finished += 1;
        self.whole.observe(took);
        self.estimate_error.observe(longer.saturating_sub(shorter));
        self.late_s += took.as_secs_f64() - expectation.estimate.as_secs_f64();
        self.length_error += u64::from(expectation.tokens.abs_diff(generated));
    }

    pub(crate) fn on_moved(&mut self) {
        self.moved += 1;
    }

    pub(crate) fn on_lost(&mut self) {
        self.lost += 1;
    }

    /// Adds what another module of that name counted.
    pub fn merge(&mut self, other: &Self) {
        self.finished += other.finished;
        self.moved += other.moved;
        self.lost += other.lost;
        self.first_token.merge(&other.first_token);
        self.whole.merge(&other.whole);
        self.estimate_error.merge(&other.estimate_error);
        self.late_s += other.late_s;
        self.length_error += other.length_error;
    }

    /// For reports.
    #[must_use]
    pub fn report(&self) -> SequenceReport {
        let mean = |sum: f64| sum / self.finished.max(1) as f64;
        SequenceReport {
            finished: self.finished,
            moved: self.moved,
            lost: self.lost,
            first_token_ms: self.first_token.quantiles(),
            whole_ms: self.whole.quantiles(),
            estimate_error_ms: self.estimate_error.quantiles(),
            estimate_error_mean_ms: mean(1e3 * self.estimate_error.sum().as_secs_f64()),
            estimate_late_mean_ms: mean(1e3 * self.late_s),
            length_error_mean: mean(self.length_error as f64),
        }
    }
}
