//! Division of a module's work among its slots (KEN 4.3.3: the shares of replicas); gears change the shares.
//!
//! ```text
//! lead(s) = time on s - share(s) * time on all slots
//! ```
//!
//! Among free slots, the one furthest behind its share is granted. On a slot that is ahead of its share a
//! module ranks after modules that are not; no request waits for a busy slot while another one is free. A
//! share of zero means that the module is not placed on the slot.

use std::collections::BTreeMap;

use weir_types::{SlotId, Span};

/// Served time at which all counts are halved, so that older work counts less.
const MEMORY: Span = Span::from_secs(5);

/// The shares of one module.
#[derive(Debug, Clone, Default)]
pub(crate) struct SlotShares {
    shares: BTreeMap<SlotId, f64>,
    served: BTreeMap<SlotId, f64>,
}

impl SlotShares {
    /// Sets a slot's share. `None` removes it; if no slot has a share, any slot may do all of the work.
    pub(crate) fn set(&mut self, slot: SlotId, share: Option<f64>) {
        // Work done under the old shares is neither behind nor ahead of the new ones.
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

    /// Seconds of work that the slot has done beyond its share; negative if it is behind.
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
