//! Devices of a world, and the memory of model sessions on devices that cannot hold all of them.

use weir_config::{Diagnostics, Entry, Fields};
use weir_graph::MemoryLimit;
use weir_policy::residency::ModelMemory;
use weir_policy::{DeviceMemory, DeviceModel};
use weir_types::{ModelId, SlotId, Span};

use super::world_module::{MAX_WORKERS, RawModule};
use crate::spec::{WorldMemory, WorldModule, WorldPool};

/// Slots that modules share.
pub(super) struct RawDevice {
    pub(super) name: String,
    pub(super) slots: u32,
    /// Memory for models on the device, and host memory for models that are not loaded, in bytes; `None`: all
    /// models stay loaded.
    memory: Option<(u64, u64)>,
}

pub(super) fn device(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<RawDevice> {
    let mut fields = Fields::open(format!("device \"{}\"", entry.name), entry, diagnostics)?;
    fields.expect(&["slots", "memory", "host_memory"], false, diagnostics);
    let slots = fields
        .count("slots", MAX_WORKERS, diagnostics)
        .into_value()
        .unwrap_or(1);
    let memory = fields.bytes("memory", diagnostics).into_value();
    let host = fields.bytes("host_memory", diagnostics).into_value();
    Some(RawDevice {
        name: entry.name.clone(),
        slots,
        memory: memory.map(|memory| (memory, host.unwrap_or(MemoryLimit::HOST_BYTES))),
    })
}

/// The devices with limited memory and what is placed on them; modules stand at their ranks, and their models have the same
/// numbers.
pub(super) fn resolve(
    devices: &[RawDevice],
    (modules, rank): (&[RawModule], &[usize]),
    resolved: &[Option<WorldModule>],
    diagnostics: &mut Diagnostics,
) -> WorldMemory {
    let mut limited = Vec::new();
    for device in devices {
        let Some((memory, host_memory)) = device.memory else {
            continue;
        };
        let mut models = Vec::new();
        for (module, &rank) in modules.iter().zip(rank) {
            let Some(named) = module.device.as_ref().filter(|named| named.value == device.name) else {
                continue;
            };
            let Some(bytes) = module.session.memory else {
                let message = format!(
                    "module \"{}\" has no `memory`, and its device \"{}\" has a limit",
                    module.name.value, device.name
                );
                let hint = Some("say what a session of its model takes: memory = \"20MiB\"".to_owned());
                diagnostics.add_if_parsed(named.at, message, hint);
                continue;
            };
            if bytes > memory {
                let message = format!(
                    "module \"{}\" takes {bytes} bytes and device \"{}\" has {memory}: it could never be opened",
                    module.name.value, device.name
                );
                diagnostics.add(named.at, message, Some("raise `memory` of the device".to_owned()));
            }
            let Some(WorldPool::Shared(slots)) = resolved[rank].as_ref().map(|module| &module.pool) else {
                continue;
            };
            let open_cold = module.session.open_cold.unwrap_or(Span::ZERO);
            models.push(DeviceModel {
                model: ModelId(rank as u32),
                slots: slots.iter().copied().map(SlotId).collect(),
                memory: ModelMemory {
                    device_bytes: bytes,
                    host_bytes: bytes,
                },
                open_cold,
                open_warm: module.session.open_warm.unwrap_or(open_cold),
            });
        }
        limited.push(DeviceMemory {
            memory,
            host_memory,
            models,
        });
    }
    let name = |module: &Option<WorldModule>| {
        module
            .as_ref()
            .map_or(String::new(), |module| module.name.clone())
    };
    WorldMemory {
        devices: limited,
        generating: Vec::new(),
        names: resolved.iter().map(name).collect(),
    }
}
