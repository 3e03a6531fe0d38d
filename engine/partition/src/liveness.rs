//! How long a peer has said nothing to one who was listening.

use std::time::Duration;

use weir_types::{Span, Timestamp};

use crate::timeouts::{Timeouts, span};

/// The silence of one peer. Time in which this process did not look does not count: where it stood still itself (a
/// suspended container, a machine that swaps), its peers are not to blame, and what they said meanwhile is yet to be read.
#[derive(Debug)]
pub(crate) struct Liveness {
    looked: Timestamp,
    lasted: Span,
    /// What one look may add.
    step: Span,
    most: Span,
}

impl Liveness {
    pub(crate) fn new(timeouts: &Timeouts, now: Timestamp) -> Self {
        Self::with_timeout(timeouts, timeouts.liveness, now)
    }

    /// As [`Liveness::new`], for another time than that of peers that ping.
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

    /// Takes in that nothing was received until now. Whether that is too long.
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
        // That look counts for two.
        for n in 1..looks - 1 {
            assert!(!liveness.on_idle(at(woken + n * look)), "look {n}");
        }
        assert!(liveness.on_idle(at(woken + looks * look)));
    }
}
