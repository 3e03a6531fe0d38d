//! Capacity of a world, the unit of `load`: requests per second of its slowest module or device, at the batch
//! sizes that dynamic batching picks.

use std::collections::BTreeSet;

use crate::spec::{WorldPool, WorldSpec};

/// Requests per second that the world sustains with its initial workers.
#[must_use]
pub fn capacity(spec: &WorldSpec) -> f64 {
    let each = seconds_per_request(spec);
    let mut done = BTreeSet::new();
    let mut least = f64::INFINITY;
    for (module, node) in spec.modules.iter().enumerate() {
        if !done.insert(module) {
            continue;
        }
        let (workers, seconds) = match &node.pool {
            WorldPool::Fixed(workers) => (f64::from(*workers), each[module]),
            WorldPool::Scaled(scaling) => (f64::from(scaling.initial), each[module]),
            WorldPool::Generating(generate) => match generate.capacity {
                Some(capacity) => (capacity, items_per_request(spec)[module]),
                None => (generate.spec.instances.len() as f64, each[module]),
            },
            WorldPool::Pipelines(slots) => (f64::from(slots.count) * slots.share, each[module]),
            WorldPool::Shared(slots) => {
                let (slots, sharing) = connected_slots(spec, slots);
                done.extend(sharing.iter().copied());
                (slots as f64, sharing.iter().map(|&module| each[module]).sum())
            }
        };
        if seconds > 0.0 {
            least = least.min(workers / seconds);
        }
    }
    if least.is_finite() { least } else { 0.0 }
}

/// Worker seconds that a request takes in the mean, by module.
fn seconds_per_request(spec: &WorldSpec) -> Vec<f64> {
    let items = items_per_request(spec);
    let rates = spec.worker_throughput();
    items
        .iter()
        .zip(rates)
        .map(|(items, rate)| items / rate)
        .collect()
}

/// Items that a request brings in the mean, by module.
pub(super) fn items_per_request(spec: &WorldSpec) -> Vec<f64> {
    let demand = &spec.demand;
    let mut items = vec![1.0; spec.modules.len()];
    for (module, tiling) in &spec.cascades.tiles {
        if let Some(items) = items.get_mut(*module) {
            *items = f64::from(tiling.items());
        }
    }
    for crops in &demand.crops {
        if let Some(items) = items.get_mut(crops.module) {
            *items = crops.mean;
        }
    }
    for set in &demand.branches {
        let members: BTreeSet<usize> = set
            .branches
            .iter()
            .flat_map(|(modules, _)| modules)
            .copied()
            .collect();
        for module in members {
            let taken = set
                .branches
                .iter()
                .filter(|(modules, _)| modules.contains(&module));
            if let Some(items) = items.get_mut(module) {
                *items *= taken.map(|(_, share)| share).sum::<f64>();
            }
        }
    }
    for (module, items) in items.iter_mut().enumerate() {
        *items *= spec.cascades.handed_on_to(module);
    }
    items
}

/// The slots that hang together with `slots` through modules on several of them, how many they are, and these modules.
fn connected_slots(spec: &WorldSpec, slots: &[u32]) -> (usize, Vec<usize>) {
    let mut all: BTreeSet<u32> = slots.iter().copied().collect();
    loop {
        let on = |node: &WorldPool| match node {
            WorldPool::Shared(slots) => slots.iter().any(|slot| all.contains(slot)),
            _ => false,
        };
        let sharing: Vec<usize> = (0..spec.modules.len())
            .filter(|&module| on(&spec.modules[module].pool))
            .collect();
        let mut wider = all.clone();
        for &module in &sharing {
            if let WorldPool::Shared(slots) = &spec.modules[module].pool {
                wider.extend(slots);
            }
        }
        if wider.len() == all.len() {
            return (all.len(), sharing);
        }
        all = wider;
    }
}
