//! Time of questions to devices: ends of waits, and the time of day for tokens.

use std::time::{Duration, Instant, SystemTime};

/// End of a wait.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(Instant);

impl Deadline {
    /// The end of a wait that begins now.
    #[expect(clippy::disallowed_methods, reason = "waits for devices are in real time")]
    #[must_use]
    pub fn after(wait: Duration) -> Self {
        let now = Instant::now();
        // A wait beyond what the clock can hold is a day.
        Self(now.checked_add(wait).unwrap_or(now + Duration::from_secs(86_400)))
    }

    /// Time that is left; `None` if the wait is over.
    #[expect(clippy::disallowed_methods, reason = "waits for devices are in real time")]
    #[must_use]
    pub fn left(self) -> Option<Duration> {
        let left = self.0.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }
}

/// Time of day of this machine.
#[expect(
    clippy::disallowed_methods,
    reason = "tokens of devices name the time of day; nothing else is decided by it"
)]
#[must_use]
pub fn wall_time() -> SystemTime {
    SystemTime::now()
}
