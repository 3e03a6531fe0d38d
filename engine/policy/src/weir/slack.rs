//! Slack threshold: requests with a margin of slack run first (rule `weir`).
//!
//! Under overload some requests are dropped in any order; the question is how much slack the others keep.
//! With none (low budget first), any delay downstream is fatal. With all (high budget first), requests that
//! waited are lost although they could be served after the burst. A margin is in between. During overload it
//! costs nothing: the same number of requests run, only younger ones. When the overload ends, the margin is
//! the work that is lost. So the margin is proportional to the backlog and grows with the age of the
//! overload, because a long overload is less likely to end now. Once the load is below capacity the burst is
//! over, even with a long backlog: then most of the margin is released for requests that waited.
//!
//! ```text
//! margin = SLO/6 * min(backlog / (3 * budget here), 1) * (1/4 .. 1 by load 1.0 .. 1.2) * (1 .. 4 by age)
//! ```

use serde::{Deserialize, Serialize};
use weir_types::{RequestId, Span, Timestamp};

use crate::queue::tie_break::random_rank;

/// Parameters of the margin.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SlackSpec {
    /// Divisor of the SLO for the largest margin at the start of an overload, at least 1.
    pub margin_divisor: u64,
    /// Backlog at which the margin is whole, as a multiple of the time that requests have here.
    pub full_backlog: f64,
    /// Divisor of that time for the backlog below which an overload ends, at least 1.
    pub end_divisor: u64,
    /// Time of overload after which the margin has doubled; it grows linearly.
    pub growth_time: Span,
    /// Maximum growth of the margin, as a multiple.
    pub max_growth: f64,
    /// Ratio of load to throughput from which on the margin is whole.
    pub burst_load: f64,
    /// Ratio of load to throughput at or below which the burst is over.
    pub calm_load: f64,
    /// Fraction of the margin that remains then, 0 to 1, since paths downstream still vary.
    pub calm_share: f64,
    /// Divisor of the SLO for a further margin, which grows alike. A request over the cost limit may run if
    /// all others have that much slack beyond the margin.
    pub relaxed_divisor: u64,
}

impl Default for SlackSpec {
    fn default() -> Self {
        Self {
            margin_divisor: 6,
            full_backlog: 3.0,
            end_divisor: 4,
            growth_time: Span::from_secs(6),
            max_growth: 4.0,
            burst_load: 1.2,
            calm_load: 1.0,
            calm_share: 0.25,
            relaxed_divisor: 10,
        }
    }
}

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

/// Deadline thresholds that the choice of the next request uses.
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
    /// Deadline from which on this request has enough slack.
    pub(crate) fn starts_at(&self, request: RequestId) -> Timestamp {
        if self.spread == Span::ZERO {
            return self.from;
        }
        self.earliest() + self.spread.scale(random_rank(request))
    }

    /// The same with a margin of at most `max` beyond `at`. If objectives differ, requests with a long
    /// objective always have the margin; a margin that others do not have even on arrival would exclude them.
    pub(crate) fn with_max_margin(self, at: Timestamp, max: Span) -> Self {
        let excess = self.from.since(at + max);
        Self {
            from: self.from.saturating_sub(excess),
            relaxed_from: self.relaxed_from.saturating_sub(excess),
            spread: self.spread.min(max),
        }
    }

    /// Earliest deadline from which any request may have enough slack.
    pub(crate) fn earliest(&self) -> Timestamp {
        self.from.saturating_sub(self.spread / 3)
    }
}

