//! The one real clock of a run. Everything else is told the time.

use std::time::{Duration, Instant};

use weir_policy::{Span, Timestamp};

/// Monotonic time since the run began.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    began: Instant,
}

impl Clock {
    /// A clock that begins now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn start() -> Self {
        Self {
            began: Instant::now(),
        }
    }

    /// The present moment.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        Timestamp::from_micros(u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    /// How long until `at`; none where it is past.
    #[must_use]
    pub fn until(&self, at: Timestamp) -> Duration {
        duration(at.since(self.now()))
    }
}

/// A span as the standard library has it.
pub(crate) fn duration(span: Span) -> Duration {
    Duration::from_micros(span.micros())
}
