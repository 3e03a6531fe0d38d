//! Cost limit under overload: with varying fan-out, one crowded frame takes the time of many others.
//!
//! An overloaded module completes most requests by running the cheapest (Moore and Hodgson: among jobs with
//! equal windows, drop the longest). The limit is the number of items up to which all requests together fill
//! the module's capacity.

use serde::{Deserialize, Serialize};

/// Number of item counts that are distinguished; larger requests count as the largest.
const MAX_ITEMS: usize = 64;

/// Parameters of the cost limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CostLimitSpec {
    /// Weight of arrivals since the last update, 0 to 1.
    pub gain: f64,
    /// Fraction of the module's throughput for requests up to the limit, 0 to 1.
    pub capacity: f64,
}

impl Default for CostLimitSpec {
    fn default() -> Self {
        Self {
            gain: 0.2,
            capacity: 0.8,
        }
    }
}

/// Arrivals by items, and the limit.
#[derive(Debug, Clone)]
pub(crate) struct CostLimit {
    /// Requests since the last update, by items.
    arrived: [u32; MAX_ITEMS + 1],
    /// The same, smoothed.
    smoothed: [f64; MAX_ITEMS + 1],
    limit: Option<u32>,
}

impl Default for CostLimit {
    fn default() -> Self {
        Self {
            arrived: [0; MAX_ITEMS + 1],
            smoothed: [0.0; MAX_ITEMS + 1],
            limit: None,
        }
    }
}

impl CostLimit {
    pub(crate) fn on_arrived(&mut self, items: u32) {
        self.arrived[(items as usize).min(MAX_ITEMS)] += 1;
    }

    /// Computes the limit again, from an input of `input` and a throughput of `throughput` items a second.
    pub(crate) fn update(&mut self, input: f64, throughput: f64, spec: CostLimitSpec) {
        let throughput = throughput * spec.capacity;
        for (smoothed, arrived) in self.smoothed.iter_mut().zip(&mut self.arrived) {
            *smoothed += spec.gain * (f64::from(*arrived) - *smoothed);
            *arrived = 0;
        }
        let work = |items: usize| self.smoothed[items] * items as f64;
        let all: f64 = (0..=MAX_ITEMS).map(work).sum();
        let kinds = self.smoothed.iter().filter(|smoothed| **smoothed > 0.01).count();
        if kinds < 2 || input <= throughput || all <= 0.0 {
            self.limit = None;
            return;
        }
        let capacity = all * throughput / input;
        let mut cumulative = 0.0;
        let limit = (0..=MAX_ITEMS).find(|&items| {
            cumulative += work(items);
            cumulative > capacity
        });
        self.limit = limit.map(|items| items as u32);
    }

    /// Number of items above which a request is deprioritized; `None`: no limit.
    pub(crate) fn limit(&self) -> Option<u32> {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: CostLimitSpec = CostLimitSpec {
        gain: 0.2,
        capacity: 1.0,
    };

    #[test]
    fn the_limit_is_where_cheaper_requests_fill_the_module() {
        let mut cost_limit = CostLimit::default();
        let mut update = |throughput| {
            for items in [1, 1, 2, 2, 4, 10] {
                cost_limit.on_arrived(items);
            }
            cost_limit.update(20.0, throughput, WHOLE);
            cost_limit.limit()
        };
        assert_eq!(update(20.0), None, "capacity for all");
        assert_eq!(update(12.0), Some(10), "all but the largest");
        assert_eq!(update(5.0), Some(2));
    }

    #[test]
    fn equal_requests_have_no_cost_limit() {
        let mut cost_limit = CostLimit::default();
        (0..100).for_each(|_| cost_limit.on_arrived(3));
        cost_limit.update(300.0, 100.0, WHOLE);
        assert_eq!(cost_limit.limit(), None);
    }
}
