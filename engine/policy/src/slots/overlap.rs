//! Slots that prepare the next batch while one runs. The state of such a slot is that of its place for
//! preparation. Behind it are batches whose runs have begun, some of which may only have their outputs read
//! while the next one runs.
//!
//! ```text
//! Free ──Grant──> Granted ──Started──> Busy (prepares) ──Launched──> Free
//!                                                            └──> behind: one more ──Finished──> one less
//! ```

use std::collections::BTreeMap;

use weir_types::{SlotId, Span, Timestamp};

/// Batches of a slot whose runs have begun.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Behind {
    batches: u32,
    /// Expected end of the last of their runs.
    until: Timestamp,
    /// Expected duration of the run of the batch that is being prepared.
    expected: Span,
}

/// The slots that prepare ahead.
#[derive(Debug, Clone, Default)]
pub(super) struct OverlappedSlots(BTreeMap<SlotId, Behind>);

impl OverlappedSlots {
    pub(super) fn new(slots: &[SlotId]) -> Self {
        Self(slots.iter().map(|&slot| (slot, Behind::default())).collect())
    }

    pub(super) fn contains(&self, slot: SlotId) -> bool {
        self.0.contains_key(&slot)
    }

    /// Time at which the work that runs on `slot` is expected to end; `now` if none does, or if the slot does
    /// not prepare ahead.
    pub(super) fn run_end(&self, slot: SlotId, now: Timestamp) -> Timestamp {
        let behind = self.0.get(&slot).filter(|behind| behind.batches > 0);
        behind.map_or(now, |behind| behind.until.max(now))
    }

    /// A batch is being prepared.
    pub(super) fn on_started(&mut self, slot: SlotId, expected: Span) {
        if let Some(behind) = self.0.get_mut(&slot) {
            behind.expected = expected;
        }
    }

    /// The batch that was being prepared runs.
    pub(super) fn on_launched(&mut self, slot: SlotId, now: Timestamp) {
        if let Some(behind) = self.0.get_mut(&slot) {
            behind.batches += 1;
            behind.until = now + behind.expected;
        }
    }

    /// A batch ended; returns whether one was in flight.
    pub(super) fn on_finished(&mut self, slot: SlotId) -> bool {
        let behind = self.0.get_mut(&slot).filter(|behind| behind.batches > 0);
        behind.is_some_and(|behind| {
            behind.batches -= 1;
            true
        })
    }
}
