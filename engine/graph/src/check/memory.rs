//! Devices whose memory does not hold all their models: what can be on them, and whether each model fits alone.

use weir_config::Diagnostics;
use weir_policy::{Mailboxes, SlotQueues};

use super::placement::{Devices, PlacedEnd};
use super::wiring::{Wiring, upstream};
use crate::device::{DeviceClass, DeviceNode, PrepareMode};
use crate::graph::ModelOrigin;
use crate::raw::{RawGraph, RawModel, RawModule};

/// Reports what cannot be on a device with `memory`, and models that are larger than it.
pub(super) fn check(raw: &RawGraph, devices: &Devices, diagnostics: &mut Diagnostics) {
    if raw.policy.queues.is_some() && raw.devices.iter().all(|device| device.memory.is_none()) {
        let message =
            "`queues` of [policy] is for devices with `memory`, and no device has it: all models stay open";
        let hint = "remove it, or set the memory of a device: [devices.cpu] memory = \"96MiB\"".to_owned();
        diagnostics.add_if_parsed(raw.policy_at, message, Some(hint));
    }
    if !raw.policy.queues.is_some_and(SlotQueues::plans) && !raw.policy.slot_planning().is_default() {
        let message = "`delta` and `operations` of [policy] are for planned queues only";
        let hint = "remove them, or set queues = \"virtual\"".to_owned();
        diagnostics.add_if_parsed(raw.policy_at, message, Some(hint));
    }
    for device in &raw.devices {
        let Some(memory) = &device.memory else { continue };
        let node = devices
            .nodes
            .iter()
            .position(|node| node.name == device.name.value);
        let Some(index) = node else { continue };
        let node = &devices.nodes[index];
        if raw.policy.mailbox == Some(Mailboxes::Worker) {
            let message = format!(
                "device \"{}\" has `memory`, and with mailbox = \"worker\" each worker has one model that is always open",
                node.name
            );
            let hint = "set mailbox = \"pool\", or remove `memory`".to_owned();
            diagnostics.add(memory.at, message, Some(hint));
        }
        let placed = raw.models.iter().zip(&devices.of_model);
        let is_here = |ends: &[PlacedEnd]| ends.iter().any(|end| end.device == Some(index));
        let here: Vec<&RawModel> = placed
            .filter(|(_, ends)| is_here(ends))
            .map(|(model, _)| model)
            .collect();
        let generates = here.iter().any(|model| model.generates());
        if node.prepare == PrepareMode::Overlap && !generates {
            let message = format!(
                "device \"{}\" has `memory`, and a slot that prepares ahead cannot open and close models yet",
                node.name
            );
            diagnostics.add(memory.at, message, Some("add prepare = \"inline\"".to_owned()));
        }
        if matches!(node.class, DeviceClass::Workers | DeviceClass::Worker(_)) {
            let message = "`memory` is not for partition workers: the plan decides which models they hold";
            diagnostics.add(memory.at, message, Some("leave it out".to_owned()));
        }
        if generates && node.class == DeviceClass::Cpu && node.slots.is_none() {
            let message = format!(
                "device \"{}\" has `memory` and models that generate, and a slot for each core: each slot would have a small part \
                 of the memory",
                node.name
            );
            let hint = "set its slots: slots = 1".to_owned();
            diagnostics.add(memory.at, message, Some(hint));
        }
        for model in here {
            let name = &model.name.value;
            if !model.ends.devices.is_empty() {
                let message = format!(
                    "model \"{name}\" is on several devices, and stays open: device \"{}\" cannot share its `memory` with it",
                    node.name
                );
                let hint = "leave `memory` out, or name one `device`".to_owned();
                diagnostics.add(model.name.at, message, Some(hint));
                continue;
            }
            if generates && !check_generating(raw, model, node, diagnostics) {
                continue;
            }
            let Some(needed) = &model.memory else {
                let is_process = matches!(model.origin, Some(ModelOrigin::Python(_)));
                if generates || is_process || !matches!(node.class, DeviceClass::Cpu | DeviceClass::Workers) {
                    let message = format!(
                        "model \"{name}\" has no `memory`, and its memory on device \"{}\" cannot be measured",
                        node.name
                    );
                    let hint = "set the memory of one session: memory = \"20MiB\"".to_owned();
                    diagnostics.add_if_parsed(model.name.at, message, Some(hint));
                }
                continue;
            };
            let slots = match generates {
                true => u64::from(node.slot_count(1).max(1)),
                false => 1,
            };
            if needed.value > memory.value / slots {
                let of_slots = match slots {
                    1 => String::new(),
                    _ => format!(" for each of its {slots} slots"),
                };
                let message = format!(
                    "model \"{name}\" takes {} and device \"{}\" has {}{of_slots}: it could never be opened",
                    shown_bytes(needed.value),
                    node.name,
                    shown_bytes(memory.value / slots)
                );
                let hint = "raise `memory` of the device, or use a smaller model".to_owned();
                diagnostics.add(needed.at, message, Some(hint));
            }
        }
    }
}

