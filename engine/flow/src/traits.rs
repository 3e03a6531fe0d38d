//! Who handles what travels. The runtime drives these; `weir-operators` implements them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{SessionError, SinkError, SourceError};
use crate::evidence::{Attribute, Evidence, Finding, Object};
use crate::frame::Frame;
use crate::item::{Inference, Item};

/// Raised once when a run is to stop; blocking calls look at it.
#[derive(Clone, Default)]
pub struct StopFlag {
    raised: Arc<AtomicBool>,
    /// What else ends the wait of who was given this flag.
    until: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl StopFlag {
    /// Asks everybody to stop, also those who have it with a limit.
    pub fn raise(&self) {
        self.raised.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked, or the limit of this one is over.
    #[must_use]
    pub fn raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed) || self.until.as_ref().is_some_and(|until| until())
    }

    /// The same flag, which also counts as raised while `until` says so. It is called at every look.
    #[must_use]
    pub fn or_until(&self, until: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self {
            raised: Arc::clone(&self.raised),
            until: Some(Arc::new(until)),
        }
    }
}

impl std::fmt::Debug for StopFlag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("StopFlag").field(&self.raised).finish()
    }
}

/// What is known of a source once it is open.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SourceInfo {
    /// Pixels across of the first picture, where known.
    pub width: u32,
    /// Pixels down.
    pub height: u32,
    /// Mean frames a second, where known.
    pub fps: Option<f64>,
    /// Frames in all, where known.
    pub frames: Option<u64>,
    /// True where frames arrive on their own time (a camera) and pacing must not be added.
    pub live: bool,
    /// True where time stamps are the source's own clock, so that a frame's age shows in them; false where they are
    /// counted from a rate.
    pub stamped: bool,
}

/// Bounds how many sources decode at once, so that decoding leaves room for what has to go on beside it.
pub trait DecodeLimit: Send + Sync {
    /// Runs `work` when it is its turn. It must not wait for data: others wait for it.
    fn decode(&self, work: &mut dyn FnMut());
}

/// A stream of decoded frames, read by one thread.
pub trait Source: Send {
    /// What it is.
    fn info(&self) -> SourceInfo;
    /// The next frame in presentation order; `None` at the end or once the stop flag is raised. Damaged data is
    /// passed over and counted, not an error.
    ///
    /// # Errors
    /// [`SourceError::Broken`] where nothing more can come.
    fn next(&mut self) -> Result<Option<Frame>, SourceError>;
    /// Takes the bound that it is to decode under; called once, before the first frame. A source that takes next to no
    /// time to decode need not keep to it.
    fn limit_decoding(&mut self, _limit: Arc<dyn DecodeLimit>) {}
    /// What went wrong, or was left out on purpose, since it was opened.
    fn counts(&self) -> SourceCounts {
        SourceCounts::default()
    }
}

/// What a source met beside frames, each counted since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SourceCounts {
    /// Packets that could not be read or decoded.
    pub damaged: u64,
    /// Frames that were delivered although the decoder had to make up parts of them.
    pub concealed: u64,
    /// Times at which the media clock jumped and was rebased.
    pub discontinuities: u64,
    /// Frames left out because the source is sampled.
    pub not_sampled: u64,
    /// Files of a folder that could not be read.
    pub unreadable: u64,
}

impl std::ops::Add for SourceCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            damaged: self.damaged + other.damaged,
            concealed: self.concealed + other.concealed,
            discontinuities: self.discontinuities + other.discontinuities,
            not_sampled: self.not_sampled + other.not_sampled,
            unreadable: self.unreadable + other.unreadable,
        }
    }
}

/// What a stream is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamState {
    /// Frames come.
    Running,
    /// None come: it could not be reached, broke off, or is silent. It is tried again.
    Down {
        /// Why.
        reason: String,
    },
    /// No more will come.
    Ended {
        /// Why, where that was not its regular end.
        error: Option<String>,
    },
}

/// Opens a source, and opens it again (a loop, a camera that went away).
pub trait SourceFactory: Send + Sync {
    /// Opens it. While `stop` is raised, this and [`Source::next`] come to an end.
    ///
    /// # Errors
    /// [`SourceError::Open`] with the reason.
    fn open(&self, stop: &StopFlag) -> Result<Box<dyn Source>, SourceError>;
    /// Whether it has no end of its own, as a camera: then every end is a loss, and it is tried again. `None` where that
    /// is known only once it is open.
    fn endless(&self) -> Option<bool> {
        Some(false)
    }
    /// Looks before a run whether it can be opened, where that is quick and takes nothing from it: a file or a folder.
    /// What has to be reached first, and what can be read once only, is taken at its word.
    ///
    /// # Errors
    /// As [`SourceFactory::open`].
    fn prove(&self, _stop: &StopFlag) -> Result<(), SourceError> {
        Ok(())
    }
}

/// Where a session is to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceKind {
    /// One CPU core, one intra-op thread.
    Cpu,
    /// A CUDA GPU by its ordinal.
    Cuda(u32),
}

/// How many items a model takes at once, found by running it when it was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batching {
    /// The most items that one run may hold; `None` where there is no such limit.
    pub max: Option<u32>,
    /// What was found out, for the log: "batch dimension made symbolic", "fails above 1: ...".
    pub remark: Option<String>,
}

