//! Which part of a module's work each of its slots is to do (KEN 4.3.3: the shares of replicas), by gears that change it.
//!
//! ```text
//! lead(s) = time on s - share(s) * time on all slots
//! ```
//!
//! Of slots that are free the one that is furthest behind its share is granted. On a slot that is ahead of its share a module
//! comes after those that are not; nothing waits for a slot that is busy while another one is free. Where a share is zero the
//! module is not placed.

use std::collections::BTreeMap;

use weir_types::{SlotId, Span};

/// Older work counts less: what is behind is halved when this much was done.
const MEMORY: Span = Span::from_secs(5);

/// The shares of one module.
#[derive(Debug, Clone, Default)]
pub(crate) struct SlotShares {
    shares: BTreeMap<SlotId, f64>,
    served: BTreeMap<SlotId, f64>,
}

impl SlotShares {
    /// Sets a slot's share; `None`: it has none, and any slot may do all of the work where none has.
    pub(crate) fn set(&mut self, slot: SlotId, share: Option<f64>) {
        // What was done by other shares is neither behind nor ahead of these.
        self.served.clear();
        match share {
            Some(share) => self.shares.insert(slot, share),
            None => self.shares.remove(&slot),
        };
    }

    /// Whether any slot has a share.
    pub(crate) fn is_set(&self) -> bool {
        self.shares.values().any(|share| *share > 0.0)
    }

    /// Whether the module may run on the slot.
    pub(crate) fn is_placed(&self, slot: SlotId) -> bool {
        !self.is_set() || self.share(slot) > 0.0
    }

    fn share(&self, slot: SlotId) -> f64 {
        self.shares.get(&slot).copied().unwrap_or(0.0)
    }

    /// Seconds that the slot has done beyond its share; below zero where it is behind.
    pub(crate) fn lead(&self, slot: SlotId) -> f64 {
        if !self.is_set() {
            return 0.0;
        }
        let all: f64 = self.served.values().sum();
        self.served.get(&slot).copied().unwrap_or(0.0) - self.share(slot) * all
    }

    /// A batch is granted a slot.
    pub(crate) fn on_granted(&mut self, slot: SlotId, duration: Span) {
        if !self.is_set() {
            return;
        }
        *self.served.entry(slot).or_default() += duration.as_secs_f64();
        if self.served.values().sum::<f64>() > MEMORY.as_secs_f64() {
            self.served.values_mut().for_each(|served| *served /= 2.0);
        }
    }
}
