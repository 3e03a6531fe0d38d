//! Seeded stand-ins for the recorded traces: the same kind of shape, the same coefficient of variation.

use std::f64::consts::TAU;

use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use weir_graph::Trace;
use weir_types::Span;

use super::{MIN_SECONDS, RecordingError, TraceKind, with_cv};

/// A trace of `length` (rounded up to whole seconds) in slots of a second, with the mean rate `mean` in requests a
/// second and the kind's coefficient of variation.
///
/// # Errors
/// [`RecordingError`] where `length` is below a minute or `mean` not above zero.
pub fn generate(kind: TraceKind, seed: u64, length: Span, mean: f64) -> Result<Trace, RecordingError> {
    let seconds = whole_seconds(length)?;
    let random = &mut Pcg64Mcg::seed_from_u64(seed);
    let shape = match kind {
        TraceKind::Wiki => wiki(seconds, random),
        TraceKind::Tweet => tweet(seconds, random),
        TraceKind::Azure => azure(seconds, random),
    };
    let trace = Trace::new(Span::from_secs(1), shape)?;
    let (trace, _) = with_cv(&trace, kind.cv())?;
    Ok(trace.scale_to(mean)?)
}

/// The length in whole seconds, at least the least.
pub(super) fn whole_seconds(length: Span) -> Result<usize, RecordingError> {
    let seconds = length.micros().div_ceil(1_000_000);
    if seconds < MIN_SECONDS {
        return Err(RecordingError::TooShort { seconds });
    }
    usize::try_from(seconds).map_err(|_| RecordingError::TooShort { seconds: 0 })
}

/// Two weeks in the whole length: days with two harmonics, quieter weekends, light noise.
fn wiki(seconds: usize, random: &mut impl Rng) -> Vec<f64> {
    let (day_phase, half_phase) = (random.random::<f64>() * TAU, random.random::<f64>() * TAU);
    let begin = random.random_range(0.0..7.0);
    let rate = |second: usize| {
        let day = 14.0 * second as f64 / seconds as f64;
        let daily = 1.0 + 0.45 * (TAU * day + day_phase).sin() + 0.15 * (2.0 * TAU * day + half_phase).sin();
        let weekly = 1.0 + 0.12 * (TAU * (day + begin) / 7.0).sin();
        daily * weekly
    };
    (0..seconds)
        .map(|second| rate(second) * (0.03 * normal(random)).exp())
        .collect()
}

/// A wandering base with bursts: within seconds the rate doubles or more, then it decays. One large burst comes after
/// 85 % of the length, as in the paper's trace.
fn tweet(seconds: usize, random: &mut impl Rng) -> Vec<f64> {
    let mut rates = wandering(seconds, 0.08, random);
    let mut at = gap(50.0, random);
    while at < seconds as f64 {
        let height = 1.5 * pareto(2.0, 6.0, random);
        let decay = random.random_range(4.0..25.0);
        burst(&mut rates, at as usize, height, decay, random);
        at += gap(50.0, random);
    }
    burst(&mut rates, seconds * 85 / 100, 8.0, 15.0, random);
    rates
}

/// Busy and idle stretches, and short spikes of heavy-tailed height on both.
fn azure(seconds: usize, random: &mut impl Rng) -> Vec<f64> {
    let mut rates = wandering(seconds, 0.15, random);
    let (mut busy, mut until) = (random.random::<bool>(), 0.0);
    for (second, rate) in rates.iter_mut().enumerate() {
        if second as f64 >= until {
            busy = !busy;
            until = second as f64 + 2.0 + gap(if busy { 12.0 } else { 25.0 }, random);
        }
        *rate *= if busy { 1.0 } else { 0.25 };
    }
    let mut at = gap(18.0, random);
    while at < seconds as f64 {
        let height = pareto(1.3, 12.0, random);
        let decay = random.random_range(0.7..3.0);
        burst(&mut rates, at as usize, height, decay, random);
        at += gap(18.0, random);
    }
    rates
}

/// Around 1: a slow autoregressive walk of its logarithm over some 30 s, and noise from slot to slot.
fn wandering(seconds: usize, noise: f64, random: &mut impl Rng) -> Vec<f64> {
    let keep: f64 = 1.0 - 1.0 / 30.0;
    let fresh = 0.25 * (1.0 - keep * keep).sqrt();
    let mut level = 0.25 * normal(random);
    (0..seconds)
        .map(|_| {
            level = keep * level + fresh * normal(random);
            (level + noise * normal(random)).exp()
        })
        .collect()
}

/// Adds a burst: up within at most three seconds, then an exponential decay over `decay` seconds.
fn burst(rates: &mut [f64], at: usize, height: f64, decay: f64, random: &mut impl Rng) {
    let rise = random.random_range(1..=3_usize);
    for (offset, rate) in rates.iter_mut().skip(at).enumerate() {
        let since = offset as f64 - rise as f64 + 1.0;
        let share = if since < 0.0 {
            (offset + 1) as f64 / rise as f64
        } else {
            (-since / decay).exp()
        };
        if since > 8.0 * decay {
            break;
        }
        *rate += height * share;
    }
}

/// An exponential time of this mean.
fn gap(mean: f64, random: &mut impl Rng) -> f64 {
    -mean * (1.0 - random.random::<f64>()).ln()
}

/// Pareto draw of at least 1, limited to `most` so that no single spike dominates the variation.
fn pareto(shape: f64, most: f64, random: &mut impl Rng) -> f64 {
    (1.0 - random.random::<f64>()).powf(-1.0 / shape).min(most)
}

/// A standard normal number (Box and Muller).
fn normal(random: &mut impl Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt();
    radius * (TAU * random.random::<f64>()).cos()
}
