//! A model that generates token by token, and the session that runs it on a slot.
//!
//! A session holds sequences: a prompt, and what was generated after it. Each step takes some of them on by some tokens each;
//! which, and by how many, is decided outside. A sequence can be taken out of a session between two steps and put into
//! another one: its tokens suffice, since what they give is computed again; within one process its cache can go with it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use weir_types::SequenceId;

use crate::device::DeviceKind;
use crate::error::SessionError;
use crate::prepared_model::PreparedModel;

/// Sampling of the next token. Draws depend only on the seed and on the position in the sequence, so a
/// sequence that migrates continues with the same tokens.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sampling {
    /// Divisor of the logits before a token is drawn; 0: always the most probable token (greedy).
    pub temperature: f32,
    /// Number of most probable tokens among which is drawn; 0: all.
    pub top_k: u32,
    /// Seed of the draws.
    pub seed: u64,
}

/// A sequence before its first step.
#[derive(Debug, Clone, PartialEq)]
pub struct SequenceSpec {
    /// Tokens of the prompt, at least one.
    pub prompt: Vec<u32>,
    /// Maximum number of tokens after the prompt.
    pub max_tokens: u32,
    /// Stop texts: the sequence ends when one of them is complete in its output.
    pub stop: Arc<[String]>,
    /// Sampling of its tokens.
    pub sampling: Sampling,
}

/// A sequence outside of a session.
pub struct SequenceState {
    /// Prompt, limits and sampling of the sequence.
    pub spec: SequenceSpec,
    /// Tokens after its prompt.
    pub generated: Vec<u32>,
    /// Cache of the sequence, for sessions of the same model in this process.
    pub cache: Option<Box<dyn Any + Send>>,
}

impl SequenceState {
    /// Before its first step.
    #[must_use]
    pub fn new(spec: SequenceSpec) -> Self {
        Self {
            spec,
            generated: Vec::new(),
            cache: None,
        }
    }
}

impl fmt::Debug for SequenceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SequenceState")
            .field("spec", &self.spec)
            .field("generated", &self.generated)
            .field("cached", &self.cache.is_some())
            .finish()
    }
}

/// Command that a session executes before a step.
#[derive(Debug, Clone, PartialEq)]
pub enum SequenceCommand {
    /// Adds a sequence to the session.
    Put {
        /// Sequence that is added.
        sequence: SequenceId,
        /// Prompt, limits and sampling.
        spec: SequenceSpec,
        /// Tokens that it has generated on other instances.
        generated: Vec<u32>,
    },
    /// Removes a sequence.
    Remove(SequenceId),
    /// Drops the cache of a sequence; the sequence stays.
    Evict(SequenceId),
    /// Stores the cache of the first tokens of a prompt, which are computed.
    KeepPrefix {
        /// Sequence whose prompt has them.
        sequence: SequenceId,
        /// Number of these tokens.
        tokens: u32,
    },
    /// Gives a sequence the stored cache of the first tokens of its prompt. What is not stored is computed.
    ReusePrefix {
        /// Sequence whose prompt has them.
        sequence: SequenceId,
        /// Number of these tokens.
        tokens: u32,
    },
}

impl SequenceCommand {
    /// Executes the command.
    ///
    /// # Errors
    /// [`SessionError`] where a sequence cannot be put in, or a prefix cannot be computed: it fails the step that
    /// has the sequence.
    pub fn carry_out(self, session: &mut dyn GenerativeSession) -> Result<(), SessionError> {
        match self {
            Self::Put {
                sequence,
                spec,
                generated,
            } => {
                // The session may still hold it from before, if it could not be removed while the slot was
                // unavailable.
                session.take(sequence, false);
                let state = SequenceState {
                    generated,
                    ..SequenceState::new(spec)
                };
                session.put(sequence, state)?;
            }
            Self::Remove(sequence) => drop(session.take(sequence, false)),
            Self::Evict(sequence) => session.evict(sequence),
            Self::KeepPrefix { sequence, tokens } => session.keep_prefix(sequence, tokens),
            Self::ReusePrefix { sequence, tokens } => {
                let computed = session.reuse_prefix(sequence, tokens);
                compute_up_to(session, sequence, [computed, tokens])?;
            }
        }
        Ok(())
    }
}

/// Maximum number of tokens of one sequence that are computed at once outside of a step.
const MAX_TOKENS_AT_ONCE: u32 = 256;

/// Computes tokens of a sequence until as many are computed as steps take for it. `[computed, wanted]` are
/// numbers of its first tokens.
///
/// # Errors
/// As [`GenerativeSession::step`].
pub fn compute_up_to(
    session: &mut dyn GenerativeSession,
    sequence: SequenceId,
    [mut computed, wanted]: [u32; 2],
) -> Result<(), SessionError> {
    while computed < wanted {
        let tokens = (wanted - computed).min(MAX_TOKENS_AT_ONCE);
        session.step(&[SequenceStep { sequence, tokens }])?;
        computed += tokens;
    }
    Ok(())
}

/// Work of a step for one sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceStep {
    /// Sequence that is computed.
    pub sequence: SequenceId,
    /// Number of tokens to compute: the next ones of its prompt and of its output. The last of them yields a
    /// new token.
    pub tokens: u32,
}

/// Reason for the end of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceEnd {
    /// The model gave a token that ends it.
    StopToken,
    /// One of its stop texts is complete in the output.
    StopText,
    /// It reached its maximum number of tokens.
    MaxTokens,
}

