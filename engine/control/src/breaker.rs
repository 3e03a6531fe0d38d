//! The breaker of slots as a machine.

use weir_policy::{BreakerEffect, BreakerEvent, BreakerSpec, SlotBreaker, SlotEvent};
use weir_types::Timestamp;

use crate::machine::{Machine, Outbox};
use crate::message::{Address, Effect, Message};

/// Takes slots out of use that lose one batch after another, and puts them back.
#[derive(Debug)]
pub struct BreakerMachine(SlotBreaker);

impl BreakerMachine {
    /// All slots in use.
    #[must_use]
    pub fn new(spec: BreakerSpec) -> Self {
        Self(SlotBreaker::new(spec))
    }

    fn step(&mut self, event: Option<BreakerEvent>, now: Timestamp, out: &mut Outbox) {
        let mut effects = Vec::new();
        self.0.step(event, now, &mut effects);
        for effect in effects {
            match effect {
                BreakerEffect::TakeOut { slot } => {
                    out.act(Effect::TakenOut(slot));
                    out.send(Message::Slots(SlotEvent::Down { slot }));
                }
                BreakerEffect::PutBack { slot } => out.send(Message::Slots(SlotEvent::Up { slot })),
                BreakerEffect::SetTimer { at } => out.act(Effect::SetTimer {
                    of: Address::Breaker,
                    at,
                }),
            }
        }
    }
}

impl Machine for BreakerMachine {
    type Message = BreakerEvent;

    fn on(&mut self, event: BreakerEvent, now: Timestamp, out: &mut Outbox) {
        self.step(Some(event), now, out);
    }

    /// Decides on the time alone.
    fn decide(&mut self, now: Timestamp, out: &mut Outbox) {
        self.step(None, now, out);
    }

    fn is_due(&self) -> bool {
        false
    }
}
