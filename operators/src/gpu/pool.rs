//! Buffers in the memory of a device, lent and given back, within a budget of bytes. Knows no device: what allocates is a trait.
//!
//! The budget covers both lent buffers and returned buffers that are retained, so it bounds the memory that
//! the pool takes on the device. A returned buffer is lent again for a request of the same rounded size; for
//! other sizes, retained buffers are freed first if the budget requires it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Sizes are rounded up to a multiple of this, so that pictures of almost the same size share buffers.
const GRANULE_BYTES: u64 = 64 << 10;

/// Allocates memory of a device. A block is freed where it is dropped.
pub(crate) trait DeviceMemory: Send + Sync {
    /// Memory that was allocated.
    type Block: Send + Sync;
    /// Allocates `bytes`.
    ///
    /// # Errors
    /// The device's reason.
    fn allocate(&self, bytes: u64) -> Result<Self::Block, String>;
}

/// Why there is no buffer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PoolError {
    /// The budget is lent.
    #[error(
        "{wanted} bytes more would exceed the {budget} bytes that frames may take on the device, of which {lent} are lent"
    )]
    Full {
        /// Bytes that are wanted.
        wanted: u64,
        /// Bytes of the budget.
        budget: u64,
        /// Bytes that are lent.
        lent: u64,
    },
    /// The device gives no memory.
    #[error("the device gives no memory: {0}")]
    Device(String),
}

/// A pool of buffers; clones are the same pool.
pub(crate) struct DevicePool<M: DeviceMemory>(Arc<Shared<M>>);

struct Shared<M: DeviceMemory> {
    memory: M,
    budget: u64,
    state: Mutex<State<M::Block>>,
}

/// `lent + kept <= budget`, also while something is allocated or freed: both are done under the lock.
struct State<B> {
    lent: u64,
    kept: u64,
    /// Retained blocks by their rounded size in bytes.
    blocks: BTreeMap<u64, Vec<B>>,
}

/// A buffer that is lent; it is given back where it is dropped.
pub(crate) struct PooledBuffer<M: DeviceMemory> {
    /// `None` only while it is given back.
    block: Option<M::Block>,
    bytes: u64,
    pool: Arc<Shared<M>>,
}

impl<M: DeviceMemory> Clone for DevicePool<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M: DeviceMemory> DevicePool<M> {
    /// An empty pool that may take `budget` bytes of `memory`.
    pub(crate) fn new(memory: M, budget: u64) -> Self {
        let state = State {
            lent: 0,
            kept: 0,
            blocks: BTreeMap::new(),
        };
        Self(Arc::new(Shared {
            memory,
            budget,
            state: Mutex::new(state),
        }))
    }

    /// Lends a buffer of at least `bytes`, whose content is what was in it.
    ///
    /// # Errors
    /// [`PoolError`]; what is lent stays lent.
    pub(crate) fn lend(&self, bytes: u64) -> Result<PooledBuffer<M>, PoolError> {
        let shared = &self.0;
        let mut state = shared.lock();
        let full = |lent| PoolError::Full {
            wanted: bytes,
            budget: shared.budget,
            lent,
        };
        let Some(size) = bytes.max(1).checked_next_multiple_of(GRANULE_BYTES) else {
            return Err(full(state.lent));
        };
        let block = match state.take(size) {
            Some(block) => block,
            None => {
                if size > shared.budget.saturating_sub(state.lent) {
                    return Err(full(state.lent));
                }
                let keep = shared.budget - state.lent - size;
                state.free_until(keep);
                shared.memory.allocate(size).map_err(PoolError::Device)?
            }
        };
        state.lent += size;
        Ok(PooledBuffer {
            block: Some(block),
            bytes: size,
            pool: Arc::clone(shared),
        })
    }

    /// Bytes that are lent, and bytes that are kept for the next.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let state = self.0.lock();
        (state.lent, state.kept)
    }
}

impl<M: DeviceMemory> Shared<M> {
    fn lock(&self) -> MutexGuard<'_, State<M::Block>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B> State<B> {
    /// A kept block of this size.
    fn take(&mut self, size: u64) -> Option<B> {
        let blocks = self.blocks.get_mut(&size)?;
        let block = blocks.pop();
        if blocks.is_empty() {
            self.blocks.remove(&size);
        }
        self.kept -= block.as_ref().map_or(0, |_| size);
        block
    }

    /// Frees kept blocks, the smallest first, until at most `bytes` are kept.
    fn free_until(&mut self, bytes: u64) {
        while self.kept > bytes
            && let Some((&size, _)) = self.blocks.first_key_value()
        {
            drop(self.take(size));
        }
    }
}

impl<M: DeviceMemory> PooledBuffer<M> {
    /// The memory; `None` only while it is given back.
    pub(crate) fn block(&self) -> Option<&M::Block> {
        self.block.as_ref()
    }

