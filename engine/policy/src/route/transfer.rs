//! What goes over a link when a sequence moves: the numbers of its tokens, or its cache.
//!
//! ```text
//! ids    latency + tokens x 4 bytes / bandwidth + tokens computed again where it goes to
//! cache  latency + cached tokens x bytes of their cache / bandwidth + what is not cached computed
//! ```
//!
//! The paper moves numbers always (3.4, Figure 9). Which is less depends on the link, the model and the device that it goes
//! to: a table of that is in `docs/reproduction/goodserve`.

use serde::{Deserialize, Serialize};
use weir_types::{Span, StepProfile};

use crate::generate::InstanceSpec;

/// Bytes of a token's number.
const ID_BYTES: f64 = 4.0;

/// What goes over a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transfer {
    /// Numbers of tokens: all are computed again.
    TokenIds,
    /// The cache.
    Cache,
}

/// A link between two instances.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Until the first bit is there.
    pub latency: Span,
    /// Bits a second.
    pub bandwidth_bps: f64,
}

impl Link {
    /// How long `bytes` are on it.
    #[must_use]
    pub fn duration(&self, bytes: f64) -> Span {
        self.latency + Span::from_secs_f64(8.0 * bytes / self.bandwidth_bps.max(1.0))
    }
}

/// What moves go over, and what a cache takes: by that a router picks what goes over it, and knows what a move costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MoveCost {
    /// Between any two instances.
    pub link: Link,
    /// Bytes of a token's part of the cache.
    pub cache_bytes: f64,
}

impl MoveCost {
    /// The way that takes less for a sequence with so many tokens, and so many of them cached, to a device.
    #[must_use]
    pub fn cheaper(&self, [tokens, cached]: [u32; 2], to: &InstanceSpec) -> Transfer {
        let device = (&to.steps, to.max_step_tokens);
        TransferCost::new(&self.link, self.cache_bytes, [tokens, cached], device).best()
    }

    /// How long it is on the link that way, and what of it is cached where it arrives.
    #[must_use]
    pub fn carry(&self, by: Transfer, [tokens, cached]: [u32; 2]) -> (Span, u32) {
        let cached = cached.min(tokens);
        match by {
            Transfer::Cache => (self.link.duration(self.cache_bytes * f64::from(cached)), cached),
            Transfer::TokenIds => (self.link.duration(ID_BYTES * f64::from(tokens)), 0),
        }
    }

    /// What a sequence with so many tokens, all of them cached, takes to a device.
    pub(super) fn of(&self, tokens: u32, to: &InstanceSpec) -> Arriving {
        let by = self.cheaper([tokens; 2], to);
        let (delay, cached) = self.carry(by, [tokens; 2]);
        Arriving {
            by,
            tokens: tokens - cached,
            delay_s: delay.as_secs_f64(),
        }
    }
}

/// How a sequence comes to an instance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Arriving {
    pub(super) by: Transfer,
    /// Tokens that are computed there before it goes on.
    pub(super) tokens: u32,
    /// Until it is there.
    pub(super) delay_s: f64,
}

/// What a move would take either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferCost {
    /// With numbers of tokens.
    pub token_ids: Span,
    /// With the cache.
    pub cache: Span,
}

impl TransferCost {
    /// Of a sequence with so many tokens, `cached` of them in the cache at `cache_bytes` each, that goes over `link` to a
    /// device with these step times, at most `max_step_tokens` a step.
    #[must_use]
    pub fn new(
        link: &Link,
        cache_bytes: f64,
        [tokens, cached]: [u32; 2],
        (steps, max_step_tokens): (&StepProfile, u32),
    ) -> Self {
        let cached = cached.min(tokens);
        Self {
            token_ids: link.duration(ID_BYTES * f64::from(tokens)) + computed(steps, max_step_tokens, tokens),
            cache: link.duration(cache_bytes * f64::from(cached))
                + computed(steps, max_step_tokens, tokens - cached),
        }
    }

    /// Which takes less; of equals the numbers, which take less of the link.
    #[must_use]
    pub fn best(&self) -> Transfer {
        if self.cache < self.token_ids {
            Transfer::Cache
        } else {
            Transfer::TokenIds
        }
    }
}

/// Time of steps that compute so many tokens.
fn computed(steps: &StepProfile, max_step_tokens: u32, tokens: u32) -> Span {
    let max = max_step_tokens.max(1);
    let (full, rest) = (tokens / max, tokens % max);
    let all = Span::from_micros(
        steps
            .prompt
            .duration(max)
            .micros()
            .saturating_mul(u64::from(full)),
    );
    if rest > 0 {
        all + steps.prompt.duration(rest)
    } else {
        all
    }
}

#[cfg(test)]
mod tests {
    use weir_types::StepCurve;

    use super::*;

    #[test]
    fn fast_links_carry_caches_and_slow_ones_numbers() {
        let points = [(1, Span::from_millis(10)), (100, Span::from_millis(20))];
        let curve = StepCurve::from_points(&points).unwrap();
        let steps = StepProfile {
            decode: curve.clone(),
            prompt: curve,
        };
        // 250 tokens are computed again in 20 + 20 + 15 ms; their cache is 25 MB.
        for (bandwidth_bps, best) in [(1e9, Transfer::TokenIds), (1e10, Transfer::Cache)] {
            let link = Link {
                latency: Span::from_millis(1),
                bandwidth_bps,
            };
            let cost = TransferCost::new(&link, 1e5, [250, 250], (&steps, 100));
            assert_eq!(cost.best(), best, "{cost:?}");
            let again = cost.token_ids.as_millis_f64();
            assert!((55.8..56.2).contains(&again), "{again}");
        }
        // What is not cached is computed either way.
        let link = Link {
            latency: Span::ZERO,
            bandwidth_bps: 1e12,
        };
        let none = TransferCost::new(&link, 1e5, [250, 0], (&steps, 100));
        assert_eq!(none.best(), Transfer::TokenIds);
    }
}
