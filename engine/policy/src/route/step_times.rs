//! Tables of step times for one kind of instance, shared by all instances of that kind. A decision over
//! hundreds of instances then reads a few tables that stay in the processor's cache.

use std::sync::Arc;

use crate::generate::InstanceSpec;

/// Maximum number of sequences in the table; more sequences wait.
const MAX_TABLE: u32 = 1_024;
/// Maximum number of tokens in the table of steps with a prompt.
const MAX_PROMPT_TABLE: u32 = 8_192;

/// Step times of one kind of instance.
#[derive(Debug)]
pub(super) struct StepTimes {
    spec: InstanceSpec,
    pub(super) max_step_tokens: u32,
    /// Seconds of a step without prompts, by the number of sequences minus one.
    decode_s: Vec<f64>,
    /// Seconds of a step with a prompt, by tokens.
    prompt_s: Vec<f64>,
}

impl StepTimes {
    pub(super) fn new(spec: &InstanceSpec) -> Self {
        let table = spec.max_sequences.min(spec.max_step_tokens).clamp(1, MAX_TABLE);
        // One more: a step that is full has a token of the prompt all the same.
        let prompts = spec.max_step_tokens.min(MAX_PROMPT_TABLE) + 1;
        Self {
            max_step_tokens: spec.max_step_tokens,
            decode_s: (1..=table)
                .map(|sequences| spec.steps.decode.duration(sequences).as_secs_f64())
                .collect(),
            prompt_s: (0..=prompts)
                .map(|tokens| spec.steps.prompt.duration(tokens).as_secs_f64())
                .collect(),
            spec: spec.clone(),
        }
    }

    /// Maximum number of sequences in a step.
    pub(super) fn places(&self) -> usize {
        self.decode_s.len()
    }

    /// Seconds for one more token of each running sequence, with so many sequences on the instance. Those for
    /// which there is no place in a step wait until others end, and make it no longer.
    #[inline]
    pub(super) fn token_s(&self, sequences: usize) -> f64 {
        self.decode_s[sequences.clamp(1, self.decode_s.len()) - 1]
    }

    /// Seconds of a step that includes a prompt and has so many tokens in all.
    #[inline]
    pub(super) fn prompt_s(&self, tokens: u32) -> f64 {
        let known = self.prompt_s.get(tokens as usize);
        known
            .copied()
            .unwrap_or_else(|| self.spec.steps.prompt.duration(tokens).as_secs_f64())
    }
}

/// Step times of each instance, shared among instances with equal specifications.
pub(super) fn shared_step_times<'a>(specs: impl Iterator<Item = &'a InstanceSpec>) -> Vec<Arc<StepTimes>> {
    let mut kinds: Vec<Arc<StepTimes>> = Vec::new();
    let of = |spec: &InstanceSpec| match kinds.iter().find(|kind| kind.spec == *spec) {
        Some(kind) => Arc::clone(kind),
        None => {
            kinds.push(Arc::new(StepTimes::new(spec)));
            Arc::clone(&kinds[kinds.len() - 1])
        }
    };
    specs.map(of).collect()
}
