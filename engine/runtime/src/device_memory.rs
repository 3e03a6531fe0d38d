//! Devices with limited memory, and the models of a graph that are placed on them.

use std::collections::BTreeSet;

use weir_graph::Graph;
use weir_policy::residency::ModelMemory;
use weir_policy::{DeviceMemory, DeviceModel};
use weir_types::{ModelId, SlotId};

use crate::assembly::RunError;
use crate::resident::SessionUse;
use crate::slot_layout::SlotLayout;

/// The devices that are limited, apart by whether all their models have a place at once.
#[derive(Debug, Default)]
pub(crate) struct DeviceMemories {
    /// Those whose memory does not hold all their models.
    pub(crate) short: Vec<DeviceMemory>,
    /// Those whose models generate and take turns, since their memory does not hold a session of each on each slot.
    pub(crate) generating: Vec<DeviceMemory>,
    /// Slots of those that hold all: their models are opened now and stay open, as without a limit.
    pub(crate) roomy: BTreeSet<SlotId>,
}

impl DeviceMemories {
    /// `sessions` are what a session of each model takes, where its device is limited.
    ///
    /// # Errors
    /// [`RunError::ModelTooLarge`] where a model alone takes more than its device has.
    pub(crate) fn new(
        graph: &Graph,
        slots: &SlotLayout,
        sessions: &[Option<SessionUse>],
    ) -> Result<Self, RunError> {
        let mut memories = Self::default();
        for (index, device) in graph.devices().iter().enumerate() {
            let takes_turns = slots.takes_turns(graph, index);
            let limit = match takes_turns {
                true => graph.generating_memory(index),
                false => graph.shared_memory(index),
            };
            let Some(limit) = limit else { continue };
            let mut models = Vec::new();
            for (id, (node, session)) in graph.models().iter().zip(sessions).enumerate() {
                let Some(session) = session.filter(|_| node.device == index) else {
                    continue;
                };
                if session.device_bytes > limit.bytes {
                    return Err(RunError::ModelTooLarge {
                        model: node.name.clone(),
                        device: device.name.clone(),
                        bytes: session.device_bytes,
                        memory: limit.bytes,
                    });
                }
                models.push(DeviceModel {
                    model: ModelId(id as u32),
                    slots: slots.slots_of_model(id).to_vec(),
                    memory: ModelMemory {
                        device_bytes: session.device_bytes,
                        host_bytes: session.host_bytes,
                    },
                    open_cold: session.open_cold,
                    open_warm: session.open_warm,
                });
            }
            let memory = DeviceMemory {
                memory: limit.bytes,
                host_memory: limit.host_bytes,
                models,
            };
            if takes_turns {
                memories.generating.push(memory);
            } else if memory.holds_all() {
                memories.roomy.extend(slots.slots_of_device(index));
            } else {
                memories.short.push(memory);
            }
        }
        Ok(memories)
    }
}
