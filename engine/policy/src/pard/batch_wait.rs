//! Batch waits: the time between joining a batch and its start, and the quantile of their sum along a path (PARD 4.2).

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use weir_types::Span;

/// Points of the inverse distribution that a module publishes: some 500 bytes a second.
const SKETCH_POINTS: usize = 129;

/// Most recent batch waits of one module, in microseconds.
#[derive(Debug, Clone)]
pub struct BatchWaitSamples {
    recent: VecDeque<u32>,
    max_samples: usize,
    /// Samples of the last sketch, ascending. Few change between two sketches, so they are merged instead of
    /// sorted again.
    sorted: Vec<u32>,
    /// Samples since the last sketch, up to `max_samples + 1`.
    new_count: usize,
    /// Samples removed since.
    removed: Vec<u32>,
}

impl BatchWaitSamples {
    /// Creates a store for the last `max_samples` waits (PARD's M).
    #[must_use]
    pub fn new(max_samples: usize) -> Self {
        Self {
            recent: VecDeque::new(),
            max_samples: max_samples.max(1),
            sorted: Vec::new(),
            new_count: 0,
            removed: Vec::new(),
        }
    }

    /// Adds one wait.
    pub fn observe(&mut self, wait: Span) {
        self.new_count = (self.new_count + 1).min(self.max_samples + 1);
        if self.recent.len() == self.max_samples
            && let Some(removed) = self.recent.pop_front()
            && !self.is_replaced()
        {
            self.removed.push(removed);
        }
        self.recent
            .push_back(u32::try_from(wait.micros()).unwrap_or(u32::MAX));
    }

    /// Whether all samples of the last sketch are replaced.
    fn is_replaced(&self) -> bool {
        self.new_count > self.max_samples
    }

    /// Updates the sorted samples.
    fn sort(&mut self) {
        if self.is_replaced() {
            self.sorted = self.recent.iter().copied().collect();
            self.sorted.sort_unstable();
        } else if self.new_count > 0 {
            let mut added: Vec<u32> = self.recent.iter().rev().take(self.new_count).copied().collect();
            added.sort_unstable();
            self.removed.sort_unstable();
            self.sorted = merged(&self.sorted, &self.removed, &added);
        }
        self.new_count = 0;
        self.removed.clear();
    }

    /// The distribution at evenly spaced ranks.
    #[must_use]
    pub fn sketch(&mut self) -> QuantileSketch {
        self.sort();
        let Some(last) = self.sorted.len().checked_sub(1) else {
            return QuantileSketch::default();
        };
        let points = SKETCH_POINTS.min(self.sorted.len());
        let rank = |point: usize| {
            if points == 1 {
                0
            } else {
                point * last / (points - 1)
            }
        };
        QuantileSketch {
            points: (0..points).map(|point| self.sorted[rank(point)]).collect(),
        }
    }
}

/// Returns `all` without `removed`, which it contains, and with `added`. All lists are ascending. Runs
/// between two changes are copied at once.
fn merged(all: &[u32], removed: &[u32], added: &[u32]) -> Vec<u32> {
    let mut changed = Vec::with_capacity(all.len() + added.len() - removed.len());
    let (mut removed, mut added) = (removed.iter().peekable(), added.iter().peekable());
    let mut rest = all;
    loop {
        let next = match (removed.peek(), added.peek()) {
            (None, None) => break,
            (Some(&&old), None) => old,
            (None, Some(&&new)) => new,
            (Some(&&old), Some(&&new)) => old.min(new),
        };
        let (before, from) = rest.split_at(rank_of(rest, next));
        changed.extend_from_slice(before);
        let leave = std::iter::from_fn(|| removed.next_if(|old| **old == next)).count();
        rest = &from[leave..];
        changed.extend(std::iter::from_fn(|| added.next_if(|new| **new == next)));
    }
    changed.extend_from_slice(rest);
    changed
}

