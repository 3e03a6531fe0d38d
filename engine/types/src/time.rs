//! Time as an argument of decisions: integer microseconds, no clock is read here.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

/// A length of time, in whole microseconds, never negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[serde(transparent)]
pub struct Span(u64);

impl Span {
    /// The empty span, 0 us.
    pub const ZERO: Self = Self(0);
    /// The longest span, 2^64 - 1 us.
    pub const MAX: Self = Self(u64::MAX);

    /// A span of this many microseconds.
    #[must_use]
    #[inline]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// A span of this many milliseconds.
    #[must_use]
    #[inline]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000)
    }

    /// A span of this many seconds.
    #[must_use]
    #[inline]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1_000_000)
    }

    /// From seconds, rounded to a microsecond; negative values and NaN give zero.
    #[must_use]
    #[inline]
    pub fn from_secs_f64(secs: f64) -> Self {
        Self(rounded(secs * 1e6))
    }

    /// Length in microseconds.
    #[must_use]
    #[inline]
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// Length in milliseconds, with fractions.
    #[must_use]
    #[inline]
    pub fn as_millis_f64(self) -> f64 {
        self.as_f64() / 1e3
    }

    /// Length in seconds, with fractions.
    #[must_use]
    #[inline]
    pub fn as_secs_f64(self) -> f64 {
        self.as_f64() / 1e6
    }

    /// The difference, zero if `other` is longer.
    #[must_use]
    #[inline]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Scaled by a non-negative factor, rounded to a microsecond.
    #[must_use]
    #[inline]
    pub fn scale(self, factor: f64) -> Self {
        // Correction factors are most often exactly 1.
        if factor == 1.0 {
            return self;
        }
        Self(rounded(self.as_f64() * factor))
    }

    #[inline]
    fn as_f64(self) -> f64 {
        self.0.min(i64::MAX as u64) as i64 as f64
    }
}

/// The nearest integer; zero for negative values and NaN. Converted through `i64` (292,000 years): most processors have no
/// single instruction for unsigned integers.
#[inline]
fn rounded(micros: f64) -> u64 {
    ((micros + 0.5) as i64).max(0) as u64
}

impl Add for Span {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Mul<u64> for Span {
    type Output = Self;
    #[inline]
    fn mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }
}

impl Div<u64> for Span {
    type Output = Self;
    #[inline]
    fn div(self, parts: u64) -> Self {
        Self(self.0 / parts)
    }
}

impl Sum for Span {
    fn sum<I: Iterator<Item = Self>>(spans: I) -> Self {
        spans.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            micros if micros != 0 && micros.is_multiple_of(1_000_000) => write!(f, "{}s", micros / 1_000_000),
            micros if micros >= 1_000 => write!(f, "{}ms", micros as f64 / 1e3),
            micros => write!(f, "{micros}us"),
        }
    }
}

/// The text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "\"{0}\" is not a duration; write a number with a unit, such as \"400ms\", \"2.5s\", \"250us\" or \"1m\""
)]
pub struct ParseSpanError(String);

impl FromStr for Span {
    type Err = ParseSpanError;

    fn from_str(text: &str) -> Result<Self, ParseSpanError> {
        let bad = || ParseSpanError(text.to_owned());
        let trimmed = text.trim();
        let split = trimmed
            .find(|c: char| c.is_ascii_alphabetic() || c == 'µ')
            .ok_or_else(bad)?;
        let (number, unit) = trimmed.split_at(split);
        let seconds = match unit {
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3_600.0,
            "d" => 86_400.0,
            _ => return Err(bad()),
        };
        let number: f64 = number.trim().parse().map_err(|_| bad())?;
        let total = number * seconds;
        if !total.is_finite() || !(0.0..=1e9).contains(&total) {
            return Err(bad());
        }
        Ok(Self::from_secs_f64(total))
    }
}

/// From text such as `"400ms"` (configuration), or from integer microseconds (event logs).
impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a duration with its unit, such as \"400ms\"")]
        enum Form {
            Micros(u64),
            Text(String),
        }
        match Form::deserialize(deserializer)? {
            Form::Micros(micros) => Ok(Self(micros)),
            Form::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

/// A time on the monotonic clock of the run: microseconds since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The start of the run.
    pub const ZERO: Self = Self(0);
    /// Later than any other.
    pub const MAX: Self = Self(u64::MAX);

    /// From microseconds since the start of the run.
    #[must_use]
    #[inline]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the start of the run.
    #[must_use]
    #[inline]
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// Time from `earlier` to this, zero if `earlier` is later.
    #[must_use]
    #[inline]
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// This time less `span`, not before the start of the run.
    #[must_use]
    #[inline]
    pub const fn saturating_sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl Add<Span> for Timestamp {
    type Output = Self;
    #[inline]
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub<Timestamp> for Timestamp {
    type Output = Span;
    #[inline]
    fn sub(self, earlier: Timestamp) -> Span {
        self.since(earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_with_their_units() {
        let check = |text: &str, micros: Option<u64>| {
            assert_eq!(text.parse::<Span>().ok().map(Span::micros), micros, "{text}");
        };
        check("400ms", Some(400_000));
        check("2.5 s", Some(2_500_000));
        check("250us", Some(250));
        check("1m", Some(60_000_000));
        check("400", None);
        check("", None);
        check("-1s", None);
        check("fast", None);
        check("1e99s", None);
    }

    #[test]
    fn a_printed_span_parses_to_itself() {
        for micros in [0, 999, 1_000, 1_500, 400_000, 5_000_000] {
            let span = Span::from_micros(micros);
            assert_eq!(span.to_string().parse(), Ok(span));
        }
    }
}
