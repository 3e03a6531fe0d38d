//! Motion of a box: a Kalman filter of constant velocity on its centre, its area and its aspect ratio (SORT:
//! Bewley et al., *Simple Online and Realtime Tracking*, 2016, section 3.2), for observations at irregular
//! times.
//!
//! The state is (cx, cy, s, r) with the rates of the first three. As the noise of each is its own, the covariance falls into
//! blocks, and each block is a filter of at most two dimensions. Time does not advance in frames: F(dt) and Q(dt) are those of
//! a velocity that changes as a random walk in continuous time (Bar-Shalom, Li and Kirubarajan, *Estimation with Applications
//! to Tracking and Navigation*, 2001, 6.2.2). Noise scales with the size of the box, so that near and far are alike.

use weir_flow::{Point, Rect};

/// A coordinate with its rate, and their covariance.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Axis {
    at: f64,
    rate: f64,
    at_at: f64,
    at_rate: f64,
    rate_rate: f64,
}

impl Axis {
    fn new(at: f64, noise: f64, rate_spread: f64) -> Self {
        Self {
            at,
            rate: 0.0,
            at_at: noise * noise,
            at_rate: 0.0,
            rate_rate: rate_spread * rate_spread,
        }
    }

    /// Returns the same in other units: one old unit is `factor` new ones.
    fn scaled(&self, factor: f64) -> Self {
        let squared = factor * factor;
        Self {
            at: self.at * factor,
            rate: self.rate * factor,
            at_at: self.at_at * squared,
            at_rate: self.at_rate * squared,
            rate_rate: self.rate_rate * squared,
        }
    }

    /// Returns the state after `dt` seconds, while the rate changes with the spectral density `density`.
    fn predicted(&self, dt: f64, density: f64) -> Self {
        Self {
            at: self.at + dt * self.rate,
            rate: self.rate,
            at_at: self.at_at + dt * (2.0 * self.at_rate + dt * self.rate_rate) + density * dt.powi(3) / 3.0,
            at_rate: self.at_rate + dt * self.rate_rate + density * dt * dt / 2.0,
            rate_rate: self.rate_rate + density * dt,
        }
    }

    /// Returns the state after an observation whose standard deviation is `noise`.
    fn updated(&self, observed: f64, noise: f64) -> Self {
        let innovation = self.at_at + noise * noise;
        let (gain, rate_gain) = (self.at_at / innovation, self.at_rate / innovation);
        let error = observed - self.at;
        Self {
            at: self.at + gain * error,
            rate: self.rate + rate_gain * error,
            at_at: (1.0 - gain) * self.at_at,
            at_rate: (1.0 - gain) * self.at_rate,
            rate_rate: self.rate_rate - rate_gain * self.at_rate,
        }
    }
}

/// Standard deviation of an observed centre, in sides of the box.
const CENTRE_NOISE: f64 = 0.04;
/// Standard deviation of the speed of a new box, in sides a second.
const SPEED_SPREAD: f64 = 2.0;
/// Spectral density of the changes of speed, in sides² a second³.
const SPEED_DENSITY: f64 = 1.0;
/// The same of the area, in areas.
const AREA_NOISE: f64 = 0.08;
const GROWTH_SPREAD: f64 = 0.5;
const GROWTH_DENSITY: f64 = 0.1;
/// The same of the aspect ratio, which has no rate: density of its own changes.
const RATIO_NOISE: f64 = 0.08;
const RATIO_DENSITY: f64 = 0.1;
/// Longest prediction, in seconds: no object moves on for longer without a change.
const MAX_PREDICTION: f64 = 3.0;
/// Smallest side of a box in pixels: noise scales with it.
const MIN_SIDE: f64 = 1.0;

/// Motion of a box as observed until some moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Motion {
    x: Axis,
    y: Axis,
    area: Axis,
    ratio: f64,
    ratio_variance: f64,
}

