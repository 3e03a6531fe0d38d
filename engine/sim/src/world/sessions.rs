//! Sessions that are opened and closed on slots whose devices do not hold all their models.

use weir_policy::{SlotEffect, SlotEvent};
use weir_types::{ModelId, SlotId, Span};

use super::cluster_run::actual_span;
use super::{Event, World};

impl World<'_> {
    /// Opens or closes a session, or sets the timer of the arbiter.
    pub(super) fn change_session(&mut self, effect: SlotEffect) {
        match effect {
            SlotEffect::Open { slot, model, warm } => {
                let declared = self.declared_opening(slot, model, warm);
                let took = actual_span(declared, self.spec.noise, &mut self.random);
                let opened = SlotEvent::Opened {
                    slot,
                    model,
                    warm,
                    took,
                };
                self.event_queue.push(self.now + took, Event::Slot(opened));
            }
            SlotEffect::Close { slot, model } => {
                let took = Span::ZERO;
                let closed = SlotEvent::Closed { slot, model, took };
                self.event_queue.push(self.now, Event::Slot(closed));
            }
            SlotEffect::SetTimer { at } => {
                self.event_queue
                    .push(at.max(self.now), Event::Slot(SlotEvent::TimerFired));
            }
            // Nothing is kept but by the policy's count.
            SlotEffect::Discard { .. }
            | SlotEffect::Planned { .. }
            | SlotEffect::Grant { .. }
            | SlotEffect::Forecast { .. }
            | SlotEffect::Share { .. } => {}
        }
    }

    fn declared_opening(&self, slot: SlotId, model: ModelId, warm: bool) -> Span {
        let models = self.spec.memory.devices.iter().flat_map(|device| &device.models);
        let mut of_slot = models.filter(|known| known.model == model && known.slots.contains(&slot));
        let span = |known: &weir_policy::DeviceModel| if warm { known.open_warm } else { known.open_cold };
        of_slot.next().map_or(Span::ZERO, span)
    }

    /// A fact for the arbiter that took time to come.
    pub(super) fn on_slot_event(&mut self, event: SlotEvent) {
        if let Some(report) = &mut self.residency {
            let names = &self.spec.memory.names;
            report.on_event(&event, |model| {
                names.get(model.index()).map_or("?", String::as_str)
            });
        }
        self.slot_events.push(event);
    }
}
