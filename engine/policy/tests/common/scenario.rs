//! What a small world is made of: vertices, slots, streams and a policy. No behaviour.

use weir_policy::Policy;
use weir_types::Span;

/// How many items a request brings to a module.
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

#[derive(Debug, Clone)]
pub struct Stream {
    pub frames: u32,
    pub period: Span,
    pub poisson: bool,
    /// Held back rather than let go.
    pub lossless: bool,
    pub max_in_flight: u32,
}

#[derive(Debug, Clone)]
pub struct Scenario {
    pub seed: u64,
    pub policy: Policy,
    pub slo: Span,
    pub slots: u32,
    pub vertices: Vec<Vertex>,
    pub streams: Vec<Stream>,
    /// Durations vary by up to this factor either way.
    pub noise: f64,
    /// How long a message takes.
    pub message_delay: Span,
    /// Whether all that is there for a module at one instant is told in one step.
    pub batch_events: bool,
    /// Whether everything goes through JSON.
    pub json: bool,
    /// Share of batches that fail.
    pub failure_rate: f64,
    /// A slot that is lost now and then, and comes back.
    pub flaky_slot: Option<u32>,
}
