//! What happened lately, in bounded memory: sliding windows cut into a fixed number of cells.

use crate::time::{Span, Timestamp};

/// Cells in a window. More cells, smoother sliding; memory and the cost of a reading grow with it.
const CELLS: u64 = 50;

#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    /// Which cell since the beginning; tells a stale entry of the ring from a fresh one.
    number: u64,
    sum: f64,
    count: u64,
    largest: f64,
}

/// A sliding window over observations.
#[derive(Debug, Clone)]
pub struct Window {
    cell: Span,
    ring: Vec<Cell>,
}

impl Window {
    /// A window of `length`.
    #[must_use]
    pub fn new(length: Span) -> Self {
        let cell = Span::from_micros((length.micros() / CELLS).max(1));
        Self {
            cell,
            ring: vec![Cell::default(); CELLS as usize],
        }
    }

    /// Takes in `value`, seen at `now`.
    pub fn observe(&mut self, value: f64, now: Timestamp) {
        let number = now.micros() / self.cell.micros();
        let cell = &mut self.ring[(number % CELLS) as usize];
        if cell.number != number {
            *cell = Cell {
                number,
                ..Cell::default()
            };
        }
        cell.sum += value;
        cell.count += 1;
        cell.largest = cell.largest.max(value);
    }

    /// Cells within the window, with their age in cells.
    fn recent(&self, now: Timestamp) -> impl Iterator<Item = (u64, &Cell)> {
        let current = now.micros() / self.cell.micros();
        self.ring.iter().filter_map(move |cell| {
            let age = current.checked_sub(cell.number)?;
            (age < CELLS && cell.count > 0).then_some((age, cell))
        })
    }

    /// Mean of the observations, weighted linearly from 1 (now) to 0 (a whole window ago); `None` without any.
    #[must_use]
    pub fn weighted_mean(&self, now: Timestamp) -> Option<f64> {
        let (mut sum, mut weights) = (0.0, 0.0);
        for (age, cell) in self.recent(now) {
            let weight = (CELLS - age) as f64 / CELLS as f64;
            sum += weight * cell.sum;
            weights += weight * cell.count as f64;
        }
        (weights > 0.0).then(|| sum / weights)
    }

    /// Largest observation; 0 without any.
    #[must_use]
    pub fn largest(&self, now: Timestamp) -> f64 {
        self.recent(now)
            .fold(0.0, |largest, (_, cell)| largest.max(cell.largest))
    }

    /// Sum of the observations.
    #[must_use]
    pub fn sum(&self, now: Timestamp) -> f64 {
        self.recent(now).fold(0.0, |sum, (_, cell)| sum + cell.sum)
    }

    /// Sum a second, over the window or over the time since `began` where that is shorter.
    #[must_use]
    pub fn rate(&self, now: Timestamp, began: Timestamp) -> f64 {
        let length = (self.cell * CELLS).min(now.since(began).max(self.cell));
        self.sum(now) / length.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_micros(ms * 1_000)
    }

    #[test]
    fn recent_observations_weigh_more_and_old_ones_nothing() {
        let mut window = Window::new(Span::from_secs(5));
        assert_eq!(window.weighted_mean(at(0)), None);
        window.observe(100.0, at(0));
        window.observe(0.0, at(2_500));
        let mean = window.weighted_mean(at(2_500)).unwrap();
        assert!(
            (mean - 100.0 / 3.0).abs() < 1.0,
            "half the weight of a fresh one: {mean}"
        );
        assert_eq!(window.weighted_mean(at(5_000)), Some(0.0));
        assert_eq!(window.weighted_mean(at(60_000)), None);
    }

    #[test]
    fn rates_do_not_wait_for_a_whole_window() {
        let mut window = Window::new(Span::from_secs(5));
        for ms in (0..1_000).step_by(10) {
            window.observe(1.0, at(ms));
        }
        assert!((window.rate(at(1_000), at(0)) - 100.0).abs() < 2.0);
        assert_eq!(window.largest(at(1_000)), 1.0);
    }
}
