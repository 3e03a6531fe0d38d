//! Commands to a running engine, and the errors that reject them. Any thread may send commands; the control
//! thread executes them one at a time, between its other messages.

use std::sync::Arc;

use crossbeam_channel::Sender;
use thiserror::Error;
use tokio::sync::mpsc;
use weir_flow::{PacketObserver, PacketSubscription, SourceError, SourceFactory};
use weir_graph::SourceNode;
use weir_policy::gears::Gears;
use weir_policy::{Policy, StreamReport, StreamShare};
use weir_types::Span;

use crate::assembly::RunError;
use crate::clock::Clock;
use crate::prepare::{GraphInForce, PreparedGraph};
use crate::snapshot::Snapshot;

/// Streams that an engine may have at a time: each has a thread, and its requests in flight.
pub const MAX_STREAMS: usize = 1_024;

/// Commands that may wait for the control thread.
pub(crate) const MAX_COMMANDS: usize = 64;

/// Channel for the answer to a command. If its receiver is gone, the answer is discarded.
pub(crate) type Answer<T> = Sender<Result<T, StreamError>>;

/// A stream that is to be added.
pub struct NewStream {
    /// Its name, address, mode, objective and share.
    pub node: SourceNode,
    /// Opens the source; `None` for an `emulated:` source, which the runtime opens itself.
    pub factory: Option<Box<dyn SourceFactory>>,
    /// The source of the graph whose inputs it shares: its frames enter what takes the frames of that one. `None`: they
    /// enter whatever takes frames of any source.
    pub like: Option<String>,
}

/// Changes to a running stream; each field that is `None` stays as it is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StreamChange {
    /// Its own latency objective, or that of the graph. Requests in flight keep the one that they have.
    pub slo: Option<Option<Span>>,
    /// Weight of the stream under overload, relative to other streams.
    pub weight: Option<f64>,
    /// Its reserve in frames a second, or none.
    pub reserve: Option<Option<f64>>,
    /// Names of the groups of cameras that it belongs to.
    pub groups: Option<Vec<String>>,
}

/// A command, with where its answer goes.
pub(crate) enum Command {
    /// With the modules and sinks that its frames enter, where these are given.
    Add(Box<NewStream>, Option<Vec<String>>, Answer<()>),
    /// Answered when the stream is gone.
    Remove(String, Answer<StreamReport>),
    Pause(String, Answer<()>),
    Resume(String, Answer<()>),
    Change(String, StreamChange, Answer<()>),
    ObservePackets(String, Arc<dyn PacketObserver>, Answer<PacketSubscription>),
    ApplyPolicy(Box<Policy>, Answer<()>),
    ApplyGears(Option<Box<Gears>>, Answer<()>),
    Graph(Answer<GraphInForce>),
    Swap(Box<PreparedGraph>, Answer<()>),
    Snapshot(Answer<Box<Snapshot>>),
}

/// Requests to the control thread that come from outside the run.
pub(crate) struct Service {
    pub(crate) commands: mpsc::Receiver<Command>,
    /// Sent to once, when sources have begun.
    pub(crate) started: Sender<()>,
    pub(crate) clock: Clock,
}

/// Why a stream cannot be added, changed, paused, resumed or removed, or a policy not applied.
#[derive(Debug, Error)]
pub enum StreamError {
    /// Another one has the name, or a module or a sink of the graph.
    #[error("the name {name} is taken{}: choose another name", taken_by(.by))]
    NameTaken {
        /// Name that was requested for the new stream.
        name: String,
        /// Kind of the thing that has the name already, such as a module; `None` if it is a stream.
        by: Option<&'static str>,
    },
    /// There is no stream of that name.
    #[error("there is no stream {name}: {}", list_of(.known))]
    Unknown {
        /// Name that was requested.
        name: String,
        /// Names of all streams.
        known: Vec<String>,
    },
    /// The graph has no source of that name.
    #[error("the graph has no source {name} to be like: {}", list_of(.known))]
    UnknownSource {
        /// Name of the source that was requested.
        name: String,
        /// Names of the graph's sources.
        known: Vec<String>,
    },
    /// The graph has no module or sink of that name.
    #[error("the graph has no module or sink {name} that the frames of a stream could enter")]
    UnknownInput {
        /// Name of the module or sink that was requested.
        name: String,
    },
    /// It is being removed.
    #[error("the stream {name} is being removed: wait until it is gone")]
    Removing {
        /// Name of the stream that is being removed.
        name: String,
    },
    /// Its source has ended.
    #[error("the stream {name} has ended: remove it, and add it again")]
    Ended {
        /// Name of the stream that has ended.
        name: String,
    },
    /// Its weight or its reserve is out of bounds.
    #[error(
        "the stream {name}: its weight must lie between {} and {}, its reserve between {} and {} frames a second",
        StreamShare::WEIGHTS.start(), StreamShare::WEIGHTS.end(),
        StreamShare::RESERVES.start(), StreamShare::RESERVES.end()
    )]
    Share {
        /// Name of the stream with the invalid share.
        name: String,
    },
    /// No frame of it could ever be on time.
    #[error(
        "the stream {name}: the modules that its frames pass take {execution} alone on this machine, and its slo is {slo}: \
         every frame would be late; raise its slo"
    )]
    SloTooShort {
        /// Name of the stream whose objective is too short.
        name: String,
        /// Execution of one item in each module, along the longest path.
        execution: Span,
        /// The latency objective.
        slo: Span,
    },
    /// The policy departs from the one in force in what is fixed while a graph runs.
    #[error("{} of the policy cannot be changed while the graph runs: restart weir", .keys.join(", "))]
    FixedPolicy {
        /// Keys of `[policy]`.
        keys: Vec<&'static str>,
    },
    /// Another graph cannot be made ready.
    #[error("the graph cannot be activated: {0}")]
    Graph(#[source] Box<RunError>),
    /// Another plan came into force while a graph was made ready.
    #[error("the plan changed while the graph was being prepared: apply the graph again")]
    PlanChanged,
    /// The machine gives no thread for another graph.
    #[error("cannot start a thread for another graph: the machine has none left")]
    Machine,
    /// There are as many as may be.
    #[error("there are {MAX_STREAMS} streams, and no more may be added: remove one")]
    TooMany,
    /// Its source cannot be made.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
    /// The engine is stopping, or has ended.
    #[error("the engine is stopping and accepts no more changes")]
    Stopping,
}

fn taken_by(other: &Option<&'static str>) -> String {
    other.map_or_else(String::new, |other| format!(" by a {other} of the graph"))
}

fn list_of(names: &[String]) -> String {
    if names.is_empty() {
        "there is none".to_owned()
    } else {
        format!("there is {}", names.join(", "))
    }
}
