//! When a further sequence would be done on an instance: what the broker judges it by before it is put there.
//!
//! `wait = a p + r d`, `duration = in p + out d(n)`: `p` is the time of a token of a prompt in a full step, `a` the tokens of
//! prompts that go first, `d(n)` a step of all `n` sequences that then run, both corrected by what is measured; where no place
//! is free, `r` are the tokens after which one is, if sequences are as long as expected. GoodServe's equation 2 has a smoothed
//! wait in place of the booked work.

use weir_types::{SequenceId, Span};

use super::instance::Instance;

/// What a sequence is expected to meet on an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FinishEstimate {
    /// Before its prompt begins.
    pub wait: Span,
    /// From then to its last token.
    pub duration: Span,
}

impl FinishEstimate {
    /// Both together.
    #[must_use]
    pub fn total(&self) -> Span {
        self.wait + self.duration
    }
}

impl Instance {
    /// For a sequence with so many tokens to compute and then so many to generate; `remaining`: tokens that those which are
    /// here are expected to generate yet.
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

    /// How long a sequence that runs takes for so many further tokens.
    #[must_use]
    pub fn remaining_time(&self, tokens: u32) -> Span {
        let spec = self.spec();
        let running = self.state().running.clamp(1, spec.max_sequences);
        let step = spec.steps.decode.duration(running);
        step.scale(self.state().correction * f64::from(tokens))
    }
}
