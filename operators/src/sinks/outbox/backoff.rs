//! Wait before the next attempt to deliver an event, or to connect. The bound doubles with each attempt up to a maximum,
//! with jitter, so that many senders to one server do not return at the same moment.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(200);
const MAX: Duration = Duration::from_secs(30);

/// See the module.
#[derive(Debug)]
pub(crate) struct Backoff {
    tries: u32,
    random: u64,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self {
            tries: 0,
            random: RandomState::new().build_hasher().finish(),
        }
    }

    /// Something was delivered.
    pub(crate) fn reset(&mut self) {
        self.tries = 0;
    }

    /// The next wait: between half of the bound of this try and all of it.
    pub(crate) fn next_wait(&mut self) -> Duration {
        let bound = FIRST.saturating_mul(1 << self.tries.min(16)).min(MAX);
        self.tries = self.tries.saturating_add(1);
        // Knuth's generator: any will do.
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        bound.mul_f64(0.5 + 0.5 * ((self.random >> 40) as f64 / (1_u64 << 24) as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_within_their_bounds() {
        let mut backoff = Backoff::new();
        let mut bound = FIRST;
        for _ in 0..40 {
            let wait = backoff.next_wait();
            assert!(wait >= bound / 2 && wait <= bound, "{wait:?} of {bound:?}");
            bound = (bound * 2).min(MAX);
        }
        backoff.reset();
        assert!(backoff.next_wait() <= FIRST);
    }
}
