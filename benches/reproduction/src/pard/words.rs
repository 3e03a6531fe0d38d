//! Figures as the tables write them.

use weir_sim::experiment::Estimate;

/// A share as a percentage with its interval: `3.21 ± 0.10`.
#[must_use]
pub fn percent(estimate: Estimate) -> String {
    with_interval(100.0 * estimate.mean, 100.0 * estimate.half)
}

/// A mean with its interval.
#[must_use]
pub fn with_interval(mean: f64, half: f64) -> String {
    if half > 0.0 {
        format!("{} ± {}", short(mean), short(half))
    } else {
        short(mean)
    }
}

/// A share as a percentage without interval.
#[must_use]
pub fn share(value: f64) -> String {
    if value.is_finite() {
        format!("{:.0} %", 100.0 * value)
    } else {
        "-".to_owned()
    }
}

/// A factor such as `2.3 x`; `-` if it is not finite.
#[must_use]
pub fn factor(value: f64) -> String {
    if !value.is_finite() {
        "-".to_owned()
    } else if value >= 100.0 {
        format!("{value:.0} x")
    } else {
        format!("{value:.2} x")
    }
}

/// Two decimals, or three of small values.
#[must_use]
pub fn short(value: f64) -> String {
    if !value.is_finite() {
        "-".to_owned()
    } else if value.abs() < 0.0005 {
        "0".to_owned()
    } else if value.abs() < 0.1 {
        format!("{value:.3}")
    } else {
        format!("{value:.2}")
    }
}

/// The least and the greatest of finite values.
#[must_use]
pub fn range(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    values
        .into_iter()
        .filter(|value| value.is_finite())
        .fold(None, |range, value| match range {
            None => Some((value, value)),
            Some((low, high)) => Some((value.min(low), value.max(high))),
        })
}

/// A range in words, by `write`.
#[must_use]
pub fn span(range: Option<(f64, f64)>, write: impl Fn(f64) -> String) -> String {
    range.map_or_else(
        || "-".to_owned(),
        |(low, high)| format!("{} to {}", write(low), write(high)),
    )
}

/// One check: a claim, the result, and whether the claim holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// Statement of the paper that is checked.
    pub claim: String,
    /// Measured result, as text.
    pub found: String,
    /// True if the statement holds.
    pub holds: bool,
}

impl Check {
    /// Creates a check from its claim, result and verdict.
    #[must_use]
    pub fn new(claim: impl Into<String>, found: impl Into<String>, holds: bool) -> Self {
        Self {
            claim: claim.into(),
            found: found.into(),
            holds,
        }
    }
}

/// Checks as a table.
#[must_use]
pub fn checks(all: &[Check]) -> String {
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|check| {
            let verdict = if check.holds { "holds" } else { "does not hold" };
            vec![check.claim.clone(), check.found.clone(), verdict.to_owned()]
        })
        .collect();
    crate::plot::markdown(&["claim", "here", "verdict"], &rows)
}
