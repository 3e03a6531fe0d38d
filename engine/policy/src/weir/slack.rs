//! Which requests have time to spare, and so go first (rule `weir`).
//!
//! Under overload somebody is let go whatever the order; the question is with how much slack the others leave. With none
//! (least budget first) every delay further on is fatal to them; with all (high budget first) those that waited are lost
//! although they could have been served when the burst is over. In between lies a margin. While the overload lasts it
//! costs nothing: as many are run, only younger ones. When it ends, the margin is what could have been run and no longer
//! can. So it follows the queue, is nil without one, and grows with the age of the overload: what has lasted long is less
//! likely to end now. Once less comes than can be run, the burst is over though the queue is long: then most of the margin
//! is spent on those that waited.

use weir_types::{RequestId, Span, Timestamp};

use crate::queue::tie_break::random_rank;

/// The margin in a young overload is at most the SLO over this.
const MARGIN_DIV: u64 = 6;

/// The queue that asks for the whole margin: so many times what can be run in the time that requests have here.
const FULL_MARGIN_BACKLOG: f64 = 3.0;

/// An overload ends where the queue is shorter than that time over this.
const OVERLOAD_END_DIV: u64 = 4;

/// After this time of overload the margin is twice what it was at first, after two of it three times.
const GROWTH_TIME: Span = Span::from_secs(6);

/// The most that it grows to, as a multiple.
const MAX_GROWTH: f64 = 4.0;

/// Where so much comes of what can be run, the margin is whole.
const BURST_LOAD: f64 = 1.2;

/// Where no more than this comes, the burst is over, and of the margin `CALM_MARGIN` remains: the ways ahead still vary.
const CALM_LOAD: f64 = 1.0;
const CALM_MARGIN: f64 = 0.25;

/// A request that is too dear may go where all others have so much more than the margin: the SLO over this, growing alike.
const RELAXED_DIV: u64 = 10;

/// What a module's queue says of its overload.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OverloadTracker {
    since: Timestamp,
}

/// What waits and what comes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backlog {
    /// How long what waits will take to run.
    pub(crate) drain_time: Span,
    /// What came just now over what can be run.
    pub(crate) load: f64,
}

/// Bounds on deadlines, by which the next request is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlackThreshold {
    /// From this deadline on a request has time to spare.
    pub(crate) from: Timestamp,
    /// Where nobody else who has time to spare has an earlier deadline than this, those that are too dear go with the rest.
    pub(crate) relaxed_from: Timestamp,
    /// Over which `from` is spread by lot, to be fair: a third of it before, the rest after.
    pub(crate) spread: Span,
}

impl SlackThreshold {
    /// From which deadline on this request has time to spare.
    pub(crate) fn request_threshold(&self, request: RequestId) -> Timestamp {
        if self.spread == Span::ZERO {
            return self.from;
        }
        self.earliest() + self.spread.scale(random_rank(request))
    }

    /// From which deadline on any request may have.
    pub(crate) fn earliest(&self) -> Timestamp {
        self.from.saturating_sub(self.spread / 3)
    }
}

impl OverloadTracker {
    /// Who has time to spare for a batch that starts at `start`; `remaining`: from there until a request is expected to be out.
    pub(crate) fn threshold(
        &mut self,
        start: Timestamp,
        remaining: Span,
        backlog: Backlog,
        slo: Span,
    ) -> SlackThreshold {
        let queue_budget = slo.saturating_sub(remaining);
        if backlog.drain_time < queue_budget / OVERLOAD_END_DIV {
            self.since = start;
        }
        let overload_age = start.since(self.since);
        let growth = (1.0 + overload_age.as_secs_f64() / GROWTH_TIME.as_secs_f64()).min(MAX_GROWTH);
        let backlog_share = backlog.drain_time.micros() as f64
            / (queue_budget.micros() as f64 * FULL_MARGIN_BACKLOG).max(1.0);
        let burst_share = ((backlog.load - CALM_LOAD) / (BURST_LOAD - CALM_LOAD)).clamp(0.0, 1.0);
        let margin_share = backlog_share.min(1.0) * (CALM_MARGIN + (1.0 - CALM_MARGIN) * burst_share);
        let margin = (slo / MARGIN_DIV).scale(growth * margin_share);
        let from = start + remaining + margin;
        SlackThreshold {
            from,
            spread: margin,
            relaxed_from: from + (slo / RELAXED_DIV).scale(growth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLO: Span = Span::from_millis(600);
    const REMAINING: Span = Span::from_millis(400);

    /// The margin at `at_ms` with so much in the queue, while more comes than can be run.
    fn margin(overload: &mut OverloadTracker, at_ms: u64, drain_ms: u64) -> Span {
        margin_at(overload, at_ms, drain_ms, 2.0)
    }

    fn margin_at(overload: &mut OverloadTracker, at_ms: u64, drain_ms: u64, load: f64) -> Span {
        let start = Timestamp::ZERO + Span::from_millis(at_ms);
        let drain_time = Span::from_millis(drain_ms);
        let slack = overload.threshold(start, REMAINING, Backlog { drain_time, load }, SLO);
        assert!(slack.relaxed_from > slack.from);
        slack.from.since(start + REMAINING)
    }

    #[test]
    fn the_margin_follows_the_backlog() {
        let mut overload = OverloadTracker::default();
        let mut at_once = |drain_ms| margin(&mut overload, 0, drain_ms);
        assert_eq!(at_once(0), Span::ZERO);
        assert_eq!(at_once(300), SLO / (2 * MARGIN_DIV));
        assert_eq!(at_once(600), SLO / MARGIN_DIV);
        assert_eq!(at_once(9_000), SLO / MARGIN_DIV);
    }

    #[test]
    fn most_of_the_margin_is_released_after_the_burst() {
        let margin = |load| margin_at(&mut OverloadTracker::default(), 0, 600, load);
        assert_eq!(margin(BURST_LOAD), SLO / MARGIN_DIV);
        assert_eq!(margin(CALM_LOAD), (SLO / MARGIN_DIV).scale(CALM_MARGIN));
        assert_eq!(margin(0.0), margin(CALM_LOAD));
        let between = margin((BURST_LOAD + CALM_LOAD) / 2.0);
        assert!(margin(CALM_LOAD) < between && between < margin(BURST_LOAD));
    }

    #[test]
    fn the_margin_grows_with_the_overload_and_resets_after_it() {
        let mut overload = OverloadTracker::default();
        let mut full_margin = |at_ms| margin(&mut overload, at_ms, 600);
        assert_eq!(full_margin(0), SLO / MARGIN_DIV);
        assert_eq!(full_margin(6_000), SLO * 2 / MARGIN_DIV);
        assert_eq!(full_margin(60_000), SLO * 4 / MARGIN_DIV);
        margin(&mut overload, 61_000, 40);
        assert_eq!(margin(&mut overload, 61_000, 600), SLO / MARGIN_DIV);
    }
}
