//! Messages of the protocol.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use weir_flow::{GeneratedToken, Tensor};
pub use weir_types::PartitionId;
use weir_types::{BatchId, ModuleId, Span, Timestamp};

use super::generate::InstanceStep;
use crate::node::NodeName;

/// Identifies a batch of an engine. Each module of each graph numbers its batches from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchKey {
    /// Number of the graph. While an engine replaces its graph, it runs two of them for a moment.
    pub graph: u32,
    /// Module that formed the batch.
    pub module: ModuleId,
    /// Number of the batch within its module.
    pub batch: BatchId,
}

/// Address of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    /// Reached over TCP, at this address and port.
    Tcp(SocketAddr),
    /// In the same process, by its number in [`crate::LocalWorkers`].
    Local(u32),
    /// Node of the fleet, reached over a [`crate::Carrier`].
    Node(NodeName),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Local(number) => write!(f, "local:{number}"),
            Self::Node(name) => write!(f, "node:{name}"),
        }
    }
}

/// Stage of a batch after the current one, with its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    /// Worker that runs the stage.
    pub address: Address,
    /// Index of the share on that worker, from 0.
    pub share: u32,
    /// Partition that runs there.
    pub partition: PartitionId,
    /// Time for which the share is booked, on the engine's clock.
    pub booked: Timestamp,
    /// Time for which the transfer to it is booked, on the engine's clock.
    pub sent: Timestamp,
}

/// Time span in which a resource was used, on the engine's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Start of the use, on the engine's clock.
    pub from: Timestamp,
    /// End of the use, on the engine's clock.
    pub to: Timestamp,
}

impl Usage {
    /// Duration of the use.
    #[must_use]
    pub fn span(self) -> Span {
        self.to.since(self.from)
    }
}

/// Transfer and run time of one stage of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StageTimes {
    /// Transfer of its input, from the start of sending to the last byte received. For the first stage this
    /// is the transfer from the engine, which no reservation covers.
    pub transfer: Usage,
    /// Execution of the batch on the share.
    pub run: Usage,
}

/// Kind of resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// The links between the worker of the stage before and the worker of this stage.
    Transfer,
    /// The share that runs this stage.
    Run,
}

/// A batch on its way to its next stage.
#[derive(Debug, Clone, PartialEq)]
pub struct StageInput {
    /// Number of the engine, as in [`Message::Hello`].
    pub engine: u64,
    /// The batch to which the input belongs.
    pub key: BatchKey,
    /// Number of items in the batch.
    pub items: u32,
    /// Stage that receives the input, from 0.
    pub stage: u32,
    /// Index of the share on the receiving worker.
    pub share: u32,
    /// Partition that runs the stage.
    pub partition: PartitionId,
    /// Time for which the share is booked, on the engine's clock.
    pub booked: Timestamp,
    /// Stages after this one, in order.
    pub rest: Vec<Hop>,
    /// Times of the stages before; as many as `stage`.
    pub times: Vec<StageTimes>,
    /// Time at which sending began, on the engine's clock.
    pub began: Timestamp,
    /// Input tensors of the partition.
    pub tensors: Vec<Tensor>,
}

/// A partition to be held ready.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadPartition {
    /// Number of the partition.
    pub partition: PartitionId,
    /// Number of the plan that it belongs to.
    pub plan: u64,
    /// Shares of the worker on which it is loaded.
    pub shares: Vec<u32>,
    /// True if the tensors that it sends on are in half precision.
    pub half: bool,
    /// Batch size of its plan, in items, for which it is warmed up.
    pub batch: u32,
    /// Declared durations by batch size: the share stays occupied for at least that long, however short the
    /// run itself was. Empty if the share is not emulated.
    pub declared: Vec<(u32, Span)>,
    /// Serialized model for a [`weir_flow::PartitionLoader`].
    pub model: Arc<Vec<u8>>,
}

/// A worker as it introduces itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// Device class of the worker.
    pub class: String,
    /// Number of shares.
    pub shares: u32,
    /// True if durations or links are emulated and not those of the machine.
    pub emulated: bool,
    /// Size in bytes of the largest message that it accepts.
    pub max_message_bytes: u32,
    /// Partitions that it still holds for this engine.
    pub held: Vec<PartitionId>,
}

/// Reason for the failure of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchFailure {
    /// The partition gave an error.
    Session(String),
    /// The partition panicked; it is built anew for the next batch.
    Panicked(String),
    /// The worker does not hold the partition on that share.
    NotHeld,
    /// Too much waits for the share, or for the link.
    QueueFull,
    /// The worker of the next stage cannot be reached.
    Unreachable(String),
    /// A worker on its way went away.
    WorkerDown(String),
    /// No worker reported anything about the batch for too long.
    Lost,
}

impl fmt::Display for BatchFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(reason) => write!(f, "the partition failed: {reason}"),
            Self::Panicked(reason) => write!(f, "the partition panicked: {reason}"),
            Self::NotHeld => f.write_str("the worker has not loaded the partition on that share"),
            Self::QueueFull => f.write_str("the queue of the share or the link is full"),
            Self::Unreachable(reason) => write!(f, "the next worker cannot be reached: {reason}"),
            Self::WorkerDown(reason) => write!(f, "the connection to the worker was lost: {reason}"),
            Self::Lost => f.write_str("no report on the batch arrived within the timeout"),
        }
    }
}