/// Reports why a model cannot take turns with models that generate on a device; returns whether it can.
fn check_generating(
    raw: &RawGraph,
    model: &RawModel,
    node: &DeviceNode,
    diagnostics: &mut Diagnostics,
) -> bool {
    let name = &model.name.value;
    if !model.generates() {
        let message = format!(
            "model \"{name}\" is on device \"{}\" with models that generate: they cannot share its `memory`",
            node.name
        );
        let hint = "give the models that generate a device of their own".to_owned();
        diagnostics.add(model.name.at, message, Some(hint));
        return false;
    }
    if let Some(workers) = &model.workers {
        let message = format!(
            "model \"{name}\" has `workers`, and device \"{}\" with its `memory` may open each model on each of its slots",
            node.name
        );
        diagnostics.add(workers.at, message, Some("leave `workers` out".to_owned()));
        return false;
    }
    let of_model = |module: &&RawModule| module.model.given().is_some_and(|own| own.value == *name);
    let mut users = raw.modules.iter().filter(of_model);
    if let (Some(first), Some(second)) = (users.next(), users.next()) {
        let message = format!(
            "modules \"{}\" and \"{}\" run model \"{name}\", and on device \"{}\" with its `memory` a model is for one module",
            first.name.value, second.name.value, node.name
        );
        let hint = "add another model of the same file for one of them".to_owned();
        diagnostics.add(second.name.at, message, Some(hint));
        return false;
    }
    true
}

/// Warns of a planned order of work on a device where one module follows another: the planner orders the work
/// of each module by itself.
pub(super) fn warn(
    raw: &RawGraph,
    wiring: &Wiring,
    models: &[Option<usize>],
    devices: &Devices,
    diagnostics: &mut Diagnostics,
) {
    if !raw.policy.queues.is_some_and(SlotQueues::plans) {
        return;
    }
    let short = |device: usize| {
        let name = &devices.nodes[device].name;
        let mut all = raw.devices.iter();
        all.any(|device| device.name.value == *name && device.memory.is_some())
    };
    let device_of = |module: usize| {
        let model = models.get(module).copied().flatten()?;
        devices.only_of(model).filter(|device| short(*device))
    };
    for module in &wiring.order {
        let Some(device) = device_of(*module) else {
            continue;
        };
        let mut before = upstream(&wiring.modules[*module]);
        if let Some(before) = before.find(|before| device_of(*before) == Some(device)) {
            let message = format!(
                "planned `queues` order the work of each module by itself, and module \"{}\" follows \"{}\" on device \
                 \"{}\": they start work that later modules have no time to finish",
                raw.modules[*module].name.value, raw.modules[before].name.value, devices.nodes[device].name
            );
            let hint = "leave `queues` out: models then take turns, by which more frames of such modules are in time";
            diagnostics.warn(raw.policy_at, message, Some(hint.to_owned()));
            return;
        }
    }
}

/// An amount of memory as people write it.
pub(super) fn shown_bytes(bytes: u64) -> String {
    match bytes {
        0..1_048_576 => format!("{bytes} bytes"),
        _ => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
    }
}
