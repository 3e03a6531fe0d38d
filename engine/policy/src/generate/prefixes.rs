//! Beginnings that several prompts share, and a bounded model of the instances' caches of them.
//!
//! ```text
//! prompt ──PrefixFinder──> Prefix { id, tokens } ──> request ──> Instance: reuse if held, else keep once computed
//! ```
//!
//! [`PrefixFinder`] runs beside the policy, since it needs the tokens; the prefix enters the policy with the
//! request. [`PrefixCache`] is the same in an instance, in the router's view of it and in the simulator: the
//! prefixes used last, up to a number of tokens. A driver whose session has evicted a prefix that is reused
//! computes it again, so results never depend on the model being exact.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use weir_types::SequenceId;

use crate::queue::tie_break::GOLDEN_GAMMA;

/// A beginning that several prompts share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prefix {
    /// Identifies the prefix: a hash of its tokens, or of the template that it comes from.
    pub id: u64,
    /// Number of tokens of the prefix.
    pub tokens: u32,
}

/// A prefix that a step takes from the cache of its instance, or that is stored there after the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrefixUse {
    /// Sequence whose prompt begins with the prefix.
    pub sequence: SequenceId,
    /// Number of tokens of the prefix.
    pub tokens: u32,
}

/// Maximum number of prefixes in a cache, however short they are.
const MAX_PREFIXES: usize = 256;

/// Prefixes whose caches an instance holds: those used last, up to a number of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixCache {
    capacity: u32,
    used: u32,
    /// Ordered by last use, the latest first.
    held: VecDeque<Prefix>,
}

impl PrefixCache {
    /// An empty cache for so many tokens; with 0 it never holds a prefix.
    #[must_use]
    pub fn new(capacity: u32) -> Self {
        Self {
            capacity,
            used: 0,
            held: VecDeque::new(),
        }
    }

    /// Number of the prefix's tokens that are held; 0 without a prefix.
    #[must_use]
    pub fn tokens_of(&self, prefix: Option<Prefix>) -> u32 {
        let Some(prefix) = prefix else { return 0 };
        let held = self.held.iter().find(|held| held.id == prefix.id);
        held.map_or(0, |held| held.tokens.min(prefix.tokens))
    }

    /// Number of tokens of all prefixes that are held.
    #[must_use]
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Whether the prefix can be stored, and is not held yet.
    #[must_use]
    pub fn wants(&self, prefix: Prefix) -> bool {
        (1..=self.capacity).contains(&prefix.tokens) && self.tokens_of(Some(prefix)) < prefix.tokens
    }

    /// Stores a prefix as the one used last. Evicts the least recently used ones for it; a
    /// prefix larger than the whole cache is not stored.
    pub fn insert(&mut self, prefix: Prefix) {
        if !(1..=self.capacity).contains(&prefix.tokens) {
            return;
        }
        if let Some(at) = self.held.iter().position(|held| held.id == prefix.id)
            && let Some(known) = self.held.remove(at)
        {
            self.used -= known.tokens;
        }
        while self.held.len() >= MAX_PREFIXES || self.used > self.capacity - prefix.tokens {
            let Some(oldest) = self.held.pop_back() else { break };
            self.used -= oldest.tokens;
        }
        self.used += prefix.tokens;
        self.held.push_front(prefix);
    }

    /// Marks a prefix as the one used last, if it is held.
    pub fn touch(&mut self, prefix: Prefix) {
        if let Some(at) = self.held.iter().position(|held| held.id == prefix.id)
            && let Some(held) = self.held.remove(at)
        {
            self.held.push_front(held);
        }
    }

    /// Forgets all prefixes, because the instance has lost its caches.
    pub fn clear(&mut self) {
        self.held.clear();
        self.used = 0;
    }
}

/// Number of tokens of a block: prefixes are whole blocks, as the caches of common engines have them.
pub const PREFIX_BLOCK_TOKENS: usize = 16;
/// Maximum number of blocks that are compared per prompt.
const MAX_BLOCKS: usize = 256;
/// Maximum number of block hashes that are remembered, over all prompts.
const MAX_SEEN: usize = 16_384;

/// Finds the longest beginning that a prompt shares with an earlier one, in whole blocks of
/// [`PREFIX_BLOCK_TOKENS`] tokens.
#[derive(Debug, Clone, Default)]
pub struct PrefixFinder {
    /// Hashes of beginnings of earlier prompts, each with the number of the prompt that had it last.
    seen: BTreeMap<u64, u64>,
    /// The same in the order of use; an entry is outdated if `seen` has a later number.
    order: VecDeque<(u64, u64)>,
    prompts: u64,
}

