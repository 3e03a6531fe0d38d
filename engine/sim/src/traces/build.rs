//! Builds a load from its recording if the asset pack is available, else from its generator.

use std::path::Path;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use weir_graph::{Trace, TraceError};
use weir_types::Span;

use super::generate::whole_seconds;
use super::{RecordingError, TraceKind, counts_per_second, functions_azure_2019, generate, with_cv};

const WIKI: &str = "traces/derived/wikipedia_en_hourly_2020_2023.csv";
const TWEET: &str = "traces/twitter_2021_08_persec_days01-14.csv.gz";
const AZURE: &str = "traces/azure2019_1350fn_1day_permin.csv.gz";

const SECOND: Span = Span::from_secs(1);
/// Number of zeros in a row that mark missing data, in a recording with tens of posts a second.
const MISSING: usize = 3;
/// Seconds of the recording that may become one of the trace.
const COMPRESSIONS: [usize; 5] = [1, 5, 20, 40, 80];
/// Stretches of the recording that are looked at.
const STRETCHES: usize = 16;
/// A recording that is as close to the target as this is left as it is.
const CLOSE: f64 = 0.005;

/// Builds the load `kind` of `length` (rounded up to whole seconds) in slots of a second, with the mean rate
/// `mean` in requests per second. Also returns its origin as text, with mean and coefficient of variation.
/// `assets` is the folder of the asset pack; without it, or without the recording, the load is generated.
///
/// # Errors
/// [`RecordingError`] if a recording cannot be used, `length` is below a minute or `mean` is not above zero.
pub fn build(
    kind: TraceKind,
    assets: Option<&Path>,
    seed: u64,
    length: Span,
    mean: f64,
) -> Result<(Trace, String), RecordingError> {
    let seconds = whole_seconds(length)?;
    let recording = match kind {
        TraceKind::Wiki => WIKI,
        TraceKind::Tweet => TWEET,
        TraceKind::Azure => AZURE,
    };
    let Some(path) = assets
        .map(|assets| assets.join(recording))
        .filter(|path| path.is_file())
    else {
        let trace = generate(kind, seed, length, mean)?;
        let origin = format!("{}: generated, seed {seed}{}", kind.name(), figures(&trace));
        return Ok((trace, origin));
    };
    let random = &mut Pcg64Mcg::seed_from_u64(seed);
    let (natural, how) = match kind {
        TraceKind::Wiki => wiki(&path, seconds, random)?,
        TraceKind::Tweet => tweet(&path, seconds, random)?,
        TraceKind::Azure => azure(&path, seconds, random)?,
    };
    let cv = natural.cv();
    let (trace, transform) = if (cv - kind.cv()).abs() <= CLOSE {
        (natural, String::new())
    } else {
        let (trace, power) = with_cv(&natural, kind.cv())?;
        (
            trace,
            format!(", rates raised to the power {power:.3} (cv was {cv:.3})"),
        )
    };
    let trace = trace.scale_to(mean)?;
    let origin = format!(
        "{}: {how}, seed {seed}{transform}{}",
        kind.name(),
        figures(&trace)
    );
    Ok((trace, origin))
}

fn figures(trace: &Trace) -> String {
    let duration = trace.duration();
    format!(
        "; {duration}, mean {:.1} requests/s, cv {:.3}",
        trace.mean(),
        trace.cv()
    )
}

/// Two weeks from a day chosen by seed, hour by hour, compressed into the length.
fn wiki(path: &Path, seconds: usize, random: &mut Pcg64Mcg) -> Result<(Trace, String), RecordingError> {
    const HOURS: usize = 14 * 24;
    let whole = Trace::read(path)?;
    let days = whole.rates().len().saturating_sub(HOURS) / 24;
    let day = random.random_range(0..=days);
    let hours: Vec<f64> = whole.rates().iter().copied().skip(day * 24).take(HOURS).collect();
    let rates = (0..seconds).map(|second| between(&hours, (second as f64 + 0.5) / seconds as f64));
    let trace = Trace::new(SECOND, rates.collect::<Vec<_>>())?;
    Ok((
        trace,
        format!("Wikipedia page views per hour, 14 days from day {day}, compressed"),
    ))
}

/// The rate at a share of the whole, on lines between the middles of the slots.
fn between(rates: &[f64], share: f64) -> f64 {
    let at = (share * rates.len() as f64 - 0.5).clamp(0.0, rates.len().saturating_sub(1) as f64);
    let (left, part) = (at as usize, at.fract());
    let rate = |index: usize| rates.get(index).or(rates.last()).copied().unwrap_or(0.0);
    rate(left) * (1.0 - part) + rate(left + 1) * part
}

/// Tries some stretches, chosen by seed, and some compressions; returns the one whose variation is closest to
/// the target.
fn tweet(path: &Path, seconds: usize, random: &mut Pcg64Mcg) -> Result<(Trace, String), RecordingError> {
    let counts = present(counts_per_second(path)?.rates());
    let mut best: Option<(f64, Trace, String)> = None;
    for _ in 0..STRETCHES {
        let share: f64 = random.random();
        for compression in COMPRESSIONS {
            let Some(extra) = counts.len().checked_sub(seconds * compression) else {
                continue;
            };
            let begin = (share * extra as f64) as usize;
            let rates = counts[begin..begin + seconds * compression].chunks(compression);
            let rates = rates.map(|chunk| chunk.iter().sum::<f64>() / compression as f64);
            let trace = Trace::new(SECOND, rates.collect::<Vec<_>>())?;
            let off = (trace.cv() - TraceKind::Tweet.cv()).abs();
            if best.as_ref().is_none_or(|(least, ..)| off < *least) {
                let how = format!("Twitter posts per second from second {begin}, {compression} s as one");
                best = Some((off, trace, how));
            }
        }
    }
    let (_, trace, how) = best.ok_or(TraceError::Empty)?;
    Ok((trace, how))
}

/// The counts without those that are missing.
fn present(counts: &[f64]) -> Vec<f64> {
    let runs = counts.chunk_by(|a, b| (*a == 0.0) == (*b == 0.0));
    let kept = runs.filter(|run| run[0] != 0.0 || run.len() < MISSING);
    kept.flatten().copied().collect()
}

/// Selects burstiest functions until their total varies as closely to the target as possible, with a minute
/// as a second. A trace longer than the day starts the day again.
fn azure(path: &Path, seconds: usize, random: &mut Pcg64Mcg) -> Result<(Trace, String), RecordingError> {
    let functions = functions_azure_2019(path)?;
    let order = functions.indices_by_burstiness();
    let begin = random.random_range(0..=functions.minutes().saturating_sub(seconds));
    let mut best: Option<(f64, usize, Trace)> = None;
    for (count, day) in (1..).zip(functions.sums(order)) {
        let rates: Vec<f64> = day.into_iter().cycle().skip(begin).take(seconds).collect();
        let trace = Trace::new(SECOND, rates)?;
        let off = (trace.cv() - TraceKind::Azure.cv()).abs();
        if trace.peak() > 0.0 && best.as_ref().is_none_or(|(least, ..)| off < *least) {
            best = Some((off, count, trace));
        }
    }
    let (_, count, trace) = best.ok_or(TraceError::Silent)?;
    let how = format!(
        "Azure Functions 2019 per minute, the {count} burstiest of {}, from minute {begin}, a minute as a second",
        functions.count()
    );
    Ok((trace, how))
}
