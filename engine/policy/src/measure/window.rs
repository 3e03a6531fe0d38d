//! Sliding windows in bounded memory: a fixed number of cells.

use weir_types::{Span, Timestamp};

/// Cells of a window. More cells slide more smoothly; memory and the cost of a reading grow with them.
const CELLS: u64 = 50;

#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    sum: f64,
    count: u64,
    max: f64,
}

/// A sliding window over observations in the order of time.
#[derive(Debug, Clone)]
pub struct Window {
    cell: Span,
    /// Cell number `n` since the start is at `n` modulo their number.
    ring: Vec<Cell>,
    /// Number of the newest cell, and its index in the ring.
    head: u64,
    place: usize,
    /// End of the newest cell.
    until: Timestamp,
    /// Sum over all cells, updated incrementally; exact for integers.
    total: f64,
}

impl Window {
    /// A window of this length.
    #[must_use]
    pub fn new(length: Span) -> Self {
        let cell = Span::from_micros((length.micros() / CELLS).max(1));
        Self {
            cell,
            ring: vec![Cell::default(); CELLS as usize],
            head: 0,
            place: 0,
            until: Timestamp::ZERO + cell,
            total: 0.0,
        }
    }

    /// Adds `value`, observed at `now`.
    #[inline]
    pub fn observe(&mut self, value: f64, now: Timestamp) {
        if now >= self.until {
            self.advance(now);
        }
        let cell = &mut self.ring[self.place];
        cell.sum += value;
        cell.count += 1;
        if value > cell.max {
            cell.max = value;
        }
        self.total += value;
    }

    /// Makes the cell of `now` the newest; expired cells are cleared.
    fn advance(&mut self, now: Timestamp) {
        let number = self.number(now);
        for place in expired_places(self.head, number) {
            self.total -= self.ring[place].sum;
            self.ring[place] = Cell::default();
        }
        if number - self.head >= CELLS {
            self.total = 0.0;
        }
        self.head = number;
        self.place = (number % CELLS) as usize;
        self.until = Timestamp::from_micros((number + 1) * self.cell.micros());
    }

    fn number(&self, now: Timestamp) -> u64 {
        (now.micros() / self.cell.micros()).max(self.head)
    }

    /// Non-empty cells within the window, with their age in cells.
    fn recent(&self, now: Timestamp) -> impl Iterator<Item = (u64, &Cell)> {
        let since = self.number(now) - self.head;
        let age_of = move |place: u64| since + (self.head + CELLS - place) % CELLS;
        let cells = (0..).zip(&self.ring);
        cells
            .map(move |(place, cell)| (age_of(place), cell))
            .filter(|(age, cell)| *age < CELLS && cell.count > 0)
    }

    /// Mean of the observations, weighted linearly from 1 (now) to 0 (one window ago); `None` without any.
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
    pub fn max(&self, now: Timestamp) -> f64 {
        self.recent(now).fold(0.0, |max, (_, cell)| max.max(cell.max))
    }

    /// Sum of the observations.
    #[must_use]
    pub fn sum(&self, now: Timestamp) -> f64 {
        let expired_places = expired_places(self.head, self.number(now));
        self.total - expired_places.map(|place| self.ring[place].sum).sum::<f64>()
    }

    /// Sum a second, over the window or over the time since `began` if that is shorter.
    #[must_use]
    pub fn rate(&self, now: Timestamp, began: Timestamp) -> f64 {
        let length = (self.cell * CELLS).min(now.since(began).max(self.cell));
        self.sum(now) / length.as_secs_f64()
    }
}

/// Indices of the cells that expire when the newest moves from `head` to `number`.
fn expired_places(head: u64, number: u64) -> impl Iterator<Item = usize> {
    let count = (number - head).min(CELLS);
    (head + 1..=head + count).map(|number| (number % CELLS) as usize)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_micros(ms * 1_000)
    }

    proptest! {
        /// It holds the observations of the newest cell and of the ones before it.
        #[test]
        fn it_holds_the_observations_within_the_window(seen in prop::collection::vec((0_u64..400, 0_u32..9), 0..200), later in 0_u64..2_000) {
            // Cells of 10 ms.
            let mut window = Window::new(Span::from_millis(500));
            let mut all = Vec::new();
            let mut now = 0;
            for (gap, value) in seen {
                now += gap * gap / 400;
                window.observe(f64::from(value), at(now));
                all.push((now, f64::from(value)));
            }
            now += later;
            all.retain(|(then, _)| now / 10 - then / 10 < CELLS);
            let sum: f64 = all.iter().map(|(_, value)| value).sum();
            prop_assert_eq!(window.sum(at(now)), sum);
            prop_assert_eq!(window.max(at(now)), all.iter().map(|(_, value)| *value).fold(0.0, f64::max));
            let weight = |then: &u64| (CELLS - (now / 10 - then / 10)) as f64;
            let weights: f64 = all.iter().map(|(then, _)| weight(then)).sum();
            let mean = all.iter().map(|(then, value)| weight(then) * value).sum::<f64>() / weights;
            let mean_of_window = window.weighted_mean(at(now));
            prop_assert_eq!(mean_of_window.is_some(), !all.is_empty());
            prop_assert!(mean_of_window.is_none_or(|mean_of_window| (mean_of_window - mean).abs() < 1e-9));
        }
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
            "half the weight of a new one: {mean}"
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
        assert_eq!(window.max(at(1_000)), 1.0);
    }
}
