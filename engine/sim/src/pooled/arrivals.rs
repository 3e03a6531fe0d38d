//! When items arrive.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use weir_policy::{Span, Timestamp};

/// Arrivals of a Poisson process of `rate` items a second over `duration`.
#[must_use]
pub fn poisson(rate: f64, duration: Span, seed: u64) -> Vec<Timestamp> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut at = 0.0_f64;
    let mut arrivals = Vec::new();
    if rate <= 0.0 {
        return arrivals;
    }
    loop {
        at -= (1.0 - random.random::<f64>()).ln() / rate;
        if at >= duration.as_secs_f64() {
            return arrivals;
        }
        arrivals.push(Timestamp::from_micros((at * 1e6) as u64));
    }
}
