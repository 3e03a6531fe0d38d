//! Step times of a model that generates: how long one step takes by the number of tokens in it.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::time::Span;

/// Step times of one model on one class of device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepProfile {
    /// Steps in which every sequence generates one token.
    pub decode: StepCurve,
    /// Steps with a part of a prompt in them, by all tokens of the step.
    pub prompt: StepCurve,
}

impl StepProfile {
    /// Expected duration of a step of `tokens`, with a part of a prompt or without.
    #[must_use]
    #[inline]
    pub fn duration(&self, tokens: u32, has_prompt: bool) -> Span {
        if has_prompt {
            self.prompt.duration(tokens)
        } else {
            self.decode.duration(tokens)
        }
    }
}

/// A step time by tokens, linear in pieces.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepCurve {
    /// Ascending, without gaps from 0, at least one.
    pieces: Vec<Piece>,
}

/// `intercept_us + slope_us * tokens` up to and with `last` tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Piece {
    last: u32,
    intercept_us: f64,
    slope_us: f64,
}

impl Piece {
    fn micros(&self, tokens: u32) -> f64 {
        self.intercept_us + self.slope_us * f64::from(tokens)
    }
}

/// Reason why numbers are not valid step times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum StepCurveError {
    /// There are no times.
    #[error("there are no step times: give at least that of one token")]
    Empty,
    /// The times of some numbers of tokens are missing.
    #[error("step times have a hole after {after} tokens: give one for every interval")]
    Hole {
        /// The last that is known.
        after: u32,
    },
    /// A step of more tokens takes less.
    #[error("a step of {tokens} tokens takes less than one of fewer: smooth the profile")]
    Falling {
        /// Number of tokens at which the time falls.
        tokens: u32,
    },
    /// A step takes no time, or what is no time.
    #[error("a step of {tokens} tokens takes no positive time")]
    NoTime {
        /// Number of tokens of the step.
        tokens: u32,
    },
}

impl StepCurve {
    /// Builds a curve from `(tokens, duration)` points as in profiles: tokens ascend from 1, and durations do
    /// not fall. Between points the curve is linear.
    ///
    /// # Errors
    /// [`StepCurveError`] where it is not so.
    pub fn from_points(points: &[(u32, Span)]) -> Result<Self, StepCurveError> {
        let &(first, shortest) = points.first().ok_or(StepCurveError::Empty)?;
        if first != 1 {
            return Err(StepCurveError::Hole { after: 0 });
        }
        if shortest == Span::ZERO {
            return Err(StepCurveError::NoTime { tokens: 1 });
        }
        let mut pieces = vec![Piece {
            last: 1,
            intercept_us: shortest.micros() as f64,
            slope_us: 0.0,
        }];
        for pair in points.windows(2) {
            let ((from, before), (to, after)) = (pair[0], pair[1]);
            if to <= from {
                return Err(StepCurveError::Hole { after: from });
            }
            if after < before {
                return Err(StepCurveError::Falling { tokens: to });
            }
            let slope_us = (after.micros() - before.micros()) as f64 / f64::from(to - from);
            pieces.push(Piece {
                last: to,
                intercept_us: before.micros() as f64 - slope_us * f64::from(from),
                slope_us,
            });
        }
        Ok(Self { pieces })
    }

    /// Builds a curve from measured intervals `(after, last, intercept in seconds, slope in seconds per
    /// token)`. Outliers may be included, so durations may fall.
    ///
    /// # Errors
    /// [`StepCurveError`]: a hole between intervals, or a step without time.
    pub fn from_intervals(intervals: &[(u32, u32, f64, f64)]) -> Result<Self, StepCurveError> {
        if intervals.is_empty() {
            return Err(StepCurveError::Empty);
        }
        let mut pieces = Vec::with_capacity(intervals.len());
        let mut reached = 0;
        for &(after, last, intercept_s, slope_s) in intervals {
            if after != reached || last <= after {
                return Err(StepCurveError::Hole { after: reached });
            }
            let piece = Piece {
                last,
                intercept_us: 1e6 * intercept_s,
                slope_us: 1e6 * slope_s,
            };
            let ends = [after + 1, last];
            if let Some(tokens) = ends.into_iter().find(|end| !is_time(piece.micros(*end))) {
                return Err(StepCurveError::NoTime { tokens });
            }
            pieces.push(piece);
            reached = last;
        }
        Ok(Self { pieces })
    }

    /// Removes outliers: if a longer step was measured to take less time, both get the median of the
    /// measurements at the ends of the intervals concerned (isotonic regression by absolute deviation).
    #[must_use]
    pub fn smoothed(&self) -> Self {
        let mut groups: Vec<Vec<(u32, f64)>> = Vec::new();
        for piece in &self.pieces {
            groups.push(vec![(piece.last, piece.micros(piece.last))]);
            while let [.., before, last] = groups.as_mut_slice()
                && median(before) > median(last)
            {
                before.append(last);
                groups.pop();
            }
        }
        let mut pieces: Vec<Piece> = Vec::with_capacity(self.pieces.len());
        for group in &groups {
            let level = median(group);
            for &(last, _) in group {
                let (from, before) = pieces
                    .last()
                    .map_or((0, level), |piece| (piece.last, piece.micros(piece.last)));
                let slope_us = (level - before) / f64::from(last - from);
                pieces.push(Piece {
                    last,
                    intercept_us: before - slope_us * f64::from(from),
                    slope_us,
                });
            }
        }
        Self { pieces }
    }

