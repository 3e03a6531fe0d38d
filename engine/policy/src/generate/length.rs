//! How many tokens a sequence is expected to generate, where nothing says it: the mean of those that ended.

use crate::queue::tie_break::uniform_hash;

/// Tokens that an emulated model generates in a sequence with this seed, of at most `max_tokens`: as if drawn evenly from 1 on.
#[must_use]
pub fn emulated_length(seed: u64, max_tokens: u32) -> u32 {
    1 + (uniform_hash(seed ^ 0x6765_6e65) * f64::from(max_tokens.max(1))) as u32
}

/// Weight of a new length in the mean.
const GAIN: f64 = 0.05;

/// The smoothed mean of lengths, in tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MeanLength {
    mean: f64,
    seen: u64,
}

impl MeanLength {
    /// Before any ended: half of what they may have.
    pub(crate) fn new(max_tokens: u32) -> Self {
        Self {
            mean: f64::from(max_tokens) / 2.0,
            seen: 0,
        }
    }

    /// A sequence ended with so many tokens.
    pub(crate) fn on_ended(&mut self, tokens: u32) {
        self.seen += 1;
        let gain = GAIN.max(1.0 / self.seen as f64);
        self.mean += gain * (f64::from(tokens) - self.mean);
    }

    /// Tokens that a sequence is expected to generate yet, which has generated so many of at most `max_tokens`.
    pub(crate) fn remaining(&self, generated: u32, max_tokens: u32) -> u32 {
        let expected = (self.mean.round() as u32).clamp(1, max_tokens.max(1));
        expected.saturating_sub(generated).max(1)
    }
}
