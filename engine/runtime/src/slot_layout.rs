//! Slots of devices, and models on slots.

use std::sync::Arc;

use weir_flow::{DeviceKind, Model, SessionError};
use weir_graph::{DeviceClass, Graph, PrepareMode};
use weir_types::SlotId;

use crate::batch::PlacedModel;
use crate::clock::Clock;
use crate::progress::Progress;
use crate::worker::Worker;

/// Slots and the models placed on them.
pub(crate) struct SlotLayout {
    /// By slot: the device it is on, and when inputs are prepared there.
    devices: Vec<(DeviceKind, PrepareMode)>,
    /// By model: its slots.
    model_slots: Vec<Vec<SlotId>>,
}

impl SlotLayout {
    /// Numbers the slots of all devices one after the other, and then those of models that generate, which have theirs alone:
    /// a step follows the other, and nothing else could run between them. Another model that wants fewer workers than its device has slots
    /// begins at a slot given by its index, so that such models spread.
    pub(crate) fn new(graph: &Graph) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        let mut devices = Vec::new();
        let mut device_slots: Vec<Vec<SlotId>> = Vec::new();
        for device in graph.devices() {
            let kind = |slot: u32| match device.class {
                DeviceClass::Cpu | DeviceClass::Emulated(_) | DeviceClass::Workers => DeviceKind::Cpu,
                DeviceClass::Cuda(ordinal) => DeviceKind::Cuda(ordinal),
                // In turn, so that each has as many.
                DeviceClass::Servers(servers) => DeviceKind::Server(slot % servers.max(1)),
            };
            let first = devices.len() as u32;
            let count = device.slot_count(cores);
            devices.extend((0..count).map(|slot| (kind(slot), device.prepare)));
            device_slots.push((first..first + count).map(SlotId).collect());
        }
        let place = |(index, model): (usize, &weir_graph::ModelNode)| {
            let slots = &device_slots[model.device];
            let wanted = model
                .workers
                .map_or(slots.len(), |workers| workers as usize)
                .min(slots.len());
            let mut placed: Vec<SlotId> = slots.iter().cycle().skip(index).take(wanted).copied().collect();
            placed.sort_unstable();
            placed
        };
        let mut model_slots: Vec<Vec<SlotId>> = graph.models().iter().enumerate().map(place).collect();
        for (model, slots) in graph.models().iter().zip(&mut model_slots) {
            if model.generates() {
                let device = device_slots[model.device].first();
                let kind = device.map_or(DeviceKind::Cpu, |slot| devices[slot.index()].0);
                let first = devices.len() as u32;
                let count = model.workers.unwrap_or(1).max(1);
                devices.extend((0..count).map(|_| (kind, PrepareMode::Inline)));
                *slots = (first..first + count).map(SlotId).collect();
            }
        }
        Self { devices, model_slots }
    }

    /// Slots in all.
    pub(crate) fn slot_count(&self) -> u32 {
        self.devices.len() as u32
    }

    pub(crate) fn slots_of_model(&self, model: usize) -> &[SlotId] {
        &self.model_slots[model]
    }

    /// Slots that prepare the next batch while one runs.
    pub(crate) fn overlapped_slots(&self) -> Vec<SlotId> {
        let slots = (0..).map(SlotId).zip(&self.devices);
        slots
            .filter(|(_, (_, prepare))| *prepare == PrepareMode::Overlap)
            .map(|(slot, _)| slot)
            .collect()
    }

    /// Opens the worker of every slot, with a session of each model placed on it.
    pub(crate) fn open_workers(
        &self,
        graph: &Graph,
        models: &[Arc<dyn Model>],
        clock: Clock,
        progress: &Progress,
    ) -> Result<Vec<Worker>, SessionError> {
        let open = |(slot, &(device, prepare)): (u32, &(DeviceKind, PrepareMode))| {
            let slot = SlotId(slot);
            let here = (0..models.len()).filter(|&model| self.slots_of_model(model).contains(&slot));
            let placed = here.map(|model| PlacedModel {
                model,
                name: graph.models()[model].name.clone(),
                device,
                opener: Arc::clone(&models[model]),
            });
            let placed: Vec<PlacedModel> = placed.collect();
            let names: Vec<&str> = placed.iter().map(|placed| placed.name.as_str()).collect();
            progress.set_preparing(
                "opening sessions",
                slot.index() + 1,
                self.devices.len(),
                &names.join(", "),
            );
            Worker::open(slot, clock, placed, prepare == PrepareMode::Overlap)
        };
        (0..).zip(&self.devices).map(open).collect()
    }
}
