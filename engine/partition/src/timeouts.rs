//! Timeouts for peers.

use std::time::Duration;

use weir_types::Span;

/// Timeouts for the phases of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Time in which a connection must be established.
    pub connect: Duration,
    /// Time in which the first bytes of a connection must arrive, the next bytes of a message, or a write
    /// must make progress.
    pub stall: Duration,
    /// Time after which a peer that pings or is pinged counts as dead if nothing at all was received. Time in
    /// which this process did not listen does not count.
    pub liveness: Duration,
    /// Interval at which a quiet connection checks whether it should close.
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
