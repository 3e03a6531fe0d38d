//! Resource scaling (PARD 5.1): the number of workers of a module, by its request rate and the throughput of a worker.

use serde::{Deserialize, Serialize};
use weir_types::{Span, Timestamp};

/// Parameters of scaling.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AutoscaleRule {
    /// Minimum number of workers.
    pub min_workers: u32,
    /// Maximum number of workers.
    pub max_workers: u32,
    /// Ratio of target capacity to the present rate, at least 1.
    pub headroom: f64,
    /// Time for which fewer workers must have been sufficient before any is released.
    pub scale_down_delay: Span,
}

impl AutoscaleRule {
    /// Default of `headroom`.
    pub const HEADROOM: f64 = 1.2;
    /// Default of `scale_down_delay`.
    pub const SCALE_DOWN_DELAY: Span = Span::from_secs(30);
}

/// Weight of a new measurement in the mean cold start.
const COLD_START_GAIN: f64 = 0.25;
/// A worker is released after so many cold starts at the earliest: one that returns at once would cost more than it saved.
const COLD_STARTS_KEPT: f64 = 2.0;

/// Decides on the number of workers of a module.
#[derive(Debug, Clone)]
pub struct Autoscaler {
    rule: AutoscaleRule,
    /// Last target, and when it was last reached: it is not lowered before `scale_down_delay` is over.
    last_target: Option<(u32, Timestamp)>,
    /// Mean time that a worker took to start; `None` before the first.
    cold_start: Option<Span>,
}

impl Autoscaler {
    /// A scaler without observations.
    #[must_use]
    pub fn new(rule: AutoscaleRule) -> Self {
        Self {
            rule,
            last_target: None,
            cold_start: None,
        }
    }

    /// Records the time that a worker took to start.
    pub fn on_started(&mut self, took: Span) {
        let mean = self.cold_start.map_or(took, |mean| {
            mean.scale(1.0 - COLD_START_GAIN) + took.scale(COLD_START_GAIN)
        });
        self.cold_start = Some(mean);
    }

    /// Mean time that workers took to start recently; `None` before the first start.
    #[must_use]
    pub fn cold_start(&self) -> Option<Span> {
        self.cold_start
    }

    /// Time for which fewer workers must have been sufficient: that of the rule, and no less than workers that start slowly need.
    fn scale_down_delay(&self) -> Span {
        let kept = self
            .cold_start
            .map_or(Span::ZERO, |mean| mean.scale(COLD_STARTS_KEPT));
        self.rule.scale_down_delay.max(kept)
    }

    /// Number of workers for `rate` items a second at `worker_throughput` items a second each.
    pub fn target_workers(&mut self, rate: f64, worker_throughput: f64, now: Timestamp) -> u32 {
        let most = self.rule.max_workers.max(self.rule.min_workers);
        let target = if worker_throughput > 0.0 {
            (rate * self.rule.headroom / worker_throughput)
                .ceil()
                .min(f64::from(most)) as u32
        } else {
            most
        };
        let target = target.clamp(self.rule.min_workers, most);
        match self.last_target {
            Some((last, since)) if target < last => {
                if now.since(since) < self.scale_down_delay() {
                    return last;
                }
                self.last_target = Some((target, now));
            }
            Some((last, _)) if target == last => self.last_target = Some((last, now)),
            _ => self.last_target = Some((target, now)),
        }
        target
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Timestamp {
        Timestamp::ZERO + Span::from_secs(s)
    }

    #[test]
    fn workers_grow_at_once_and_shrink_after_the_delay() {
        let mut scaler = Autoscaler::new(AutoscaleRule {
            min_workers: 1,
            max_workers: 10,
            headroom: 1.2,
            scale_down_delay: Span::from_secs(30),
        });
        let mut check =
            |rate, s, expected| assert_eq!(scaler.target_workers(rate, 50.0, at(s)), expected, "at {s} s");
        check(100.0, 0, 3);
        check(400.0, 1, 10);
        check(10_000.0, 2, 10);
        check(100.0, 20, 10);
        check(100.0, 31, 10);
        check(100.0, 32, 3);
        check(0.0, 100, 1);
    }

    #[test]
    fn workers_that_start_slowly_are_kept_for_two_cold_starts() {
        let rule = AutoscaleRule {
            min_workers: 1,
            max_workers: 10,
            headroom: 1.0,
            scale_down_delay: Span::from_secs(10),
        };
        let (mut quick, mut slow) = (Autoscaler::new(rule), Autoscaler::new(rule));
        quick.on_started(Span::from_secs(1));
        slow.on_started(Span::from_secs(20));
        assert_eq!(slow.cold_start(), Some(Span::from_secs(20)));
        for scaler in [&mut quick, &mut slow] {
            assert_eq!(scaler.target_workers(400.0, 100.0, at(0)), 4);
        }
        assert_eq!(quick.target_workers(100.0, 100.0, at(11)), 1);
        assert_eq!(slow.target_workers(100.0, 100.0, at(11)), 4);
        assert_eq!(slow.target_workers(100.0, 100.0, at(41)), 1);
    }
}
