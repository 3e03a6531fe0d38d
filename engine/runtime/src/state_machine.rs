//! The state machines of the policy as actors drive them, and the steps of each as the event log has them.

use std::fmt::Debug;

use serde::{Deserialize, Serialize};
use weir_policy::gears::{GearEffect, GearEvent, GearShift, ShiftSpec};
use weir_policy::reservations::{PlannedEffect, PlannedEvent, PlannedReservations, ReserveSpec};
use weir_policy::{
    BreakerEffect, BreakerEvent, BreakerSpec, DecodeEffect, DecodeEvent, DecodeLevels, Module, ModuleEffect,
    ModuleEvent, ModuleSpec, SlotBreaker, SlotEffect, SlotEvent, Slots, SlotsSpec,
};
use weir_types::{ModuleId, Timestamp, WorkerId};

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
        #[serde(default, skip_serializing_if = "is_first")]
        graph: u32,
        id: ModuleId,
        at: Timestamp,
        events: Vec<ModuleEvent>,
        effects: Vec<ModuleEffect>,
    },
    Slots {
        #[serde(default, skip_serializing_if = "is_first")]
        graph: u32,
        at: Timestamp,
        events: Vec<SlotEvent>,
        effects: Vec<SlotEffect>,
    },
    Breaker {
        #[serde(default, skip_serializing_if = "is_first")]
        graph: u32,
        at: Timestamp,
        events: Vec<BreakerEvent>,
        effects: Vec<BreakerEffect>,
    },
    Reservations {
        at: Timestamp,
        events: Vec<PlannedEvent>,
        effects: Vec<PlannedEffect>,
    },
    Gears {
        #[serde(default, skip_serializing_if = "is_first")]
        graph: u32,
        at: Timestamp,
        events: Vec<GearEvent>,
        effects: Vec<GearEffect>,
    },
    /// What the gears of a graph are shifted by in the beginning.
    GearPlan {
        #[serde(default, skip_serializing_if = "is_first")]
        graph: u32,
        spec: ShiftSpec,
    },
    DecodeLevels {
        at: Timestamp,
        events: Vec<DecodeEvent>,
        effects: Vec<DecodeEffect>,
    },
    /// Another graph is in force, of that number; what is in flight of those before goes on.
    Graph {
        number: u32,
        modules: Vec<ModuleSpec>,
        slots: SlotsSpec,
        breaker: BreakerSpec,
    },
    /// A plan is in force from here on, with nothing booked and all workers up.
    Plan {
        spec: ReserveSpec,
        #[serde(default)]
        number: u64,
        /// The worker of each share.
        #[serde(default)]
        owners: Vec<WorkerId>,
    },
}

/// The graph that a run begins with has no number in lines.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_first(graph: &u32) -> bool {
    *graph == 0
}

impl Line {
    /// As a step of a state machine of the graph of that number.
    pub(crate) fn of_graph(mut self, number: u32) -> Self {
        if let Self::Module { graph, .. }
        | Self::Slots { graph, .. }
        | Self::Breaker { graph, .. }
        | Self::Gears { graph, .. } = &mut self
        {
            *graph = number;
        }
        self
    }
}

impl StateMachine for GearShift {
    type Event = GearEvent;
    type Effect = GearEffect;

    fn step(
        &mut self,
        events: impl IntoIterator<Item = GearEvent>,
        now: Timestamp,
        effects: &mut Vec<GearEffect>,
    ) {
        Self::step(self, events, now, effects);
    }

    fn line(&self, at: Timestamp, events: Vec<GearEvent>, effects: Vec<GearEffect>) -> Line {
        Line::Gears {
            graph: 0,
            at,
            events,
            effects,
        }
    }
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
            graph: 0,
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
        Line::Slots {
            graph: 0,
            at,
            events,
            effects,
        }
    }
}

impl StateMachine for SlotBreaker {
    type Event = BreakerEvent;
    type Effect = BreakerEffect;

    fn step(
        &mut self,
        events: impl IntoIterator<Item = BreakerEvent>,
        now: Timestamp,
        effects: &mut Vec<BreakerEffect>,
    ) {
        Self::step(self, events, now, effects);
    }

    fn line(&self, at: Timestamp, events: Vec<BreakerEvent>, effects: Vec<BreakerEffect>) -> Line {
        Line::Breaker {
            graph: 0,
            at,
            events,
            effects,
        }
    }
}

impl StateMachine for DecodeLevels {
    type Event = DecodeEvent;
    type Effect = DecodeEffect;

    fn step(
        &mut self,
        events: impl IntoIterator<Item = DecodeEvent>,
        now: Timestamp,
        effects: &mut Vec<DecodeEffect>,
    ) {
        Self::step(self, events, now, effects);
    }

    fn line(&self, at: Timestamp, events: Vec<DecodeEvent>, effects: Vec<DecodeEffect>) -> Line {
        Line::DecodeLevels { at, events, effects }
    }
}

impl StateMachine for PlannedReservations {
    type Event = PlannedEvent;
    type Effect = PlannedEffect;

    fn step(
        &mut self,
        events: impl IntoIterator<Item = PlannedEvent>,
        now: Timestamp,
        effects: &mut Vec<PlannedEffect>,
    ) {
        Self::step(self, events, now, effects);
    }

    fn line(&self, at: Timestamp, events: Vec<PlannedEvent>, effects: Vec<PlannedEffect>) -> Line {
        Line::Reservations { at, events, effects }
    }
}
