//! Interface of the slots' arbiter: bids, placements, events and effects.

use serde::{Deserialize, Serialize};
use weir_types::{ModelId, ModuleId, SlotId, Span, Timestamp, Topology};

use crate::residency::ModelMemory;
use crate::strategy::{Arbitration, SlotPlanning, SlotQueues};

/// A module's request to run one batch on one of its slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bid {
    /// Latest start with which the most urgent request of the batch still meets its deadline.
    pub latest_start: Timestamp,
    /// Time at which that request began to wait at this module.
    pub since: Timestamp,
    /// Expected duration of the batch.
    pub duration: Span,
    /// The slot at which the batch waits, if requests of the module wait at a slot each. `None`: any of the
    /// module's slots will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<SlotId>,
    /// All work that is queued at the module; set if the order of work is planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<WaitingWork>,
}

/// Work that is queued at one module for its slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingWork {
    /// Number of queued items.
    pub items: u32,
    /// Time that one slot needs to run all of them.
    pub time: Span,
}

/// A module on slots.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Placement {
    /// The placed module, by its index in the graph.
    pub module: ModuleId,
    /// Slots on which the module's model may run.
    pub slots: Vec<SlotId>,
    /// Weight under [`Arbitration::Weighted`]; no effect under other arbitrations.
    pub weight: f64,
    /// Whether the module gets only slot time that no other module bids for, under any arbitration. Requests
    /// that run out of time there continue with the answers that they have, which costs less than dropping a
    /// request that has no answer yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// Model that the module runs; only used if its device has limited memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelId>,
    /// Whether the module receives frames of cameras. If its device has limited memory and other work runs
    /// there too, its model stays open on as many slots as its load needs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub live: bool,
    /// Whether the module's slots differ in speed or have a queue each, so that its requests wait at a slot each. The module then
    /// bids for each slot separately, and gets a forecast of when each will be free.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub routed: bool,
}

/// A device whose memory is limited.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceMemory {
    /// Bytes of the device's memory.
    pub memory: u64,
    /// Bytes of host memory in which models are cached: they open faster from there than from their files.
    pub host_memory: u64,
    /// The models that are placed on it.
    pub models: Vec<DeviceModel>,
}

impl DeviceMemory {
    /// Whether one session of each model fits on each of its slots at the same time. On such a device all
    /// models are open from the beginning, as on a device without a limit, and none is closed for another.
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
    /// The model, by its index in the graph.
    pub model: ModelId,
    /// Slots on which the model may be opened, with one session on each.
    pub slots: Vec<SlotId>,
    /// Bytes that one session takes on the device, and bytes that all sessions together take in host memory.
    pub memory: ModelMemory,
    /// Duration of opening the model from its file.
    pub open_cold: Span,
    /// Duration of opening the model from host memory.
    pub open_warm: Span,
}

/// Slots of a run with everything that does not change while it lasts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlotsSpec {
    /// Number of slots; their ids are `0..slots`.
    pub slots: u32,
    /// Modules with the slots that each may use, ascending by module id.
    pub placements: Vec<Placement>,
    /// Rule that decides which bid is granted first.
    pub arbitration: Arbitration,
    /// The graph's shape.
    pub topology: Topology,
    /// Whether modules need forecasts of when slots will be free, because they form batches ahead.
    pub forecasts: bool,
    /// Slots that prepare the next batch while one runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overlapped: Vec<SlotId>,
    /// Devices whose memory is limited. On other devices, and on devices that
    /// [hold all](DeviceMemory::holds_all) of their models, every model stays open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<DeviceMemory>,
    /// Rule of the queues on devices with limited memory. `None`: bids are served by the arbitration, and
    /// models by turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<SlotQueues>,
    /// Planner settings for rules of `queues` that plan the order of work.
    #[serde(default, skip_serializing_if = "SlotPlanning::is_default")]
    pub planning: SlotPlanning,
}

