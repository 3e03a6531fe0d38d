//! Stages whose replicas have a queue each (KEN 4.3.3): a gears file has `replicas` of them. An item waits for one slot, which gets
//! its share of the items and runs when enough of its own wait.

use weir_policy::Mailboxes;
use weir_policy::gears::Gears;
use weir_types::Profile;

use crate::device::DeviceClass;
use crate::graph::Graph;

/// Durations by slot of a module whose replicas have a queue each, on `slots` equal slots. Empty for other modules: an item
/// runs on the slot that is free first.
#[must_use]
pub fn replica_profiles(graph: &Graph, module: usize, profile: &Profile, slots: usize) -> Vec<Profile> {
    let model = &graph.models()[graph.modules()[module].model];
    let is_planned = graph.gears().is_some_and(|gears| gears.has_replicas(module));
    let is_open = graph.shared_memory(model.device).is_none() && model.scaling.is_none();
    let is_shared = graph.policy().mailboxes() == Mailboxes::Pool && !model.generates();
    match is_planned && is_open && is_shared && slots > 1 {
        true => vec![profile.clone(); slots],
        false => Vec::new(),
    }
}

/// Whether all stages with `replicas` can have a queue for each.
///
/// # Errors
/// The reason why one cannot, for the author of the file.
pub(crate) fn check_replicas(graph: &Graph, gears: &Gears) -> Result<(), String> {
    let planned = gears.gears.iter().flat_map(|gear| gear.triggers.keys());
    for &module in planned {
        let model = &graph.models()[graph.modules()[module].model];
        let has_workers = graph.devices()[model.device].class == DeviceClass::Workers;
        let reason = if graph.shared_memory(model.device).is_some() {
            "its device has `memory`, so models open and close: give `shares` and `items`"
        } else if graph.policy().mailboxes() == Mailboxes::Worker {
            "with mailbox = \"worker\" items go to slots in turn: set mailbox = \"pool\""
        } else if has_workers || model.scaling.is_some() || model.generates() || !model.ends.is_empty() {
            "they are for models with a fixed number of equal slots: leave them out"
        } else if graph.gears().is_some_and(|before| !before.has_replicas(module)) {
            "queues of replicas begin with the run: restart it, or give `shares` and `items`"
        } else {
            continue;
        };
        return Err(format!("`replicas` of \"{}\": {reason}", model.name));
    }
    Ok(())
}
