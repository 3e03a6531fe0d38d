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

/// Decides on the number of workers of a module.
#[derive(Debug, Clone)]
pub struct Autoscaler {
    rule: AutoscaleRule,
    /// Last target, and when it was last reached: it is not lowered before `scale_down_delay` is over.
    last_target: Option<(u32, Timestamp)>,
}

impl Autoscaler {
    /// A scaler without observations.
    #[must_use]
    pub fn new(rule: AutoscaleRule) -> Self {
        Self {
            rule,
            last_target: None,
        }
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
                if now.since(since) < self.rule.scale_down_delay {
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
}
