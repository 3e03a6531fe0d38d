//! The one real clock of a run, and the wall clock. Everything else takes the time as an argument.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::ClockId;
use weir_types::{Span, Timestamp};

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

    /// The moment `at` by the wall clock: milliseconds since 1970 (UTC). Only schedules go by it: the wall clock may be
    /// set while a run goes on, and later answers are by the time that was set.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn utc_ms(&self, at: Timestamp) -> u64 {
        let present = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let past = duration(self.now().since(at));
        u64::try_from(present.saturating_sub(past).as_millis()).unwrap_or(u64::MAX)
    }

    /// Time until `at`; zero where it is past.
    #[must_use]
    pub fn duration_until(&self, at: Timestamp) -> Duration {
        duration(at.since(self.now()))
    }
}

/// Processor time of the calling thread.
pub(crate) fn thread_time() -> Span {
    processor_time(ClockId::ThreadCPUTime)
}

/// Processor time by one of the clocks for that.
pub(crate) fn processor_time(clock: ClockId) -> Span {
    let taken = rustix::time::clock_gettime(clock);
    let seconds = Span::from_secs(u64::try_from(taken.tv_sec).unwrap_or(0));
    seconds + Span::from_micros(u64::try_from(taken.tv_nsec).unwrap_or(0) / 1_000)
}

/// A span as a type of the standard library.
pub(crate) fn duration(span: Span) -> Duration {
    Duration::from_micros(span.micros())
}
