//! Slots of devices, and models on slots.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_flow::{DeviceKind, SessionError};
use weir_graph::{DeviceClass, Graph, PrepareMode};
use weir_types::SlotId;

use crate::batch::PlacedModel;
use crate::clock::Clock;
use crate::ends::EndModels;
use crate::progress::Progress;
use crate::resident::ResidentWorker;
use crate::session_control::WarmModels;
use crate::worker::Worker;

/// Slots and the models placed on them.
pub(crate) struct SlotLayout {
    /// By slot: the device it is on, and when inputs are prepared there.
    devices: Vec<(DeviceKind, PrepareMode)>,
    /// By device: its slots.
    device_slots: Vec<Vec<SlotId>>,
    /// Slots of devices whose memory is limited.
    limited: BTreeSet<SlotId>,
    /// By model: its slots.
    model_slots: Vec<Vec<SlotId>>,
    /// By model, where it is on several devices: which of them each of its slots is on.
    model_ends: Vec<Vec<usize>>,
}

impl SlotLayout {
    /// Numbers the slots of all devices one after the other, and then those of models that have theirs alone: those that
    /// generate, since a step follows the other and nothing else could run between them, and those that are on several
    /// devices. Another model that wants fewer workers than its device has slots begins at a slot given by its index, so
    /// that such models spread.
    pub(crate) fn new(graph: &Graph) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        let mut devices = Vec::new();
        let mut limited = BTreeSet::new();
        let mut device_slots: Vec<Vec<SlotId>> = Vec::new();
        for device in graph.devices() {
            let kind = |slot: u32| match device.class {
                DeviceClass::Cpu
                | DeviceClass::Emulated(_)
                | DeviceClass::Workers
                | DeviceClass::Worker(_) => DeviceKind::Cpu,
                DeviceClass::Cuda(ordinal) => DeviceKind::Cuda(ordinal),
                // In turn, so that each has as many.
                DeviceClass::Servers(servers) => DeviceKind::Server(slot % servers.max(1)),
            };
            let first = devices.len() as u32;
            let count = device.slot_count(cores);
            devices.extend((0..count).map(|slot| (kind(slot), device.prepare)));
            device_slots.push((first..first + count).map(SlotId).collect());
            if device.memory.is_some() {
                limited.extend((first..first + count).map(SlotId));
            }
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
        let mut model_ends = Vec::new();
        for (model, slots) in graph.models().iter().zip(&mut model_slots) {
            let mut ends = Vec::new();
            if model.has_own_slots() {
                slots.clear();
                for (end, (device, _)) in model.ends().enumerate() {
                    let count = weir_graph::own_slots(model, &graph.devices()[device], cores);
                    let first = devices.len() as u32;
                    let on = device_slots[device].first();
                    let kind = on.map_or(DeviceKind::Cpu, |slot| devices[slot.index()].0);
                    devices.extend((0..count).map(|_| (kind, PrepareMode::Inline)));
                    slots.extend((first..first + count).map(SlotId));
                    ends.extend((0..count).map(|_| end));
                }
            }
            model_ends.push(ends);
        }
        Self {
            devices,
            device_slots,
            limited,
            model_slots,
            model_ends,
        }
    }

    /// Which of the devices of a model a slot of it is on, by its place among them.
    pub(crate) fn end_of_slot(&self, model: usize, slot: SlotId) -> usize {
        let place = self.model_slots[model].iter().position(|own| *own == slot);
        let end = place.and_then(|place| self.model_ends[model].get(place));
        end.copied().unwrap_or(0)
    }

    /// Slots in all.
    pub(crate) fn slot_count(&self) -> u32 {
        self.devices.len() as u32
    }

    pub(crate) fn slots_of_device(&self, device: usize) -> &[SlotId] {
        &self.device_slots[device]
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

    /// Opens the worker of every slot, with a session of each model placed on it; on devices whose memory is limited,
    /// without any.
    pub(crate) fn open_workers(
        &self,
        graph: &Graph,
        models: &EndModels,
        clock: Clock,
        progress: &Progress,
    ) -> Result<Vec<Worker>, SessionError> {
        let warm: Arc<WarmModels> = Arc::default();
        let open = |(slot, &(device, prepare)): (u32, &(DeviceKind, PrepareMode))| {
            let slot = SlotId(slot);
            let here = (0..models.len()).filter(|&model| self.slots_of_model(model).contains(&slot));
            let placed = here.map(|model| PlacedModel {
                model,
                name: graph.models()[model].name.clone(),
                device,
                opener: Arc::clone(&models[model][self.end_of_slot(model, slot)]),
            });
            let placed: Vec<PlacedModel> = placed.collect();
            let names: Vec<&str> = placed.iter().map(|placed| placed.name.as_str()).collect();
            progress.set_preparing(
                "opening sessions",
                slot.index() + 1,
                self.devices.len(),
                &names.join(", "),
            );
            if self.limited.contains(&slot) {
                let worker = ResidentWorker::new(slot, clock, placed, Arc::clone(&warm));
                return Ok(Worker::Resident(worker));
            }
            Worker::open(slot, clock, placed, prepare == PrepareMode::Overlap)
        };
        (0..).zip(&self.devices).map(open).collect()
    }
}
