//! From values to places: ranges that fit, ticks at numbers a person would choose, and how those are written.

use super::figure::Axis;

/// The values an axis shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    log: bool,
}

impl Scale {
    /// The range asked for, or else one that fits `values`; with `from_zero` a linear range includes nought.
    pub(super) fn fit(axis: &Axis, values: impl Iterator<Item = f64>, from_zero: bool, pad: bool) -> Self {
        let log = axis.log;
        let usable = |v: f64| v.is_finite() && v.abs() < 1e300 && (!log || v > 1e-300);
        if let Some((low, high)) = axis.range
            && usable(low)
            && usable(high)
            && low < high
        {
            return Self { low, high, log };
        }
        let (low, high) = values
            .filter(|v| usable(*v))
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| {
                (l.min(v), h.max(v))
            });
        if low > high {
            return if log {
                Self {
                    low: 0.1,
                    high: 10.0,
                    log,
                }
            } else {
                Self {
                    low: 0.0,
                    high: 1.0,
                    log,
                }
            };
        }
        if log {
            Self::fit_log(low, high, pad)
        } else {
            Self::fit_linear(low, high, from_zero, pad)
        }
    }

    fn fit_log(low: f64, high: f64, pad: bool) -> Self {
        if !pad && low < high {
            return Self { low, high, log: true };
        }
        // Whole decades below, so that the shortest bar still shows; above, up to 1, 2 or 5 of a decade.
        let mut floor = 10f64.powf(low.log10().floor());
        if low <= floor * 1.3 {
            floor /= 10.0;
        }
        let decade = 10f64.powf((high * 1.05).log10().floor());
        let top = [1.0, 2.0, 5.0, 10.0]
            .map(|m| m * decade)
            .into_iter()
            .find(|top| *top >= high * 1.05);
        Self {
            low: floor,
            high: top.unwrap_or(high * 2.0),
            log: true,
        }
    }

    fn fit_linear(low: f64, high: f64, from_zero: bool, pad: bool) -> Self {
        let near_zero = low > 0.0 && low < 0.5 * high;
        let low = if from_zero || near_zero { low.min(0.0) } else { low };
        let high = if from_zero { high.max(0.0) } else { high };
        let span = if high > low {
            high - low
        } else {
            high.abs().max(1.0)
        };
        if !pad && high > low {
            return Self {
                low,
                high,
                log: false,
            };
        }
        let margin = 0.06 * span;
        let low = if low == 0.0 { 0.0 } else { low - margin };
        Self {
            low,
            high: if high == 0.0 && low < 0.0 {
                0.0
            } else {
                high + margin
            },
            log: false,
        }
    }

    /// Where a value lies: 0 at the low end, 1 at the high end, beyond them for values outside; `None` if nowhere.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        if !value.is_finite() {
            return None;
        }
        let share = if self.log {
            (value.log10() - self.low.log10()) / (self.high.log10() - self.low.log10())
        } else {
            (value - self.low) / (self.high - self.low)
        };
        share.is_finite().then_some(share)
    }

    /// Where bars stand: nought, or the low end of a logarithmic axis.
    pub(super) fn base(&self) -> f64 {
        if self.log {
            0.0
        } else {
            self.place(0.0).unwrap_or(0.0).clamp(0.0, 1.0)
        }
    }

    pub(super) fn is_log(&self) -> bool {
        self.log
    }

    /// Places and writing of the ticks, about `wanted` of them.
    pub(super) fn ticks(&self, wanted: usize) -> Vec<(f64, String)> {
        let values = if self.log {
            self.log_ticks(wanted)
        } else {
            self.linear_ticks(wanted)
        };
        values
            .into_iter()
            .filter_map(|(value, text)| Some((self.place(value)?, text)))
            .collect()
    }

    fn linear_ticks(&self, wanted: usize) -> Vec<(f64, String)> {
        let rough = (self.high - self.low) / wanted.max(1) as f64;
        let decade = 10f64.powf(rough.log10().floor());
        // The nearest of 1, 2 and 5 by ratio: the bounds are the geometric means between neighbours.
        let step = decade
            * match rough / decade {
                r if r < 1.414 => 1.0,
                r if r < 3.162 => 2.0,
                r if r < 7.071 => 5.0,
                _ => 10.0,
            };
        let first = (self.low / step - 1e-9).ceil();
        let last = (self.high / step + 1e-9).floor();
        if !(last - first).is_finite() || last - first > 1000.0 {
            return Vec::new();
        }
        let largest = self.low.abs().max(self.high.abs());
        (0..=(last - first).max(0.0) as usize)
            .map(|i| (first + i as f64) * step)
            .map(|value| (value, written(value, step, largest)))
            .collect()
    }

    fn log_ticks(&self, wanted: usize) -> Vec<(f64, String)> {
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let decades = (last - first).max(1) as usize;
        let every = decades.div_ceil(wanted.max(1) * 2).max(1);
        let within: &[f64] = if decades * 3 <= wanted.max(3) + 2 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        (first..=last)
            .step_by(every)
            .flat_map(|exponent| within.iter().map(move |m| m * 10f64.powi(exponent)))
            .filter(|value| *value >= self.low * 0.999 && *value <= self.high * 1.001)
            .map(|value| (value, written(value, value, value)))
            .collect()
    }
}

/// A tick's number, with the decimals its step needs; thousands and millions as k and M.
fn written(value: f64, step: f64, largest: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !(1e-4..1e10).contains(&largest) {
        return format!("{value:.1e}").replace(".0e", "e");
    }
    let (unit, suffix) = match largest {
        l if l >= 1e7 => (1e6, "M"),
        l if l >= 1e4 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let decimals = (-((step / unit).log10() + 1e-9).floor()).clamp(0.0, 9.0) as usize;
    format!("{:.decimals$}{suffix}", value / unit)
}
