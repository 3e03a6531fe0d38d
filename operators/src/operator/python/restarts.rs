//! Times at which worker processes are started in place of lost ones: at once after a decoded batch, else after a wait that doubles up
//! to 30 s with every loss.

use std::time::Instant;

use crate::sinks::Backoff;

/// See the module.
#[derive(Debug)]
pub(super) struct Restarts {
    backoff: Backoff,
    /// Whether a batch was decoded since the last loss.
    has_decoded: bool,
    /// No process is started before.
    due: Option<Instant>,
    /// Reason of the last loss.
    reason: String,
}

impl Restarts {
    pub(super) fn new() -> Self {
        Self {
            backoff: Backoff::new(),
            has_decoded: true,
            due: None,
            reason: String::new(),
        }
    }

    /// A process decoded a batch of real pictures. Blank pictures do not count: many functions fail on others alone.
    pub(super) fn on_decoded(&mut self) {
        self.has_decoded = true;
        self.backoff.reset();
    }

    /// A process was lost, or did not start. Losses during a wait, as of several processes at once, do not extend it.
    pub(super) fn on_lost(&mut self, reason: &str, now: Instant) {
        if self.due.is_some_and(|due| now < due) {
            return;
        }
        reason.clone_into(&mut self.reason);
        let is_first = std::mem::take(&mut self.has_decoded);
        self.due = (!is_first).then(|| now + self.backoff.next_wait());
    }

    /// Checks that a process may be started.
    ///
    /// # Errors
    /// The time until then, and the reason of the last loss.
    pub(super) fn check(&self, now: Instant) -> Result<(), String> {
        let Some(due) = self.due.filter(|due| now < *due) else {
            return Ok(());
        };
        let left = due.duration_since(now).as_secs_f64();
        Err(format!(
            "its process is started again in {left:.1} s; {}",
            self.reason
        ))
    }
}

#[cfg(test)]
impl Restarts {
    /// Restarts that wait until `due`.
    pub(super) fn waiting(due: Instant, reason: &str) -> Self {
        Self {
            has_decoded: false,
            due: Some(due),
            reason: reason.to_owned(),
            ..Self::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[expect(clippy::disallowed_methods, reason = "waits begin at some time of the clock")]
    fn now() -> Instant {
        Instant::now()
    }

    #[test]
    fn waits_double_while_no_batch_is_decoded() {
        let (mut restarts, mut at) = (Restarts::new(), now());
        restarts.on_lost("exit status: 7", at);
        assert_eq!(restarts.check(at), Ok(()), "the first restart has no wait");
        for _ in 0..12 {
            restarts.on_lost("exit status: 7", at);
            let refused = restarts.check(at).unwrap_err();
            assert!(refused.contains("exit status: 7"), "{refused}");
            let due = restarts.due.unwrap();
            restarts.on_lost("another", at);
            assert_eq!(restarts.due, Some(due), "a loss during the wait");
            assert_eq!(restarts.check(due), Ok(()));
            if due - at >= Duration::from_secs(15) {
                restarts.on_decoded();
                restarts.on_lost("exit status: 7", due);
                assert_eq!(restarts.check(due), Ok(()), "a batch was decoded");
                return;
            }
            at = due;
        }
        panic!("the wait stays short");
    }
}
