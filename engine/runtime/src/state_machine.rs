//! The state machines of the policy as actors drive them, and the steps of each as the event log has them.

use std::fmt::Debug;

use serde::{Deserialize, Serialize};
use weir_policy::reservations::{Reservations, ReserveEffect, ReserveEvent, ReserveSpec};
use weir_policy::{Module, ModuleEffect, ModuleEvent, SlotEffect, SlotEvent, Slots};
use weir_types::{ModuleId, Timestamp};

/// A pure state machine: takes a burst of events, decides once, and appends effects.
pub(crate) trait StateMachine {
    type Event: Clone;
    type Effect: Clone + Debug + PartialEq;

    fn step(
        &mut self,
        events: impl IntoIterator<Item = Self::Event>,
        now: Timestamp,
        effects: &mut Vec<Self::Effect>,
    );

    /// The line of the event log for a step of it.
    fn line(&self, at: Timestamp, events: Vec<Self::Event>, effects: Vec<Self::Effect>) -> Line;
}

/// A line of the event log: one step.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "actor", rename_all = "kebab-case")]
pub(crate) enum Line {
    Module {
        id: ModuleId,
        at: Timestamp,
        events: Vec<ModuleEvent>,
        effects: Vec<ModuleEffect>,
    },
    Slots {
        at: Timestamp,
        events: Vec<SlotEvent>,
        effects: Vec<SlotEffect>,
    },
    Reservations {
        at: Timestamp,
        events: Vec<ReserveEvent>,
        effects: Vec<ReserveEffect>,
    },
    /// A plan comes into force: from here on the reservations are made from `spec`, with nothing booked.
    Plan { spec: ReserveSpec },
}

impl StateMachine for Module {
    type Event = ModuleEvent;
    type Effect = ModuleEffect;

    fn step(
        &mut self,
        events: impl IntoIterator<Item = ModuleEvent>,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        Self::step(self, events, now, effects);
    }

    fn line(&self, at: Timestamp, events: Vec<ModuleEvent>, effects: Vec<ModuleEffect>) -> Line {
        Line::Module {
            id: self.id(),
            at,
            events,
            effects,
        }
    }
}

impl StateMachine for Slots {
    type Event = SlotEvent;
    type Effect = SlotEffect;

    fn step(
        &mut self,
        events: impl IntoIterator<Item = SlotEvent>,
        now: Timestamp,
        effects: &mut Vec<SlotEffect>,
    ) {
        Self::step(self, events, now, effects);
    }

    fn line(&self, at: Timestamp, events: Vec<SlotEvent>, effects: Vec<SlotEffect>) -> Line {
        Line::Slots { at, events, effects }
    }
}

impl StateMachine for Reservations {
    type Event = ReserveEvent;
    type Effect = ReserveEffect;

    fn step(
        &mut self,
        events: impl IntoIterator<Item = ReserveEvent>,
        now: Timestamp,
        effects: &mut Vec<ReserveEffect>,
    ) {
        Self::step(self, events, now, effects);
    }

    fn line(&self, at: Timestamp, events: Vec<ReserveEvent>, effects: Vec<ReserveEffect>) -> Line {
        Line::Reservations { at, events, effects }
    }
}
