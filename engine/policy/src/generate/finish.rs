//! Estimated finish of one more sequence on an instance; the broker judges a sequence by it before placing
//! it.
//!
//! `wait = a p + r d`, `duration = in p + out d(n)`. `p` is the time of a prompt token in a full step, and
//! `a` the number of prompt tokens that go first. `d(n)` is the step time of all `n` sequences that then run;
//! both are corrected by measurements. If no place is free, `r` is the number of tokens after which one is,
//! by expected lengths. GoodServe's equation 2 has a smoothed wait in place of the booked work.

use weir_types::{SequenceId, Span};

use super::instance::Instance;

/// Estimated times of a new sequence on an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FinishEstimate {
    /// Time until the computation of its prompt begins.
    pub wait: Span,
    /// Time from then to its last token.
    pub duration: Span,
}

impl FinishEstimate {
    /// Time from arrival to the last token.
    #[must_use]
    pub fn total(&self) -> Span {
        self.wait + self.duration
    }
}

impl Instance {
    /// Estimate for a sequence with `prompt` tokens to compute and `expected` tokens to generate. `remaining`
    /// returns the number of tokens that a sequence on this instance is still expected to generate.
    #[must_use]
    pub fn finish_estimate(
        &self,
        prompt: u32,
        expected: u32,
        remaining: impl Fn(SequenceId) -> u32,
    ) -> FinishEstimate {
        let spec = self.spec();
        let ratio = self.state().correction;
        let chunk = spec.max_step_tokens.max(1);
        let prompt_token_s = ratio * spec.steps.prompt.duration(chunk).as_secs_f64() / f64::from(chunk);
        let present = self.sequences().count() as u32;
        let running = (present + 1).min(spec.max_sequences);
        let token_s = ratio * spec.steps.decode.duration(running).as_secs_f64();
        let mut wait_s = prompt_token_s * f64::from(self.pending_prompt_tokens());
        if present >= spec.max_sequences {
            let mut left: Vec<u32> = self.sequences().map(|(id, _)| remaining(id)).collect();
            left.sort_unstable();
            let ahead = (present - spec.max_sequences) as usize;
            wait_s += token_s * f64::from(left.get(ahead).copied().unwrap_or(0));
        }
        FinishEstimate {
            wait: Span::from_secs_f64(wait_s),
            duration: Span::from_secs_f64(prompt_token_s * f64::from(prompt) + token_s * f64::from(expected)),
        }
    }

    /// Expected time in which a running sequence generates so many further tokens.
    #[must_use]
    pub fn remaining_time(&self, tokens: u32) -> Span {
        let spec = self.spec();
        let running = self.state().running.clamp(1, spec.max_sequences);
        let step = spec.steps.decode.duration(running);
        step.scale(self.state().correction * f64::from(tokens))
    }
}
