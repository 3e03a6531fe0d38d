//! How long is waited for a peer.

use std::time::Duration;

use weir_types::Span;

/// How long is waited for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection to be made.
    pub connect: Duration,
    /// For the first bytes of a connection; within a message, for the next; and for a write to move.
    pub stall: Duration,
    /// For anything at all of a peer that is pinged or pings; time in which one does not listen oneself does not count.
    pub liveness: Duration,
    /// How often a quiet connection looks whether it is to end.
    pub poll_interval: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(1),
            stall: Duration::from_secs(2),
            liveness: Duration::from_secs(1),
            poll_interval: Duration::from_millis(50),
        }
    }
}

pub(crate) fn span(duration: Duration) -> Span {
    Span::from_micros(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
}

pub(crate) fn duration(span: Span) -> Duration {
    Duration::from_micros(span.micros())
}
