//! One sequence on an instance.

use weir_types::{InstanceId, SequenceId, Timestamp};

use super::api::InstanceSpec;

/// What becomes of a sequence once no step has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaving {
    Cancelled,
    Evicted,
    Moved(InstanceId),
}

/// A prompt, what was generated after it, and what of both is computed here.
#[derive(Debug, Clone)]
pub(super) struct Sequence {
    pub(super) id: SequenceId,
    pub(super) prompt: u32,
    pub(super) generated: u32,
    /// Tokens of its prompt and of what it generated elsewhere whose cache is here when it joins.
    pub(super) cached: u32,
    /// Tokens whose cache is here.
    pub(super) computed: u32,
    /// Tokens to compute before it generates: all that it had when it joined.
    pub(super) target: u32,
    /// Tokens of the step that runs; 0: it is not in it.
    pub(super) in_step: u32,
    pub(super) blocks: Vec<u32>,
    pub(super) leaving: Option<Leaving>,
    pub(super) queued_at: Timestamp,
}

impl Sequence {
    /// Tokens that it has.
    pub(super) fn tokens(&self) -> u32 {
        self.prompt + self.generated
    }

    /// Whether a part of its prompt is still to be computed. The last token of one that comes with its cache is no prompt.
    pub(super) fn is_prompt(&self, spec: &InstanceSpec) -> bool {
        if spec.prompt_gives_token && self.generated > 0 && self.computed + 1 >= self.target {
            return false;
        }
        self.computed < self.target
    }

    /// Tokens that it could compute in one step.
    pub(super) fn pending(&self) -> u32 {
        self.target.saturating_sub(self.computed).max(1)
    }

    /// Whether a step with so many of its tokens gives it one.
    pub(super) fn gives_token(&self, tokens: u32, spec: &InstanceSpec) -> bool {
        let reached = self.computed + tokens;
        if spec.prompt_gives_token {
            reached >= self.target
        } else {
            reached > self.target
        }
    }

    /// It has no cache any more.
    pub(super) fn reset(&mut self) {
        self.computed = 0;
        self.cached = 0;
        self.in_step = 0;
    }
}
