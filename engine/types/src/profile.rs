//! Batch durations: measured or declared at some batch sizes, interpolated between them.

use serde::{Deserialize, Serialize};

use crate::time::Span;

/// Batch durations of one model on one class of slot, by batch size.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Profile {
    /// `(batch size, duration)`, ascending in size, at least one, no size twice, none zero.
    points: Vec<(u32, Span)>,
}

impl Profile {
    /// A profile from `(batch size, duration)` in any order; `None` if the list is empty or a size is zero.
    #[must_use]
    pub fn new(mut points: Vec<(u32, Span)>) -> Option<Self> {
        points.sort_unstable();
        points.dedup_by_key(|(size, _)| *size);
        let usable = points.first().is_some_and(|(size, _)| *size > 0);
        usable.then_some(Self { points })
    }

    /// The `(batch size, duration)` points, ascending in size.
    #[must_use]
    #[inline]
    pub fn points(&self) -> &[(u32, Span)] {
        &self.points
    }

    /// Expected duration of a batch of `size` items: interpolated linearly between measured sizes, constant below the
    /// smallest (at worst the batch is padded), extrapolated along the last segment above the largest.
    #[must_use]
    #[inline]
    pub fn duration(&self, size: u32) -> Span {
        let after = self.points.partition_point(|(measured, _)| *measured < size);
        let line = |(x0, y0): (u32, Span), (x1, y1): (u32, Span)| {
            let slope = (y1.micros() as f64 - y0.micros() as f64) / f64::from(x1 - x0);
            let micros = y0.micros() as f64 + slope * (f64::from(size) - f64::from(x0));
            Span::from_micros(micros.round().max(0.0) as u64)
        };
        match (after, self.points.get(after)) {
            (0, Some(&(_, duration))) => duration,
            (_, Some(&right)) if right.0 == size => right.1,
            (_, Some(&right)) => line(self.points[after - 1], right),
            (1, None) => self.points[0]
                .1
                .scale(f64::from(size) / f64::from(self.points[0].0)),
            (_, None) => line(self.points[after - 2], self.points[after - 1]),
        }
    }

    /// Durations of the one after the other, by batch size.
    #[must_use]
    pub fn followed_by(&self, other: &Self) -> Self {
        let sizes = self.points.iter().chain(&other.points).map(|(size, _)| *size);
        let points = sizes.map(|size| (size, self.duration(size) + other.duration(size)));
        Self::new(points.collect()).unwrap_or_else(|| self.clone())
    }

    /// Items a second in batches of `size` items.
    #[must_use]
    #[inline]
    pub fn throughput(&self, size: u32) -> f64 {
        f64::from(size) / self.duration(size).as_secs_f64().max(1e-6)
    }

    /// Dynamic batching (PARD 5.1, after Nexus): the largest of `sizes` whose doubled duration fits `share` of the SLO.
    /// A size that raises throughput by less than 2 % over the one chosen so far is skipped: it would only add latency.
    #[must_use]
    pub fn batch_size(&self, sizes: &[u32], share: Span) -> u32 {
        let mut best = sizes.first().copied().unwrap_or(1);
        for &size in sizes {
            let fits = self.duration(size) * 2 <= share;
            if fits && self.throughput(size) > self.throughput(best) * 1.02 {
                best = size;
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(points: &[(u32, u64)]) -> Profile {
        Profile::new(
            points
                .iter()
                .map(|&(size, ms)| (size, Span::from_millis(ms)))
                .collect(),
        )
        .unwrap()
    }

    #[test]
    fn durations_are_interpolated() {
        let measured = profile(&[(4, 40), (1, 10), (8, 60)]);
        let check = |size, ms| assert_eq!(measured.duration(size), Span::from_millis(ms), "batch {size}");
        check(1, 10);
        check(2, 20);
        check(4, 40);
        check(6, 50);
        check(8, 60);
        check(16, 100);
        assert_eq!(profile(&[(4, 40)]).duration(1), Span::from_millis(40), "padded");
        assert_eq!(profile(&[(4, 40)]).duration(8), Span::from_millis(80));
    }

    #[test]
    fn durations_one_after_the_other_add_up() {
        let both = profile(&[(1, 10), (4, 40)]).followed_by(&profile(&[(2, 4)]));
        let ms = |size| both.duration(size).as_millis_f64();
        assert_eq!((ms(1), ms(2), ms(4)), (14.0, 24.0, 48.0));
    }

    #[test]
    fn no_profile_without_points() {
        assert_eq!(Profile::new(vec![]), None);
        assert_eq!(Profile::new(vec![(0, Span::from_millis(1))]), None);
    }

    #[test]
    fn the_batch_is_the_largest_whose_doubled_duration_fits() {
        let gpu = profile(&[(1, 10), (2, 12), (4, 16), (8, 24)]);
        let check = |share, size| assert_eq!(gpu.batch_size(&[1, 2, 4, 8], Span::from_millis(share)), size);
        check(1, 1);
        check(24, 2);
        check(47, 4);
        check(48, 8);
        let cpu = profile(&[(1, 10), (2, 20), (4, 42)]);
        assert_eq!(
            cpu.batch_size(&[1, 2, 4], Span::from_secs(1)),
            1,
            "batching does not raise throughput here"
        );
    }
}
