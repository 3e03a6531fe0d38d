//! Work that runs on a slot far beyond its profile: a session that hangs neither fails nor returns, so the slot would be busy
//! for ever without a sign. The slot is taken out of use until the work returns.

use std::collections::BTreeMap;

use weir_types::{SlotId, Span};

use crate::telemetry::TICK_INTERVAL;

/// Work is overdue after so many times its expected time ...
const OVERDUE_FACTOR: u64 = 20;
/// ... and not before this: a machine may be busy for seconds.
const MIN_OVERDUE: Span = Span::from_secs(10);

/// A batch or a step on a slot, watched until it returns.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlotWatch {
    pub(super) slot: SlotId,
    pub(super) expected: Span,
    /// Counted in ticks, so that a process that was stopped for a while reports nothing.
    pub(super) ran: Span,
    is_overdue: bool,
}

impl SlotWatch {
    pub(super) const fn new(slot: SlotId, expected: Span) -> Self {
        Self {
            slot,
            expected,
            ran: Span::ZERO,
            is_overdue: false,
        }
    }

    pub(super) const fn is_overdue(&self) -> bool {
        self.is_overdue
    }

    /// Counts a tick; gives itself when it becomes overdue.
    pub(super) fn on_tick(&mut self) -> Option<Self> {
        self.ran += TICK_INTERVAL;
        let is_overdue = self.ran >= MIN_OVERDUE.max(self.expected * OVERDUE_FACTOR);
        let becomes = is_overdue && !std::mem::replace(&mut self.is_overdue, is_overdue);
        becomes.then_some(*self)
    }
}

/// Slots of a graph on which work is overdue, with the number of such batches or steps. Modules share slots.
#[derive(Debug, Default)]
pub(super) struct OverdueSlots(BTreeMap<SlotId, u32>);

impl OverdueSlots {
    pub(super) fn add(&mut self, slot: SlotId) {
        *self.0.entry(slot).or_default() += 1;
    }

    /// Work on a slot returned; says whether none is overdue there any more.
    pub(super) fn remove(&mut self, slot: SlotId) -> bool {
        let Some(count) = self.0.get_mut(&slot) else {
            return false;
        };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            self.0.remove(&slot);
        }
        is_last
    }

    pub(super) fn contains(&self, slot: SlotId) -> bool {
        self.0.contains_key(&slot)
    }

    /// Number of those among `slots`.
    pub(super) fn count<'a>(&self, slots: impl Iterator<Item = &'a SlotId>) -> usize {
        slots.filter(|slot| self.contains(**slot)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticks until a batch with that expected time is overdue.
    fn ticks(expected: Span) -> u64 {
        let mut watch = SlotWatch::new(SlotId(1), expected);
        let found = (1..100_000).find(|_| watch.on_tick().is_some());
        assert!(watch.is_overdue());
        assert!(watch.on_tick().is_none(), "it is reported once");
        found.unwrap_or_default()
    }

    #[test]
    fn batch_is_overdue_far_beyond_its_profile_and_not_within_seconds() {
        assert_eq!(
            ticks(Span::from_millis(5)),
            MIN_OVERDUE.micros() / TICK_INTERVAL.micros()
        );
        assert_eq!(
            ticks(Span::from_secs(4)),
            Span::from_secs(80).micros() / TICK_INTERVAL.micros()
        );
    }

    #[test]
    fn slot_comes_back_when_the_last_of_its_batches_returns() {
        let mut slots = OverdueSlots::default();
        let (a, b) = (SlotId(1), SlotId(2));
        slots.add(a);
        slots.add(a);
        assert_eq!(slots.count([a, b].iter()), 1);
        assert!(!slots.remove(a) && slots.remove(a) && !slots.remove(a));
        assert_eq!(slots.count([a, b].iter()), 0);
    }
}
