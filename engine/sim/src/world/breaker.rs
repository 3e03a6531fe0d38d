//! Shared slots whose batches fail, and the breaker that takes them out of use.

use weir_policy::{BreakerEffect, BreakerEvent, SlotEvent};
use weir_types::{SlotId, Timestamp};

use super::{Event, World};

impl World<'_> {
    /// Whether what starts on a shared slot now fails.
    pub(super) fn is_faulty(&self, slot: SlotId) -> bool {
        self.spec.faults.iter().any(|fault| {
            let at = Timestamp::ZERO + fault.at;
            fault.slot == slot.0 && (at..at + fault.lasts).contains(&self.now)
        })
    }

    /// A shared slot lost a batch, or time has passed.
    pub(super) fn break_slots(&mut self, lost: Option<SlotId>) {
        let mut effects = Vec::new();
        let lost = lost.map(|slot| BreakerEvent::BatchLost { slot });
        self.policy_events += lost.iter().count() as u64;
        self.breaker.step(lost, self.now, &mut effects);
        for effect in effects {
            match effect {
                BreakerEffect::TakeOut { slot } => self.send_slots(SlotEvent::Down { slot }),
                BreakerEffect::PutBack { slot } => self.send_slots(SlotEvent::Up { slot }),
                BreakerEffect::SetTimer { at } => self.event_queue.push(at, Event::BreakerTimer),
            }
        }
    }
}
