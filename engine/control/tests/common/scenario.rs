//! Parameters of a small world: vertices, slots, streams and a policy.

use weir_policy::Policy;
use weir_types::{Profile, Span};

/// Items of a request at a module.
#[derive(Debug, Clone, Copy)]
pub enum Items {
    Fixed(u32),
    UpTo(u32),
}

#[derive(Debug, Clone)]
pub struct Vertex {
    pub next: Vec<u32>,
    pub slots: Vec<u32>,
    pub batch: Vec<u32>,
    /// `(batch size, milliseconds)`.
    pub profile: Vec<(u32, u64)>,
    pub items: Items,
}

impl Vertex {
    pub fn profile(&self) -> Profile {
        let points = self.profile.iter();
        let points = points.map(|&(size, ms)| (size, Span::from_millis(ms))).collect();
        Profile::new(points).unwrap()
    }
}

#[derive(Debug, Clone)]
pub struct Stream {
    pub frames: u32,
    pub period: Span,
    pub poisson: bool,
    /// Backpressure rather than drops.
    pub lossless: bool,
    pub max_in_flight: u32,
    /// Its own latency objective.
    pub slo: Option<Span>,
}

#[derive(Debug, Clone)]
pub struct Scenario {
    pub seed: u64,
    pub policy: Policy,
    pub slo: Span,
    pub slots: u32,
    pub vertices: Vec<Vertex>,
    pub streams: Vec<Stream>,
    /// Relative deviation of durations, either way.
    pub noise: f64,
    /// Longest latency of a message: those between two machines keep their order, and others overtake them.
    pub message_delay: Span,
    /// Whether machines decide once on all that comes at one instant, or on each thing alone.
    pub batch_events: bool,
    /// Whether messages and effects are serialized to JSON and back.
    pub json: bool,
    /// Share of batches that fail.
    pub failure_rate: f64,
    /// A slot that goes down and up repeatedly.
    pub flaky_slot: Option<u32>,
    /// Policies that come into force one after the other, one a tick and round again, with other shares of streams.
    pub changes: Vec<Policy>,
}
