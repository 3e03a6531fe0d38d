//! What happens to slots and what the arbiter wants done: bids, placements, events and effects.

use serde::{Deserialize, Serialize};
use weir_types::{ModelId, ModuleId, SlotId, Span, Timestamp, Topology};

use crate::residency::ModelMemory;
use crate::strategy::{Arbitration, SlotPlanning, SlotQueues};

/// What a module asks for: one batch's time on one of its slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bid {
    /// When it must start so that its most urgent request is on time.
    pub latest_start: Timestamp,
    /// Since when that request has waited here.
    pub since: Timestamp,
    /// How long the batch will take.
    pub duration: Span,
    /// The slot at which it waits, where requests of the module wait at a slot each; `None`: any of the module's slots will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<SlotId>,
    /// What waits in all, where the order of work is planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<WaitingWork>,
}

/// What waits for slots at one module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingWork {
    /// Items.
    pub items: u32,
    /// How long a slot takes for all of them.
    pub time: Span,
}

/// A module on slots.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Placement {
    /// Which.
    pub module: ModuleId,
    /// Where its model is placed.
    pub slots: Vec<SlotId>,
    /// Its weight under `weighted`.
    pub weight: f64,
    /// Whether it has only the time that all others leave, under any arbitration: where its requests have none, they go on with
    /// the answers that they have, which costs less than to drop one that has no answer yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// The model that it runs; of no effect where the memory of its device is not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelId>,
    /// Whether frames of cameras come to it. Where other work shares a device whose memory is limited, its model stays open there on
    /// as many slots as its load needs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub live: bool,
    /// Whether its slots are not alike, so that its requests wait at a slot each: it bids for each slot by itself, and is notified when
    /// each will be free for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub routed: bool,
}

/// A device whose memory is limited.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceMemory {
    /// Bytes of the device.
    pub memory: u64,
    /// Bytes of host memory for what models are opened from faster than from their files.
    pub host_memory: u64,
    /// The models that are placed on it.
    pub models: Vec<DeviceModel>,
}

impl DeviceMemory {
    /// Whether a session of each model has a place on each of its slots at once. Nothing is opened or closed for another on such a
    /// device: all is open from the beginning, as on one without a limit.
    #[must_use]
    pub fn holds_all(&self) -> bool {
        let bytes = |of: &DeviceModel| (of.slots.len() as u64).saturating_mul(of.memory.device_bytes);
        let all = self.models.iter().map(bytes).fold(0, u64::saturating_add);
        all <= self.memory
    }
}

/// A model on such a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceModel {
    /// By its index in the graph.
    pub model: ModelId,
    /// Slots on which it may be opened: a session each.
    pub slots: Vec<SlotId>,
    /// What one session takes; in host memory all of them together.
    pub memory: ModelMemory,
    /// How long it takes to open from its file.
    pub open_cold: Span,
    /// How long it takes to open from host memory.
    pub open_warm: Span,
}

/// What the slots are, for as long as the run lasts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlotsSpec {
    /// How many there are.
    pub slots: u32,
    /// Who is where, by module id.
    pub placements: Vec<Placement>,
    /// Who goes first.
    pub arbitration: Arbitration,
    /// The graph's shape.
    pub topology: Topology,
    /// Whether modules want to know when slots will be free (they form batches ahead).
    pub forecasts: bool,
    /// Slots that prepare the next batch while one runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overlapped: Vec<SlotId>,
    /// Devices whose memory is limited. All is open on others, and on those that [hold all](DeviceMemory::holds_all).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<DeviceMemory>,
    /// Which work is served next there; `None`: by the arbitration and turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<SlotQueues>,
    /// How that is planned.
    #[serde(default, skip_serializing_if = "SlotPlanning::is_default")]
    pub planning: SlotPlanning,
}

