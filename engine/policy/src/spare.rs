//! Which requests have time to spare, and so go first (rule `weir`).
//!
//! Under overload somebody is let go whatever the order; the question is with how much slack the others leave. With none
//! (least budget first) every delay further on is fatal to them; with all (high budget first) those that waited are lost
//! although they could have been served when the burst is over. In between lies a margin. While the overload lasts it
//! costs nothing: as many are run, only younger ones. When it ends, the margin is what could have been run and no longer
//! can. So it follows the queue, is nil without one, and grows with the age of the overload: what has lasted long is less
//! likely to end now. Once less comes than can be run, the burst is over though the queue is long: then most of the margin
//! is spent on those that waited.

use crate::fair::lot;
use crate::id::RequestId;
use crate::time::{Span, Timestamp};

/// The margin in a young overload is at most the SLO over this.
const MARGIN: u64 = 6;

/// The queue that asks for the whole margin: so many times what can be run in the time that requests have here.
const LONG: f64 = 3.0;

/// An overload ends where the queue is shorter than that time over this.
const SHORT: u64 = 4;

/// After this time of overload the margin is twice what it was at first, after two of it three times.
const GROWTH: Span = Span::from_secs(6);

/// The most that it grows to, as a multiple.
const GROWN: f64 = 4.0;

/// Where so much comes of what can be run, the margin is whole.
const RUSH: f64 = 1.2;

/// Where no more than this comes, the burst is over, and of the margin `LEFT` remains: the ways ahead still vary.
const CALM: f64 = 1.0;
const LEFT: f64 = 0.25;

/// A request that is too dear may go where all others have so much more than the margin: the SLO over this, growing alike.
const EASE: u64 = 10;

/// What a module's queue says of its overload.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pressure {
    since: Timestamp,
}

/// What waits and what comes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queue {
    /// How long what waits will take to run.
    pub(crate) drain: Span,
    /// What came just now over what can be run.
    pub(crate) rush: f64,
}

/// Bounds on deadlines, by which the next request is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spare {
    /// From this deadline on a request has time to spare.
    pub(crate) from: Timestamp,
    /// Where nobody else who has time to spare has an earlier deadline than this, those that are too dear go with the rest.
    pub(crate) ease: Timestamp,
    /// Over which `from` is spread by lot, to be fair: a third of it before, the rest after.
    pub(crate) spread: Span,
}

impl Spare {
    /// From which deadline on this request has time to spare.
    pub(crate) fn begins(&self, request: RequestId) -> Timestamp {
        if self.spread == Span::ZERO {
            return self.from;
        }
        self.earliest() + self.spread.scale(lot(request))
    }

    /// From which deadline on any request may have.
    pub(crate) fn earliest(&self) -> Timestamp {
        self.from.saturating_sub(self.spread / 3)
    }
}

impl Pressure {
    /// Who has time to spare for a batch that starts at `start`; `way`: from there until a request is expected to be out.
    pub(crate) fn spare(&mut self, start: Timestamp, way: Span, queue: Queue, slo: Span) -> Spare {
        let room = slo.saturating_sub(way);
        if queue.drain < room / SHORT {
            self.since = start;
        }
        let lasted = start.since(self.since);
        let grown = (1.0 + lasted.as_secs_f64() / GROWTH.as_secs_f64()).min(GROWN);
        let long = queue.drain.micros() as f64 / (room.micros() as f64 * LONG).max(1.0);
        let lasts = ((queue.rush - CALM) / (RUSH - CALM)).clamp(0.0, 1.0);
        let part = long.min(1.0) * (LEFT + (1.0 - LEFT) * lasts);
        let margin = (slo / MARGIN).scale(grown * part);
        let from = start + way + margin;
        Spare {
            from,
            spread: margin,
            ease: from + (slo / EASE).scale(grown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLO: Span = Span::from_millis(600);
    const WAY: Span = Span::from_millis(400);

    /// The margin at `at_ms` with so much in the queue, while more comes than can be run.
    fn margin(pressure: &mut Pressure, at_ms: u64, drain_ms: u64) -> Span {
        margin_at(pressure, at_ms, drain_ms, 2.0)
    }

    fn margin_at(pressure: &mut Pressure, at_ms: u64, drain_ms: u64, rush: f64) -> Span {
        let start = Timestamp::ZERO + Span::from_millis(at_ms);
        let drain = Span::from_millis(drain_ms);
        let spare = pressure.spare(start, WAY, Queue { drain, rush }, SLO);
        assert!(spare.ease > spare.from);
        spare.from.since(start + WAY)
    }

    #[test]
    fn the_margin_follows_the_queue() {
        let mut pressure = Pressure::default();
        let mut at_once = |drain_ms| margin(&mut pressure, 0, drain_ms);
        assert_eq!(at_once(0), Span::ZERO);
        assert_eq!(at_once(300), SLO / (2 * MARGIN));
        assert_eq!(at_once(600), SLO / MARGIN);
        assert_eq!(at_once(9_000), SLO / MARGIN);
    }

    #[test]
    fn most_of_it_is_given_up_when_the_burst_is_over() {
        let margin = |rush| margin_at(&mut Pressure::default(), 0, 600, rush);
        assert_eq!(margin(RUSH), SLO / MARGIN);
        assert_eq!(margin(CALM), (SLO / MARGIN).scale(LEFT));
        assert_eq!(margin(0.0), margin(CALM));
        let between = margin((RUSH + CALM) / 2.0);
        assert!(margin(CALM) < between && between < margin(RUSH));
    }

    #[test]
    fn it_grows_while_the_overload_lasts_and_starts_anew_with_the_next() {
        let mut pressure = Pressure::default();
        let mut long = |at_ms| margin(&mut pressure, at_ms, 600);
        assert_eq!(long(0), SLO / MARGIN);
        assert_eq!(long(6_000), SLO * 2 / MARGIN);
        assert_eq!(long(60_000), SLO * 4 / MARGIN);
        margin(&mut pressure, 61_000, 40);
        assert_eq!(margin(&mut pressure, 61_000, 600), SLO / MARGIN);
    }
}