/// A model with its head, loaded and checked; it opens one session for each slot that it is placed on.
pub trait Model: Send + Sync {
    /// How it can be batched.
    fn batching(&self) -> Batching;
    /// Classes of the objects that it finds, where it is a detector and they are known.
    fn classes(&self) -> &[Arc<str>] {
        &[]
    }
    /// A session of its own for one worker thread.
    ///
    /// # Errors
    /// [`SessionError::Load`]; a provider that does not register is an error, not a run on the CPU.
    fn open(&self, device: DeviceKind) -> Result<Box<dyn Session>, SessionError>;
}

/// The steps of a batch, in order, for whoever times them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Pixels are scaled and converted into the input tensor.
    Prepared,
    /// The model ran.
    Inferred,
    /// Outputs are decoded.
    Decoded,
}

/// A model on one slot, owned by the slot's worker thread.
pub trait Session: Send {
    /// Runs one batch and gives one inference an item, in order. `lap` is called as each step ends.
    ///
    /// # Errors
    /// [`SessionError::Run`]; the items are lost, the session may be rebuilt.
    fn run(&mut self, items: &[Item], lap: &mut dyn FnMut(Step)) -> Result<Vec<Inference>, SessionError>;
    /// Runs the model alone once on a blank batch, to warm it up and to measure it.
    ///
    /// # Errors
    /// As [`Session::run`].
    fn warm(&mut self, batch: usize) -> Result<(), SessionError>;
}

/// What a module does around its model: which items a request brings, and what its inferences mean.
pub trait Operator: Send + Sync {
    /// The items of a request, best first where there is a limit; none passes the request straight through.
    fn items(&self, frame: &Arc<Frame>, evidence: &Evidence) -> Vec<Item>;
    /// Gathers the inferences of a request, in the order of its items, into what module number `module` found.
    fn finding(&self, module: u32, items: &[Item], inferences: Vec<Inference>) -> Finding;
}

/// An object as events show it.
#[derive(Debug, Clone, PartialEq)]
pub struct Labelled {
    /// Number within the frame.
    pub id: u32,
    /// The object.
    pub object: Object,
    /// Number of the object in whose crop it was found.
    pub parent: Option<u32>,
    /// Attributes by name.
    pub attributes: Vec<(Arc<str>, Attribute)>,
}

/// A frame that came out, with all that was found in it.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Name of its stream.
    pub stream: Arc<str>,
    /// The frame.
    pub frame: Arc<Frame>,
    /// When the frame arrived, in milliseconds since 1970 (UTC).
    pub time_ms: u64,
    /// From sending to coming out.
    pub latency_ms: f64,
    /// True where that is more than the SLO.
    pub late: bool,
    /// What was found, numbered from 0.
    pub objects: Vec<Labelled>,
}

/// What happened to a stream beside its deliveries.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// A frame that is not delivered.
    Dropped {
        /// Name of its stream.
        stream: Arc<str>,
        /// Its number.
        frame: u64,
        /// Its media time, as [`Frame::pts_ms`].
        pts_ms: f64,
        /// When it arrived, in milliseconds since 1970 (UTC).
        time_ms: u64,
        /// Name of the module that dropped it; `None` at the source.
        module: Option<Arc<str>>,
        /// The reason as reports name it.
        reason: &'static str,
    },
    /// A stream is in another state now.
    State {
        /// Its name.
        stream: Arc<str>,
        /// The state.
        state: StreamState,
        /// When it came into that state, in milliseconds since 1970 (UTC).
        time_ms: u64,
    },
}

/// What a run is, as sinks write it before anything else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunHeader {
    /// Differs from that of every other run.
    pub id: String,
    /// Name of the graph.
    pub graph: String,
    /// Name of the program.
    pub program: String,
    /// Its version.
    pub version: String,
    /// When the run began, in milliseconds since 1970 (UTC).
    pub time_ms: u64,
    /// The streams whose frames the sink is given.
    pub streams: Vec<StreamHeader>,
}

/// A stream, as [`RunHeader`] names it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamHeader {
    /// Its name.
    pub name: String,
    /// What its frames are read from, without credentials.
    pub source: String,
}

/// Where deliveries go; used by one thread. Deliveries of one stream come in frame order.
pub trait Sink: Send {
    /// A run begins; called once, when everything that the run needs is there and before anything else is given.
    ///
    /// # Errors
    /// As [`Sink::accept`].
    fn begin(&mut self, _run: &RunHeader) -> Result<(), SinkError> {
        Ok(())
    }
    /// Takes one delivery.
    ///
    /// # Errors
    /// [`SinkError`]: the delivery is counted as not written and the run goes on.
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError>;
    /// Takes word of what happened beside deliveries.
    ///
    /// # Errors
    /// As [`Sink::accept`].
    fn notice(&mut self, _notice: &Notice) -> Result<(), SinkError> {
        Ok(())
    }
    /// Whether it has any use for notices; only then it is given them.
    fn wants_notices(&self) -> bool {
        false
    }
    /// Whether whoever read what it writes went away (`weir run GRAPH.toml | head`): then the run may end, and what
    /// could not be written is no failure.
    fn is_reader_gone(&self) -> bool {
        false
    }
    /// Completes what was written; called once, also after errors.
    ///
    /// # Errors
    /// [`SinkError`] where it cannot be completed.
    fn finish(&mut self) -> Result<(), SinkError>;
}

/// Opens a sink when a run starts.
pub trait SinkFactory: Send + Sync {
    /// Opens it.
    ///
    /// # Errors
    /// [`SinkError`] where the target cannot be made. Nothing that was there before is changed.
    fn open(&self) -> Result<Box<dyn Sink>, SinkError>;
    /// The files that it may write, for the streams that it was made for; none where it writes no files.
    fn targets(&self) -> Vec<PathBuf> {
        Vec::new()
    }
}
