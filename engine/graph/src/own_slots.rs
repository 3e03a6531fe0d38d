//! Slots that are one model's alone.

use crate::device::DeviceNode;
use crate::graph::ModelNode;

/// Slots that a model has alone on one of its devices, on a machine of `cores` cores: where it generates, one instance where it
/// does not say how many; else all that the device has.
#[must_use]
pub fn own_slots(model: &ModelNode, device: &DeviceNode, cores: u32) -> u32 {
    let usual = if model.generates() {
        1
    } else {
        device.slot_count(cores)
    };
    model.workers.unwrap_or(usual).max(1)
}
