//! Slots of devices, and the models on them, as the live engine and the simulator number them.

use std::ops::Range;

use weir_policy::AutoscaleRule;

use crate::device::MemoryLimit;
use crate::graph::{Graph, ModelNode};

/// A slot of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotNode {
    /// Index of its device.
    pub device: usize,
    /// Whether one model has it alone.
    pub is_own: bool,
}

/// A slot of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModelSlot {
    /// Its number among all slots of the graph.
    pub slot: u32,
    /// The place of its device among those of the model.
    pub end: usize,
}

/// All slots of a graph, and the models on them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphSlots {
    /// The slots, by number.
    pub all: Vec<SlotNode>,
    /// Slots that the models of a device share, by device.
    pub of_device: Vec<Range<u32>>,
    /// Slots of each model, ascending, by model.
    pub of_model: Vec<Vec<ModelSlot>>,
}

impl ModelNode {
    /// Rule of the number of its workers on so many slots; `None` if that is fixed.
    #[must_use]
    pub fn scaling_on(&self, slots: usize) -> Option<AutoscaleRule> {
        let rule = self.scaling?;
        let most = rule.max_workers.min(u32::try_from(slots).unwrap_or(u32::MAX));
        Some(AutoscaleRule {
            max_workers: most,
            min_workers: rule.min_workers.min(most),
            ..rule
        })
    }
}

impl Graph {
    /// Limit of the memory that the models of a device share batch by batch. A model whose workers follow the load shares none:
    /// it is alone on its device, and the check of the graph has seen to it that all of its workers fit. Models that generate
    /// have [`generating_memory`](Self::generating_memory).
    #[must_use]
    pub fn shared_memory(&self, device: usize) -> Option<MemoryLimit> {
        let mut own = self.models().iter().filter(|model| model.device == device);
        let limit = self.devices().get(device)?.memory;
        limit.filter(|_| own.all(|model| model.scaling.is_none() && !model.generates()))
    }

    /// Limit of the memory of a device whose models generate. Its slots have equal parts of the memory, and each model may be
    /// opened on each slot.
    #[must_use]
    pub fn generating_memory(&self, device: usize) -> Option<MemoryLimit> {
        let mut own = self.models().iter().filter(|model| model.device == device);
        let limit = self.devices().get(device)?.memory;
        limit.filter(|_| own.any(ModelNode::generates))
    }
}

impl GraphSlots {
    /// Numbers the slots of all devices one after the other, and then those of models that generate, which have theirs alone:
    /// one step follows the other there, and nothing else could run in between. Another model that wants fewer workers than its
    /// device has slots begins at a slot given by its index, so that such models spread. `cores` are those of the machine.
    #[must_use]
    pub fn new(graph: &Graph, cores: u32) -> Self {
        let mut all = Vec::new();
        let mut of_device: Vec<Range<u32>> = Vec::new();
        for (index, device) in graph.devices().iter().enumerate() {
            let first = all.len() as u32;
            let count = device.slot_count(cores);
            let slot = SlotNode {
                device: index,
                is_own: false,
            };
            all.extend((0..count).map(|_| slot));
            of_device.push(first..first + count);
        }
        let mut of_model = Vec::new();
        for (index, model) in graph.models().iter().enumerate() {
            let mut slots: Vec<ModelSlot> = Vec::new();
            for (end, (device, _)) in model.ends().enumerate() {
                let of = |slot: u32| ModelSlot { slot, end };
                if model.generates() {
                    let first = all.len() as u32;
                    let count = match graph.generating_memory(device) {
                        Some(_) => graph.devices()[device].slot_count(cores).max(1),
                        None => model.workers.unwrap_or(1).max(1),
                    };
                    let slot = SlotNode { device, is_own: true };
                    all.extend((0..count).map(|_| slot));
                    slots.extend((first..first + count).map(of));
                    continue;
                }
                let shared = of_device[device].clone();
                let wanted = model
                    .workers
                    .map_or(shared.len(), |workers| workers as usize)
                    .min(shared.len());
                slots.extend(shared.cycle().skip(index).take(wanted).map(of));
            }
            slots.sort_unstable();
            of_model.push(slots);
        }
        Self {
            all,
            of_device,
            of_model,
        }
    }

    /// Whether the models of a device generate and take turns on its slots: its memory does not hold a session of each model on
    /// each slot.
    #[must_use]
    pub fn takes_turns(&self, graph: &Graph, device: usize) -> bool {
        let Some(limit) = graph.generating_memory(device) else {
            return false;
        };
        let models = graph.models().iter().zip(&self.of_model);
        let bytes = models
            .filter(|(model, _)| model.device == device)
            .map(|(model, slots)| {
                let each = model.memory.unwrap_or(0);
                each.saturating_mul(slots.len() as u64)
            });
        bytes.fold(0, u64::saturating_add) > limit.bytes
    }
}