    /// Expected duration of a step of `tokens`. Beyond the last known number the curve is extrapolated if it
    /// rises, else constant.
    #[must_use]
    #[inline]
    pub fn duration(&self, tokens: u32) -> Span {
        let at = self.pieces.partition_point(|piece| piece.last < tokens);
        let micros = match self.pieces.get(at) {
            Some(piece) => piece.micros(tokens),
            None => self.pieces.last().map_or(0.0, |last| {
                last.micros(last.last) + last.slope_us.max(0.0) * f64::from(tokens - last.last)
            }),
        };
        Span::from_micros(micros.round().max(1.0) as u64)
    }

    /// Most tokens that were measured.
    #[must_use]
    pub fn known_tokens(&self) -> u32 {
        self.pieces.last().map_or(0, |piece| piece.last)
    }
}

/// The median of what was measured; of an even number the lower.
fn median(group: &[(u32, f64)]) -> f64 {
    let mut measured: Vec<f64> = group.iter().map(|(_, micros)| *micros).collect();
    measured.sort_unstable_by(f64::total_cmp);
    measured
        .get((measured.len().max(1) - 1) / 2)
        .copied()
        .unwrap_or(0.0)
}

fn is_time(micros: f64) -> bool {
    micros.is_finite() && micros > 0.0 && micros < 3.6e9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(points: &[(u32, u64)]) -> Vec<(u32, Span)> {
        points
            .iter()
            .map(|&(tokens, ms)| (tokens, Span::from_millis(ms)))
            .collect()
    }

    #[test]
    fn steps_are_interpolated_and_go_on_as_they_rose() {
        let curve = StepCurve::from_points(&ms(&[(1, 10), (11, 20), (21, 20), (31, 40)])).unwrap();
        for (tokens, ms) in [(0, 10), (1, 10), (6, 15), (11, 20), (16, 20), (31, 40), (41, 60)] {
            assert_eq!(curve.duration(tokens), Span::from_millis(ms), "{tokens} tokens");
        }
        assert_eq!(curve.known_tokens(), 31);
    }

    #[test]
    fn measured_intervals_are_kept_with_their_outliers() {
        let curve = StepCurve::from_intervals(&[(0, 1, 0.01, 0.0), (1, 9, 0.02, -0.001)]).unwrap();
        for (tokens, ms) in [(1, 10), (2, 18), (9, 11), (20, 11)] {
            assert_eq!(curve.duration(tokens), Span::from_millis(ms), "{tokens} tokens");
        }
    }

    #[test]
    fn a_smoothed_profile_does_not_fall_and_keeps_what_did_not() {
        let (us, slope) = (1e-6, 0.0);
        let at = [
            (0, 1, 10.0),
            (1, 2, 60.0),
            (2, 9, 20.0),
            (9, 19, 22.0),
            (19, 29, 40.0),
        ];
        let intervals: Vec<_> = at
            .iter()
            .map(|&(after, last, time)| (after, last, time * us, slope))
            .collect();
        let curve = StepCurve::from_intervals(&intervals).unwrap().smoothed();
        let times = [1, 2, 9, 19, 29].map(|tokens| curve.duration(tokens).micros());
        assert_eq!(times, [10, 20, 20, 22, 40]);
        assert_eq!(curve.duration(24).micros(), 31, "linear between");
        assert_eq!((curve.known_tokens(), curve.smoothed()), (29, curve.clone()));
    }

    #[test]
    fn what_is_no_step_time_is_refused() {
        let points = |points: &[(u32, u64)]| StepCurve::from_points(&ms(points)).map(|_| ());
        assert_eq!(points(&[]), Err(StepCurveError::Empty));
        assert_eq!(points(&[(2, 10)]), Err(StepCurveError::Hole { after: 0 }));
        assert_eq!(
            points(&[(1, 10), (1, 12)]),
            Err(StepCurveError::Hole { after: 1 })
        );
        assert_eq!(
            points(&[(1, 10), (4, 9)]),
            Err(StepCurveError::Falling { tokens: 4 })
        );
        assert_eq!(points(&[(1, 0)]), Err(StepCurveError::NoTime { tokens: 1 }));
        let intervals = |all: &[(u32, u32, f64, f64)]| StepCurve::from_intervals(all).map(|_| ());
        assert_eq!(
            intervals(&[(0, 1, 0.1, 0.0), (2, 3, 0.1, 0.0)]),
            Err(StepCurveError::Hole { after: 1 })
        );
        assert_eq!(
            intervals(&[(0, 9, 0.1, -0.1)]),
            Err(StepCurveError::NoTime { tokens: 1 })
        );
        assert_eq!(
            intervals(&[(0, 9, f64::NAN, 0.0)]),
            Err(StepCurveError::NoTime { tokens: 1 })
        );
    }
}
