//! Other programs on the processors that run batches: endless loops of equal priority, switched on and off.
//!
//! Each worker has a processor of its own, as on a machine with as many workers as cores. While the loops are
//! on, each runs on one of the processors for a while, until the scheduler moves it. A processor with `k`
//! loops gives its worker every `k + 1`th time slice. A batch therefore takes its profiled time without a
//! loop, twice that with one loop, or a time in between if a loop came or left during the batch: durations
//! have several modes, which all change when the loops are switched.

use weir_policy::uniform_hash;
use weir_types::{Span, Timestamp};

/// Busy loops that share the processors of the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interference {
    /// Number of busy loops.
    pub loops: u32,
    /// Time for which the loops are off, then on, in turn, starting with off; above zero.
    pub half_period: Span,
    /// A time slice of the scheduler; above zero.
    pub slice: Span,
    /// Time for which a loop stays on one processor before it may move; a multiple of `slice`.
    pub stay: Span,
}

impl Interference {
    /// Creates the loops with the time slices and migrations of a desktop's scheduler.
    #[must_use]
    pub fn new(loops: u32, half_period: Span) -> Self {
        Self {
            loops,
            half_period,
            slice: Span::from_millis(4),
            stay: Span::from_millis(60),
        }
    }

    /// Wall time that work of `work` processor time takes on processor `processor` of `processors`, starting
    /// at `start`. `seed` determines the placement of the loops.
    pub(crate) fn elapsed(
        &self,
        work: Span,
        start: Timestamp,
        (processor, processors): (u32, u32),
        seed: u64,
    ) -> Span {
        let slice = self.slice.micros().max(1);
        let (mut now, mut left) = (start.micros(), work.micros());
        while left > 0 {
            let end = (now / slice + 1) * slice;
            if self.gives(now / slice, processor, processors, seed) {
                let ran = left.min(end - now);
                left -= ran;
                now += ran;
            } else {
                now = end;
            }
        }
        Span::from_micros(now - start.micros())
    }

    /// True if the worker gets time slice number `slice` of its processor.
    fn gives(&self, slice: u64, processor: u32, processors: u32, seed: u64) -> bool {
        let at = Span::from_micros(slice * self.slice.micros());
        if (at.micros() / self.half_period.micros().max(1)).is_multiple_of(2) {
            return true;
        }
        let stay = at.micros() / self.stay.micros().max(1);
        let place = |index: u32| {
            let draw = uniform_hash(seed ^ (stay << 8) ^ u64::from(index));
            (draw * f64::from(processors.max(1))) as u32
        };
        let beside = (0..self.loops).filter(|&index| place(index) == processor).count() as u64;
        (slice + u64::from(processor)).is_multiple_of(beside + 1)
    }

    /// The part of the processors that is left for `workers` busy workers on as many processors while the loops are on, by
    /// equal shares of all that runs: `workers / (workers + loops)`.
    #[must_use]
    pub fn share_left(&self, workers: u32) -> f64 {
        f64::from(workers) / f64::from((workers + self.loops).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Span {
        Span::from_millis(ms)
    }

    #[test]
    fn work_takes_its_time_alone_and_more_beside_loops() {
        let beside = Interference::new(1, Span::from_secs(5));
        let at = |ms: u64| Timestamp::from_micros(ms * 1_000);
        let elapsed = |start, work| beside.elapsed(ms(work), at(start), (0, 1), 7);
        assert_eq!(elapsed(1_000, 40), ms(40), "they are off");
        let on = elapsed(6_000, 40);
        assert!((ms(76)..=ms(84)).contains(&on), "every other slice: {on}");
        let crossing = elapsed(4_980, 40);
        assert!(
            (ms(54)..=ms(64)).contains(&crossing),
            "half of it alone: {crossing}"
        );
        assert_eq!(elapsed(10_000, 40), ms(40), "off again");
    }

    #[test]
    fn a_loop_is_on_each_of_two_processors_in_turn() {
        let beside = Interference::new(1, Span::from_secs(5));
        let started = (0..200).map(|number| Timestamp::from_micros(5_000_000 + number * 24_000));
        let (alone, shared): (Vec<Span>, Vec<Span>) = started
            .map(|start| beside.elapsed(ms(12), start, (0, 2), 3))
            .partition(|span| *span == ms(12));
        assert!(
            alone.len() > 50 && shared.len() > 50,
            "{} and {}",
            alone.len(),
            shared.len()
        );
    }
}
