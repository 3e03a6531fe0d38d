//! Statistics of a module's sequences: times of the first and last token, and errors of estimates.

use serde::{Deserialize, Serialize};
use weir_types::{Span, Timestamp};

use crate::measure::histogram::{Histogram, Quantiles};

/// Estimates made for a sequence when it arrived and was placed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Expectation {
    /// Time of the request's arrival at the module.
    pub(crate) at: Timestamp,
    /// Estimated time from then to the last token.
    pub(crate) estimate: Span,
    /// Estimated number of generated tokens.
    pub(crate) tokens: u32,
}

/// Sums and histograms over the sequences so far.
#[derive(Debug, Clone, Default)]
pub struct SequenceStats {
    finished: u64,
    moved: u64,
    lost: u64,
    first_token: Histogram,
    whole: Histogram,
    estimate_error: Histogram,
    /// Sum of actual minus estimated times, in seconds.
    late_s: f64,
    /// Sum of absolute errors of lengths, in tokens.
    length_error: u64,
}

/// Statistics of sequences in a report.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SequenceReport {
    /// Number of sequences that have their last token.
    pub finished: u64,
    /// Number of moves to another instance that the router decided.
    pub moved: u64,
    /// Number of moves because an instance was lost.
    pub lost: u64,
    /// Time from a request's arrival at the module to the first token of a sequence, in milliseconds.
    pub first_token_ms: Quantiles,
    /// Time from a request's arrival at the module to the last token of a sequence, in milliseconds.
    pub whole_ms: Quantiles,
    /// Absolute error of the first estimate of the time to the last token, in milliseconds.
    pub estimate_error_ms: Quantiles,
    /// Mean of that error, in milliseconds.
    pub estimate_error_mean_ms: f64,
    /// Mean of actual minus estimated time, in milliseconds: positive if sequences take longer than
    /// estimated.
    pub estimate_late_mean_ms: f64,
    /// Mean absolute error of the estimated length, in tokens.
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

    /// Adds the statistics of another module of that name.
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

    /// Statistics so far, in the form of a report.
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
