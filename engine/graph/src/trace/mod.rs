//! Load over time: the mean request rate in each of equal time slots. [`Arrivals`] draws arrival times from it, for the live
//! engine and for the simulator alike.

mod arrivals;
mod csv;
mod process;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_types::Span;

pub use arrivals::Arrivals;
pub use csv::{read_trace_text, trace_rows};
pub use process::{ArrivalProcess, MAX_CV};

/// Error of reading or making a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read at all.
    #[error("cannot read the trace {}: {reason}", path.display())]
    Unreadable {
        /// Path of the trace file.
        path: PathBuf,
        /// The error of the operating system.
        reason: String,
    },
    /// A line of a file is invalid.
    #[error("{}:{line}: {message}; {hint}", path.display())]
    Line {
        /// Path of the trace file.
        path: PathBuf,
        /// Line of the file, from 1.
        line: usize,
        /// Description of the problem.
        message: String,
        /// Advice on how to fix it.
        hint: String,
    },
    /// There is no slot.
    #[error("a trace needs at least one slot; widen what is cut from it")]
    Empty,
    /// A slot has no length.
    #[error("slots must be at least a microsecond long; compress less")]
    NoSlot,
    /// A rate is negative or not a number.
    #[error("rate {rate} of slot {slot} must be a number from 0; give requests a second")]
    Rate {
        /// The index of the slot.
        slot: usize,
        /// The rate as text.
        rate: String,
    },
    /// A factor or target is not a number above zero.
    #[error("{what} must be a number above zero, not {value}")]
    Factor {
        /// Name of the factor or target.
        what: &'static str,
        /// The value as text.
        value: String,
    },
    /// No slot has a rate above zero: no factor scales it.
    #[error("a trace without any arrival cannot be scaled; choose another section of it")]
    Silent,
}

impl TraceError {
    /// Creates an error for a line of a file, with a hint on how to fix it.
    #[must_use]
    pub fn at_line(path: &Path, line: usize, message: String, hint: &str) -> Self {
        Self::Line {
            path: path.to_owned(),
            line,
            message,
            hint: hint.to_owned(),
        }
    }
}

/// Mean rates in requests a second, one for each slot. Slots are equally long and contiguous from time zero.
///
/// Cheap to clone: the rates are shared.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    slot: Span,
    rates: Arc<[f64]>,
}

impl Trace {
    /// A trace of `rates` (requests a second), each for the length of `slot`.
    ///
    /// # Errors
    /// [`TraceError`] where there is no slot, it has no length, or a rate is negative or not finite.
    pub fn new(slot: Span, rates: impl Into<Arc<[f64]>>) -> Result<Self, TraceError> {
        let rates = rates.into();
        if rates.is_empty() {
            return Err(TraceError::Empty);
        }
        if slot == Span::ZERO {
            return Err(TraceError::NoSlot);
        }
        if let Some((slot, rate)) = (0..).zip(rates.iter()).find(|(_, rate)| !is_rate(**rate)) {
            let rate = rate.to_string();
            return Err(TraceError::Rate { slot, rate });
        }
        Ok(Self { slot, rates })
    }

    /// Creates a trace with one rate throughout, as one slot.
    ///
    /// # Errors
    /// As [`Trace::new`].
    pub fn constant(rate: f64, duration: Span) -> Result<Self, TraceError> {
        Self::new(duration, [rate])
    }

    /// The length of one slot.
    #[must_use]
    pub fn slot(&self) -> Span {
        self.slot
    }

    /// The rates in requests a second, slot by slot.
    #[must_use]
    pub fn rates(&self) -> &[f64] {
        &self.rates
    }

    /// Time from the start of the first slot to the end of the last.
    #[must_use]
    pub fn duration(&self) -> Span {
        self.slot * self.rates.len() as u64
    }

