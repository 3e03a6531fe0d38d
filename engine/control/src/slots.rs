//! The arbiter of slots as a machine.

use std::collections::BTreeSet;

use weir_policy::{ModuleEvent, SlotEffect, SlotEvent, Slots, SlotsSpec};
use weir_types::{SlotId, Timestamp};

use crate::machine::{Machine, Outbox};
use crate::message::{Address, Effect, Message};

/// Grants slots to modules, and opens and closes models on them.
#[derive(Debug)]
pub struct SlotMachine {
    policy: Slots,
    /// Slots that it grants; others are of modules that have them alone.
    granted: BTreeSet<SlotId>,
    due: Vec<SlotEvent>,
    effects: Vec<SlotEffect>,
}

impl SlotMachine {
    /// All slots free.
    #[must_use]
    pub fn new(spec: SlotsSpec) -> Self {
        let placements = spec.placements.iter();
        Self {
            granted: placements.flat_map(|placement| placement.slots.clone()).collect(),
            policy: Slots::new(spec),
            due: Vec::new(),
            effects: Vec::new(),
        }
    }

    /// The policy that it decides by.
    #[must_use]
    pub fn policy(&self) -> &Slots {
        &self.policy
    }

    pub(crate) fn grants(&self, slot: SlotId) -> bool {
        self.granted.contains(&slot)
    }

    pub(crate) fn due(&self) -> usize {
        self.due.len()
    }
}

impl Machine for SlotMachine {
    type Message = SlotEvent;

    fn on(&mut self, event: SlotEvent, _now: Timestamp, _out: &mut Outbox) {
        self.due.push(event);
    }

    fn decide(&mut self, now: Timestamp, out: &mut Outbox) {
        self.policy.step(self.due.drain(..), now, &mut self.effects);
        for effect in self.effects.drain(..) {
            match (ModuleEvent::from_slots(effect), effect) {
                (Some((module, event)), _) => out.tell(Message::fact(module, event)),
                (None, SlotEffect::SetTimer { at }) => out.act(Effect::SetTimer {
                    of: Address::Slots,
                    at,
                }),
                (None, effect) => out.act(Effect::Session(effect)),
            }
        }
    }

    fn is_due(&self) -> bool {
        !self.due.is_empty()
    }
}
