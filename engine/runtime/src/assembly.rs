//! Inputs and options of a run, and the errors that keep a run from starting.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use weir_flow::{
    Model, Operator, PartitionLoader, PartitionedModel, PictureTaker, SessionError, SinkError, SinkFactory,
    SourceFactory, TransformPrograms,
};
use weir_graph::Graph;
use weir_partition::NodeCarrier;
use weir_planner::Plan;
use weir_policy::ReconnectSpec;
use weir_policy::gears::Gears;
use weir_types::Span;

use crate::progress::Progress;
use crate::request_traces::TraceOptions;
use crate::sampling::Sampler;

/// A graph with everything that it names. Tables go by the indices of the graph.
pub struct Assembly {
    /// The checked graph.
    pub graph: Graph,
    /// By source; `None` for `emulated:` ones, which the runtime has itself.
    pub sources: Vec<Option<Box<dyn SourceFactory>>>,
    /// By model; `None` for those on emulated devices.
    pub models: Vec<Option<Arc<dyn Model>>>,
    /// By module; `None` for those whose model is emulated.
    pub operators: Vec<Option<Arc<dyn Operator>>>,
    /// By sink: opens it.
    pub sinks: Vec<Box<dyn SinkFactory>>,
    /// The plan and loaders of partitioned models; `None` if no model is partitioned.
    pub partitioning: Option<Partitioning>,
    /// Called while the graph runs: gives gears when others are to come into force. `None` where nothing else gives them; of no
    /// effect in a graph that takes the place of another.
    pub next_gears: Option<NextGears>,
}

/// Gives gears for the graph that runs, each time that there are others.
pub type NextGears = Box<dyn FnMut() -> Option<Gears> + Send>;

/// Models that a plan cuts into partitions, which run on partition workers.
pub struct Partitioning {
    /// The plan that is in force first.
    pub plan: Plan,
    /// By model; `None` for those that are not partitioned.
    pub models: Vec<Option<Arc<dyn PartitionedModel>>>,
    /// Opens partitions in workers of this process.
    pub loader: Option<Arc<dyn PartitionLoader>>,
    /// Carries messages to workers that are nodes of a fleet.
    pub carrier: Option<NodeCarrier>,
    /// Called every second: gives a plan when another is to come into force.
    pub next_plan: Option<NextPlan>,
}

/// Gives another plan for the graph that runs, each time that there is one.
pub type NextPlan = Box<dyn FnMut() -> Option<Plan> + Send>;

/// The pace at which recordings are played. Cameras have their own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// A multiple of the pace of the media.
    Times(f64),
    /// As fast as the graph takes them.
    Max,
}

/// Options of a run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Whether the run goes on while no stream is left, until it is stopped: streams may be added to it.
    pub until_stopped: bool,
    /// Sources stop after this long.
    pub duration: Option<Duration>,
    /// Pace of recordings; cameras ignore it.
    pub pace: Pace,
    /// Bytes that decoded frames of all streams may take together; each stream has an equal share.
    pub memory_bytes: u64,
    /// Requests of one stream in flight; `None`: 256 of a live one, and of lossless ones what keeps every slot busy.
    pub max_in_flight: Option<u32>,
    /// Deliveries that may wait for a sink which skips when it is slow.
    pub max_sink_waiting: usize,
    /// File to which every decision is recorded; `None` records nothing.
    pub record: Option<PathBuf>,
    /// Whether the first [invariant](weir_types::invariant) that is broken ends the run as `stop` does.
    pub strict: bool,
    /// Seed of all random draws.
    pub seed: u64,
    /// Longest time that requests in flight may take after all sources have stopped.
    pub grace: Duration,
    /// Wait before the next attempt to connect to a camera that is down.
    pub reconnect: ReconnectSpec,
    /// Longest time that opening a sink may take. A sink that opens a FIFO waits for its reader.
    pub sink_open_timeout: Duration,
    /// Counts how far the run is.
    pub progress: Arc<Progress>,
    /// Takes samples of cascades, whose stages all answer every item then.
    pub sampler: Option<Arc<dyn Sampler>>,
    /// Takes pictures of objects for transforms; without it they have none.
    pub pictures: Option<Arc<dyn PictureTaker>>,
    /// Makes the programs of transforms that users write; without it these change nothing.
    pub programs: Option<Arc<dyn TransformPrograms>>,
    /// Sampling rate and exporter of request traces; `None` traces no request.
    pub traces: Option<TraceOptions>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            until_stopped: false,
            duration: None,
            pace: Pace::Times(1.0),
            memory_bytes: 512 << 20,
            max_in_flight: None,
            max_sink_waiting: 256,
            record: None,
            strict: false,
            seed: 1,
            grace: Duration::from_secs(10),
            reconnect: ReconnectSpec::default(),
            sink_open_timeout: Duration::from_secs(10),
            progress: Arc::default(),
            sampler: None,
            pictures: None,
            programs: None,
            traces: None,
        }
    }
}

/// Why a run could not begin.
#[derive(Debug, Error)]
pub enum RunError {
    /// A model could not be opened on its device.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A source could not be read.
    #[error(transparent)]
    Source(#[from] weir_flow::SourceError),
    /// A sink could not be opened.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// No frame could ever be on time.
    #[error(
        "a single frame takes {execution} through the graph on this machine, and the slo is {slo}: every frame would be late; raise the slo, \
         use smaller models, or read the sources with mode = \"lossless\""
    )]
    SloTooShort {
        /// Execution of one item in each module, along the longest path.
        execution: Span,
        /// The latency objective.
        slo: Span,
    },
    /// The recording could not be begun.
    #[error("cannot record to {path}: {}", weir_files::io_reason(reason))]
    Record {
        /// Path of the file that could not be created.
        path: PathBuf,
        /// Error of the operating system.
        reason: std::io::Error,
    },
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
    /// It was asked to stop before it began.
    #[error("stopped before sources began: nothing was run")]
    Stopped,
    /// Partition workers or their plan do not fit the graph.
    #[error("{0}")]
    Workers(String),
    /// A model that generates cannot run as its keys say.
    #[error("model {model}: {reason}")]
    Generate {
        /// Name of the model in the graph.
        model: String,
        /// The mismatch, and a way to correct it.
        reason: String,
    },
    /// A model that could never be opened.
    #[error(
        "model {model} takes {} MiB as measured, and device {device} has {} MiB: raise `memory` of the device, or use a \
         smaller model",
        bytes.div_ceil(1 << 20),
        memory >> 20
    )]
    ModelTooLarge {
        /// Name of the model in the graph.
        model: String,
        /// Name of the device in the graph.
        device: String,
        /// Bytes of device memory that one session takes.
        bytes: u64,
        /// Bytes of memory that the device has.
        memory: u64,
    },
    /// Stages of a cascade that cannot answer for each other.
    #[error("cascade \"{cascade}\": {reason}")]
    Cascade {
        /// Name of the cascade in the graph.
        cascade: String,
        /// The difference between the stages, and a way to correct it.
        reason: String,
    },
    /// An actor of the engine ended before the run did: a defect.
    #[error("the engine failed: {0}")]
    EngineFailed(&'static str),
}
