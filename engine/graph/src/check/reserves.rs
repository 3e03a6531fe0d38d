//! Comparison of the rates that sources reserve with the capacity of devices, by the declared profiles.

use weir_config::Diagnostics;
use weir_flow::Tiling;
use weir_types::Profile;

use super::placement::Devices;
use super::wiring::Wiring;
use crate::device::{DeviceClass, DeviceNode};
use crate::raw::{RawGraph, RawModel};

/// Warns if the sources reserve more than a device can do. Modules that take crops are left out, and so are
/// models without a declared profile, since their load is not known before they run.
pub(super) fn warn(
    raw: &RawGraph,
    wiring: &Wiring,
    models: &[Option<usize>],
    devices: &Devices,
    diagnostics: &mut Diagnostics,
) {
    let reserved: Vec<(usize, f64)> = (0..)
        .zip(&raw.sources)
        .filter_map(|(index, source)| Some((index, source.share.reserve?)))
        .collect();
    let Some(at) = reserved
        .first()
        .and_then(|(source, _)| raw.sources[*source].reserve_at)
    else {
        return;
    };
    let mut needed = vec![0.0; devices.nodes.len()];
    for (source, reserve) in reserved {
        for module in wiring.passed_by(source) {
            let regions = raw.modules[module].regions.given();
            let model = models.get(module).copied().flatten();
            let device = model.and_then(|model| devices.only_of(model));
            let (Some(model), Some(device), None) = (model, device, regions) else {
                continue;
            };
            let tiling = Tiling::of(&raw.modules[module].settings);
            let items = f64::from(tiling.map_or(1, |tiling| tiling.items()));
            needed[device] += reserve * items * min_seconds(&raw.models[model]).unwrap_or(0.0);
        }
    }
    for (node, needed) in devices.nodes.iter().zip(needed) {
        if let Some(slots) = slots(node).filter(|slots| needed > f64::from(*slots)) {
            let percent = 100.0 * needed / f64::from(slots);
            let message = format!(
                "the sources reserve {percent:.0} % of the capacity of device \"{}\" by the declared profiles",
                node.name
            );
            let hint = "reserves are kept as far as the machine can: lower `reserve`, or add slots";
            diagnostics.warn(at, message, Some(hint.to_owned()));
        }
    }
}

/// The least time of a slot that an item takes.
fn min_seconds(model: &RawModel) -> Option<f64> {
    let profile = Profile::new(model.profile.clone())?;
    let of = |&size: &u32| profile.duration(size).as_secs_f64() / f64::from(size.max(1));
    model.batch.iter().map(of).reduce(f64::min)
}

/// Slots where they are known without the machine.
fn slots(node: &DeviceNode) -> Option<u32> {
    match node.class {
        DeviceClass::Cpu => node.slots,
        DeviceClass::Cuda(_) | DeviceClass::Emulated(_) => Some(node.slots.unwrap_or(1)),
        DeviceClass::Servers(servers) => Some(node.slots.unwrap_or(servers)),
        DeviceClass::Workers | DeviceClass::Worker(_) => None,
    }
}