impl OverloadTracker {
    /// Threshold for a batch that starts at `start`. `remaining` is the expected time from there to a
    /// request's completion.
    pub(crate) fn threshold(
        &mut self,
        start: Timestamp,
        remaining: Span,
        backlog: Backlog,
        slo: Span,
        spec: SlackSpec,
    ) -> SlackThreshold {
        let room = slo.saturating_sub(remaining);
        if backlog.drain_time < room / spec.end_divisor.max(1) {
            self.since = start;
        }
        let lasted = start.since(self.since);
        let grown = (1.0 + lasted.as_secs_f64() / spec.growth_time.as_secs_f64()).min(spec.max_growth);
        let long = backlog.drain_time.micros() as f64 / (room.micros() as f64 * spec.full_backlog).max(1.0);
        let lasts = ((backlog.load - spec.calm_load) / (spec.burst_load - spec.calm_load)).clamp(0.0, 1.0);
        let part = long.min(1.0) * (spec.calm_share + (1.0 - spec.calm_share) * lasts);
        let margin = (slo / spec.margin_divisor.max(1)).scale(grown * part);
        let from = start + remaining + margin;
        SlackThreshold {
            from,
            spread: margin,
            relaxed_from: from + (slo / spec.relaxed_divisor.max(1)).scale(grown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: SlackSpec = SlackSpec {
        margin_divisor: 6,
        full_backlog: 3.0,
        end_divisor: 4,
        growth_time: Span::from_secs(6),
        max_growth: 4.0,
        burst_load: 1.2,
        calm_load: 1.0,
        calm_share: 0.25,
        relaxed_divisor: 10,
    };
    const MARGIN: u64 = SPEC.margin_divisor;

    const SLO: Span = Span::from_millis(600);
    const REMAINING: Span = Span::from_millis(400);

    /// The margin at `at_ms` with a backlog of `drain_ms`, at twice the capacity.
    fn margin(overload: &mut OverloadTracker, at_ms: u64, drain_ms: u64) -> Span {
        margin_at(overload, at_ms, drain_ms, 2.0)
    }

    fn margin_at(overload: &mut OverloadTracker, at_ms: u64, drain_ms: u64, load: f64) -> Span {
        let start = Timestamp::ZERO + Span::from_millis(at_ms);
        let drain_time = Span::from_millis(drain_ms);
        let slack = overload.threshold(start, REMAINING, Backlog { drain_time, load }, SLO, SPEC);
        assert!(slack.relaxed_from > slack.from);
        slack.from.since(start + REMAINING)
    }

    #[test]
    fn the_margin_follows_the_backlog() {
        let mut overload = OverloadTracker::default();
        let mut at_once = |drain_ms| margin(&mut overload, 0, drain_ms);
        assert_eq!(at_once(0), Span::ZERO);
        assert_eq!(at_once(300), SLO / (2 * MARGIN));
        assert_eq!(at_once(600), SLO / MARGIN);
        assert_eq!(at_once(9_000), SLO / MARGIN);
    }

    #[test]
    fn most_of_the_margin_is_released_after_the_burst() {
        let margin = |load| margin_at(&mut OverloadTracker::default(), 0, 600, load);
        assert_eq!(margin(SPEC.burst_load), SLO / MARGIN);
        assert_eq!(margin(SPEC.calm_load), (SLO / MARGIN).scale(SPEC.calm_share));
        assert_eq!(margin(0.0), margin(SPEC.calm_load));
        let between = margin((SPEC.burst_load + SPEC.calm_load) / 2.0);
        assert!(margin(SPEC.calm_load) < between && between < margin(SPEC.burst_load));
    }

    #[test]
    fn a_margin_is_limited_where_objectives_differ() {
        let at = Timestamp::ZERO + Span::from_secs(1);
        let margin = Span::from_millis(100);
        let slack = SlackThreshold {
            from: at + margin,
            relaxed_from: at + margin * 2,
            spread: margin,
        };
        assert_eq!(slack.with_max_margin(at, margin), slack);
        let limited = slack.with_max_margin(at, margin / 4);
        assert_eq!((limited.from, limited.spread), (at + margin / 4, margin / 4));
        assert_eq!(limited.relaxed_from, limited.from + margin);
    }

    #[test]
    fn the_margin_grows_with_the_overload_and_resets_after_it() {
        let mut overload = OverloadTracker::default();
        let mut full_margin = |at_ms| margin(&mut overload, at_ms, 600);
        assert_eq!(full_margin(0), SLO / MARGIN);
        assert_eq!(full_margin(6_000), SLO * 2 / MARGIN);
        assert_eq!(full_margin(60_000), SLO * 4 / MARGIN);
        margin(&mut overload, 61_000, 40);
        assert_eq!(margin(&mut overload, 61_000, 600), SLO / MARGIN);
    }
}
