//! What an instance says of itself: smoothed measurements (GoodServe 3.3), and what it holds.
//!
//! `x <- x + gain * (measured - x)` for the wait before joining `q`, the time of a prompt's token `p` and that of a
//! generated one `d`. The paper names neither gain nor outliers; its authors' code has a gain of 0.2 at the instance and
//! leaves out steps that take over half a second.

use serde::{Deserialize, Serialize};
use weir_types::{Span, StepProfile};

/// Weight of a new measurement.
const GAIN: f64 = 0.2;
/// Steps that take longer are no measurements of `d` and `p`.
const MAX_STEP: Span = Span::from_millis(500);

/// What an instance says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct InstanceState {
    /// Sequences that run.
    pub running: u32,
    /// Sequences that wait.
    pub waiting: u32,
    /// Blocks without owner.
    pub free_blocks: u32,
    /// Smoothed wait of sequences before they joined, in seconds: the paper's `q`.
    pub wait_s: f64,
    /// Smoothed time of a token of a prompt, in seconds: `p`.
    pub prompt_token_s: f64,
    /// Smoothed time of a step, in seconds: the time of a generated token, `d`.
    pub token_s: f64,
    /// Measured over profiled step times.
    pub correction: f64,
}

/// The smoothed measurements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Monitor {
    pub(super) wait_s: f64,
    pub(super) prompt_token_s: f64,
    pub(super) token_s: f64,
}

fn smooth(mean: &mut f64, measured: f64) {
    *mean += GAIN * (measured - *mean);
}

impl Monitor {
    /// Before anything was measured: an idle instance, by its profile.
    pub(super) fn new(steps: &StepProfile, max_step_tokens: u32) -> Self {
        let chunk = max_step_tokens.max(1);
        Self {
            wait_s: 0.0,
            prompt_token_s: steps.prompt.duration(chunk).as_secs_f64() / f64::from(chunk),
            token_s: steps.decode.duration(1).as_secs_f64(),
        }
    }

    /// A sequence joined after it had waited.
    pub(super) fn on_joined(&mut self, waited: Span) {
        smooth(&mut self.wait_s, waited.as_secs_f64());
    }

    /// A step took so long.
    pub(super) fn on_step(&mut self, took: Span, prompt_tokens: u32, generated: u32) {
        if took > MAX_STEP {
            return;
        }
        if prompt_tokens > 0 {
            smooth(
                &mut self.prompt_token_s,
                took.as_secs_f64() / f64::from(prompt_tokens),
            );
        }
        if generated > 0 {
            smooth(&mut self.token_s, took.as_secs_f64());
        }
    }
}
