//! Expected load of a module downstream, and the excess of it (rule `weir`).
//!
//! A module completes most requests of a window by running those with the fewest items (as the cost limit
//! does for requests that have arrived). So requests are counted by expected items, and admitted in that
//! order up to the module's capacity.

use serde::{Deserialize, Serialize};
use weir_types::{Span, Timestamp};

/// Parameters of the expected load of a branch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BranchLoadSpec {
    /// Window over which arrivals are counted, above zero. Short, since the busier of two branches can change
    /// within half a second.
    pub window: Span,
    /// Least expected number of items of a request that counts; with less, the request counts as empty.
    pub min_items: f64,
}

impl Default for BranchLoadSpec {
    fn default() -> Self {
        Self {
            window: Span::from_millis(200),
            min_items: 0.5,
        }
    }
}

/// Width of a bin in items; the last bin has all above.
const BIN_ITEMS: f64 = 0.25;
const MAX_BINS: usize = 128;

/// Expected items of arriving requests, by the number of items in a request.
#[derive(Debug, Clone)]
pub(crate) struct BranchLoad {
    spec: BranchLoadSpec,
    /// Number of the current window, counted from time 0.
    window: u64,
    /// Expected items in this window, by bin.
    now: [f32; MAX_BINS],
    /// The same in the window before.
    before: [f32; MAX_BINS],
    /// Sums over all bins of both.
    sums: (f32, f32),
    /// First bin beyond capacity, and the fraction of it that is in excess.
    limit: (usize, f64),
}

impl BranchLoad {
    /// Creates an empty load, without arrivals.
    pub(crate) fn new(spec: BranchLoadSpec) -> Self {
        Self {
            spec,
            window: 0,
            now: [0.0; MAX_BINS],
            before: [0.0; MAX_BINS],
            sums: (0.0, 0.0),
            limit: (MAX_BINS, 0.0),
        }
    }
}

fn bin(items: f64) -> usize {
    ((items / BIN_ITEMS) as usize).min(MAX_BINS - 1)
}

impl BranchLoad {
    /// Counts an arriving request with so many expected items, at a module with a throughput of `throughput`
    /// items a second.
    pub(crate) fn observe(&mut self, items: f64, throughput: f64, now: Timestamp) {
        let window = now.micros() / self.spec.window.micros();
        if window != self.window {
            let next = window == self.window + 1;
            (self.before, self.sums.1) = if next {
                (self.now, self.sums.0)
            } else {
                ([0.0; MAX_BINS], 0.0)
            };
            (self.now, self.sums.0) = ([0.0; MAX_BINS], 0.0);
            self.window = window;
        }
        self.now[bin(items)] += items as f32;
        self.sums.0 += items as f32;
        self.update_limit(throughput, now);
    }

    fn update_limit(&mut self, throughput: f64, now: Timestamp) {
        let passed = (now.micros() % self.spec.window.micros()) as f64 / self.spec.window.micros() as f64;
        let in_window = |now: f32, before: f32| f64::from(now) + f64::from(before) * (1.0 - passed);
        let mut capacity = throughput * self.spec.window.as_secs_f64();
        self.limit = (MAX_BINS, 0.0);
        if capacity <= 0.0 || in_window(self.sums.0, self.sums.1) <= capacity {
            return;
        }
        for at in 0..MAX_BINS {
            let here = in_window(self.now[at], self.before[at]);
            if here > capacity {
                self.limit = (at, 1.0 - capacity / here);
                return;
            }
            capacity -= here;
        }
    }

    /// Probability with which a request with so many expected items exceeds the capacity.
    pub(crate) fn excess_probability(&self, items: f64) -> f64 {
        let (limit, excess) = self.limit;
        match bin(items).cmp(&limit) {
            _ if items < self.spec.min_items => 0.0,
            std::cmp::Ordering::Less => 0.0,
            std::cmp::Ordering::Equal => excess,
            std::cmp::Ordering::Greater => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One request per millisecond for a second, with these items in turn.
    fn load(items: &[f64], throughput: f64) -> BranchLoad {
        let mut load = BranchLoad::new(BranchLoadSpec::default());
        for (ms, items) in (0..1_000).zip(items.iter().cycle()) {
            load.observe(*items, throughput, Timestamp::ZERO + Span::from_millis(ms));
        }
        load
    }

    #[test]
    fn requests_with_most_items_are_in_excess_first() {
        // 250 requests a second of each kind: 250, 500, 1000 and 2000 items.
        let load = |throughput| load(&[1.0, 2.0, 4.0, 8.0], throughput);
        let all = |load: &BranchLoad| [1.0, 2.0, 4.0, 8.0].map(|items| load.excess_probability(items));
        assert_eq!(all(&load(3_800.0)), [0.0; 4], "capacity for all");
        let [one, two, four, eight] = all(&load(2_750.0));
        assert_eq!([one, two, four], [0.0; 3]);
        assert!((eight - 0.5).abs() < 0.03, "{eight}");
        let [one, two, four, eight] = all(&load(500.0));
        assert_eq!([one, four, eight], [0.0, 1.0, 1.0]);
        assert!((two - 0.5).abs() < 0.03, "{two}");
    }

    #[test]
    fn among_equal_requests_a_share_is_in_excess() {
        let load = load(&[1.0, 0.0], 400.0);
        assert!((load.excess_probability(1.0) - 0.2).abs() < 0.02);
        assert_eq!(
            load.excess_probability(0.0),
            0.0,
            "requests of other branches do not count"
        );
    }

    #[test]
    fn requests_outside_the_window_do_not_count() {
        let mut load = load(&[1.0], 100.0);
        assert!(load.excess_probability(1.0) > 0.8);
        load.observe(1.0, 100.0, Timestamp::ZERO + Span::from_secs(3));
        assert_eq!(load.excess_probability(1.0), 0.0);
    }
}