/// Centre, area and aspect ratio.
fn measured(rect: &Rect) -> (f64, f64, f64, f64) {
    let (x0, y0, x1, y1) = (
        f64::from(rect.x0),
        f64::from(rect.y0),
        f64::from(rect.x1),
        f64::from(rect.y1),
    );
    let (width, height) = ((x1 - x0).max(MIN_SIDE), (y1 - y0).max(MIN_SIDE));
    (
        f64::midpoint(x0, x1),
        f64::midpoint(y0, y1),
        width * height,
        width / height,
    )
}

impl Motion {
    /// Creates the motion of a box that was observed once.
    pub(crate) fn new(rect: &Rect) -> Self {
        let (x, y, area, ratio) = measured(rect);
        let side = area.sqrt();
        Self {
            x: Axis::new(x, CENTRE_NOISE * side, SPEED_SPREAD * side),
            y: Axis::new(y, CENTRE_NOISE * side, SPEED_SPREAD * side),
            area: Axis::new(area, AREA_NOISE * area, GROWTH_SPREAD * area),
            ratio,
            ratio_variance: (RATIO_NOISE * ratio).powi(2),
        }
    }

    /// Returns the motion in a picture with this many times the width and height.
    pub(crate) fn scaled(&self, x: f64, y: f64) -> Self {
        let ratio = x / y;
        Self {
            x: self.x.scaled(x),
            y: self.y.scaled(y),
            area: self.area.scaled(x * y),
            ratio: self.ratio * ratio,
            ratio_variance: self.ratio_variance * ratio * ratio,
        }
    }

    /// Returns the motion `seconds` later, at most [`MAX_PREDICTION`].
    pub(crate) fn predicted(&self, seconds: f64) -> Self {
        let dt = seconds.clamp(0.0, MAX_PREDICTION);
        let area = self.area.at.max(MIN_SIDE * MIN_SIDE);
        let speed_density = SPEED_DENSITY * area;
        let mut grown = self.area.predicted(dt, GROWTH_DENSITY * area * area);
        if grown.at < area / 4.0 {
            // An object that shrinks for long is far away, and not gone.
            (grown.at, grown.rate) = (area / 4.0, 0.0);
        }
        Self {
            x: self.x.predicted(dt, speed_density),
            y: self.y.predicted(dt, speed_density),
            area: grown,
            ratio: self.ratio,
            ratio_variance: self.ratio_variance + RATIO_DENSITY * self.ratio * self.ratio * dt,
        }
    }

    /// Returns the motion after an observation at that moment.
    pub(crate) fn updated(&self, rect: &Rect) -> Self {
        let (x, y, area, ratio) = measured(rect);
        let noise = CENTRE_NOISE * area.sqrt();
        let ratio_noise = (RATIO_NOISE * ratio).powi(2);
        let gain = self.ratio_variance / (self.ratio_variance + ratio_noise);
        Self {
            x: self.x.updated(x, noise),
            y: self.y.updated(y, noise),
            area: self.area.updated(area, AREA_NOISE * area),
            ratio: self.ratio + gain * (ratio - self.ratio),
            ratio_variance: (1.0 - gain) * self.ratio_variance,
        }
    }

    /// Returns the box of the present state, in pixels.
    pub(crate) fn rect(&self) -> Rect {
        let area = self.area.at.max(MIN_SIDE * MIN_SIDE);
        let width = (area * self.ratio.max(1e-3)).sqrt();
        let (half_width, half_height) = (width / 2.0, area / width / 2.0);
        Rect::new(
            (self.x.at - half_width) as f32,
            (self.y.at - half_height) as f32,
            (self.x.at + half_width) as f32,
            (self.y.at + half_height) as f32,
        )
    }

    /// Velocity of the centre in pixels a second.
    pub(crate) fn velocity(&self) -> Point {
        Point::new(self.x.rate as f32, self.y.rate as f32)
    }

    /// Standard deviation of the centre, in pixels.
    pub(crate) fn spread(&self) -> f32 {
        f64::midpoint(self.x.at_at, self.y.at_at).max(0.0).sqrt() as f32
    }
}
