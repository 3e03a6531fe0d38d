//! Batch waits: how long requests sat in a batch before it ran, and the quantile of their sum along a path (PARD 4.2).

use std::collections::VecDeque;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use crate::time::Span;

/// Points of the inverse distribution that a module tells the others: some 500 bytes a second.
const SKETCH_POINTS: usize = 129;

/// The most recent batch waits of one module.
#[derive(Debug, Clone)]
pub struct Waits {
    recent: VecDeque<u32>,
    most: usize,
}

impl Waits {
    /// Keeps the last `most` waits.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            recent: VecDeque::new(),
            most: most.max(1),
        }
    }

    /// Takes in one wait.
    pub fn observe(&mut self, wait: Span) {
        if self.recent.len() == self.most {
            self.recent.pop_front();
        }
        self.recent
            .push_back(u32::try_from(wait.micros()).unwrap_or(u32::MAX));
    }

    /// The distribution at evenly spaced ranks.
    #[must_use]
    pub fn sketch(&self) -> Sketch {
        let mut sorted: Vec<u32> = self.recent.iter().copied().collect();
        sorted.sort_unstable();
        let Some(last) = sorted.len().checked_sub(1) else {
            return Sketch::default();
        };
        let points = SKETCH_POINTS.min(sorted.len());
        let rank = |point: usize| {
            if points == 1 {
                0
            } else {
                point * last / (points - 1)
            }
        };
        Sketch {
            points: (0..points).map(|point| sorted[rank(point)]).collect(),
        }
    }
}

/// A distribution of waits as a module publishes it: microseconds at evenly spaced ranks, ascending. Empty: always zero.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sketch {
    points: Vec<u32>,
}

impl Sketch {
    /// A wait drawn from the distribution: linear between its points.
    fn draw(&self, random: &mut Pcg64Mcg) -> f64 {
        match self.points.as_slice() {
            [] => 0.0,
            [only] => f64::from(*only),
            points => {
                let rank = random.random::<f64>() * (points.len() - 1) as f64;
                let (below, part) = (rank as usize, rank.fract());
                let (low, high) = (
                    f64::from(points[below]),
                    f64::from(points[(below + 1).min(points.len() - 1)]),
                );
                low + (high - low) * part
            }
        }
    }

    /// The longest wait.
    pub(crate) fn most(&self) -> Span {
        Span::from_micros(self.points.last().copied().unwrap_or(0).into())
    }

    /// Bytes that telling it to another module takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.points.len() * size_of::<u32>()
    }
}

/// `F^-1(quantile)` of the summed waits along a path, by drawing `draws` requests. Waits of different modules are taken
/// as independent, as the paper does ("weakly correlated").
#[must_use]
pub fn summed_wait(path: &[&Sketch], quantile: f64, draws: usize, seed: u64) -> Span {
    if path
        .iter()
        .all(|sketch| sketch.points.iter().all(|&wait| wait == 0))
    {
        return Span::ZERO;
    }
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut sums: Vec<u64> = (0..draws.max(1))
        .map(|_| path.iter().map(|sketch| sketch.draw(&mut random)).sum::<f64>() as u64)
        .collect();
    let rank = ((sums.len() - 1) as f64 * quantile.clamp(0.0, 1.0)).round() as usize;
    let (_, wait, _) = sums.select_nth_unstable(rank);
    Span::from_micros(*wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uniform(duration: u32) -> Sketch {
        Sketch {
            points: (0..SKETCH_POINTS as u32)
                .map(|i| duration * i / (SKETCH_POINTS as u32 - 1))
                .collect(),
        }
    }

    /// The paper's figures for four equal modules with uniform waits and lambda = 0.1 (end of 4.2).
    #[test]
    fn four_equal_modules_give_the_papers_quantiles() {
        let wait = uniform(100_000);
        for (modules, expected) in [(4, 0.31), (3, 0.28), (2, 0.22), (1, 0.10)] {
            let path = vec![&wait; modules];
            let share = summed_wait(&path, 0.1, 10_000, 7).micros() as f64 / (modules as f64 * 100_000.0);
            assert!(
                (share - expected).abs() < 0.01,
                "{modules} modules: {share} instead of {expected}"
            );
        }
    }

    #[test]
    fn the_quantile_is_monotone_and_bounded() {
        let (a, b) = (uniform(40_000), uniform(90_000));
        let sums: Vec<_> = [0.0, 0.1, 0.5, 0.9, 1.0]
            .iter()
            .map(|&quantile| summed_wait(&[&a, &b], quantile, 10_000, 1))
            .collect();
        assert!(sums.is_sorted());
        assert!(sums[4] <= Span::from_micros(130_000));
        assert_eq!(summed_wait(&[], 0.5, 100, 1), Span::ZERO);
    }

    #[test]
    fn only_recent_waits_count() {
        let mut waits = Waits::new(100);
        for wait in 0..1_000 {
            waits.observe(Span::from_micros(wait));
        }
        assert!(summed_wait(&[&waits.sketch()], 0.0, 1_000, 1) >= Span::from_micros(900));
        assert_eq!(Waits::new(5).sketch(), Sketch::default());
    }
}