/// A fact about slots or the modules on them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum SlotEvent {
    /// A module bids. The bid replaces its previous bid for the same slot, or for any slot if neither names
    /// one.
    Bid {
        /// Module that bids.
        module: ModuleId,
        /// The bid that is now in force.
        bid: Bid,
    },
    /// A module withdraws its bid.
    BidCancelled {
        /// Module that bid before.
        module: ModuleId,
        /// Slot that the bid was for; `None` if it was for any slot.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        slot: Option<SlotId>,
    },
    /// A module returns a granted slot without running a batch.
    Declined {
        /// Module that had the grant.
        module: ModuleId,
        /// Slot that is free again.
        slot: SlotId,
    },
    /// A batch began; on a slot that prepares ahead, its preparation.
    Started {
        /// Module that runs the batch.
        module: ModuleId,
        /// Slot that is busy now.
        slot: SlotId,
        /// Expected duration of the batch's run.
        expected: Span,
    },
    /// On a slot that prepares ahead, the run of the batch that was started last begins. Sent once for each
    /// batch, before it is finished.
    Launched {
        /// Module that runs the batch.
        module: ModuleId,
        /// Slot whose place for preparation is free again.
        slot: SlotId,
    },
    /// A batch ended, with success or not.
    Finished {
        /// Module that ran the batch.
        module: ModuleId,
        /// Slot that the batch ran on.
        slot: SlotId,
        /// Time for which the batch occupied the slot.
        took: Span,
    },
    /// A slot is lost. A grant made before is still answered: with `Declined`, or with `Started` and
    /// `Finished`.
    Down {
        /// Slot that is granted to no module from now on.
        slot: SlotId,
    },
    /// A slot that was lost can be used again.
    Up {
        /// Slot that returned.
        slot: SlotId,
    },
    /// A module gets a share of its work to do on the slot; modules without shares run on whichever slot is
    /// free.
    ShareSet {
        /// Module whose share changes.
        module: ModuleId,
        /// Slot that the share is for.
        slot: SlotId,
        /// Part of the module's work, 0 to 1. Zero: the module is not placed on the slot. `None`: the slot
        /// has no share.
        share: Option<f64>,
    },
    /// Another policy is in force from now on.
    PolicyApplied {
        /// Rule that decides which bid is granted first.
        arbitration: Arbitration,
        /// Whether modules need forecasts of when slots will be free.
        forecasts: bool,
    },
    /// A model is open on the slot.
    Opened {
        /// Slot that opened the model and is free again.
        slot: SlotId,
        /// Model that can run on the slot now.
        model: ModelId,
        /// Whether it was opened from host memory.
        warm: bool,
        /// Time for which opening occupied the slot.
        took: Span,
    },
    /// A model could not be opened on the slot; it takes no memory there.
    OpenFailed {
        /// Slot that is free again.
        slot: SlotId,
        /// Model that is not open there.
        model: ModelId,
        /// Time for which the attempt occupied the slot.
        took: Span,
    },
    /// A model is closed on the slot, and its memory there is free.
    Closed {
        /// Slot that closed the model and is free again.
        slot: SlotId,
        /// Model that is not open there any more.
        model: ModelId,
        /// Time for which closing occupied the slot.
        took: Span,
    },
    /// The time set by [`SlotEffect::SetTimer`] has come.
    TimerFired,
    /// Time has passed; the arbiter answers with each module's [`SlotEffect::Share`].
    Tick,
}

/// An action that the arbiter requests from its driver.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "kebab-case")]
pub enum SlotEffect {
    /// The module may run one batch on the slot.
    Grant {
        /// Module that may run a batch.
        module: ModuleId,
        /// Slot that the module may use once.
        slot: SlotId,
    },
    /// Time at which the slot is expected to be free for the module.
    Forecast {
        /// Module that the forecast is for.
        module: ModuleId,
        /// Slot that the forecast is about.
        slot: SlotId,
        /// Expected time; [`Timestamp::MAX`] if the slot is lost or the module is not placed there.
        free_at: Timestamp,
    },
    /// Share of its slots' time that the module can have.
    Share {
        /// Module that the share is for.
        module: ModuleId,
        /// From 0 to 1.
        share: f64,
    },
    /// Open the model on the slot; no batch runs on the slot until that has ended.
    Open {
        /// Slot that opens the model.
        slot: SlotId,
        /// Model to be opened.
        model: ModelId,
        /// Whether from host memory; else from its file.
        warm: bool,
    },
    /// Close the model on the slot.
    Close {
        /// Slot that closes the model.
        slot: SlotId,
        /// Model to be closed.
        model: ModelId,
    },
    /// Remove the model's bytes from host memory.
    Discard {
        /// Model whose cached bytes are not needed any more.
        model: ModelId,
    },
    /// The order of work on slots with limited memory was planned again, and the new order is in force.
    Planned {
        /// Number of groups of queued work in the plan.
        groups: u32,
        /// Number of items that the plan expects to be late.
        late: f64,
    },
    /// Call again at that time with `TimerFired`; replaces the previous timer.
    SetTimer {
        /// Time of the call.
        at: Timestamp,
    },
}
