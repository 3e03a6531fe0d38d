//! Sessions that open and close while a graph runs, on slots whose devices do not hold all their models or whose workers follow
//! the load: orders go to the workers.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_policy::{QueuesReport, SlotEffect, SlotEvent};
use weir_types::{SlotId, Span};

use crate::residency_tally::ResidencyTally;
use crate::session_control::{SessionControl, SessionOrder};

/// The workers that take orders, and counts of sessions that were opened and closed.
#[derive(Default)]
pub(crate) struct SlotSessions {
    pub(crate) controls: BTreeMap<SlotId, SessionControl>,
    /// Names of models, by index.
    pub(crate) names: Vec<String>,
    pub(crate) tally: Arc<ResidencyTally>,
}

impl SlotSessions {
    /// Whether a worker takes orders.
    pub(super) fn is_any(&self) -> bool {
        !self.controls.is_empty()
    }

    /// Carries out an effect of the arbiter, whose decision took so long. Gives the answer where a worker is gone.
    pub(super) fn act(&self, effect: SlotEffect, decision: impl FnOnce() -> Span) -> Option<SlotEvent> {
        match effect {
            SlotEffect::Open { slot, model, warm } => self.order(slot, SessionOrder::Open { model, warm }),
            SlotEffect::Close { slot, model } => self.order(slot, SessionOrder::Close { model }),
            SlotEffect::Discard { model } => {
                if let Some(control) = self.controls.values().next() {
                    control.warm.discard(model);
                }
                None
            }
            SlotEffect::Planned { .. } => {
                self.tally.on_planned(decision());
                None
            }
            // The machines have these.
            SlotEffect::Grant { .. }
            | SlotEffect::Forecast { .. }
            | SlotEffect::Share { .. }
            | SlotEffect::SetTimer { .. } => None,
        }
    }

    /// Gives an order to a worker; and the answer where it is gone.
    pub(super) fn order(&self, slot: SlotId, order: SessionOrder) -> Option<SlotEvent> {
        let control = self.controls.get(&slot);
        if control.is_some_and(|control| control.orders.try_send(order).is_ok()) {
            return None;
        }
        let took = Span::ZERO;
        Some(match order {
            SessionOrder::Open { model, .. } => SlotEvent::OpenFailed { slot, model, took },
            SessionOrder::Close { model } => SlotEvent::Closed { slot, model, took },
        })
    }

    /// A worker reports of a session.
    pub(super) fn on_changed(&self, change: &SlotEvent) {
        self.tally.on_event(change, &self.names);
    }

    pub(super) fn on_queues(&self, report: Option<QueuesReport>) {
        if let Some(report) = report.filter(|_| self.is_any()) {
            self.tally.set_queues(report);
        }
    }
}