impl PrefixFinder {
    /// Prefix of a prompt that an earlier prompt has as well, without the prompt's last token; `None` if they
    /// share less than a block.
    pub fn find(&mut self, prompt: &[u32]) -> Option<Prefix> {
        self.prompts += 1;
        // The last token is computed in any case: it yields the first one of the output.
        let shareable = &prompt[..prompt.len().saturating_sub(1)];
        let blocks = shareable.chunks_exact(PREFIX_BLOCK_TOKENS).take(MAX_BLOCKS);
        let (mut id, mut tokens) = (0_u64, 0_u32);
        let mut found = None;
        let mut is_shared = true;
        for block in blocks {
            id = block.iter().fold(id, |id, token| mixed(id, *token));
            tokens += PREFIX_BLOCK_TOKENS as u32;
            is_shared &= self.seen.insert(id, self.prompts).is_some();
            self.order.push_back((id, self.prompts));
            if is_shared {
                found = Some(Prefix { id, tokens });
            }
        }
        self.forget();
        found
    }

    /// Removes outdated entries, and the least recently used hashes beyond the maximum.
    fn forget(&mut self) {
        while let Some((id, prompt)) = self.order.front().copied() {
            let is_outdated = self.seen.get(&id) != Some(&prompt);
            if !is_outdated && self.seen.len() <= MAX_SEEN {
                break;
            }
            if !is_outdated {
                self.seen.remove(&id);
            }
            self.order.pop_front();
        }
        // A hash that stays in use leaves outdated entries behind the front.
        if self.order.len() > 2 * MAX_SEEN + MAX_BLOCKS {
            let seen = &self.seen;
            self.order.retain(|(id, prompt)| seen.get(id) == Some(prompt));
        }
    }
}

/// Hash of a beginning with one more token (SplitMix64's finalizer).
fn mixed(id: u64, token: u32) -> u64 {
    let mut bits = (id ^ u64::from(token)).wrapping_add(GOLDEN_GAMMA);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(id: u64, tokens: u32) -> Prefix {
        Prefix { id, tokens }
    }

    #[test]
    fn cache_holds_the_prefixes_used_last_up_to_its_tokens() {
        let mut cache = PrefixCache::new(100);
        cache.insert(prefix(1, 40));
        cache.insert(prefix(2, 40));
        cache.insert(prefix(1, 40));
        assert_eq!(cache.used(), 80);
        cache.insert(prefix(3, 60));
        let held = [1, 2, 3].map(|id| cache.tokens_of(Some(prefix(id, 500))));
        assert_eq!(held, [40, 0, 60]);
        assert_eq!(
            cache.tokens_of(Some(prefix(3, 16))),
            16,
            "no more than the prompt shares"
        );
        assert_eq!(cache.tokens_of(None), 0);
        cache.insert(prefix(4, 101));
        assert_eq!(cache.used(), 100, "a prefix larger than the cache evicts none");
        assert!(!cache.wants(prefix(4, 101)) && !cache.wants(prefix(3, 60)) && cache.wants(prefix(2, 40)));
        cache.clear();
        assert_eq!((cache.used(), cache.tokens_of(Some(prefix(1, 40)))), (0, 0));
    }

    #[test]
    fn cache_without_tokens_holds_nothing() {
        let mut cache = PrefixCache::new(0);
        cache.insert(prefix(1, 1));
        cache.insert(prefix(2, 0));
        assert_eq!((cache.used(), cache.wants(prefix(1, 1))), (0, false));
    }

    #[test]
    fn number_of_short_prefixes_is_bounded() {
        let mut cache = PrefixCache::new(u32::MAX);
        for id in 0..1_000 {
            cache.insert(prefix(id, 1));
        }
        assert_eq!(cache.used(), MAX_PREFIXES as u32);
    }

    /// A prompt of `shared` tokens that all prompts begin with, and 40 of its own.
    fn prompt(shared: u32, own: u32) -> Vec<u32> {
        (0..shared)
            .chain((0..40).map(|token| 1_000 * own + token))
            .collect()
    }

    #[test]
    fn finder_returns_whole_blocks_that_an_earlier_prompt_had() {
        let mut finder = PrefixFinder::default();
        assert_eq!(finder.find(&prompt(40, 1)), None);
        let second = finder.find(&prompt(40, 2)).expect("they share two blocks");
        let third = finder.find(&prompt(40, 3));
        assert_eq!((second.tokens, third), (32, Some(second)));
        assert_eq!(finder.find(&prompt(17, 4)).map(|prefix| prefix.tokens), Some(16));
        assert_eq!(finder.find(&prompt(15, 5)), None);
        // A repeated prompt shares all but its last token, in whole blocks.
        assert_eq!(finder.find(&prompt(40, 1)).map(|prefix| prefix.tokens), Some(64));
        let exact: Vec<u32> = (500..532).collect();
        finder.find(&exact);
        assert_eq!(finder.find(&exact).map(|prefix| prefix.tokens), Some(16));
    }

    #[test]
    fn finder_remembers_the_latest_hashes_alone() {
        let mut finder = PrefixFinder::default();
        for own in 0..20_000 {
            finder.find(&prompt(16, own));
        }
        assert!(finder.seen.len() <= MAX_SEEN);
        assert!(finder.order.len() <= 2 * MAX_SEEN + MAX_BLOCKS);
        assert_eq!(
            finder.find(&prompt(16, 99_999)).map(|prefix| prefix.tokens),
            Some(16)
        );
        assert_eq!(
            finder.find(&prompt(16, 1)).map(|prefix| prefix.tokens),
            Some(16),
            "forgotten"
        );
    }
}
