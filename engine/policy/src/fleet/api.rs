//! Interface of an engine in a fleet: specification, events and effects.

use serde::{Deserialize, Serialize};
use weir_types::Span;

/// An engine, by a hash of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EngineId(pub u64);

/// A stream, by a hash of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StreamKey(pub u64);

/// Parameters of spreading streams over the engines of a fleet.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FleetSpec {
    /// Time that an engine without streams must be in use before other engines hand streams over to it.
    /// Streams without an engine it takes at once.
    pub settle: Span,
    /// Minimum fraction of its frames that an overloaded engine misses.
    pub overloaded: f64,
    /// Time for which it must miss them before it redirects a stream, and least time between two
    /// redirections.
    pub patience: Span,
    /// Maximum load of a target including the redirected stream, as a fraction of its capacity.
    pub room: f64,
    /// Maximum load of a home including the stream, as a fraction of its capacity, at which it takes the
    /// stream back.
    pub calm: f64,
    /// Time for which the home must have been below that load.
    pub dwell: Span,
    /// Whether overloaded engines redirect streams; without it, rendezvous hashing alone decides.
    pub redirect: bool,
}

impl Default for FleetSpec {
    fn default() -> Self {
        Self {
            settle: Span::from_secs(5),
            overloaded: 0.02,
            patience: Span::from_secs(3),
            room: 0.9,
            calm: 0.6,
            dwell: Span::from_secs(60),
            redirect: true,
        }
    }
}

/// A fact about the fleet's engines or streams.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum FleetEvent {
    /// An engine is in use, or its capacity has changed.
    EngineUp {
        /// Engine that is in use.
        engine: EngineId,
        /// Work that it can do in a second, in the unit of the streams' work; above zero.
        capacity: f64,
    },
    /// The token of an engine has disappeared, and with it all that the engine published.
    EngineDown {
        /// Engine that is lost.
        engine: EngineId,
    },
    /// Load of an engine; each engine publishes it every second.
    EngineStatus {
        /// Engine that reports.
        engine: EngineId,
        /// Work offered by its streams, as a fraction of its capacity.
        load: f64,
        /// Fraction of its frames that were not delivered in time.
        missed: f64,
    },
    /// The fleet has a stream, or the stream's work has changed.
    StreamKnown {
        /// Stream that is known.
        stream: StreamKey,
        /// Work that it brings in a second.
        work: f64,
    },
    /// The stream was removed from the fleet.
    StreamGone {
        /// Stream that was removed.
        stream: StreamKey,
    },
    /// An engine receives frames of a stream.
    Claimed {
        /// Engine that has the stream.
        engine: EngineId,
        /// Stream that is live there.
        stream: StreamKey,
    },
    /// An engine has released a stream.
    Unclaimed {
        /// Engine that had the stream.
        engine: EngineId,
        /// Stream that was released.
        stream: StreamKey,
    },
    /// The home of a stream redirects it, or takes it back.
    Redirected {
        /// Engine that publishes this; it counts while it is the stream's home.
        home: EngineId,
        /// Stream that is redirected.
        stream: StreamKey,
        /// Engine that is to take the stream; `None`: the home takes it back.
        to: Option<EngineId>,
    },
    /// Frames arrive of a stream that this engine took.
    Live {
        /// Stream that is live.
        stream: StreamKey,
    },
    /// Time has passed. Sent several times a second, so that an engine notices when it stood still itself.
    Tick,
}

/// An action that an engine of a fleet requests from its driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "effect")]
pub enum FleetEffect {
    /// Open the stream, and send [`FleetEvent::Live`] once frames arrive.
    Take {
        /// Stream to be opened.
        stream: StreamKey,
    },
    /// Close the stream.
    Release {
        /// Stream to be closed.
        stream: StreamKey,
    },
    /// Publish to the fleet that this engine has the stream.
    Claim {
        /// Stream that is live here.
        stream: StreamKey,
    },
    /// Withdraw the claim of a stream.
    Unclaim {
        /// Stream that this engine has no more.
        stream: StreamKey,
    },
    /// Publish a redirection of a stream to the fleet.
    Redirect {
        /// Stream of which this engine is the home.
        stream: StreamKey,
        /// Engine that is to take the stream; `None` ends the redirection.
        to: Option<EngineId>,
    },
}

/// Counters of one engine since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FleetStats {
    /// Number of streams that it took.
    pub taken: u64,
    /// Number of streams that it released.
    pub released: u64,
    /// Number of redirections that it started.
    pub redirected: u64,
    /// Number of redirections that it ended.
    pub recalled: u64,
}
