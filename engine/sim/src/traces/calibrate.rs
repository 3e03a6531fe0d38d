//! Brings the rates of a trace to a coefficient of variation.

use weir_graph::Trace;

use super::RecordingError;

/// Powers beyond these make another trace of it: rates all but equal, or one single spike.
const POWERS: (f64, f64) = (0.02, 24.0);
/// Halvings of the range of powers; more change no digit.
const STEPS: u32 = 60;

/// The trace with each rate `r` replaced by `r^p`, and `p`, chosen so that the rates' coefficient of variation is
/// `target`; then scaled so that their mean is what it was. The order of rates and silent slots stay.
///
/// The coefficient grows with `p` wherever rates differ: with `ψ(p) = ln E[r^p]`, which is convex,
/// `ln(1 + cv²) = ψ(2p) - 2 ψ(p)` has the derivative `2 (ψ'(2p) - ψ'(p)) >= 0`. So bisection finds the one `p`.
///
/// # Errors
/// [`RecordingError::Unreachable`] where no power from 0.02 to 24 gives it.
pub fn with_cv(trace: &Trace, target: f64) -> Result<(Trace, f64), RecordingError> {
    let cv = |power: f64| Ok::<_, RecordingError>(raised_to(trace, power)?.cv());
    let (mut low, mut high) = POWERS;
    let (least, most) = (cv(low)?, cv(high)?);
    if !(least..=most).contains(&target) {
        return Err(RecordingError::Unreachable { target, least, most });
    }
    for _ in 0..STEPS {
        let middle = f64::midpoint(low, high);
        if cv(middle)? < target {
            low = middle;
        } else {
            high = middle;
        }
    }
    let power = f64::midpoint(low, high);
    Ok((raised_to(trace, power)?.scale_to(trace.mean())?, power))
}

fn raised_to(trace: &Trace, power: f64) -> Result<Trace, RecordingError> {
    // Relative to the peak, so that no power overflows.
    let peak = trace.peak();
    let rates = trace.rates().iter().map(|rate| {
        if peak > 0.0 {
            (rate / peak).powf(power)
        } else {
            0.0
        }
    });
    Ok(Trace::new(trace.slot(), rates.collect::<Vec<_>>())?)
}
