//! What an instance is, what it is notified of, and what it asks for.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use weir_types::{DropReason, InstanceId, SequenceId, Span, StepProfile};

/// One instance: its step times and its bounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InstanceSpec {
    /// How long steps take.
    pub steps: StepProfile,
    /// Most tokens of a step.
    pub max_step_tokens: u32,
    /// Most sequences that run at once.
    pub max_sequences: u32,
    /// Most tokens of a sequence, its prompt included.
    pub max_sequence_tokens: u32,
    /// Blocks of the cache.
    pub blocks: u32,
    /// Tokens that a block holds.
    pub block_tokens: u32,
    /// Blocks that stay free when a sequence joins, for those that run.
    pub reserve_blocks: u32,
    /// Whether the step with the last chunk of a prompt gives the first token. Where it does not, the next step does.
    pub prompt_gives_token: bool,
}

/// Why there is no such instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InstanceSpecError {
    /// A bound is zero.
    #[error("{0} must be at least 1")]
    Zero(&'static str),
    /// No sequence could ever join.
    #[error("{reserve} blocks that stay free leave none of {blocks} for a sequence")]
    NoBlocks {
        /// That stay free.
        reserve: u32,
        /// Of all.
        blocks: u32,
    },
    /// Steps may be larger than those whose time is known.
    #[error(
        "step times are known up to {known} tokens, and steps have up to {max}: profile more or take less"
    )]
    Unknown {
        /// Largest that was measured.
        known: u32,
        /// Largest that may run.
        max: u32,
    },
}

impl InstanceSpec {
    /// Checks the bounds against each other.
    ///
    /// # Errors
    /// [`InstanceSpecError`]: the first that does not fit.
    pub fn check(&self) -> Result<(), InstanceSpecError> {
        let bounds = [
            ("max_step_tokens", self.max_step_tokens),
            ("max_sequences", self.max_sequences),
            ("max_sequence_tokens", self.max_sequence_tokens),
            ("block_tokens", self.block_tokens),
        ];
        if let Some((name, _)) = bounds.into_iter().find(|(_, bound)| *bound == 0) {
            return Err(InstanceSpecError::Zero(name));
        }
        if self.blocks <= self.reserve_blocks {
            return Err(InstanceSpecError::NoBlocks {
                reserve: self.reserve_blocks,
                blocks: self.blocks,
            });
        }
        let prompt = self.steps.prompt.known_tokens();
        let decode = self.steps.decode.known_tokens();
        for (known, max) in [
            (prompt, self.max_step_tokens),
            (decode, self.max_step_tokens.min(self.max_sequences)),
        ] {
            if known < max {
                return Err(InstanceSpecError::Unknown { known, max });
            }
        }
        Ok(())
    }

    /// Blocks that so many tokens take.
    #[must_use]
    #[inline]
    pub fn blocks_of(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.block_tokens)
    }
}

/// What an instance is notified of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InstanceEvent {
    /// A sequence arrived: new, or moved here.
    Arrived {
        /// Which.
        sequence: SequenceId,
        /// Tokens of its prompt, at least one.
        prompt: u32,
        /// Tokens that it has generated already, on other instances. They are computed again with the prompt.
        generated: u32,
        /// Tokens whose cache is here already: a prefix of another's prompt, or what moved here with its cache.
        cached: u32,
    },
    /// The step that ran is done: every sequence in it has gone on by what the step says.
    Stepped {
        /// How long it took.
        took: Span,
        /// Those of its sequences that generated their last token.
        finished: Vec<SequenceId>,
    },
    /// A sequence is not wanted any more: dropped, or its request ended.
    Cancelled {
        /// Which.
        sequence: SequenceId,
    },
    /// The cache of a sequence is lost: it is computed again.
    Evicted {
        /// Which.
        sequence: SequenceId,
    },
    /// A sequence is to go on elsewhere. It leaves once no step has it: [`InstanceEffect::Move`]; not if it ends before.
    Reassigned {
        /// Which.
        sequence: SequenceId,
        /// Where to.
        to: InstanceId,
    },
}

/// What an instance asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InstanceEffect {
    /// Run a step, and say when it is done. No other is asked for before.
    Step(Step),
    /// The cache of this sequence is given up: it is computed again later.
    Evict {
        /// Which.
        sequence: SequenceId,
    },
    /// End this sequence.
    Drop {
        /// Which.
        sequence: SequenceId,
        /// Why.
        reason: DropReason,
    },
    /// Take this sequence out and hand it on: it is on no instance until it arrives there.
    Move {
        /// Which.
        sequence: SequenceId,
        /// Where to.
        to: InstanceId,
        /// Tokens that it has generated.
        generated: u32,
        /// Tokens whose cache could come with it.
        cached: u32,
    },
}

/// One run of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Its sequences in the order in which they joined.
    pub parts: Vec<StepPart>,
    /// Tokens of all of them.
    pub tokens: u32,
    /// Of these, tokens of prompts (or of what is computed again).
    pub prompt_tokens: u32,
    /// How long it should take.
    pub expected: Span,
}

/// What a step does of one sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepPart {
    /// Which.
    pub sequence: SequenceId,
    /// Tokens that are computed.
    pub tokens: u32,
    /// Whether it gives a token.
    pub gives_token: bool,
}
