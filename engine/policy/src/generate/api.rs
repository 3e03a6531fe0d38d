//! Interface of an instance: specification, events and effects.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use weir_types::{DropReason, InstanceId, SequenceId, Span, StepProfile, Timestamp};

use super::prefixes::{Prefix, PrefixUse};

/// Step times and limits of one instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InstanceSpec {
    /// Duration of a step by its tokens.
    pub steps: StepProfile,
    /// Maximum number of tokens in a step.
    pub max_step_tokens: u32,
    /// Maximum number of sequences that run at once.
    pub max_sequences: u32,
    /// Maximum number of tokens of a sequence, its prompt included.
    pub max_sequence_tokens: u32,
    /// Number of blocks of the cache.
    pub blocks: u32,
    /// Number of tokens that a block holds.
    pub block_tokens: u32,
    /// Number of blocks that must stay free when a sequence joins; running sequences grow into them.
    pub reserve_blocks: u32,
    /// Whether the step with the last chunk of a prompt generates the first token. Otherwise the next step
    /// does.
    pub prompt_gives_token: bool,
    /// Number of tokens of shared prefixes that the instance caches beside its blocks; 0: none.
    #[serde(default)]
    pub prefix_tokens: u32,
}

/// Reason for which an instance's specification is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InstanceSpecError {
    /// A limit is zero.
    #[error("{0} must be at least 1")]
    Zero(&'static str),
    /// No sequence could ever join.
    #[error("{reserve} blocks that stay free leave none of {blocks} for a sequence")]
    NoBlocks {
        /// Blocks that must stay free.
        reserve: u32,
        /// Blocks of the whole cache.
        blocks: u32,
    },
    /// Steps may be larger than the largest profiled one.
    #[error(
        "step times are known up to {known} tokens, and steps have up to {max}: profile more or take less"
    )]
    Unknown {
        /// Largest number of tokens that was profiled.
        known: u32,
        /// Largest number of tokens that a step may have.
        max: u32,
    },
}

impl InstanceSpec {
    /// Checks that the limits fit together.
    ///
    /// # Errors
    /// [`InstanceSpecError`] for the first limit that does not fit.
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

    /// Number of blocks for so many tokens.
    #[must_use]
    #[inline]
    pub fn blocks_of(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.block_tokens)
    }
}

/// A fact about the sequences or steps of an instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InstanceEvent {
    /// A sequence arrived: new, or moved here.
    Arrived {
        /// Sequence that arrived.
        sequence: SequenceId,
        /// Number of tokens of its prompt, at least one.
        prompt: u32,
        /// Number of tokens that it has generated on other instances. They are computed again with the
        /// prompt.
        generated: u32,
        /// Number of tokens whose cache is here already, because it moved with the sequence.
        cached: u32,
        /// Time by which waiting sequences are ordered, the earliest first; equal ones begin in the order of
        /// arrival.
        #[serde(default)]
        due: Timestamp,
        /// Beginning that its prompt shares with others. If the instance holds it when the sequence joins,
        /// it is not computed again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prefix: Option<Prefix>,
    },
    /// The running step has ended, and every sequence in it has advanced as the step says.
    Stepped {
        /// Measured duration of the step.
        took: Span,
        /// Sequences of the step that generated their last token.
        finished: Vec<SequenceId>,
    },
    /// A sequence is not needed any more: it was dropped, or its request ended.
    Cancelled {
        /// Sequence that is to be removed.
        sequence: SequenceId,
    },
    /// The cache of a sequence was lost: the sequence is computed again.
    Evicted {
        /// Sequence without a cache.
        sequence: SequenceId,
    },
    /// A sequence is to continue on another instance. It leaves once no step uses it, by
    /// [`InstanceEffect::Move`], unless it ends before.
    Reassigned {
        /// Sequence that is to move.
        sequence: SequenceId,
        /// Instance that continues the sequence.
        to: InstanceId,
    },
    /// The session that held the cached prefixes is lost.
    PrefixesLost,
}

/// An action that an instance requests from its driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InstanceEffect {
    /// Run a step and report its end. No other step is requested before that.
    Step(Step),
    /// Free the cache of a sequence; it is computed again later.
    Evict {
        /// Sequence that waits again.
        sequence: SequenceId,
    },
    /// End this sequence.
    Drop {
        /// Sequence that ends.
        sequence: SequenceId,
        /// Reason that is reported.
        reason: DropReason,
    },
    /// Take a sequence out and hand it over. It is on no instance until it arrives at `to`.
    Move {
        /// Sequence that leaves.
        sequence: SequenceId,
        /// Instance that continues the sequence.
        to: InstanceId,
        /// Number of tokens that it has generated so far.
        generated: u32,
        /// Number of tokens whose cache can be transferred.
        cached: u32,
    },
}

/// One run of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Sequences of the step, in the order in which they joined.
    pub parts: Vec<StepPart>,
    /// Number of tokens of all parts.
    pub tokens: u32,
    /// Number of these that belong to prompts, or are computed again.
    pub prompt_tokens: u32,
    /// Expected duration, corrected by measurements.
    pub expected: Span,
    /// Prefixes that its sequences take from the instance's cache before the step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reused: Vec<PrefixUse>,
    /// Prefixes that are stored in the instance's cache after the step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<PrefixUse>,
}

/// Part of a step for one sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepPart {
    /// Sequence that is advanced.
    pub sequence: SequenceId,
    /// Number of its tokens that are computed.
    pub tokens: u32,
    /// Whether the part generates a token.
    pub gives_token: bool,
}