    /// Mean rate over the whole, in requests a second.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.rates.iter().sum::<f64>() / self.rates.len() as f64
    }

    /// The highest rate of a slot, in requests a second.
    #[must_use]
    pub fn peak(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    /// Coefficient of variation of the rates: their standard deviation over their mean; 0 where nothing arrives.
    #[must_use]
    pub fn cv(&self) -> f64 {
        let mean = self.mean();
        if mean == 0.0 {
            return 0.0;
        }
        let squares: f64 = self.rates.iter().map(|rate| (rate - mean).powi(2)).sum();
        (squares / self.rates.len() as f64).sqrt() / mean
    }

    /// Expected number of requests: the integral of the rate.
    #[must_use]
    pub fn expected_requests(&self) -> f64 {
        self.rates.iter().sum::<f64>() * self.slot.as_secs_f64()
    }

    /// The rate at a time since the start, in requests a second; 0 after the end.
    #[must_use]
    pub fn rate_at(&self, at: Span) -> f64 {
        let slot = usize::try_from(at.micros() / self.slot.micros()).unwrap_or(usize::MAX);
        self.rates.get(slot).copied().unwrap_or(0.0)
    }

    /// The whole slots that overlap `from..to`, as a trace that starts at zero.
    ///
    /// # Errors
    /// [`TraceError::Empty`] where none overlaps.
    pub fn cut(&self, from: Span, to: Span) -> Result<Self, TraceError> {
        let index =
            |slot: u64| usize::try_from(slot).map_or(self.rates.len(), |slot| slot.min(self.rates.len()));
        let first = index(from.micros() / self.slot.micros());
        let end = index(to.micros().div_ceil(self.slot.micros()));
        let rates = self.rates.get(first..end).ok_or(TraceError::Empty)?;
        Self::new(self.slot, rates)
    }

    /// Compresses time by `factor`, at the same rates: at 3600, an hour becomes a second. The new slots are rounded to whole
    /// microseconds.
    ///
    /// # Errors
    /// [`TraceError`] where the factor is not above zero, or slots would have no length.
    pub fn compress(&self, factor: f64) -> Result<Self, TraceError> {
        let factor = positive("the factor of compression", factor)?;
        Self::new(self.slot.scale(1.0 / factor), Arc::clone(&self.rates))
    }

    /// Multiplies the rates so that their mean is `mean` requests a second.
    ///
    /// # Errors
    /// [`TraceError`] where `mean` is not above zero or nothing arrives.
    pub fn scale_to(&self, mean: f64) -> Result<Self, TraceError> {
        self.scale(positive("the mean rate", mean)?, self.mean())
    }

    /// Multiplies the rates so that the highest is `peak` requests a second.
    ///
    /// # Errors
    /// [`TraceError`] where `peak` is not above zero or nothing arrives.
    pub fn scale_peak(&self, peak: f64) -> Result<Self, TraceError> {
        self.scale(positive("the peak rate", peak)?, self.peak())
    }

    fn scale(&self, target: f64, current: f64) -> Result<Self, TraceError> {
        if current == 0.0 {
            return Err(TraceError::Silent);
        }
        let factor = target / current;
        let rates: Arc<[f64]> = self.rates.iter().map(|rate| rate * factor).collect();
        Self::new(self.slot, rates)
    }

    /// Returns the same load in slots of another length, by the mean over each slot: the expected number of
    /// requests is unchanged. If the last slot extends beyond the end, nothing arrives there.
    ///
    /// # Errors
    /// [`TraceError::NoSlot`] where `slot` has no length.
    pub fn resample(&self, slot: Span) -> Result<Self, TraceError> {
        if slot == Span::ZERO {
            return Err(TraceError::NoSlot);
        }
        let (old, new) = (self.slot.micros(), slot.micros());
        let count = self.duration().micros().div_ceil(new);
        let mut rates = vec![0.0; usize::try_from(count).map_err(|_| TraceError::NoSlot)?];
        for (index, rate) in (0..).zip(rates.iter_mut()) {
            let (begin, end) = (index * new, (index + 1) * new);
            let within = (begin / old) as usize..(end.div_ceil(old) as usize).min(self.rates.len());
            for source in within {
                let from = begin.max(source as u64 * old);
                let to = end.min((source as u64 + 1) * old);
                *rate += self.rates[source] * ((to - from) as f64 / new as f64);
            }
        }
        Self::new(slot, rates)
    }
}

fn is_rate(rate: f64) -> bool {
    rate.is_finite() && rate >= 0.0
}

fn positive(what: &'static str, value: f64) -> Result<f64, TraceError> {
    if value.is_finite() && value > 0.0 {
        return Ok(value);
    }
    let value = value.to_string();
    Err(TraceError::Factor { what, value })
}

#[cfg(test)]
mod tests;
