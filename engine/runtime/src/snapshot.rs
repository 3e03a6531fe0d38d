//! The state of an engine at one moment.

use serde::Serialize;
use weir_flow::{Cause, StreamState};
use weir_graph::{Graph, ModuleNode, Vertex};
use weir_policy::{Counts, ModuleTotals, Policy, Report, StreamShare};

use crate::actors::ModuleLoad;

/// The state of an engine at one moment.
#[derive(Debug, Clone, Serialize)]
pub struct Snapshot {
    /// Whether it has been asked to stop: what is in flight comes out, and no stream is added.
    pub stopping: bool,
    /// In the order in which they were added.
    pub streams: Vec<StreamSnapshot>,
    /// Latency objective of the graph in force in milliseconds.
    pub slo_ms: f64,
    /// Modules of the graph in force, each after those that it takes from.
    pub modules: Vec<ModuleSnapshot>,
    /// Sinks of the graph in force.
    pub sinks: Vec<SinkSnapshot>,
    /// The policy in force.
    pub policy: Policy,
    /// Likely mistakes in the configuration: reserves that exceed the capacity of the machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The report as of now.
    pub report: Report,
}

/// A stream at one moment.
#[derive(Debug, Clone, Serialize)]
pub struct StreamSnapshot {
    /// Name of the stream.
    pub name: String,
    /// Its number, which no other stream of this run has or had.
    pub id: u32,
    /// Address of its source, without credentials.
    pub source: String,
    /// The same of the smaller stream that its frames come from, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detect_source: Option<String>,
    /// Phase of the stream.
    pub state: StreamPhase,
    /// Seconds since the phase last changed.
    pub for_s: f64,
    /// Seconds since its last frame, or since it was first opened, if it is lost. Retries do not reset it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_s: Option<f64>,
    /// Seconds for which its picture has not changed at all although frames arrive; at least 30.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frozen_s: Option<f64>,
    /// True while its frames come outside the times of `active` of its source: no model is given them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub outside_schedule: bool,
    /// Reason why no frames arrive; `None` while they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Cause in the reason as a code; `None` if the reason has a wording of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// Its own latency objective in milliseconds; `None`: the graph's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slo_ms: Option<f64>,
    /// Weight and reserve of the stream under overload.
    #[serde(flatten)]
    pub share: StreamShare,
    /// Names of the groups of cameras that it belongs to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Requests of the stream by outcome.
    pub requests: Counts,
}

/// A module at one moment.
#[derive(Debug, Clone, Serialize)]
pub struct ModuleSnapshot {
    /// Its name, as in the report.
    pub name: String,
    /// Name of the operator that the module runs.
    pub operator: String,
    /// Names of the sources and modules that it takes from.
    pub inputs: Vec<String>,
    /// Requests in it: waiting, in a batch that forms, or on a slot.
    pub requests: usize,
    /// The batch size that it aims at.
    pub batch_size: u32,
    /// Items a second that arrive.
    pub input_rate: f64,
    /// Items a second that it can do; above it, `input_rate` is overload.
    pub throughput: f64,
    /// Slots that it has, or its share of them.
    pub slots: f64,
    /// Slots that its model is open on.
    pub placed_slots: usize,
    /// Those of them that are out of use, since a batch there does not end.
    pub overdue_slots: usize,
    /// Totals of the module since the start.
    pub totals: ModuleTotals,
}

impl ModuleSnapshot {
    pub(crate) fn new(graph: &Graph, node: &ModuleNode, load: ModuleLoad, totals: ModuleTotals) -> Self {
        Self {
            name: node.name.clone(),
            operator: node.operator.clone(),
            inputs: names(graph, &node.inputs),
            requests: load.requests,
            batch_size: load.batch_size,
            input_rate: load.input_rate,
            throughput: load.throughput,
            slots: load.slots,
            placed_slots: load.placed_slots,
            overdue_slots: load.overdue_slots,
            totals,
        }
    }
}

/// A sink of the graph in force; what it came to is in the report.
#[derive(Debug, Clone, Serialize)]
pub struct SinkSnapshot {
    /// Name of the sink in the graph.
    pub name: String,
    /// Type of the sink in the graph.
    #[serde(rename = "type")]
    pub kind: String,
    /// Names of the sources and modules that it takes from.
    pub inputs: Vec<String>,
}

impl SinkSnapshot {
    /// The sinks of a graph that were declared.
    pub(crate) fn all(graph: &Graph) -> Vec<Self> {
        let sinks = graph.sinks().iter().map(|sink| Self {
            name: sink.name.clone(),
            kind: sink.kind.clone(),
            inputs: names(graph, &sink.inputs),
        });
        sinks.collect()
    }
}

fn names(graph: &Graph, inputs: &[Vertex]) -> Vec<String> {
    let sources: Vec<&str> = graph.source_names().collect();
    let name = |vertex: &Vertex| match *vertex {
        Vertex::Source(index) => sources.get(index).map(|name| (*name).to_owned()),
        Vertex::Module(index) => graph.modules().get(index).map(|module| module.name.clone()),
    };
    inputs.iter().filter_map(name).collect()
}

/// Phase of a stream, as shown to users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamPhase {
    /// It is being opened, or its first frame is awaited.
    Connecting,
    /// Frames arrive from the source.
    Live,
    /// It is connected, and no picture arrives.
    Stalled,
    /// It was lost, or could not be opened, and is tried again after a wait.
    Waiting,
    /// No more frames will arrive.
    Gone,
    /// It is paused: its source is closed.
    Paused,
    /// It is being removed: what is in flight comes out.
    Removing,
}

impl StreamPhase {
    /// All phases, roughly in the order in which a stream goes through them.
    pub const ALL: [Self; 7] = [
        Self::Connecting,
        Self::Live,
        Self::Stalled,
        Self::Waiting,
        Self::Gone,
        Self::Paused,
        Self::Removing,
    ];

    /// Returns the name of the phase, as users read it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Live => "live",
            Self::Stalled => "stalled",
            Self::Waiting => "waiting",
            Self::Gone => "gone",
            Self::Paused => "paused",
            Self::Removing => "removing",
        }
    }

    /// The phase of a source by what it reported last, and the reason for that.
    pub(crate) fn of_source(state: Option<&StreamState>) -> (Self, Option<String>) {
        match state {
            None | Some(StreamState::Connecting) => (Self::Connecting, None),
            Some(StreamState::Live) => (Self::Live, None),
            Some(StreamState::Stalled { reason }) => (Self::Stalled, Some(reason.clone())),
            Some(StreamState::Waiting { reason }) => (Self::Waiting, Some(reason.clone())),
            Some(StreamState::Gone { reason }) => (Self::Gone, reason.clone()),
            Some(StreamState::Paused) => (Self::Paused, None),
        }
    }
}