/// Number of values in `all`, ascending, below `bound`: few, so the search is exponential from the start.
fn rank_of(all: &[u32], bound: u32) -> usize {
    let mut reach = 1;
    while all.get(reach).is_some_and(|wait| *wait < bound) {
        reach *= 2;
    }
    let passed = reach / 2;
    passed + all[passed..reach.min(all.len())].partition_point(|wait| *wait < bound)
}

/// A distribution of waits as published: microseconds at evenly spaced ranks, ascending. Empty: always zero.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct QuantileSketch {
    points: Vec<u32>,
}

impl QuantileSketch {
    /// The distribution on a grid of cells: the share of waits in each, uniform between points.
    fn cell_shares(&self, cell: f64) -> Vec<f64> {
        let last = self.points.last().copied().unwrap_or(0);
        let mut shares = vec![0.0; (f64::from(last) / cell) as usize + 1];
        if let [only] = self.points.as_slice() {
            shares[(f64::from(*only) / cell) as usize] = 1.0;
        }
        let weight = 1.0 / (self.points.len().max(2) - 1) as f64;
        for pair in self.points.windows(2) {
            let (low, high) = (f64::from(pair[0]) / cell, f64::from(pair[1]) / cell);
            let (first, last) = (low as usize, high as usize);
            if first == last {
                shares[first] += weight;
                continue;
            }
            for (place, share) in shares.iter_mut().enumerate().take(last + 1).skip(first) {
                let covered = high.min(place as f64 + 1.0) - low.max(place as f64);
                *share += weight * covered / (high - low);
            }
        }
        shares
    }

    /// The shortest wait in microseconds.
    fn min(&self) -> f64 {
        f64::from(self.points.first().copied().unwrap_or(0))
    }

    /// The same waits, each multiplied by `factor`.
    #[must_use]
    pub(crate) fn scaled(mut self, factor: f64) -> Self {
        if factor != 1.0 {
            let scale = |point: &mut u32| {
                let scaled = Span::from_micros(u64::from(*point)).scale(factor);
                *point = u32::try_from(scaled.micros()).unwrap_or(u32::MAX);
            };
            self.points.iter_mut().for_each(scale);
        }
        self
    }

    /// The longest wait.
    pub(crate) fn max(&self) -> Span {
        Span::from_micros(self.points.last().copied().unwrap_or(0).into())
    }

    /// Bytes of its points when published.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.points.len() * size_of::<u32>()
    }
}

/// Number of cells of the grid on which waits are summed: the quantile's resolution is the longest sum
/// divided by this.
const GRID: f64 = 512.0;

/// `F^-1(quantile)` of the summed waits along a path. Waits of different modules count as independent, as in
/// the paper ("weakly correlated"). The paper draws 10,000 samples; convolving the distributions gives the
/// same result without sampling noise, in a tenth of the time.
#[must_use]
pub fn path_wait_quantile(path: &[&QuantileSketch], quantile: f64) -> Span {
    let longest: f64 = path.iter().map(|sketch| sketch.max().micros() as f64).sum();
    if longest < 1.0 {
        return Span::ZERO;
    }
    let cell = longest / GRID;
    let mut sum = vec![1.0];
    for sketch in path.iter().filter(|sketch| sketch.max() > Span::ZERO) {
        sum = convolution(&sum, &sketch.cell_shares(cell));
    }
    let cells = path.iter().filter(|sketch| sketch.max() > Span::ZERO).count();
    let mut cumulative = 0.0;
    let mut wait = longest;
    for (place, share) in sum.iter().enumerate() {
        if cumulative + share >= quantile && *share > 0.0 {
            // A wait is uniform in its cell: the mean of a sum is half a cell higher per summand.
            let within = ((quantile - cumulative) / share).max(0.0);
            wait = (place as f64 + within + (cells.saturating_sub(1)) as f64 / 2.0) * cell;
            break;
        }
        cumulative += share;
    }
    let min: f64 = path.iter().map(|sketch| sketch.min()).sum();
    Span::from_micros(wait.clamp(min, longest).round() as u64)
}

