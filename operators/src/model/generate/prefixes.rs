//! Caches of beginnings that prompts share, stored in a session: those used last, up to a number of tokens.

use std::collections::VecDeque;

use super::cache::SequenceCache;
use super::ports::CachePort;

/// Maximum number of prefixes, however short they are: as many as the policy counts on.
const MAX_PREFIXES: usize = 256;

/// Stored caches, each with its tokens.
pub(super) struct StoredPrefixes {
    capacity: usize,
    used: usize,
    /// Ordered by last use, the latest first.
    held: VecDeque<(Vec<u32>, SequenceCache)>,
}

impl StoredPrefixes {
    /// A store for so many tokens; with 0 it stores none.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            used: 0,
            held: VecDeque::new(),
        }
    }

    /// Stores the cache of `prefix`, and evicts the least recently used ones for it.
    pub(super) fn store(&mut self, prefix: Vec<u32>, cache: SequenceCache) {
        if prefix.is_empty() || prefix.len() > self.capacity {
            return;
        }
        let before = self.held.len();
        self.held.retain(|(tokens, _)| *tokens != prefix);
        if self.held.len() < before {
            self.used -= prefix.len();
        }
        while self.held.len() >= MAX_PREFIXES || self.used > self.capacity - prefix.len() {
            let Some((tokens, _)) = self.held.pop_back() else {
                break;
            };
            self.used -= tokens.len();
        }
        self.used += prefix.len();
        self.held.push_front((prefix, cache));
    }

    /// Cache of `prefix`, copied from a stored beginning that is equal or continues it; `None` if there is none.
    pub(super) fn find(&mut self, prefix: &[u32], ports: &[CachePort]) -> Option<SequenceCache> {
        let at = self
            .held
            .iter()
            .position(|(tokens, _)| tokens.starts_with(prefix))?;
        let found = self.held.remove(at)?;
        let cache = found.1.first(prefix.len(), ports);
        self.held.push_front(found);
        cache
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENS: usize = 4;

    /// Two caches of four tokens: one with two lines of two numbers a token, one with a number a token.
    fn ports() -> Vec<CachePort> {
        vec![CachePort::with_sizes(2, 2), CachePort::with_sizes(1, 1)]
    }

    /// Each number is the token's place, in the second cache ten times that.
    fn cache() -> SequenceCache {
        let line = |width: usize, scale: usize| {
            let columns = (0..TOKENS).flat_map(move |token| vec![(scale * token) as f32; width]);
            columns.collect::<Vec<f32>>()
        };
        SequenceCache {
            tokens: TOKENS,
            data: vec![[line(2, 1), line(2, 1)].concat(), line(1, 10)],
        }
    }

    #[test]
    fn first_tokens_of_every_line_are_found() {
        let mut stored = StoredPrefixes::new(TOKENS);
        stored.store(vec![5, 6, 7, 8], cache());
        let found = stored.find(&[5, 6], &ports()).expect("it begins alike");
        assert_eq!(found.tokens, 2);
        assert_eq!(
            found.data,
            [vec![0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0], vec![0.0, 10.0]]
        );
        for prefix in [&[5, 7][..], &[5, 6, 7, 8, 9]] {
            assert!(stored.find(prefix, &ports()).is_none(), "{prefix:?}");
        }
    }

    #[test]
    fn least_recently_used_prefixes_are_evicted() {
        let mut stored = StoredPrefixes::new(2 * TOKENS);
        for first in [1, 2] {
            stored.store(vec![first; TOKENS], cache());
        }
        assert!(stored.find(&[1; TOKENS], &ports()).is_some());
        stored.store(vec![3; TOKENS], cache());
        // Storing it again takes no more room.
        stored.store(vec![3; TOKENS], cache());
        let held = [1, 2, 3].map(|first| stored.find(&[first; TOKENS], &ports()).is_some());
        assert_eq!((held, stored.used), ([true, false, true], 2 * TOKENS));
        stored.store(vec![4; 2 * TOKENS + 1], cache());
        assert_eq!(stored.used, 2 * TOKENS, "one larger than the store is not stored");
    }

    #[test]
    fn number_of_short_prefixes_is_bounded() {
        let mut stored = StoredPrefixes::new(1 << 20);
        for first in 0..1_000 {
            stored.store(vec![first; TOKENS], cache());
        }
        assert_eq!(
            (stored.held.len(), stored.used),
            (MAX_PREFIXES, MAX_PREFIXES * TOKENS)
        );
    }
}
