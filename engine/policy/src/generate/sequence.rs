//! One sequence on an instance.

use weir_types::{InstanceId, SequenceId, Timestamp};

use super::api::InstanceSpec;
use super::prefixes::Prefix;

/// Pending removal of a sequence that a step still uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaving {
    Cancelled,
    Evicted,
    Moved(InstanceId),
}

/// A prompt with the tokens generated after it, and the part of both that is computed on this instance.
#[derive(Debug, Clone)]
pub(super) struct Sequence {
    pub(super) id: SequenceId,
    pub(super) prompt: u32,
    pub(super) generated: u32,
    /// Tokens of its prompt and of earlier output whose cache is present when it joins.
    pub(super) cached: u32,
    /// Number of tokens whose cache is present.
    pub(super) computed: u32,
    /// Number of tokens to compute before it generates: all tokens that it had when it joined.
    pub(super) target: u32,
    /// Number of its tokens in the running step; 0 if it is not part of that.
    pub(super) in_step: u32,
    pub(super) blocks: Vec<u32>,
    pub(super) leaving: Option<Leaving>,
    pub(super) queued_at: Timestamp,
    /// Time by which it is ordered while it waits.
    pub(super) due: Timestamp,
    /// Beginning that its prompt shares with others.
    pub(super) prefix: Option<Prefix>,
}

impl Sequence {
    /// Number of tokens of the prompt and of the output so far.
    pub(super) fn tokens(&self) -> u32 {
        self.prompt + self.generated
    }

    /// Whether a part of its prompt must still be computed. The last token of a sequence that arrived with
    /// its cache does not count as prompt.
    pub(super) fn is_prompt(&self, spec: &InstanceSpec) -> bool {
        if spec.prompt_gives_token && self.generated > 0 && self.computed + 1 >= self.target {
            return false;
        }
        self.computed < self.target
    }

    /// Number of tokens that one step could compute of it, at least 1.
    pub(super) fn pending(&self) -> u32 {
        self.target.saturating_sub(self.computed).max(1)
    }

    /// Whether a step with so many of its tokens generates a token.
    pub(super) fn gives_token(&self, tokens: u32, spec: &InstanceSpec) -> bool {
        let reached = self.computed + tokens;
        if spec.prompt_gives_token {
            reached >= self.target
        } else {
            reached > self.target
        }
    }

    /// Prefix of its prompt, if a step with so many of its tokens computes the last of that.
    pub(super) fn completed_prefix(&self, tokens: u32) -> Option<Prefix> {
        let reached = self.computed + tokens;
        self.prefix
            .filter(|prefix| (self.computed + 1..=reached).contains(&prefix.tokens))
    }

    /// Forgets the cache of the sequence.
    pub(super) fn reset(&mut self) {
        self.computed = 0;
        self.cached = 0;
        self.in_step = 0;
    }
}
