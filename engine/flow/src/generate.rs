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

/// How the next token is chosen. Draws depend on the seed and on the place in the sequence alone, so that a sequence goes on
/// the same wherever it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sampling {
    /// What logits are divided by before a token is drawn; 0: always the most probable (greedy).
    pub temperature: f32,
    /// So many of the most probable tokens are drawn from; 0: all.
    pub top_k: u32,
    /// Of the draws.
    pub seed: u64,
}

/// A sequence before its first step.
#[derive(Debug, Clone, PartialEq)]
pub struct SequenceSpec {
    /// At least one token.
    pub prompt: Vec<u32>,
    /// It ends with so many tokens after its prompt, at the latest.
    pub max_tokens: u32,
    /// It ends where one of these texts is complete in what it generated.
    pub stop: Arc<[String]>,
    /// How its tokens are chosen.
    pub sampling: Sampling,
}

/// A sequence outside of a session.
pub struct SequenceState {
    /// As it began.
    pub spec: SequenceSpec,
    /// Tokens after its prompt.
    pub generated: Vec<u32>,
    /// Its cache, for sessions of the same model in this process.
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

/// What a session is asked for before a step.
#[derive(Debug, Clone, PartialEq)]
pub enum SequenceCommand {
    /// A sequence is here from now on.
    Put {
        /// Which.
        sequence: SequenceId,
        /// As it began.
        spec: SequenceSpec,
        /// What it has generated elsewhere.
        generated: Vec<u32>,
    },
    /// It is not, any more.
    Remove(SequenceId),
    /// Its cache is given up.
    Evict(SequenceId),
}

impl SequenceCommand {
    /// Does it.
    ///
    /// # Errors
    /// [`SessionError`] where a sequence cannot be put in: it fails the step that has it.
    pub fn carry_out(self, session: &mut dyn GenerativeSession) -> Result<(), SessionError> {
        match self {
            Self::Put {
                sequence,
                spec,
                generated,
            } => {
                // It may have been here before, and was not taken out while its slot was out of use.
                session.take(sequence, false);
                let state = SequenceState {
                    generated,
                    ..SequenceState::new(spec)
                };
                session.put(sequence, state)?;
            }
            Self::Remove(sequence) => drop(session.take(sequence, false)),
            Self::Evict(sequence) => session.evict(sequence),
        }
        Ok(())
    }
}

/// What a step does of one sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceStep {
    /// Which.
    pub sequence: SequenceId,
    /// Tokens that are computed: the next of its prompt and of what it has generated. With the last of them it gives a token.
    pub tokens: u32,
}

/// Why a sequence ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceEnd {
    /// The model gave a token that ends it.
    StopToken,
    /// One of its stop texts is complete.
    StopText,
    /// It has as many tokens as it may.
    MaxTokens,
}

/// A token that a sequence was given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GeneratedToken {
    /// Whose.
    pub sequence: SequenceId,
    /// Its number in the vocabulary.
    pub token: u32,
    /// Probability that the model gave it, 0 to 1, whatever the temperature.
    pub probability: f32,
    /// Set where it is the last.
    pub end: Option<SequenceEnd>,
}

/// What a sequence that ended has generated.
#[derive(Debug, Clone, PartialEq)]
pub struct Generated {
    /// All its tokens after the prompt, with the one that ended it.
    pub tokens: Vec<u32>,
    /// Geometric mean of their probabilities, 0 to 1.
    pub score: f32,
    /// Why it ended.
    pub end: SequenceEnd,
}

/// Bounds of a model that generates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GenerativeLimits {
    /// Different tokens.
    pub vocabulary: u32,
    /// Most tokens of a sequence, its prompt included.
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
    /// Its bounds.
    fn limits(&self) -> GenerativeLimits;
    /// The tokens of a text, with the token that begins a sequence where the model has one: at least one.
    fn encode(&self, text: &str) -> Vec<u32>;
    /// The text of tokens that were generated, without those that end a sequence.
    fn decode(&self, tokens: &[u32]) -> String;
    /// The bytes from which [`PartitionLoader::load_generator`](crate::PartitionLoader::load_generator) opens it in another
    /// process; `None` where it cannot be sent.
    fn portable(&self) -> Option<Vec<u8>> {
        None
    }
    /// The caches of its sessions; `None` where a sequence leaves them as its tokens alone.
    fn caches(&self) -> Option<CacheKind> {
        None
    }
    /// Opens a session for one worker thread.
    ///
    /// # Errors
    /// As [`Model::open`](crate::Model::open).
    fn open(&self, device: DeviceKind) -> Result<Box<dyn GenerativeSession>, SessionError>;
}

/// A model that generates, opened on one slot and owned by its thread.
pub trait GenerativeSession: Send {
    /// A sequence is here from now on, with nothing computed.
    ///
    /// # Errors
    /// [`SessionError::Run`] where its prompt is empty or longer than a sequence can be, has tokens that the model does not
    /// know, or where a sequence of that number is here.
    fn begin(&mut self, sequence: SequenceId, spec: SequenceSpec) -> Result<(), SessionError> {
        self.put(sequence, SequenceState::new(spec)).map(drop)
    }
    /// Takes sequences on, each at most once; gives the tokens of those whose last token was among what was computed, in the
    /// order of `steps`.
    ///
    /// # Errors
    /// [`SessionError::Run`]: the model failed, or a sequence is not here or has not so many tokens. What is computed of the
    /// sequences of the step is unknown then: they are to be evicted, or the session built again. [`SessionError::Gone`]: the
    /// device or worker is gone, and all that the session held with it.
    fn step(&mut self, steps: &[SequenceStep]) -> Result<Vec<GeneratedToken>, SessionError>;
    /// Gives up the cache of a sequence, which is computed again from its tokens.
    fn evict(&mut self, sequence: SequenceId);
    /// Takes a sequence out, with its cache if `with_cache`; `None` where it is not here.
    fn take(&mut self, sequence: SequenceId, with_cache: bool) -> Option<SequenceState>;
    /// Puts a sequence in that was taken out of a session of this model. Gives how many of its tokens need not be computed.
    ///
    /// # Errors
    /// As [`GenerativeSession::begin`].
    fn put(&mut self, sequence: SequenceId, state: SequenceState) -> Result<u32, SessionError>;
    /// Sequences that are here.
    fn sequences(&self) -> usize;
}
