//! What an engine of a fleet is notified of, and what it wants done.

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

/// How streams are spread over the engines of a fleet.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FleetSpec {
    /// How long an engine without streams is up before streams move to it from others that have them; those that nobody has it takes at
    /// once.
    pub settle: Span,
    /// Part of its frames that an overloaded engine misses at least.
    pub overloaded: f64,
    /// How long it must miss them before it redirects a stream, and between two redirections.
    pub patience: Span,
    /// A target's load with the stream at most, as a part of its capacity.
    pub room: f64,
    /// Load of a home with the stream at most for it to come back, as a part of its capacity.
    pub calm: f64,
    /// How long a home must have been so calm.
    pub dwell: Span,
    /// Whether overloaded engines redirect streams; without it, rendezvous alone decides.
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

/// What an engine is notified of.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum FleetEvent {
    /// An engine is up, or its capacity is another: what it can do in a second, in the unit of the streams' work.
    EngineUp {
        /// Which.
        engine: EngineId,
        /// Above zero.
        capacity: f64,
    },
    /// The token of an engine is gone, and with it all that it said.
    EngineDown {
        /// Which.
        engine: EngineId,
    },
    /// How an engine fares; it tells every second.
    EngineStatus {
        /// Which.
        engine: EngineId,
        /// Work offered by its streams as a part of its capacity.
        load: f64,
        /// Part of its frames that did not come out in time.
        missed: f64,
    },
    /// The fleet has a stream, or its work is another.
    StreamKnown {
        /// Which.
        stream: StreamKey,
        /// Work that it brings in a second.
        work: f64,
    },
    /// The fleet does not have the stream any more.
    StreamGone {
        /// Which.
        stream: StreamKey,
    },
    /// An engine has frames of a stream.
    Claimed {
        /// Which engine.
        engine: EngineId,
        /// Which stream.
        stream: StreamKey,
    },
    /// It has released it.
    Unclaimed {
        /// Which engine.
        engine: EngineId,
        /// Which stream.
        stream: StreamKey,
    },
    /// The home of a stream sends it elsewhere, or has it back.
    Redirected {
        /// The engine that says so; it counts while it is the home.
        home: EngineId,
        /// Which stream.
        stream: StreamKey,
        /// To whom; `None`: it is back.
        to: Option<EngineId>,
    },
    /// Frames of a stream that this engine took arrive.
    Live {
        /// Which.
        stream: StreamKey,
    },
    /// Time has passed: sent several times a second, so that an engine sees where it stood still itself.
    Tick,
}

/// What an engine wants done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "effect")]
pub enum FleetEffect {
    /// Open the stream, and say [`FleetEvent::Live`] once frames arrive.
    Take {
        /// Which.
        stream: StreamKey,
    },
    /// Close the stream.
    Release {
        /// Which.
        stream: StreamKey,
    },
    /// Tell the fleet that this engine has it.
    Claim {
        /// Which.
        stream: StreamKey,
    },
    /// Tell the fleet that it has it no more.
    Unclaim {
        /// Which.
        stream: StreamKey,
    },
    /// Tell the fleet where it is redirected to; `None`: nowhere.
    Redirect {
        /// Which.
        stream: StreamKey,
        /// To whom.
        to: Option<EngineId>,
    },
}

/// What happened so far at one engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FleetStats {
    /// Streams that it took.
    pub taken: u64,
    /// Streams that it released.
    pub released: u64,
    /// Streams that it redirected.
    pub redirected: u64,
    /// Redirections that it ended.
    pub recalled: u64,
}
