//! What a run is made from, and how it is to go.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use weir_flow::{
    Model, Operator, PartitionLoader, PartitionedModel, SessionError, SinkError, SinkFactory, SourceFactory,
};
use weir_graph::Graph;
use weir_planner::Plan;
use weir_policy::ReconnectSpec;
use weir_types::Span;

use crate::progress::Progress;

/// A graph with everything that it names. Tables go by the indices of the graph.
pub struct Assembly {
    /// The graph.
    pub graph: Graph,
    /// By source; `None` for `emulated:` ones, which the runtime has itself.
    pub sources: Vec<Option<Box<dyn SourceFactory>>>,
    /// By model; `None` for those on emulated devices.
    pub models: Vec<Option<Arc<dyn Model>>>,
    /// By module; `None` for those whose model is emulated.
    pub operators: Vec<Option<Arc<dyn Operator>>>,
    /// By sink.
    pub sinks: Vec<Box<dyn SinkFactory>>,
    /// Where models are spread over partition workers.
    pub spread: Option<Spread>,
}

/// Models that are cut and spread over partition workers by a plan.
pub struct Spread {
    /// The plan.
    pub plan: Plan,
    /// By model; `None` for those that are whole.
    pub divided: Vec<Option<Arc<dyn PartitionedModel>>>,
    /// What opens parts in workers of this process.
    pub loader: Option<Arc<dyn PartitionLoader>>,
    /// Looked at every second: gives a plan when another is to come into force.
    pub next: Option<Box<dyn FnMut() -> Option<Plan>>>,
}

/// At which pace recordings are played. Cameras have their own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// So many times as fast as the media.
    Times(f64),
    /// As fast as the graph takes them.
    Max,
}

/// How a run is to go.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Sources stop after this long.
    pub duration: Option<Duration>,
    /// The pace.
    pub pace: Pace,
    /// Bytes that decoded frames of all streams may take together; each stream has an equal share.
    pub memory_bytes: u64,
    /// Requests of one stream that may be under way; `None`: 256 of a live one, and of lossless ones
    /// what keeps every slot busy.
    pub under_way: Option<u32>,
    /// Deliveries that may wait for a sink which skips when it is slow.
    pub sink_waiting_most: usize,
    /// Where to record every decision.
    pub record: Option<PathBuf>,
    /// Seed of all random draws.
    pub seed: u64,
    /// How long what is under way may still take when sources have stopped.
    pub grace: Duration,
    /// How long to wait before a camera that is away is tried again.
    pub reconnect: ReconnectSpec,
    /// How long a sink may take to open: what opens a FIFO waits for its reader.
    pub sink_opening: Duration,
    /// Told how far the run is.
    pub progress: Arc<Progress>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            duration: None,
            pace: Pace::Times(1.0),
            memory_bytes: 512 << 20,
            under_way: None,
            sink_waiting_most: 256,
            record: None,
            seed: 1,
            grace: Duration::from_secs(10),
            reconnect: ReconnectSpec::default(),
            sink_opening: Duration::from_secs(10),
            progress: Arc::default(),
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
        "the graph takes {bare} alone on this machine, and the slo is {slo}: every frame would be late; raise the slo, \
         use smaller models, or read the sources with mode = \"lossless\""
    )]
    SloTooShort {
        /// Execution of one item in each module, along the longest path.
        bare: Span,
        /// The objective.
        slo: Span,
    },
    /// The recording could not be begun.
    #[error("cannot record to {path}: {}", weir_files::io_reason(reason))]
    Record {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: std::io::Error,
    },
    /// The machine gave no thread, or took one away.
    #[error("the machine has no thread left: {0}")]
    Thread(#[from] std::io::Error),
    /// It was asked to stop before it began.
    #[error("stopped before sources began: nothing was run")]
    Stopped,
    /// Partition workers or their plan are not as the graph says.
    #[error("{0}")]
    Workers(String),
    /// A part of the engine ended before the run did: a defect.
    #[error("the engine broke off: {0}")]
    BrokeOff(&'static str),
}