    /// Its bytes, at least as many as were wanted.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl<M: DeviceMemory> Drop for PooledBuffer<M> {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            let mut state = self.pool.lock();
            state.lent -= self.bytes;
            state.kept += self.bytes;
            state.blocks.entry(self.bytes).or_default().push(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use proptest::prelude::*;

    use super::*;

    /// Counts what is allocated of it, and refuses what exceeds its size.
    #[derive(Debug, Default)]
    struct Counted {
        live: AtomicU64,
        most: AtomicU64,
        blocks: AtomicU64,
    }

    struct FakeMemory {
        counted: Arc<Counted>,
        size: u64,
    }

    struct FakeBlock {
        counted: Arc<Counted>,
        bytes: u64,
        owned: AtomicBool,
    }

    impl DeviceMemory for FakeMemory {
        type Block = FakeBlock;

        fn allocate(&self, bytes: u64) -> Result<FakeBlock, String> {
            let live = self.counted.live.load(Ordering::SeqCst) + bytes;
            if live > self.size {
                return Err("out of memory".to_owned());
            }
            self.counted.live.store(live, Ordering::SeqCst);
            self.counted.most.fetch_max(live, Ordering::SeqCst);
            self.counted.blocks.fetch_add(1, Ordering::SeqCst);
            Ok(FakeBlock {
                counted: Arc::clone(&self.counted),
                bytes,
                owned: AtomicBool::new(false),
            })
        }
    }

    impl Drop for FakeBlock {
        fn drop(&mut self) {
            assert!(
                !self.owned.load(Ordering::SeqCst),
                "a block is freed that is lent"
            );
            self.counted.live.fetch_sub(self.bytes, Ordering::SeqCst);
            self.counted.blocks.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn pool(budget: u64, size: u64) -> (DevicePool<FakeMemory>, Arc<Counted>) {
        let counted = Arc::new(Counted::default());
        let memory = FakeMemory {
            counted: Arc::clone(&counted),
            size,
        };
        (DevicePool::new(memory, budget), counted)
    }

    /// Owns a buffer, and sees that none else does.
    struct Owner(PooledBuffer<FakeMemory>);

    impl Owner {
        fn new(buffer: PooledBuffer<FakeMemory>) -> Self {
            let owned = &buffer.block().unwrap().owned;
            assert!(!owned.swap(true, Ordering::SeqCst), "a buffer has two owners");
            Self(buffer)
        }
    }

    impl Drop for Owner {
        fn drop(&mut self) {
            self.0.block().unwrap().owned.store(false, Ordering::SeqCst);
        }
    }

    proptest! {
        /// Buffers of any sizes, lent and given back in any order, on a device that may be smaller than the budget.
        #[test]
        fn the_budget_holds_and_every_buffer_has_one_owner_and_comes_back(
            budget in 0_u64..20 * GRANULE_BYTES,
            size in 0_u64..30 * GRANULE_BYTES,
            steps in prop::collection::vec((any::<bool>(), 0_u64..6 * GRANULE_BYTES, any::<prop::sample::Index>()), 0..80),
        ) {
            let (pool, counted) = pool(budget, size);
            let mut lent: Vec<Owner> = Vec::new();
            for (give_back, bytes, which) in steps {
                if give_back && !lent.is_empty() {
                    lent.swap_remove(which.index(lent.len()));
                } else {
                    let before = pool.bytes().0;
                    match pool.lend(bytes) {
                        Ok(buffer) => {
                            prop_assert!(buffer.bytes() >= bytes);
                            lent.push(Owner::new(buffer));
                        }
                        // Refused only where it does not fit beside what is lent.
                        Err(PoolError::Full { .. }) => {
                            let wanted = bytes.max(1).next_multiple_of(GRANULE_BYTES);
                            prop_assert!(before + wanted > budget);
                        }
                        Err(PoolError::Device(_)) => prop_assert!(size < budget),
                    }
                }
                let (lent_bytes, kept) = pool.bytes();
                prop_assert_eq!(lent_bytes, lent.iter().map(|owner| owner.0.bytes()).sum::<u64>());
                prop_assert_eq!(lent_bytes + kept, counted.live.load(Ordering::SeqCst));
            }
            prop_assert!(counted.most.load(Ordering::SeqCst) <= budget);
            // Buffers outlive the pool that lent them.
            let mut pool = Some(pool);
            if lent.len().is_multiple_of(2) {
                lent.clear();
                prop_assert_eq!(pool.as_ref().map(|pool| pool.bytes().0), Some(0));
            } else {
                pool = None;
                lent.clear();
            }
            drop(pool);
            prop_assert_eq!(counted.live.load(Ordering::SeqCst), 0);
            prop_assert_eq!(counted.blocks.load(Ordering::SeqCst), 0);
        }
    }

    #[test]
    fn threads_share_a_pool_within_its_budget() {
        let budget = 8 * GRANULE_BYTES;
        let (pool, counted) = pool(budget, u64::MAX);
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let pool = pool.clone();
                scope.spawn(move || {
                    let mut held = Vec::new();
                    for step in 0..500_u64 {
                        let granules = (thread + step * 7) % 3 + 1;
                        match pool.lend(granules * GRANULE_BYTES) {
                            Ok(buffer) => held.push(Owner::new(buffer)),
                            Err(_) => held.clear(),
                        }
                        if held.len() > 2 {
                            held.remove(0);
                        }
                    }
                });
            }
        });
        assert_eq!(pool.bytes().0, 0, "all came back");
        assert!(counted.most.load(Ordering::SeqCst) <= budget);
        drop(pool);
        assert_eq!(counted.blocks.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_buffer_is_lent_again_and_others_are_freed_for_one_that_is_larger() {
        let (pool, counted) = pool(4 * GRANULE_BYTES, u64::MAX);
        let first = pool.lend(10).unwrap();
        drop(first);
        drop(pool.lend(20).unwrap());
        assert_eq!(
            (counted.blocks.load(Ordering::SeqCst), pool.bytes()),
            (1, (0, GRANULE_BYTES))
        );
        let whole = pool.lend(4 * GRANULE_BYTES).unwrap();
        assert_eq!(counted.blocks.load(Ordering::SeqCst), 1);
        let refused = pool.lend(1).err().unwrap();
        let lent = 4 * GRANULE_BYTES;
        assert_eq!(
            refused,
            PoolError::Full {
                wanted: 1,
                budget: lent,
                lent
            }
        );
        drop(whole);
        assert!(pool.lend(u64::MAX).is_err());
    }
}
