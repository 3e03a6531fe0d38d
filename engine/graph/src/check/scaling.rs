//! Models whose workers open and close with the load: what they can be on, and whether all of their workers fit.

use weir_config::{Diagnostics, Spanned};
use weir_policy::AutoscaleRule;

use super::memory::shown_bytes;
use super::placement::Devices;
use crate::device::{DeviceClass, PrepareMode};
use crate::raw::{RawGraph, RawModel};

/// Reports models whose workers cannot open and close with the load.
pub(super) fn check(
    raw: &RawGraph,
    models: &[Option<usize>],
    devices: &Devices,
    diagnostics: &mut Diagnostics,
) {
    for (index, model) in raw.models.iter().enumerate() {
        let Some(scaling) = &model.scaling else { continue };
        let name = &model.name.value;
        if model.generates() {
            let message = format!("model \"{name}\" generates, and the number of its instances is fixed");
            let hint = "set `workers` in place of `scaling`".to_owned();
            diagnostics.add(scaling.at, message, Some(hint));
        }
        let served = raw.modules.iter().zip(models);
        let served = served.filter(|(_, model)| **model == Some(index));
        let served: Vec<&str> = served.map(|(module, _)| &*module.name.value).collect();
        if let [first, second, ..] = served[..] {
            let message = format!(
                "model \"{name}\" serves modules \"{first}\" and \"{second}\", and workers that follow the load serve one"
            );
            let hint = "give each module a model of its own, on a device of its own".to_owned();
            diagnostics.add(scaling.at, message, Some(hint));
        }
        if let Some(device) = devices.only_of(index) {
            check_device(
                (index, model, scaling),
                device,
                (raw, models, devices),
                diagnostics,
            );
        }
    }
}

/// Reports a device that such a model cannot be on.
fn check_device(
    (index, model, scaling): (usize, &RawModel, &Spanned<AutoscaleRule>),
    device: usize,
    (raw, models, devices): (&RawGraph, &[Option<usize>], &Devices),
    diagnostics: &mut Diagnostics,
) {
    let node = &devices.nodes[device];
    let (name, on) = (&model.name.value, &node.name);
    match node.class {
        DeviceClass::Cpu | DeviceClass::Cuda(_) | DeviceClass::Emulated(_) => {}
        DeviceClass::Workers | DeviceClass::Worker(_) | DeviceClass::Servers(_) => {
            let message = format!(
                "`scaling` of model \"{name}\" is for workers of this process, and device \"{on}\" is elsewhere"
            );
            let hint = "leave it out".to_owned();
            return diagnostics.add(scaling.at, message, Some(hint));
        }
    }
    if node.prepare == PrepareMode::Overlap {
        let message = format!(
            "the workers of model \"{name}\" open and close with the load, and a slot of device \"{on}\" that prepares ahead \
             cannot open and close models yet"
        );
        let hint = format!("set prepare = \"inline\" under [devices.\"{on}\"]");
        diagnostics.add(scaling.at, message, Some(hint));
    }
    let others = raw.models.iter().enumerate();
    let mut others = others.filter(|(other, _)| *other != index && models.contains(&Some(*other)));
    let is_here = |other: usize| {
        let mut ends = devices.of_model.get(other).into_iter().flatten();
        ends.any(|end| end.device == Some(device))
    };
    if let Some((_, other)) = others.find(|(other, _)| is_here(*other)) {
        let message = format!(
            "the workers of model \"{name}\" open and close with the load on device \"{on}\", which also has model \"{}\"",
            other.name.value
        );
        let hint = "give one of them a device of its own; a part of the CPU is \"cpu:NAME\", with `slots`"
            .to_owned();
        diagnostics.add(scaling.at, message, Some(hint));
    }
    let Some(memory) = &node.memory else { return };
    // Only the runtime knows the number of cores: a CPU may have any.
    let most = scaling.value.max_workers.min(node.slot_count(u32::MAX));
    // Without a declared size, or a number of workers, it is not known before a run what they take.
    let needed = model.memory.as_ref().map(|memory| memory.value);
    let needed = needed.filter(|_| most < u32::MAX);
    match needed.map(|needed| needed.saturating_mul(u64::from(most))) {
        None => {
            let message = format!(
                "device \"{on}\" has `memory`, and it is not known how much of it the workers of model \"{name}\" take"
            );
            let hint = "set `memory` of the model, and `most` of its `scaling`".to_owned();
            diagnostics.add_if_parsed(scaling.at, message, Some(hint));
        }
        Some(needed) if needed > memory.bytes => {
            let message = format!(
                "up to {most} workers of model \"{name}\" take {}, and device \"{on}\" has {}",
                shown_bytes(needed),
                shown_bytes(memory.bytes)
            );
            let hint = "lower `most` of its `scaling`, or raise `memory` of the device".to_owned();
            diagnostics.add(scaling.at, message, Some(hint));
        }
        Some(_) => {}
    }
}