/// Token that a sequence generated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GeneratedToken {
    /// Sequence that generated it.
    pub sequence: SequenceId,
    /// Index of the token in the vocabulary.
    pub token: u32,
    /// Probability of the token according to the model, 0 to 1, independent of the temperature.
    pub probability: f32,
    /// Reason for which the sequence ends with this token; `None` if it continues.
    pub end: Option<SequenceEnd>,
}

/// Output of a sequence that ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Generated {
    /// All tokens after the prompt, including the one that ended the sequence.
    pub tokens: Vec<u32>,
    /// Geometric mean of their probabilities, 0 to 1.
    pub score: f32,
    /// Reason for the end.
    pub end: SequenceEnd,
}

/// Bounds of a model that generates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GenerativeLimits {
    /// Number of different tokens.
    pub vocabulary: u32,
    /// Maximum number of tokens of a sequence, its prompt included.
    pub max_sequence_tokens: u32,
}

/// The caches of a model's sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheKind {
    /// Sessions of models with the same number, in one process, take each other's.
    pub number: usize,
    /// Bytes of a token's part.
    pub token_bytes: u32,
}

/// A model that generates, loaded and checked.
pub trait GenerativeModel: Send + Sync {
    /// Limits of the vocabulary and of sequences.
    fn limits(&self) -> GenerativeLimits;
    /// Tokens of a text, at least one. If the model has a token that begins sequences, it comes first.
    fn encode(&self, text: &str) -> Vec<u32>;
    /// The text of tokens that were generated, without those that end a sequence.
    fn decode(&self, tokens: &[u32]) -> String;
    /// Bytes from which [`PartitionLoader::load_generator`](crate::PartitionLoader::load_generator) opens the
    /// model in another process; `None` if the model cannot be sent.
    fn portable(&self) -> Option<Vec<u8>> {
        None
    }
    /// Kind of the sessions' caches; `None` if a sequence leaves a session only as its tokens.
    fn caches(&self) -> Option<CacheKind> {
        None
    }
    /// Number of tokens of shared prefixes whose caches each session stores; 0: sessions store none, and
    /// [`GenerativeSession::reuse_prefix`] is not called.
    fn prefix_tokens(&self) -> u32 {
        0
    }
    /// Opens a session for one worker thread.
    ///
    /// # Errors
    /// As [`Model::open`](crate::Model::open).
    fn open(&self, device: DeviceKind) -> Result<Box<dyn GenerativeSession>, SessionError>;
    /// Opens a session from the model's file, and what later ones open from faster; `None` if nothing is.
    ///
    /// # Errors
    /// As [`GenerativeModel::open`].
    fn open_cold(
        &self,
        device: DeviceKind,
    ) -> Result<(Box<dyn GenerativeSession>, Option<PreparedModel>), SessionError> {
        Ok((self.open(device)?, None))
    }
    /// Opens a session from what [`GenerativeModel::open_cold`] has prepared in host memory.
    ///
    /// # Errors
    /// As [`GenerativeModel::open`].
    fn open_warm(
        &self,
        device: DeviceKind,
        _prepared: &PreparedModel,
    ) -> Result<Box<dyn GenerativeSession>, SessionError> {
        self.open(device)
    }
}

/// A model that generates, opened on one slot and owned by its thread.
pub trait GenerativeSession: Send {
    /// Adds a sequence, of which nothing is computed yet.
    ///
    /// # Errors
    /// [`SessionError::Run`] if its prompt is empty, too long or has tokens that the model does not know, or
    /// if the session already has a sequence of that number.
    fn begin(&mut self, sequence: SequenceId, spec: SequenceSpec) -> Result<(), SessionError> {
        self.put(sequence, SequenceState::new(spec)).map(drop)
    }
    /// Computes a step of some sequences, each at most once. Returns the new tokens of those sequences whose
    /// last known token was computed, in the order of `steps`.
    ///
    /// # Errors
    /// [`SessionError::Run`] if the model failed, a sequence is missing, or a sequence has fewer tokens than
    /// the step computes. The state of the step's sequences is unknown then: evict them, or rebuild the
    /// session. [`SessionError::Gone`] if the device or worker is lost, with everything that the session
    /// held.
    fn step(&mut self, steps: &[SequenceStep]) -> Result<Vec<GeneratedToken>, SessionError>;
    /// Drops the cache of a sequence, which will be recomputed from its tokens.
    fn evict(&mut self, sequence: SequenceId);
    /// Removes a sequence, with its cache if `with_cache`; `None` if the session does not have it.
    fn take(&mut self, sequence: SequenceId, with_cache: bool) -> Option<SequenceState>;
    /// Puts a sequence in that was taken out of a session of this model. Gives how many of its tokens need not be computed.
    ///
    /// # Errors
    /// As [`GenerativeSession::begin`].
    fn put(&mut self, sequence: SequenceId, state: SequenceState) -> Result<u32, SessionError>;
    /// Stores the cache of the first `tokens` tokens of a sequence's prompt, which are computed, for other
    /// sequences whose prompts begin with the same tokens. Evicts the least recently used prefixes for it.
    fn keep_prefix(&mut self, _sequence: SequenceId, _tokens: u32) {}
    /// Gives a sequence the stored cache of the first `tokens` tokens of its prompt. Returns the number of its
    /// tokens that need not be computed; it is less than `tokens` if the prefix was evicted.
    fn reuse_prefix(&mut self, _sequence: SequenceId, _tokens: u32) -> u32 {
        0
    }
    /// Sequences that are here.
    fn sequences(&self) -> usize;
}
