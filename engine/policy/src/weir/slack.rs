//! Slack threshold: requests with a margin of slack run first (rule `weir`).
//!
//! Under overload some requests are dropped in any order; the question is how much slack the others keep. With none (low
//! budget first) any delay downstream is fatal; with all (high budget first) requests that waited are lost although they
//! could have been served after the burst. A margin is in between. During overload it costs nothing: as many requests run,
//! only younger ones. When the overload ends, the margin is the work that is lost. So it is proportional to the backlog and
//! grows with the age of the overload: a long overload is less likely to end now. Once the load is below capacity the burst
//! is over, although the backlog is long: then most of the margin is released for requests that waited.
//!
//! ```text
//! margin = SLO/6 * min(backlog / (3 * budget here), 1) * (1/4 .. 1 by load 1.0 .. 1.2) * (1 .. 4 by age)
//! ```

use weir_types::{RequestId, Span, Timestamp};

use crate::queue::tie_break::random_rank;

/// The margin of a new overload is at most SLO / this.
const MARGIN_DIV: u64 = 6;

/// Backlog of the whole margin, as a multiple of the budget here.
const FULL_MARGIN_BACKLOG: f64 = 3.0;

/// An overload ends when the backlog is below the budget here / this.
const OVERLOAD_END_DIV: u64 = 4;

/// The margin grows by its initial value per this time of overload.
const GROWTH_TIME: Span = Span::from_secs(6);

/// Greatest growth, as a multiple.
const MAX_GROWTH: f64 = 4.0;

/// Load at which the margin is whole.
const BURST_LOAD: f64 = 1.2;

/// Load at which the burst is over, and the fraction of the margin that remains, since downstream latencies still vary.
const CALM_LOAD: f64 = 1.0;
const CALM_MARGIN: f64 = 0.25;

/// Deprioritized requests run when all others have SLO / this more slack than the margin, growing alike.
const RELAXED_DIV: u64 = 10;

/// Tracks the age of a module's overload.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OverloadTracker {
    since: Timestamp,
}

/// Backlog and load of a module.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backlog {
    /// Time to run all waiting items.
    pub(crate) drain_time: Span,
    /// Recent input rate over throughput.
    pub(crate) load: f64,
}

/// Deadline thresholds by which the next request is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlackThreshold {
    /// Deadline from which a request has enough slack.
    pub(crate) from: Timestamp,
    /// If no other request with slack has an earlier deadline than this, deprioritized requests run like the others.
    pub(crate) relaxed_from: Timestamp,
    /// Range over which `from` is randomized for fairness: a third before, the rest after.
    pub(crate) spread: Span,
}

impl SlackThreshold {
    /// Deadline from which this request has enough slack.
    pub(crate) fn request_threshold(&self, request: RequestId) -> Timestamp {
        if self.spread == Span::ZERO {
            return self.from;
        }
        self.earliest() + self.spread.scale(random_rank(request))
    }

    /// Earliest deadline from which any request may have enough slack.
    pub(crate) fn earliest(&self) -> Timestamp {
        self.from.saturating_sub(self.spread / 3)
    }
}

impl OverloadTracker {
    /// The threshold for a batch that starts at `start`; `remaining`: expected time from there to the completion of a request.
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

    /// The margin at `at_ms` with a backlog of `drain_ms`, at twice the capacity.
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