fn convolution(a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut sum = vec![0.0; a.len() + b.len() - 1];
    for (place, share) in a.iter().enumerate().filter(|(_, share)| **share > 0.0) {
        for (of, with) in sum[place..].iter_mut().zip(b) {
            *of += share * with;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    fn uniform(duration: u32) -> QuantileSketch {
        QuantileSketch {
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
            let share = path_wait_quantile(&path, 0.1).micros() as f64 / (modules as f64 * 100_000.0);
            assert!(
                (share - expected).abs() < 0.01,
                "{modules} modules: {share} instead of {expected}"
            );
        }
    }

    fn sketch() -> impl Strategy<Value = QuantileSketch> {
        prop::collection::vec(0_u32..200_000, 0..40).prop_map(|mut points| {
            points.sort_unstable();
            QuantileSketch { points }
        })
    }

    /// A wait drawn from a sketch, linear between points.
    fn draw(sketch: &QuantileSketch, random: &mut Pcg64Mcg) -> f64 {
        match sketch.points.as_slice() {
            [] => 0.0,
            points => {
                let rank = random.random::<f64>() * (points.len() - 1) as f64;
                let next = (rank as usize + 1).min(points.len() - 1);
                let (low, high) = (f64::from(points[rank as usize]), f64::from(points[next]));
                low + (high - low) * rank.fract()
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// The quantile function is monotone and within the range of the samples.
        #[test]
        fn the_quantile_is_monotone_and_bounded(path in prop::collection::vec(sketch(), 0..5)) {
            let path: Vec<&QuantileSketch> = path.iter().collect();
            let waits: Vec<Span> = (0..=40).map(|step| path_wait_quantile(&path, f64::from(step) / 40.0)).collect();
            prop_assert!(waits.is_sorted(), "{waits:?}");
            let longest: Span = path.iter().map(|sketch| sketch.max()).sum();
            prop_assert!(waits[40] <= longest);
        }

        /// A sketch is that of the last samples, however many are added between two.
        #[test]
        fn a_sketch_is_that_of_the_last_ones(max_samples in 1_usize..60, seen in prop::collection::vec((0_u64..30, any::<bool>()), 0..300)) {
            let mut waits = BatchWaitSamples::new(max_samples);
            let mut all = Vec::new();
            for (wait, look) in seen {
                waits.observe(Span::from_micros(wait));
                all.push(wait as u32);
                if look {
                    let mut last = all[all.len().saturating_sub(max_samples)..].to_vec();
                    last.sort_unstable();
                    prop_assert_eq!(waits.sketch().points, last);
                }
            }
        }

        /// It equals the quantile of drawn sums, as in the paper.
        #[test]
        fn it_is_the_quantile_of_drawn_sums(path in prop::collection::vec(sketch(), 1..5), seed in 0_u64..1_000) {
            let path: Vec<&QuantileSketch> = path.iter().collect();
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            let drawn = |random: &mut Pcg64Mcg| path.iter().map(|sketch| draw(sketch, random)).sum::<f64>();
            let mut sums: Vec<f64> = (0..20_000).map(|_| drawn(&mut random)).collect();
            sums.sort_unstable_by(f64::total_cmp);
            let longest: Span = path.iter().map(|sketch| sketch.max()).sum();
            for quantile in [0.1_f64, 0.5, 0.9] {
                let wait = path_wait_quantile(&path, quantile).micros() as f64;
                // Between drawn quantiles to either side, within the resolution of the grid.
                let at = |quantile: f64| sums[((sums.len() - 1) as f64 * quantile) as usize];
                let resolution = longest.micros() as f64 / 100.0 + 2.0;
                prop_assert!(
                    at(quantile - 0.02) - resolution <= wait && wait <= at(quantile + 0.02) + resolution,
                    "{quantile}: {wait}, drawn {} (seed {seed})", at(quantile)
                );
            }
        }
    }

    #[test]
    fn only_recent_waits_count() {
        let mut waits = BatchWaitSamples::new(100);
        for wait in 0..1_000 {
            waits.observe(Span::from_micros(wait));
        }
        assert!(path_wait_quantile(&[&waits.sketch()], 0.0) >= Span::from_micros(900));
        assert_eq!(BatchWaitSamples::new(5).sketch(), QuantileSketch::default());
    }
}
