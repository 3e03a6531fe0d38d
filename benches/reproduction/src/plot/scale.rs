//! The axes of a chart: ranges that fit the values, with the coordinates and ticks of `plotters`.

use std::ops::Range;

use plotters::coord::combinators::{IntoLogRange as _, LogCoord};
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;

use super::figure::Axis;

// Beyond these the ticks of plotters do not add up: its arithmetic is that of plain doubles.
const MAX_VALUE: f64 = 1e12;
const MIN_SPAN: f64 = 1e-9;
// Largest rounding error of a tick at the end of an axis, relative to the range.
const MAX_ROUNDING: f64 = 1e-9;

/// Scale of an axis: lowest value, highest value, and its marks.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    marks: Marks,
}

#[derive(Debug, Clone, PartialEq)]
enum Marks {
    /// Numbers, evenly spaced.
    Even,
    /// Numbers, evenly spaced by their logarithm.
    Decades,
    /// A name in the middle of each unit, the first at the top.
    Rows(Vec<String>),
    /// No marks: [`super::names`] writes the names of categories, on several lines.
    Nothing,
}

impl Scale {
    /// Scale of an x axis, from the least value to the greatest.
    pub(super) fn across(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        Self::asked(axis).unwrap_or_else(|| match ends(axis, values) {
            Some((low, high)) => Self::spanning(axis.log, down_to_zero(low, high), high),
            None => Self::empty(axis.log),
        })
    }

    /// Scale of a y axis with room above the data, and below if it does not begin at zero. With `from_zero` a
    /// linear axis includes zero.
    pub(super) fn up(axis: &Axis, values: impl Iterator<Item = f64>, from_zero: bool) -> Self {
        Self::asked(axis).unwrap_or_else(|| match ends(axis, values) {
            Some((low, high)) if axis.log => by_decades(low, high),
            Some((low, high)) => with_room(low, high, from_zero),
            None => Self::empty(axis.log),
        })
    }

    /// Scale with one unit for each category.
    pub(super) fn categories(count: usize) -> Self {
        Self {
            low: 0.0,
            high: count.max(1) as f64,
            marks: Marks::Nothing,
        }
    }

    /// Scale with one unit for each row.
    pub(super) fn rows(names: &[String]) -> Self {
        Self {
            marks: Marks::Rows(names.to_vec()),
            ..Self::categories(names.len())
        }
    }

    fn asked(axis: &Axis) -> Option<Self> {
        let (low, high) = axis.range?;
        let fits = usable(axis, low) && usable(axis, high) && high - low > MIN_SPAN;
        fits.then(|| Self::spanning(axis.log, low, high))
    }

    fn empty(log: bool) -> Self {
        let (low, high) = if log { (0.1, 10.0) } else { (0.0, 1.0) };
        Self::spanning(log, low, high)
    }

    fn spanning(log: bool, low: f64, high: f64) -> Self {
        let least = MIN_SPAN * low.abs().max(high.abs()).max(1.0);
        let high = if high - low > least { high } else { low + 1.0 };
        let marks = if log { Marks::Decades } else { Marks::Even };
        Self { low, high, marks }
    }

    /// True if a value has a position on the axis, possibly beyond its ends.
    pub(super) fn contains_or_beyond(&self, value: f64) -> bool {
        value.is_finite() && (self.marks != Marks::Decades || value > 0.0)
    }

    /// True if a value lies between both ends.
    pub(super) fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Value at which bars start: zero if the axis includes it, otherwise the end of the axis nearest to
    /// zero; on a logarithmic axis its lower end.
    pub(super) fn base(&self) -> f64 {
        match self.marks {
            Marks::Decades => self.low,
            _ => 0.0_f64.clamp(self.low, self.high),
        }
    }
}

impl Ranged for Scale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    /// Maps a value to pixels; values beyond an end of the axis are drawn at that end.
    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let value = value.clamp(self.low, self.high);
        match self.marks {
            Marks::Decades => LogCoord::from((self.low..self.high).log_scale()).map(&value, limit),
            _ => RangedCoordf64::from(self.low..self.high).map(&value, limit),
        }
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        let points = match &self.marks {
            Marks::Even => {
                let mut points = RangedCoordf64::from(self.low..self.high).key_points(hint);
                // Plotters adds up steps, and loses a tick that rounding so puts beyond the end.
                if let [.., before, last] = points[..]
                    && 2.0 * last - before <= self.high + MAX_ROUNDING * (self.high - self.low)
                {
                    points.push(2.0 * last - before);
                }
                points
            }
            Marks::Decades => {
                let range = self.low * (1.0 - MAX_ROUNDING)..self.high * (1.0 + MAX_ROUNDING);
                LogCoord::from(range.log_scale()).key_points(hint)
            }
            Marks::Rows(names) => (0..names.len()).map(|row| row as f64 + 0.5).collect(),
            Marks::Nothing => Vec::new(),
        };
        points
            .into_iter()
            .map(|point| point.clamp(self.low, self.high))
            .collect()
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Scale {
    fn format_ext(&self, value: &f64) -> String {
        match &self.marks {
            Marks::Rows(names) => {
                let row = (self.high - value).floor().max(0.0) as usize;
                names.get(row).cloned().unwrap_or_default()
            }
            _ => written(*value),
        }
    }
}