/// A fact about slots or the modules on them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum SlotEvent {
    /// A module asks; replaces what it asked before of the same slot, or of any.
    Bid {
        /// Who.
        module: ModuleId,
        /// For what.
        bid: Bid,
    },
    /// A module asks no more.
    BidCancelled {
        /// Who.
        module: ModuleId,
        /// Of which slot, where it asked of one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        slot: Option<SlotId>,
    },
    /// A module gave a grant back.
    Declined {
        /// Who.
        module: ModuleId,
        /// Which.
        slot: SlotId,
    },
    /// A batch began; on a slot that prepares ahead, its preparation.
    Started {
        /// Whose.
        module: ModuleId,
        /// Where.
        slot: SlotId,
        /// How long it should take.
        expected: Span,
    },
    /// On a slot that prepares ahead: the run of the batch that was started last begins. Comes once for each, before it
    /// is finished.
    Launched {
        /// Whose.
        module: ModuleId,
        /// Where.
        slot: SlotId,
    },
    /// A batch came back, well or not.
    Finished {
        /// Whose.
        module: ModuleId,
        /// Where.
        slot: SlotId,
        /// How long it had the slot.
        took: Span,
    },
    /// The slot is lost. What was granted before still comes back: declined, or started and finished.
    Down {
        /// Which.
        slot: SlotId,
    },
    /// The slot is there again.
    Up {
        /// Which.
        slot: SlotId,
    },
    /// A module is to do this part of its work on the slot from now on, 0 to 1; zero: it is not placed there. `None`: it has no
    /// share; where it has none on any slot, it runs on whichever is free.
    ShareSet {
        /// Who.
        module: ModuleId,
        /// Where.
        slot: SlotId,
        /// Which part.
        share: Option<f64>,
    },
    /// Another policy is in force.
    PolicyApplied {
        /// Which bid goes first.
        arbitration: Arbitration,
        /// Whether modules want to know when slots will be free.
        forecasts: bool,
    },
    /// A model is open on the slot.
    Opened {
        /// Where.
        slot: SlotId,
        /// Which.
        model: ModelId,
        /// Whether it was opened from host memory.
        warm: bool,
        /// How long it had the slot.
        took: Span,
    },
    /// A model could not be opened on the slot, and takes nothing there.
    OpenFailed {
        /// Where.
        slot: SlotId,
        /// Which.
        model: ModelId,
        /// How long it had the slot.
        took: Span,
    },
    /// A model is closed on the slot, and what it took is free.
    Closed {
        /// Where.
        slot: SlotId,
        /// Which.
        model: ModelId,
        /// How long it had the slot.
        took: Span,
    },
    /// The time of [`SlotEffect::SetTimer`] has come.
    TimerFired,
    /// Time passed.
    Tick,
}

/// What the arbiter wants done.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "kebab-case")]
pub enum SlotEffect {
    /// The module may run one batch on the slot.
    Grant {
        /// Who.
        module: ModuleId,
        /// Where.
        slot: SlotId,
    },
    /// When the slot is expected to be free for the module.
    Forecast {
        /// Who.
        module: ModuleId,
        /// Where.
        slot: SlotId,
        /// When.
        free_at: Timestamp,
    },
    /// Share of its slots' time that the module can have.
    Share {
        /// Who.
        module: ModuleId,
        /// From 0 to 1.
        share: f64,
    },
    /// Open the model on the slot, which does nothing else meanwhile.
    Open {
        /// Where.
        slot: SlotId,
        /// Which.
        model: ModelId,
        /// Whether from host memory; else from its file.
        warm: bool,
    },
    /// Close the model on the slot.
    Close {
        /// Where.
        slot: SlotId,
        /// Which.
        model: ModelId,
    },
    /// Remove what is kept of the model in host memory.
    Discard {
        /// Which.
        model: ModelId,
    },
    /// The order of work on slots with limited memory was planned anew; it is in force.
    Planned {
        /// Groups of work that waited.
        groups: u32,
        /// Items that are expected to be late by it.
        late: f64,
    },
    /// A step is due then; replaces the previous timer.
    SetTimer {
        /// When.
        at: Timestamp,
    },
}
