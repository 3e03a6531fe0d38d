//! Scores of measured attributes: directions and numbers.

use serde::Serialize;
use weir_truth::TruthAttribute;

use super::attributes::{Claim, Coverage, RightCount};
use super::event::AttributeValue;
use super::share::mean;

/// Error of directions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct AnglesReading {
    #[serde(flatten)]
    pub(crate) asked: Coverage,
    /// Mean angle in degrees between the true and the reported direction, over the reported ones.
    pub(crate) error_mean_deg: Option<f64>,
    /// Median of the same angles.
    pub(crate) error_median_deg: Option<f64>,
}

impl AnglesReading {
    pub(super) fn new(claims: &[Claim<'_>]) -> Self {
        let mut asked = Coverage::default();
        let mut errors = Vec::new();
        for claim in claims {
            let TruthAttribute::Angles { yaw, pitch } = claim.truth else {
                continue;
            };
            let said = match claim.said {
                Some(AttributeValue::Angles { yaw, pitch }) => Some((*yaw, *pitch)),
                _ => None,
            };
            asked.add(claim.found, said.is_some());
            let truth = (f64::from(*yaw), f64::from(*pitch));
            errors.extend(said.map(|said| angle_between(truth, said)));
        }
        Self {
            asked,
            error_mean_deg: mean(&errors),
            error_median_deg: median(errors),
        }
    }
}

/// The angle in degrees between two directions given as yaw and pitch in degrees.
fn angle_between(a: (f64, f64), b: (f64, f64)) -> f64 {
    let unit = |(yaw, pitch): (f64, f64)| {
        let (yaw, pitch) = (yaw.to_radians(), pitch.to_radians());
        [yaw.sin() * pitch.cos(), pitch.sin(), yaw.cos() * pitch.cos()]
    };
    let ([ax, ay, az], [bx, by, bz]) = (unit(a), unit(b));
    let cross = [ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx];
    let length = cross.iter().map(|side| side * side).sum::<f64>().sqrt();
    // By both sine and cosine: the cosine alone says little of small angles.
    length.atan2(ax * bx + ay * by + az * bz).to_degrees()
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *values.get(middle.checked_sub(1)?)?;
    Some(f64::midpoint(lower, upper))
}

/// Error of numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct NumberReading {
    #[serde(flatten)]
    pub(crate) asked: Coverage,
    /// Values with an error below 0.5.
    pub(crate) exact: RightCount,
    /// Values with an error of at most 2.
    pub(crate) within_2: RightCount,
    /// Mean error over the reported values.
    pub(crate) error_mean: Option<f64>,
}

impl NumberReading {
    pub(super) fn new(claims: &[Claim<'_>]) -> Self {
        let mut asked = Coverage::default();
        let mut errors = Vec::new();
        for claim in claims {
            let TruthAttribute::Number { value } = claim.truth else {
                continue;
            };
            let said = match claim.said {
                Some(AttributeValue::Number(said)) => Some(*said),
                _ => None,
            };
            asked.add(claim.found, said.is_some());
            errors.extend(said.map(|said| (said - f64::from(*value)).abs()));
        }
        let count = |fits: &dyn Fn(f64) -> bool| errors.iter().filter(|error| fits(**error)).count() as u64;
        Self {
            asked,
            exact: RightCount::new(count(&|error| error < 0.5), &asked),
            within_2: RightCount::new(count(&|error| error <= 2.0), &asked),
            error_mean: mean(&errors),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn angles_between_directions() {
        let check = |a: (f64, f64), b: (f64, f64), is: f64| {
            assert!(
                (angle_between(a, b) - is).abs() < 1e-9,
                "{a:?} {b:?} {}",
                angle_between(a, b)
            );
            assert!((angle_between(b, a) - is).abs() < 1e-9);
        };
        check((0.0, 0.0), (0.0, 0.0), 0.0);
        check((30.0, 0.0), (-15.0, 0.0), 45.0);
        check((0.0, 10.0), (0.0, -20.0), 30.0);
        check((170.0, 0.0), (-170.0, 0.0), 20.0);
        check((0.0, 0.0), (180.0, 0.0), 180.0);
        // Straight up, yaw says nothing.
        check((0.0, 90.0), (77.0, 90.0), 0.0);
        // Yaw counts less where one looks up: cos of the angle is cos(60)^2 cos(90) + sin(60)^2.
        check((0.0, 60.0), (90.0, 60.0), 0.75_f64.acos().to_degrees());
        assert!(angle_between((0.0, 0.0), (1e-6, 0.0)) > 0.9e-6);
    }

    #[test]
    fn medians() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0]), Some(3.0));
        assert_eq!(median(vec![3.0, 1.0]), Some(2.0));
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
    }
}
