//! Interface of the queues: specification, events and effects.

use serde::{Deserialize, Serialize};
use weir_types::{InstanceId, ModelId, SequenceId, Span, Timestamp};

use super::rule::QueueRule;
use crate::generate::InstanceSpec;
use crate::residency::ResidencySpec;
use crate::route::{Link, Transfer};

/// Prior knowledge of a model's requests, used until enough of them have been seen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ModelPrior {
    /// Mean number of tokens of a prompt.
    pub prompt: f64,
    /// Mean number of generated tokens.
    pub output: f64,
    /// Standard deviation of the number of generated tokens.
    pub output_deviation: f64,
}

/// A model on one instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServedModel {
    /// Step times and limits of the model on this instance.
    pub spec: InstanceSpec,
    /// Bytes of the cache for one token.
    pub cache_bytes: f64,
    /// Duration of opening the model from its file.
    pub open_cold: Span,
    /// Duration of opening the model from host memory.
    pub open_warm: Span,
}

/// An instance: it serves one model at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueueInstance {
    /// Models that the instance can serve, by model id.
    pub models: Vec<ServedModel>,
    /// Memory of the instance's device and of its host.
    pub residency: ResidencySpec,
    /// Bytes of host memory for caches of sequences that were swapped out.
    pub swap_memory: u64,
    /// Link between device and host memory.
    pub host_link: Link,
    /// Fraction of the instance's time that is reserved for live streams, by their rates and objectives: at
    /// least 0, below 1.
    pub reserved: f64,
}

/// Switches for the operations of QLM, section 5. Requests are always pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Operations {
    /// Whether running sequences return to the queue with their tokens for more urgent ones; they are
    /// computed again later.
    pub evict: bool,
    /// Whether running sequences return to the queue with their caches, which are kept in host memory
    /// meanwhile.
    pub swap: bool,
    /// Whether a group goes to the instance that finishes it first. Otherwise instances get groups in turn.
    pub balance: bool,
    /// Whether models are kept in host memory and opened from there.
    pub warm_start: bool,
    /// Whether groups are planned. Otherwise they are served in the order of their first request.
    pub reorder: bool,
}

impl Operations {
    /// All operations switched on.
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
    /// Rule that picks the next request of an instance.
    pub rule: QueueRule,
    /// Operations that the rule may use.
    pub operations: Operations,
    /// Maximum size of a group in mean batches (`delta` of Algorithm 1).
    pub delta: f64,
    /// Prior of each model, by model id.
    pub models: Vec<ModelPrior>,
    /// Instances, by instance id.
    pub instances: Vec<QueueInstance>,
}

/// A fact about requests, instances or models.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueEvent {
    /// A request arrived.
    Arrived {
        /// Request that arrived; ids rise in the order of arrival.
        request: SequenceId,
        /// Model that the request is for.
        model: ModelId,
        /// Class of the request's objective; only requests of one class share a group.
        class: u32,
        /// Number of tokens of the prompt.
        prompt: u32,
        /// Deadline of the last token.
        deadline: Timestamp,
    },
    /// An instance can take more requests for the model that it serves, because a step ended or nothing runs.
    Room {
        /// Instance that has room.
        instance: InstanceId,
        /// Number of further sequences that it can run.
        sequences: u32,
        /// Number of further tokens that fit into its cache.
        tokens: u32,
    },
    /// A request has its last token, or its instance dropped it.
    Finished {
        /// Request that ended.
        request: SequenceId,
        /// Number of tokens that it generated.
        generated: u32,
    },
    /// A request has left its instance, as [`QueueEffect::Return`] demanded.
    Returned {
        /// Request that waits again.
        request: SequenceId,
        /// Number of tokens that it has generated.
        generated: u32,
        /// Number of tokens whose cache is in host memory.
        cached: u32,
    },
    /// A request has ended without its last token, in its queue or on its instance: it was dropped.
    Cancelled {
        /// Request that ended.
        request: SequenceId,
    },
    /// A model is open on an instance.
    Opened {
        /// Instance that can serve the model now.
        instance: InstanceId,
        /// Model that is open.
        model: ModelId,
    },
    /// A model could not be opened on an instance, and takes no memory there. The request that it was opened for
    /// is refused; the next one tries again.
    OpenFailed {
        /// Instance that cannot serve the model.
        instance: InstanceId,
        /// Model that is not open.
        model: ModelId,
    },
    /// A model is closed on an instance, and its memory is free.
    Closed {
        /// Instance that closed the model.
        instance: InstanceId,
        /// Model that is closed.
        model: ModelId,
    },
    /// A model has been read into the host memory of an instance.
    Prefetched {
        /// Instance that can open the model from there.
        instance: InstanceId,
        /// Model that is in host memory.
        model: ModelId,
    },
    /// An instance is lost, with all requests that run there.
    Down(InstanceId),
    /// An instance that was lost can be used again, with no model open.
    Up(InstanceId),
    /// Time has passed: the queues check whether a new plan is due.
    Timer,
}

/// An action that the queues request from their driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueEffect {
    /// Start a request on an instance, whose model is open.
    Start {
        /// Request that starts.
        request: SequenceId,
        /// Instance that runs it.
        instance: InstanceId,
        /// Number of tokens that it has generated so far, on this instance or another.
        generated: u32,
        /// Number of tokens whose cache comes from this instance's host memory.
        cached: u32,
    },
    /// Take a running request off its instance once no step uses it. The driver answers with
    /// [`QueueEvent::Returned`], unless the request ends before.
    Return {
        /// Request that is to wait again.
        request: SequenceId,
        /// Instance that runs it.
        instance: InstanceId,
        /// Transfer with its tokens alone, or with its cache to host memory.
        by: Transfer,
    },
    /// Open a model.
    Open {
        /// Instance that opens the model.
        instance: InstanceId,
        /// Model to be opened.
        model: ModelId,
        /// Whether it is opened from host memory; otherwise from its file.
        warm: bool,
    },
    /// Close a model of which no request runs.
    Close {
        /// Instance that closes the model.
        instance: InstanceId,
        /// Model to be closed.
        model: ModelId,
    },
    /// Read a model's file into host memory.
    Prefetch {
        /// Instance in whose host memory the file is read.
        instance: InstanceId,
        /// Model to be read.
        model: ModelId,
    },
    /// Remove a model from host memory.
    Discard {
        /// Instance that frees host memory.
        instance: InstanceId,
        /// Model to be removed from host memory.
        model: ModelId,
    },
    /// Drop a request: no instance can ever open its model, or opening it failed.
    Refuse {
        /// Request that ends.
        request: SequenceId,
    },
}
