//! What queues consist of, what they are notified of, and what they ask for.

use serde::{Deserialize, Serialize};
use weir_types::{InstanceId, ModelId, SequenceId, Span, Timestamp};

use super::rule::QueueRule;
use crate::generate::InstanceSpec;
use crate::residency::ResidencySpec;
use crate::route::{Link, Transfer};

/// What is known of a model before anything was seen of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ModelPrior {
    /// Mean tokens of a prompt.
    pub prompt: f64,
    /// Mean of generated tokens.
    pub output: f64,
    /// Their standard deviation.
    pub output_deviation: f64,
}

/// A model on an instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServedModel {
    /// Its step times and bounds there.
    pub spec: InstanceSpec,
    /// Bytes of a token's part of the cache.
    pub cache_bytes: f64,
    /// How long it opens from its file.
    pub open_cold: Span,
    /// How long it opens from host memory.
    pub open_warm: Span,
}

/// An instance: it serves one model at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueueInstance {
    /// By model.
    pub models: Vec<ServedModel>,
    /// Its memory.
    pub residency: ResidencySpec,
    /// Host memory for caches of sequences that were swapped out, in bytes.
    pub swap_memory: u64,
    /// The link to host memory.
    pub host_link: Link,
    /// Part of its time that is reserved for live streams, by their rates and objectives: at least 0, below 1.
    pub reserved: f64,
}

/// Which operations may be used (QLM, section 5). Requests are always pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Operations {
    /// Running sequences go back with their tokens for more urgent ones, and are computed again.
    pub evict: bool,
    /// They go back with their cache, which is in host memory meanwhile.
    pub swap: bool,
    /// Groups go to the instance where they are done first. Without it one after the other.
    pub balance: bool,
    /// Models open from host memory where they are there.
    pub warm_start: bool,
    /// Groups are planned. Without it they are served in the order of their first request.
    pub reorder: bool,
}

impl Operations {
    /// All of them.
    pub const ALL: Self = Self {
        evict: true,
        swap: true,
        balance: true,
        warm_start: true,
        reorder: true,
    };
}

impl Default for Operations {
    fn default() -> Self {
        Self::ALL
    }
}

/// Queues of requests for several models over several instances.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueuesSpec {
    /// Who is served next.
    pub rule: QueueRule,
    /// Which operations may be used.
    pub operations: Operations,
    /// Mean batches of which a group has at most so many (Algorithm 1).
    pub delta: f64,
    /// By model.
    pub models: Vec<ModelPrior>,
    /// By id.
    pub instances: Vec<QueueInstance>,
}

/// What queues are notified of.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueEvent {
    /// A request arrived.
    Arrived {
        /// Which.
        request: SequenceId,
        /// For which model.
        model: ModelId,
        /// Its class of objectives.
        class: u32,
        /// Tokens of its prompt.
        prompt: u32,
        /// When it must have its last token.
        deadline: Timestamp,
    },
    /// An instance can take more of the model that it serves: a step of it is done, or nothing runs.
    Room {
        /// Which.
        instance: InstanceId,
        /// Sequences.
        sequences: u32,
        /// Tokens that its cache has place for.
        tokens: u32,
    },
    /// A request has its last token, or was dropped by its instance.
    Finished {
        /// Which.
        request: SequenceId,
        /// Tokens that it generated.
        generated: u32,
    },
    /// A request that was to go back is off its instance.
    Returned {
        /// Which.
        request: SequenceId,
        /// Tokens that it has generated.
        generated: u32,
        /// Tokens whose cache is in host memory.
        cached: u32,
    },
    /// A model is open on an instance.
    Opened {
        /// Where.
        instance: InstanceId,
        /// Which.
        model: ModelId,
    },
    /// A model is closed.
    Closed {
        /// Where.
        instance: InstanceId,
        /// Which.
        model: ModelId,
    },
    /// A model is in host memory.
    Prefetched {
        /// Where.
        instance: InstanceId,
        /// Which.
        model: ModelId,
    },
    /// An instance is lost with all that runs there.
    Down(InstanceId),
    /// It is there again, with nothing open.
    Up(InstanceId),
    /// Time has passed.
    Timer,
}

/// What queues ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueEffect {
    /// Put a request on an instance, whose model is open.
    Start {
        /// Which.
        request: SequenceId,
        /// Where.
        instance: InstanceId,
        /// Tokens that it has generated, here or elsewhere.
        generated: u32,
        /// Tokens whose cache comes from this instance's host memory.
        cached: u32,
    },
    /// Take a running request off its instance once no step has it: [`QueueEvent::Returned`], or it ends before.
    Return {
        /// Which.
        request: SequenceId,
        /// Where it is.
        instance: InstanceId,
        /// With its tokens alone, or with its cache, which goes to host memory.
        by: Transfer,
    },
    /// Open a model.
    Open {
        /// Where.
        instance: InstanceId,
        /// Which.
        model: ModelId,
        /// From host memory.
        warm: bool,
    },
    /// Close a model; nothing of it runs.
    Close {
        /// Where.
        instance: InstanceId,
        /// Which.
        model: ModelId,
    },
    /// Read a model's file into host memory.
    Prefetch {
        /// Where.
        instance: InstanceId,
        /// Which.
        model: ModelId,
    },
    /// Remove a model from host memory.
    Discard {
        /// Where.
        instance: InstanceId,
        /// Which.
        model: ModelId,
    },
    /// No instance can ever open the model of this request: it ends.
    Refuse {
        /// Which.
        request: SequenceId,
    },
}
