//! Reconnection of cameras: exponential backoff with full jitter, so that a hundred cameras behind one switch do not
//! reconnect at once. Attempts continue while the run lasts.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use weir_types::Span;

/// Bounds of the backoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReconnectSpec {
    /// Longest wait before the first attempt.
    pub first: Span,
    /// Longest wait of all.
    pub max: Span,
}

impl Default for ReconnectSpec {
    /// One second, doubled up to half a minute: soon enough for a replugged cable, rare enough for a dead host.
    fn default() -> Self {
        Self {
            first: Span::from_secs(1),
            max: Span::from_secs(30),
        }
    }
}

/// Least wait as a fraction of its bound: a source that fails at once must not spin.
const MIN_WAIT_FRACTION: f64 = 0.1;

/// Backoff of one stream.
#[derive(Debug, Clone)]
pub struct Backoff {
    spec: ReconnectSpec,
    tries: u32,
    random: Pcg64Mcg,
}

impl Backoff {
    /// Waits are drawn from `seed`, which differs between streams.
    #[must_use]
    pub fn new(spec: ReconnectSpec, seed: u64) -> Self {
        Self {
            spec,
            tries: 0,
            random: Pcg64Mcg::seed_from_u64(seed),
        }
    }

    /// Wait before the next attempt.
    pub fn next_wait(&mut self) -> Span {
        let longest = (self.spec.first * (1 << self.tries.min(32))).min(self.spec.max);
        self.tries = self.tries.saturating_add(1);
        let share = self.random.random::<f64>();
        longest.scale(share.max(MIN_WAIT_FRACTION))
    }

    /// A frame arrived: the next outage starts from the first wait.
    pub fn on_frame(&mut self) {
        self.tries = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_their_bound_and_differ_among_streams() {
        let waits = |seed| {
            let mut backoff = Backoff::new(ReconnectSpec::default(), seed);
            (0..200).map(|_| backoff.next_wait()).collect::<Vec<Span>>()
        };
        let (one, two) = (waits(1), waits(2));
        assert_eq!(one, waits(1), "seed 1 repeats");
        assert_ne!(one, two);
        for (attempt, wait) in one.iter().enumerate() {
            let longest = Span::from_secs(1 << attempt.min(10)).min(Span::from_secs(30));
            assert!(
                *wait <= longest && *wait >= longest.scale(MIN_WAIT_FRACTION),
                "try {attempt}: {wait}"
            );
        }
        let mean = one[5..].iter().map(|wait| wait.as_secs_f64()).sum::<f64>() / 195.0;
        assert!(
            (mean - 15.0).abs() < 3.0,
            "full jitter means half the bound: {mean} (seed 1)"
        );
    }

    #[test]
    fn a_frame_resets_the_backoff() {
        let mut backoff = Backoff::new(ReconnectSpec::default(), 7);
        for _ in 0..10 {
            backoff.next_wait();
        }
        backoff.on_frame();
        assert!(backoff.next_wait() <= Span::from_secs(1));
    }
}
