//! Arrival times of items.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use weir_types::{Span, Timestamp};

/// Arrivals of a Poisson process of `rate` items a second over `duration`.
#[must_use]
pub fn poisson(rate: f64, duration: Span, seed: u64) -> Vec<Timestamp> {
    let gap = |random: &mut Pcg64Mcg| exponential(random) / rate;
    renewal(rate, duration, seed, gap)
}

/// Arrivals in bursts: independent gaps, each exponential with one of two means (hyper-exponential, balanced means), so that
/// their coefficient of variation is `cv`, at least 1. A `cv` of 1 is a Poisson process.
#[must_use]
pub fn bursty(rate: f64, cv: f64, duration: Span, seed: u64) -> Vec<Timestamp> {
    let squared = cv.max(1.0).powi(2);
    let short = 0.5 * (1.0 + ((squared - 1.0) / (squared + 1.0)).sqrt());
    let gap = |random: &mut Pcg64Mcg| {
        let part = if random.random::<f64>() < short {
            short
        } else {
            1.0 - short
        };
        exponential(random) / (2.0 * part * rate)
    };
    renewal(rate, duration, seed, gap)
}

fn exponential(random: &mut Pcg64Mcg) -> f64 {
    -(1.0 - random.random::<f64>()).ln()
}

/// Arrivals with gaps in seconds from `gap`.
fn renewal(rate: f64, duration: Span, seed: u64, gap: impl Fn(&mut Pcg64Mcg) -> f64) -> Vec<Timestamp> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut at = 0.0_f64;
    let mut arrivals = Vec::new();
    if rate <= 0.0 {
        return arrivals;
    }
    loop {
        at += gap(&mut random);
        if at >= duration.as_secs_f64() {
            return arrivals;
        }
        arrivals.push(Timestamp::from_micros((at * 1e6) as u64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_have_the_mean_and_the_variation_that_are_asked_for() {
        for (cv, arrivals) in [
            (1.0, poisson(500.0, Span::from_secs(400), 7)),
            (1.0, bursty(500.0, 1.0, Span::from_secs(400), 7)),
            (2.0, bursty(500.0, 2.0, Span::from_secs(400), 7)),
        ] {
            let gaps: Vec<f64> = arrivals
                .windows(2)
                .map(|pair| (pair[1] - pair[0]).as_secs_f64())
                .collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
            assert!((mean * 500.0 - 1.0).abs() < 0.02, "{mean}");
            assert!((variance.sqrt() / mean / cv - 1.0).abs() < 0.03, "{cv}");
        }
    }
}
