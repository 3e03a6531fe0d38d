//! What is said.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use weir_flow::{GeneratedToken, Tensor};
pub use weir_types::PartitionId;
use weir_types::{BatchId, ModuleId, Span, Timestamp};

use super::generate::InstanceStep;
use crate::node::NodeName;

/// A batch of an engine. Each module of each graph numbers its batches from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchKey {
    /// The number of its graph: an engine that changes its graph runs two of them for a moment.
    pub graph: u32,
    /// Its module.
    pub module: ModuleId,
    /// Its number there.
    pub batch: BatchId,
}

/// Where a worker is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    /// Over TCP.
    Tcp(SocketAddr),
    /// In the same process, by its number in [`crate::LocalWorkers`].
    Local(u32),
    /// As a node of the fleet, over a [`crate::Carrier`].
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

/// One stage of a batch's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    /// Whose worker.
    pub address: Address,
    /// On which of its shares, from 0.
    pub share: u32,
    /// What runs there.
    pub partition: PartitionId,
    /// For when the share is booked, on the engine's clock.
    pub booked: Timestamp,
}

/// From when to when a resource was used, on the engine's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Its beginning.
    pub from: Timestamp,
    /// Its end.
    pub to: Timestamp,
}

impl Usage {
    /// How long it was.
    #[must_use]
    pub fn span(self) -> Span {
        self.to.since(self.from)
    }
}

/// What a stage took of a batch's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StageTimes {
    /// Its input on the way: from the beginning of sending to its having come in whole. For the first stage that is the
    /// way from the engine, which no reservation covers.
    pub transfer: Usage,
    /// The batch on the share.
    pub run: Usage,
}

/// Which resource was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// The links between the worker of the stage before and that of this stage.
    Transfer,
    /// The share of this stage.
    Run,
}

/// A batch on its way to its next stage.
#[derive(Debug, Clone, PartialEq)]
pub struct StageInput {
    /// Whose engine's, as in [`Message::Hello`].
    pub engine: u64,
    /// The batch.
    pub key: BatchKey,
    /// Items in it.
    pub items: u32,
    /// Which stage this is, from 0.
    pub stage: u32,
    /// On which share of the receiving worker.
    pub share: u32,
    /// What is run.
    pub partition: PartitionId,
    /// For when the share is booked, on the engine's clock.
    pub booked: Timestamp,
    /// Where it goes after that.
    pub rest: Vec<Hop>,
    /// What the stages before took; as many as `stage`.
    pub times: Vec<StageTimes>,
    /// When sending it began.
    pub began: Timestamp,
    /// The inputs.
    pub tensors: Vec<Tensor>,
}

/// A partition to be held ready.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadPartition {
    /// Its number.
    pub partition: PartitionId,
    /// The plan that it belongs to.
    pub plan: u64,
    /// On which shares.
    pub shares: Vec<u32>,
    /// Whether what it sends on is in half precision.
    pub half: bool,
    /// Items of the batches that its plan sends: what it is made ready for.
    pub batch: u32,
    /// Declared durations by batch size: the share is kept that long at least, whatever the run itself took. Empty where
    /// it is not emulated.
    pub declared: Vec<(u32, Span)>,
    /// The model, for a [`weir_flow::PartitionLoader`].
    pub model: Arc<Vec<u8>>,
}

/// A worker as it introduces itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// Its device class.
    pub class: String,
    /// How many shares it has.
    pub shares: u32,
    /// Whether durations or links are emulated and not those of the machine.
    pub emulated: bool,
    /// The largest message that it takes.
    pub max_message_bytes: u32,
    /// Partitions that it still holds for this engine.
    pub held: Vec<PartitionId>,
}

/// Why a batch failed.
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
    /// The next worker cannot be reached.
    Unreachable(String),
    /// A worker on its way went away.
    WorkerDown(String),
    /// Nothing was received about it for too long.
    Lost,
}

impl fmt::Display for BatchFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(reason) => write!(f, "the partition failed: {reason}"),
            Self::Panicked(reason) => write!(f, "the partition panicked: {reason}"),
            Self::NotHeld => f.write_str("the worker does not hold the partition on that share"),
            Self::QueueFull => f.write_str("too much waits for the share or the link"),
            Self::Unreachable(reason) => write!(f, "the next worker cannot be reached: {reason}"),
            Self::WorkerDown(reason) => write!(f, "the worker went away: {reason}"),
            Self::Lost => f.write_str("nothing was heard of the batch for too long"),
        }
    }
}

/// Everything that is said.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// Engine to worker, first: a number that tells engines apart.
    Hello {
        /// The number.
        engine: u64,
    },
    /// Worker to worker, first: it will send features.
    Peer,
    /// The answer to both.
    Welcome(Welcome),
    /// Another answer, after which the connection is closed.
    Refused {
        /// Why.
        reason: String,
    },
    /// Hold a partition ready, beside those that run.
    LoadPartition(LoadPartition),
    /// It is.
    Loaded {
        /// Which.
        partition: PartitionId,
        /// How long that took.
        took: Span,
    },
    /// It is not.
    NotLoaded {
        /// Which.
        partition: PartitionId,
        /// Why.
        reason: String,
    },
    /// Unload a partition.
    Unload {
        /// Which.
        partition: PartitionId,
    },
    /// Unload all partitions that belong to other plans: the switch after a flush.
    Activate {
        /// The plan that goes on.
        plan: u64,
    },
    /// Done.
    Activated {
        /// The plan.
        plan: u64,
    },
    /// Engine to the first worker of a batch.
    Run(StageInput),
    /// Worker to worker.
    Feature(StageInput),
    /// A resource was used just now.
    Used {
        /// For which batch.
        key: BatchKey,
        /// Of which stage.
        stage: u32,
        /// Which resource.
        what: Resource,
        /// From when to when.
        usage: Usage,
    },
    /// A batch is through its last stage.
    Done {
        /// Which.
        key: BatchKey,
        /// What each stage took.
        times: Vec<StageTimes>,
        /// The outputs.
        outputs: Vec<Tensor>,
    },
    /// A batch ended early.
    Failed {
        /// Which.
        key: BatchKey,
        /// At which stage.
        stage: u32,
        /// Why.
        failure: BatchFailure,
    },
    /// Are you there?
    Ping {
        /// The engine's clock.
        sent: Timestamp,
        /// Microseconds to be added to the worker's clock to have the engine's, once known.
        offset: Option<i64>,
    },
    /// Yes.
    Pong {
        /// As it came.
        sent: Timestamp,
        /// The worker's own clock.
        at: Timestamp,
    },
    /// Engine to worker, first: it runs an instance of a model that generates over this connection.
    Generate,
    /// The model of that instance.
    LoadGenerator {
        /// For a [`weir_flow::PartitionLoader`].
        model: Arc<Vec<u8>>,
    },
    /// The instance is there.
    GeneratorLoaded {
        /// Different tokens of its model.
        vocabulary: u32,
        /// Most tokens of a sequence there.
        max_sequence_tokens: u32,
    },
    /// A step of the instance.
    Step(InstanceStep),
    /// It is done.
    Stepped {
        /// How long it took.
        took: Span,
        /// What it gave.
        tokens: Vec<GeneratedToken>,
    },
    /// It is not, or the instance could not be opened; the connection is closed after that.
    StepFailed {
        /// Why.
        reason: String,
    },
}

impl Message {
    /// Its name, for a log.
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
