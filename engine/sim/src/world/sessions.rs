//! Sessions that are opened and closed on slots whose devices cannot hold all their models.

use weir_policy::{SlotEffect, SlotEvent};
use weir_types::{ModelId, SlotId, Span};

use super::cluster_run::actual_span;
use super::{Event, Site};

impl Site<'_> {
    /// Opens or closes a session.
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
                let reported = self.now + took + self.spec.handover;
                self.event_queue.push(reported, Event::Session(opened));
            }
            SlotEffect::Close { slot, model } => {
                let took = Span::ZERO;
                let closed = SlotEvent::Closed { slot, model, took };
                let reported = self.now + self.spec.handover;
                self.event_queue.push(reported, Event::Session(closed));
            }
            // The simulator keeps no sessions of its own; the policy's count decides.
            SlotEffect::Discard { .. }
            | SlotEffect::SetTimer { .. }
            | SlotEffect::Planned { .. }
            | SlotEffect::Grant { .. }
            | SlotEffect::Forecast { .. }
            | SlotEffect::Share { .. } => {}
        }
    }

    fn declared_opening(&self, slot: SlotId, model: ModelId, warm: bool) -> Span {
        let memory = &self.spec.memory;
        let devices = memory.devices.iter().chain(&memory.generating);
        let models = devices.flat_map(|device| &device.models);
        let mut of_slot = models.filter(|known| known.model == model && known.slots.contains(&slot));
        let span = |known: &weir_policy::DeviceModel| if warm { known.open_warm } else { known.open_cold };
        of_slot.next().map_or(Span::ZERO, span)
    }

    /// Counts what was opened and closed.
    pub(super) fn count_session(&mut self, event: &SlotEvent) {
        if let Some(report) = &mut self.residency {
            let names = &self.spec.memory.names;
            report.on_event(event, |model| {
                names.get(model.index()).map_or("?", String::as_str)
            });
        }
    }
}
