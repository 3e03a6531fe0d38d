//! Detects a silent peer: measures for how long nothing was received from it while this process was
//! listening.

use std::time::Duration;

use weir_types::{Span, Timestamp};

use crate::timeouts::{Timeouts, span};

/// Silence of one peer. Time in which this process did not look does not count: if the process itself stood
/// still (a suspended container, a machine that swaps), its peers are not to blame, and their messages are
/// still to be read.
#[derive(Debug)]
pub(crate) struct Liveness {
    looked: Timestamp,
    lasted: Span,
    /// Most that one look may add to the measured silence.
    step: Span,
    most: Span,
}

impl Liveness {
    pub(crate) fn new(timeouts: &Timeouts, now: Timestamp) -> Self {
        Self::with_timeout(timeouts, timeouts.liveness, now)
    }

    /// As [`Liveness::new`], with another timeout than that of peers that ping.
    pub(crate) fn with_timeout(timeouts: &Timeouts, most: Duration, now: Timestamp) -> Self {
        Self {
            looked: now,
            lasted: Span::ZERO,
            // A look may come late by as much again on a busy machine.
            step: span(timeouts.poll_interval * 2),
            most: span(most),
        }
    }

    /// The peer has spoken, or cannot be expected to.
    pub(crate) fn on_activity(&mut self, now: Timestamp) {
        self.looked = now;
        self.lasted = Span::ZERO;
    }

    /// Records that nothing was received until `now`. Returns true if the silence exceeds the timeout.
    pub(crate) fn on_idle(&mut self, now: Timestamp) -> bool {
        self.lasted += now.since(self.looked).min(self.step);
        self.looked = now;
        self.lasted > self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn a_peer_is_silent_only_while_one_listens() {
        let timeouts = Timeouts::default();
        let (look, most) = (
            timeouts.poll_interval.as_millis() as u64,
            timeouts.liveness.as_millis() as u64,
        );
        let mut liveness = Liveness::new(&timeouts, at(0));
        let looks = most / look;
        for n in 1..=looks {
            assert!(!liveness.on_idle(at(n * look)), "look {n}");
        }
        liveness.on_activity(at(most));
        // This process stood still for a minute.
        let woken = most + 60_000;
        assert!(!liveness.on_idle(at(woken)));
        // That look counts twice.
        for n in 1..looks - 1 {
            assert!(!liveness.on_idle(at(woken + n * look)), "look {n}");
        }
        assert!(liveness.on_idle(at(woken + looks * look)));
    }
}
