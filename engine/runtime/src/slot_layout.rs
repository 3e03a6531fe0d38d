//! Slots of devices, and models on slots.

use std::sync::Arc;

use weir_flow::{DeviceKind, SessionError};
use weir_graph::{DeviceClass, Graph, GraphSlots, ModelNode, PrepareMode, SlotNode};
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
    slots: GraphSlots,
    /// By slot: the device it is on, and when inputs are prepared there.
    devices: Vec<(DeviceKind, PrepareMode)>,
    /// By model: its slots.
    model_slots: Vec<Vec<SlotId>>,
}

impl SlotLayout {
    /// Slots as the graph numbers them, on the cores of this machine.
    pub(crate) fn new(graph: &Graph) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        let slots = GraphSlots::new(graph, cores);
        let kind = |(number, slot): (u32, &SlotNode)| {
            let device = &graph.devices()[slot.device];
            let kind = match device.class {
                DeviceClass::Cpu
                | DeviceClass::Emulated(_)
                | DeviceClass::Workers
                | DeviceClass::Worker(_) => DeviceKind::Cpu,
                DeviceClass::Cuda(ordinal) => DeviceKind::Cuda(ordinal),
                // In turn, so that each has as many.
                DeviceClass::Servers(servers) => {
                    let first = slots.of_device[slot.device].start;
                    DeviceKind::Server((number - first) % servers.max(1))
                }
            };
            // A step of a model that generates is prepared as it runs.
            let prepare = if slot.is_own {
                PrepareMode::Inline
            } else {
                device.prepare
            };
            (kind, prepare)
        };
        Self {
            devices: (0..).zip(&slots.all).map(kind).collect(),
            model_slots: slots
                .of_model
                .iter()
                .map(|slots| slots.iter().map(|own| SlotId(own.slot)).collect())
                .collect(),
            slots,
        }
    }

    /// Index of the device of `slot` among the devices of the model.
    pub(crate) fn end_of_slot(&self, model: usize, slot: SlotId) -> usize {
        let mut own = self.slots.of_model[model].iter();
        own.find(|own| own.slot == slot.0).map_or(0, |own| own.end)
    }

    /// Whether the models of a device generate and take turns on its slots.
    pub(crate) fn takes_turns(&self, graph: &Graph, device: usize) -> bool {
        self.slots.takes_turns(graph, device)
    }

    /// Slots in all.
    pub(crate) fn slot_count(&self) -> u32 {
        self.devices.len() as u32
    }

    /// Slots of a device that its models share.
    pub(crate) fn slots_of_device(&self, device: usize) -> impl Iterator<Item = SlotId> {
        self.slots.of_device[device].clone().map(SlotId)
    }

    pub(crate) fn slots_of_model(&self, model: usize) -> &[SlotId] {
        &self.model_slots[model]
    }

    /// When inputs are prepared on a slot.
    pub(crate) fn prepare_on(&self, slot: SlotId) -> PrepareMode {
        self.devices[slot.index()].1
    }

    /// Slots that prepare the next batch while one runs.
    pub(crate) fn overlapped_slots(&self) -> Vec<SlotId> {
        let slots = (0..).map(SlotId).zip(&self.devices);
        slots
            .filter(|(_, (_, prepare))| *prepare == PrepareMode::Overlap)
            .map(|(slot, _)| slot)
            .collect()
    }

    /// Opens the least workers of a model, if its workers follow the load.
    pub(crate) fn open_least(
        &self,
        (model, node): (usize, &ModelNode),
        workers: &mut [Worker],
    ) -> Result<(), SessionError> {
        let slots = self.slots_of_model(model);
        let least = node.scaling_on(slots.len()).map_or(0, |rule| rule.min_workers);
        for slot in slots.iter().take(least as usize) {
            if let Some(resident) = workers[slot.index()].resident_mut() {
                resident.open_first(model)?;
            }
        }
        Ok(())
    }

    /// Opens the worker of every slot, with a session of each model placed on it; on devices whose memory is limited,
    /// and where the number of workers follows the load, without any.
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
            let node = self.slots.all[slot.index()];
            let is_scaled = placed
                .iter()
                .any(|placed| graph.models()[placed.model].scaling.is_some());
            if is_scaled || (!node.is_own && graph.devices()[node.device].memory.is_some()) {
                let worker = ResidentWorker::new(slot, clock, placed, Arc::clone(&warm));
                return Ok(Worker::Resident(match is_scaled {
                    true => worker.of_scaled_pool(),
                    false => worker,
                }));
            }
            if node.is_own
                && self.slots.takes_turns(graph, node.device)
                && let Some(worker) = Worker::closed(slot, clock, &placed, &warm)
            {
                return Ok(worker);
            }
            Worker::open(slot, clock, placed, prepare == PrepareMode::Overlap)
        };
        (0..).zip(&self.devices).map(open).collect()
    }
}