/// All messages of the protocol.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// First message of an engine to a worker.
    Hello {
        /// Number that distinguishes the engine from others.
        engine: u64,
    },
    /// First message of a worker to another worker, to which it will send features.
    Peer,
    /// Positive reply to `Hello` and `Peer`.
    Welcome(Welcome),
    /// Negative reply, after which the connection is closed.
    Refused {
        /// Reason, for logs and users.
        reason: String,
    },
    /// Requests that a partition is loaded, beside those that run.
    LoadPartition(LoadPartition),
    /// Confirms `LoadPartition`.
    Loaded {
        /// The partition that is ready.
        partition: PartitionId,
        /// Time that loading took.
        took: Span,
    },
    /// Reports that `LoadPartition` failed.
    NotLoaded {
        /// The partition that is not available.
        partition: PartitionId,
        /// Reason, for logs and users.
        reason: String,
    },
    /// Requests that a partition is unloaded.
    Unload {
        /// The partition to unload.
        partition: PartitionId,
    },
    /// Requests that all partitions of other plans are unloaded: the switch to a new plan, after a flush.
    Activate {
        /// Number of the plan that stays.
        plan: u64,
    },
    /// Confirms `Activate`.
    Activated {
        /// Number of the plan.
        plan: u64,
    },
    /// Input of a batch, from the engine to the worker of the first stage.
    Run(StageInput),
    /// Output of a stage, from its worker to the worker of the next stage.
    Feature(StageInput),
    /// Reports a use of a resource that has just ended.
    Used {
        /// Batch that used it.
        key: BatchKey,
        /// Stage of the batch, from 0.
        stage: u32,
        /// Kind of resource that was used.
        what: Resource,
        /// Start and end of the use.
        usage: Usage,
    },
    /// Reports that a batch completed its last stage.
    Done {
        /// The batch that completed.
        key: BatchKey,
        /// Transfer and run time of each stage.
        times: Vec<StageTimes>,
        /// Outputs of the last stage.
        outputs: Vec<Tensor>,
    },
    /// Reports that a batch failed.
    Failed {
        /// The batch that failed.
        key: BatchKey,
        /// Stage in which it failed, from 0.
        stage: u32,
        /// Cause of the failure.
        failure: BatchFailure,
    },
    /// Heartbeat of the engine, which also synchronizes clocks.
    Ping {
        /// Time of sending, on the engine's clock.
        sent: Timestamp,
        /// Offset in microseconds that is added to the worker's clock to get the engine's; `None` until it is
        /// known.
        offset: Option<i64>,
    },
    /// Reply to `Ping`.
    Pong {
        /// Time of sending of the ping, copied from it.
        sent: Timestamp,
        /// Time of the reply, on the worker's own clock.
        at: Timestamp,
    },
    /// First message of an engine that will run an instance of a generative model over this connection.
    Generate,
    /// Transfers the model of the instance.
    LoadGenerator {
        /// Serialized model for a [`weir_flow::PartitionLoader`].
        model: Arc<Vec<u8>>,
    },
    /// Confirms `LoadGenerator`: the instance is ready.
    GeneratorLoaded {
        /// Different tokens of its model.
        vocabulary: u32,
        /// Most tokens of a sequence there.
        max_sequence_tokens: u32,
    },
    /// A step of the instance.
    Step(InstanceStep),
    /// Reports the result of `Step`.
    Stepped {
        /// Time that the step took.
        took: Span,
        /// Tokens that the step generated.
        tokens: Vec<GeneratedToken>,
    },
    /// Reports that a step or the loading of the instance failed; the connection is closed after this
    /// message.
    StepFailed {
        /// Reason, for logs and users.
        reason: String,
    },
}

impl Message {
    /// Name of the message for logs.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Hello { .. } => "hello",
            Self::Peer => "peer",
            Self::Welcome(_) => "welcome",
            Self::Refused { .. } => "refused",
            Self::LoadPartition(_) => "load",
            Self::Loaded { .. } => "loaded",
            Self::NotLoaded { .. } => "not-loaded",
            Self::Unload { .. } => "unload",
            Self::Activate { .. } => "activate",
            Self::Activated { .. } => "activated",
            Self::Run(_) => "run",
            Self::Feature(_) => "feature",
            Self::Used { .. } => "used",
            Self::Done { .. } => "done",
            Self::Failed { .. } => "failed",
            Self::Ping { .. } => "ping",
            Self::Pong { .. } => "pong",
            Self::Generate => "generate",
            Self::LoadGenerator { .. } => "load-generator",
            Self::GeneratorLoaded { .. } => "generator-loaded",
            Self::Step(_) => "step",
            Self::Stepped { .. } => "stepped",
            Self::StepFailed { .. } => "step-failed",
        }
    }
}
