//! The blocks of an instance's cache: each has one owner or is free.

use weir_types::SequenceId;
use weir_types::invariant;
use weir_types::invariant::Kind;

/// Blocks and their owners. Memory use grows with the largest number of blocks ever used, not with the size
/// of the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockPool {
    total: u32,
    /// Owner by block; blocks beyond the end were never used.
    owners: Vec<Option<SequenceId>>,
    /// Blocks that were used before and are free; the last one is taken first.
    returned: Vec<u32>,
    held: u32,
}

impl BlockPool {
    /// Creates a pool of so many free blocks.
    #[must_use]
    pub fn new(total: u32) -> Self {
        Self {
            total,
            owners: Vec::new(),
            returned: Vec::new(),
            held: 0,
        }
    }

    /// Number of blocks without an owner.
    #[must_use]
    #[inline]
    pub fn free(&self) -> u32 {
        self.total.saturating_sub(self.held)
    }

    /// Takes `count` blocks for `owner`, appended to `blocks`; returns false and takes none if fewer are
    /// free.
    pub fn take(&mut self, count: u32, owner: SequenceId, blocks: &mut Vec<u32>) -> bool {
        if self.free() < count {
            return false;
        }
        for _ in 0..count {
            let block = self.returned.pop().unwrap_or_else(|| {
                self.owners.push(None);
                self.owners.len() as u32 - 1
            });
            let before = self.owners[block as usize].replace(owner);
            invariant!(
                before.is_none(),
                Kind::CacheBlocks,
                "block {block} of {before:?} is given to {}",
                owner.0
            );
            self.held += 1;
            blocks.push(block);
        }
        self.check();
        true
    }

    /// Returns blocks to the pool.
    pub fn release(&mut self, owner: SequenceId, blocks: &mut Vec<u32>) {
        for block in blocks.drain(..) {
            let before = self.owners.get_mut(block as usize).and_then(Option::take);
            let is_owner = before == Some(owner);
            if invariant!(
                is_owner,
                Kind::CacheBlocks,
                "block {block} of {before:?} is given back by {}",
                owner.0
            ) {
                self.held -= 1;
                self.returned.push(block);
            }
        }
        self.check();
    }

    /// Checks that every block ever used is either owned or free.
    fn check(&self) {
        invariant!(
            self.held as usize + self.returned.len() == self.owners.len() && self.held <= self.total,
            Kind::CacheBlocks,
            "{} held and {} returned of {} blocks",
            self.held,
            self.returned.len(),
            self.owners.len()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::violation::assert_violates;

    #[test]
    fn a_block_that_is_not_held_is_not_given_back() {
        let given_back = || {
            let mut pool = BlockPool::new(4);
            let (mut mine, mut other) = (Vec::new(), Vec::new());
            pool.take(2, SequenceId(1), &mut mine);
            pool.take(1, SequenceId(2), &mut other);
            pool.release(SequenceId(2), &mut vec![mine[0]]);
            pool
        };
        assert_violates(Kind::CacheBlocks, given_back);
    }

    #[test]
    fn no_more_are_taken_than_are_free() {
        let mut pool = BlockPool::new(3);
        let mut blocks = Vec::new();
        assert!(pool.take(2, SequenceId(1), &mut blocks));
        assert!(!pool.take(2, SequenceId(2), &mut blocks));
        assert_eq!((pool.free(), blocks.len()), (1, 2));
        pool.release(SequenceId(1), &mut blocks);
        assert_eq!(pool.free(), 3);
    }
}
