//! Step times of a kind of instance in tables, which all instances of that kind share: a decision over hundreds of them then
//! reads a few tables that are in the processor's cache.

use std::sync::Arc;

use crate::generate::InstanceSpec;

/// Sequences whose step time is kept in a table; more take their turns.
const MAX_TABLE: u32 = 1_024;
/// Tokens of a step with a prompt whose time is kept in a table.
const MAX_PROMPT_TABLE: u32 = 8_192;

/// Of one kind.
#[derive(Debug)]
pub(super) struct StepTimes {
    spec: InstanceSpec,
    pub(super) max_step_tokens: u32,
    /// Seconds of a step without prompts, by sequences less one.
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

    /// Sequences that a step has at most.
    pub(super) fn places(&self) -> usize {
        self.decode_s.len()
    }

    /// Seconds until each of so many sequences has a further token.
    #[inline]
    pub(super) fn token_s(&self, sequences: usize) -> f64 {
        let last = self.decode_s.len();
        let step_s = self.decode_s[sequences.clamp(1, last) - 1];
        if sequences <= last {
            return step_s;
        }
        // They take turns.
        step_s * (sequences as f64 / last as f64)
    }

    /// Seconds of a step with a prompt that has so many tokens in all.
    #[inline]
    pub(super) fn prompt_s(&self, tokens: u32) -> f64 {
        let known = self.prompt_s.get(tokens as usize);
        known
            .copied()
            .unwrap_or_else(|| self.spec.steps.prompt.duration(tokens).as_secs_f64())
    }
}

/// The step times of each, those of equal ones once.
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
