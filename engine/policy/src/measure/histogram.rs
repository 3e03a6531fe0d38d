//! Latencies in bounded memory: a histogram whose bucket width grows with the value, exact to 1 %.

use serde::{Deserialize, Serialize};
use weir_types::Span;

/// Buckets per doubling of the value.
const BUCKETS_PER_DOUBLING: u32 = 64;

/// A histogram of spans.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum: Span,
    max: Span,
}

/// Quantiles of a histogram in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Quantiles {
    /// Median, in milliseconds.
    pub p50: f64,
    /// 90th percentile, in milliseconds.
    pub p90: f64,
    /// 95th percentile, in milliseconds.
    pub p95: f64,
    /// 99th percentile, in milliseconds.
    pub p99: f64,
    /// Maximum, in milliseconds.
    pub max: f64,
}

impl Histogram {
    /// Adds an observation.
    pub fn observe(&mut self, span: Span) {
        let bucket = bucket(span.micros());
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.count += 1;
        self.sum += span;
        self.max = self.max.max(span);
    }

    /// Adds all observations of another histogram.
    pub fn merge(&mut self, other: &Self) {
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (bucket, count) in self.buckets.iter_mut().zip(&other.buckets) {
            *bucket += count;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Number of observations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Sum of the observations.
    #[must_use]
    pub fn sum(&self) -> Span {
        self.sum
    }

    /// The `quantile` (0 to 1) of the observations.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Span {
        let rank = (self.count as f64 * quantile).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Span::from_micros(upper_bound(bucket)).min(self.max);
            }
        }
        self.max
    }

    /// The usual quantiles, in milliseconds.
    #[must_use]
    pub fn quantiles(&self) -> Quantiles {
        let ms = |quantile| self.quantile(quantile).as_millis_f64();
        Quantiles {
            p50: ms(0.5),
            p90: ms(0.9),
            p95: ms(0.95),
            p99: ms(0.99),
            max: self.max.as_millis_f64(),
        }
    }
}

/// Below 128 us one bucket per microsecond; above, 64 buckets per doubling.
fn bucket(micros: u64) -> usize {
    let linear = u64::from(2 * BUCKETS_PER_DOUBLING);
    if micros < linear {
        return micros as usize;
    }
    let shift = micros.ilog2() - BUCKETS_PER_DOUBLING.ilog2();
    (shift as usize) * BUCKETS_PER_DOUBLING as usize + (micros >> shift) as usize
}

/// Largest value of a bucket.
fn upper_bound(bucket: usize) -> u64 {
    let buckets = BUCKETS_PER_DOUBLING as usize;
    if bucket < 2 * buckets {
        return bucket as u64;
    }
    let shift = bucket / buckets - 1;
    let top = (bucket % buckets + buckets) as u64;
    ((top + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_bucket_holds_its_values_within_two_percent(micros in 0_u64..1_000_000_000_000) {
            let top = upper_bound(bucket(micros));
            prop_assert!(top >= micros && top as f64 <= micros as f64 * 1.02 + 1.0);
        }
    }

    #[test]
    fn quantiles_match_the_sorted_values() {
        let mut histogram = Histogram::default();
        for ms in 1..=100 {
            histogram.observe(Span::from_millis(ms));
        }
        let quantiles = histogram.quantiles();
        assert!((quantiles.p50 - 50.0).abs() < 1.0 && (quantiles.p99 - 99.0).abs() < 2.0);
        assert_eq!(quantiles.max, 100.0);
        assert_eq!(
            (histogram.count(), histogram.sum()),
            (100, Span::from_millis(5_050))
        );
        assert_eq!(Histogram::default().quantiles(), Quantiles::default());
    }
}
