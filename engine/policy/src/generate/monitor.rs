//! State that an instance reports: smoothed measurements (GoodServe 3.3), queue and memory.
//!
//! `x <- x + gain * (measured - x)` for the wait before joining `q`, the time of a prompt token `p` and that
//! of a generated token `d`. The paper gives neither the gain nor a rule for outliers. Its authors' code has
//! a gain of 0.2 on the instance, and ignores steps of more than half a second.

use serde::{Deserialize, Serialize};
use weir_types::{Span, StepProfile};

/// Weight of a new measurement.
const GAIN: f64 = 0.2;
/// Longest step that counts as a measurement of `d` and `p`.
const MAX_STEP: Span = Span::from_millis(500);

/// State of an instance as it is reported to the router.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct InstanceState {
    /// Number of running sequences.
    pub running: u32,
    /// Number of waiting sequences.
    pub waiting: u32,
    /// Number of free blocks of the cache.
    pub free_blocks: u32,
    /// Smoothed wait of sequences before they joined, in seconds: the paper's `q`.
    pub wait_s: f64,
    /// Smoothed time of a prompt token, in seconds: `p`.
    pub prompt_token_s: f64,
    /// Smoothed time of a step, which is the time of a generated token, in seconds: `d`.
    pub token_s: f64,
    /// Ratio of measured to profiled step times.
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
    /// Values before any measurement: those of an idle instance, by its profile.
    pub(super) fn new(steps: &StepProfile, max_step_tokens: u32) -> Self {
        let chunk = max_step_tokens.max(1);
        Self {
            wait_s: 0.0,
            prompt_token_s: steps.prompt.duration(chunk).as_secs_f64() / f64::from(chunk),
            token_s: steps.decode.duration(1).as_secs_f64(),
        }
    }

    /// Adds the wait of a sequence that joined.
    pub(super) fn on_joined(&mut self, waited: Span) {
        smooth(&mut self.wait_s, waited.as_secs_f64());
    }

    /// Adds a step of that duration.
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
