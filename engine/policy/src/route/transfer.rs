//! Data that a moving sequence transfers over a link: its token ids, or its cache.
//!
//! ```text
//! ids    latency + tokens x 4 bytes / bandwidth + time to compute all tokens there
//! cache  latency + cached tokens x bytes a token / bandwidth + time to compute the other tokens there
//! ```
//!
//! The paper always transfers token ids (3.4, Figure 9). The cheaper choice depends on the link, the model
//! and the destination's device; `docs/reproduction/goodserve` has a table.

use serde::{Deserialize, Serialize};
use weir_types::{Span, StepProfile};

use crate::generate::InstanceSpec;

/// Bytes of a token id.
const ID_BYTES: f64 = 4.0;

/// Data that is transferred with a moving sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transfer {
    /// Token ids; the destination computes all tokens again.
    TokenIds,
    /// The cache of the sequence, as far as tokens are cached.
    Cache,
}

/// A link between two instances.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Time until the first bit arrives.
    pub latency: Span,
    /// Bandwidth in bits a second.
    pub bandwidth_bps: f64,
}

impl Link {
    /// Time to transfer `bytes`, latency included.
    #[must_use]
    pub fn duration(&self, bytes: f64) -> Span {
        self.latency + Span::from_secs_f64(8.0 * bytes / self.bandwidth_bps.max(1.0))
    }
}

/// Cost parameters of moves. A router uses them to choose the data that is transferred, and to compare a move
/// with staying.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MoveCost {
    /// Link between any two instances.
    pub link: Link,
    /// Bytes of the cache for one token.
    pub cache_bytes: f64,
}

impl MoveCost {
    /// Cheaper transfer of a sequence with `tokens` tokens, of which `cached` are cached, to a device.
    #[must_use]
    pub fn cheaper(&self, [tokens, cached]: [u32; 2], to: &InstanceSpec) -> Transfer {
        let device = (&to.steps, to.max_step_tokens);
        TransferCost::new(&self.link, self.cache_bytes, [tokens, cached], device).best()
    }

    /// Time on the link, and the number of tokens that are cached at the destination.
    #[must_use]
    pub fn carry(&self, by: Transfer, [tokens, cached]: [u32; 2]) -> (Span, u32) {
        let cached = cached.min(tokens);
        match by {
            Transfer::Cache => (self.link.duration(self.cache_bytes * f64::from(cached)), cached),
            Transfer::TokenIds => (self.link.duration(ID_BYTES * f64::from(tokens)), 0),
        }
    }

    /// Cheaper transfer of a sequence with `tokens` tokens, all of them cached, with its cost at the
    /// destination.
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

/// Arrival of a sequence on an instance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Arriving {
    pub(super) by: Transfer,
    /// Number of tokens that the instance computes before the sequence generates.
    pub(super) tokens: u32,
    /// Seconds until the sequence has arrived.
    pub(super) delay_s: f64,
}

/// Time of a move, for either kind of transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferCost {
    /// Time with token ids, computing them again included.
    pub token_ids: Span,
    /// Time with the cache, computing uncached tokens included.
    pub cache: Span,
}

impl TransferCost {
    /// Cost for a sequence with `tokens` tokens, of which `cached` are cached at `cache_bytes` bytes each.
    /// The destination has these step times and computes at most `max_step_tokens` a step.
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

    /// The faster transfer; among equals token ids, which use less of the link.
    #[must_use]
    pub fn best(&self) -> Transfer {
        if self.cache < self.token_ids {
            Transfer::Cache
        } else {
            Transfer::TokenIds
        }
    }
}

/// Time of the steps that compute so many tokens.
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
        // Computing 250 tokens again takes 20 + 20 + 15 ms; their cache is 25 MB.
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
        // Uncached tokens are computed for either transfer.
        let link = Link {
            latency: Span::ZERO,
            bandwidth_bps: 1e12,
        };
        let none = TransferCost::new(&link, 1e5, [250, 0], (&steps, 100));
        assert_eq!(none.best(), Transfer::TokenIds);
    }
}