/// A tick's number, without what rounding left in its last digits.
fn written(value: f64) -> String {
    let text = format!("{value:.6}");
    match text.trim_end_matches('0').trim_end_matches('.') {
        "-0" => "0".to_owned(),
        text => text.to_owned(),
    }
}

fn usable(axis: &Axis, value: f64) -> bool {
    value.abs() <= MAX_VALUE && (!axis.log || value > MIN_SPAN)
}

fn ends(axis: &Axis, values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values
        .filter(|value| usable(axis, *value))
        .map(|value| (value, value))
        .reduce(|(low, high), (other, _)| (low.min(other), high.max(other)))
}

/// Returns zero instead of a least value that is nearer to zero than to the greatest value.
fn down_to_zero(low: f64, high: f64) -> f64 {
    if low > 0.0 && low < 0.5 * high { 0.0 } else { low }
}

fn with_room(low: f64, high: f64, from_zero: bool) -> Scale {
    let (low, high) = if from_zero {
        (low.min(0.0), high.max(0.0))
    } else {
        (down_to_zero(low, high), high)
    };
    let room = 0.06
        * if high > low {
            high - low
        } else {
            high.abs().max(1.0)
        };
    let low = if low == 0.0 { low } else { low - room };
    let high = if high == 0.0 && low < 0.0 {
        high
    } else {
        high + room
    };
    Scale::spanning(false, low, high)
}

/// Whole decades, the lowest bar still to be seen.
fn by_decades(low: f64, high: f64) -> Scale {
    let below = 10f64.powf(low.log10().floor());
    let below = if low > 1.3 * below { below } else { below / 10.0 };
    Scale::spanning(true, below, 10f64.powf((high * 1.05).log10().ceil()))
}

#[cfg(test)]
mod tests {
    use plotters::coord::ranged1d::BoldPoints;

    use super::*;

    fn ticks(scale: &Scale, most: usize) -> Vec<String> {
        let points = scale.key_points(BoldPoints(most));
        points.iter().map(|point| scale.format_ext(point)).collect()
    }

    #[test]
    fn a_range_that_was_asked_for_has_ticks_at_both_ends() {
        let check = |axis: Axis, most: usize, expected: &[&str]| {
            let scale = Scale::across(&axis, std::iter::empty());
            assert_eq!(ticks(&scale, most), expected, "{axis:?}");
        };
        check(
            Axis::new("").range(0.0, 100.0),
            6,
            &["0", "20", "40", "60", "80", "100"],
        );
        check(Axis::new("").range(0.0, 0.6), 4, &["0", "0.2", "0.4", "0.6"]);
        let fifteen = Scale::across(&Axis::new("").range(0.0, 3.0), std::iter::empty());
        assert_eq!(ticks(&fifteen, 16).last().map(String::as_str), Some("3"));
        check(Axis::new("").range(-1.5, 0.0), 4, &["-1.5", "-1", "-0.5", "0"]);
        check(
            Axis::new("").log().range(0.001, 1.0),
            4,
            &["0.001", "0.01", "0.1", "1"],
        );
    }

    #[test]
    fn a_range_fits_its_values_with_room_for_bars_and_without_for_x() {
        let linear = Axis::new("");
        assert_eq!(Scale::across(&linear, [1.0, 60.0].into_iter()).range(), 0.0..60.0);
        assert_eq!(
            Scale::across(&linear, [50.0, 60.0].into_iter()).range(),
            50.0..60.0
        );
        assert_eq!(
            Scale::up(&linear, [100.0, 50.0].into_iter(), true).range(),
            0.0..106.0
        );
        assert_eq!(
            Scale::up(&linear, [50.0, 150.0].into_iter(), false).range(),
            0.0..159.0
        );
        assert_eq!(
            Scale::up(&linear, [100.0, 200.0].into_iter(), false).range(),
            94.0..206.0
        );
        let log = Axis::new("").log();
        assert_eq!(
            Scale::up(&log, [0.02, f64::NAN, -1.0, 3.5].into_iter(), true).range(),
            0.01..10.0
        );
        assert_eq!(Scale::up(&log, std::iter::empty(), true).range(), 0.1..10.0);
    }

    #[test]
    fn any_range_has_ticks_that_grow_and_are_not_many() {
        for seed in 0..200_i32 {
            let low = f64::from(seed % 7 - 3) * 10f64.powi(seed % 13 - 6);
            let high = low + f64::from(seed % 11 + 1) * 10f64.powi(seed % 10 - 5);
            let scale = Scale::up(&Axis::new(""), [low, high].into_iter(), seed % 2 == 0);
            let points = scale.key_points(BoldPoints(8));
            assert!((1..=9).contains(&points.len()), "{low} to {high}: {points:?}");
            assert!(
                points.is_sorted_by(|one, other| one < other),
                "{low} to {high}: {points:?}"
            );
            assert!(
                points.iter().all(|point| scale.contains(*point)),
                "{low} to {high}"
            );
        }
    }
}
