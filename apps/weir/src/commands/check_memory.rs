//! Checks that models fit into devices with limited memory: a part of `weir check`.

use std::collections::BTreeMap;

use weir_flow::DeviceKind;
use weir_graph::{DeviceNode, Graph, MemoryLimit, ModelNode};
use weir_runtime::measure_session;

use crate::assemble;
use crate::error::UserError;
use crate::zoo::Zoo;

/// A remark for each device with limited memory: what its models take and how many of them are open at a time.
///
/// # Errors
/// A model that cannot be opened, or that alone takes more than its device has.
pub(super) fn check(graph: &Graph, zoo: &Zoo) -> anyhow::Result<Vec<String>> {
    let limited = || {
        let devices = graph.devices().iter().enumerate();
        devices.filter_map(|(index, device)| Some((index, device, device.memory?)))
    };
    let mut measured = BTreeMap::new();
    for model in graph.models() {
        let is_limited = limited().any(|(index, ..)| index == model.device);
        if model.memory.is_some() || !is_limited {
            continue;
        }
        if let Some(loaded) = assemble::model(model, graph, zoo, None)? {
            let session = measure_session(&loaded, DeviceKind::Cpu, &model.batch);
            let session = session.map_err(|error| UserError::new(error.to_string()))?;
            measured.insert(model.name.clone(), session.device_bytes);
        }
    }
    let mut remarks = Vec::new();
    for (index, device, limit) in limited() {
        let models = graph.models().iter().filter(|model| model.device == index);
        remarks.push(remark(device, limit, models, &measured)?);
    }
    Ok(remarks)
}

fn remark<'a>(
    device: &DeviceNode,
    limit: MemoryLimit,
    models: impl Iterator<Item = &'a ModelNode>,
    measured: &BTreeMap<String, u64>,
) -> anyhow::Result<String> {
    let mut sizes: Vec<(u64, String)> = Vec::new();
    let mut is_scaled = false;
    for model in models {
        let (bytes, how) = match (model.memory, measured.get(&model.name)) {
            (Some(bytes), _) => (bytes, "declared"),
            (None, Some(bytes)) => (*bytes, "measured"),
            (None, None) => continue,
        };
        if bytes > limit.bytes {
            return Err(UserError::new(format!(
                "model {} takes {} ({how}) and device {} has {}: it could never be opened; raise `memory` of the device, or use \
                 a smaller model",
                model.name,
                mib(bytes),
                device.name,
                mib(limit.bytes)
            ))
            .into());
        }
        // A CPU without `slots` may have any number of cores.
        let Some(rule) = model.scaling_on(device.slot_count(u32::MAX) as usize) else {
            sizes.push((bytes, format!("{} {} {how}", model.name, mib(bytes))));
            continue;
        };
        // The graph's check has seen to it that all of its workers fit.
        is_scaled = true;
        let most = rule.max_workers;
        let shown = format!("{} up to {most} x {} {how}", model.name, mib(bytes));
        sizes.push((bytes.saturating_mul(u64::from(most)), shown));
    }
    sizes.sort();
    let all: u64 = sizes.iter().map(|(bytes, _)| bytes).sum();
    let mut left = limit.bytes;
    let smallest = sizes.iter().take_while(|(bytes, _)| {
        let fits = *bytes <= left;
        left = left.saturating_sub(*bytes);
        fits
    });
    let most = smallest.count();
    let listed: Vec<&str> = sizes.iter().map(|(_, shown)| shown.as_str()).collect();
    let fits = if is_scaled {
        "all of its workers fit".to_owned()
    } else if all <= limit.bytes {
        "one session of each fits".to_owned()
    } else {
        format!(
            "together {}: at most {most} of {} are open at a time",
            mib(all),
            sizes.len()
        )
    };
    Ok(format!(
        "device {}: {} for its models ({}); {fits}",
        device.name,
        mib(limit.bytes),
        listed.join(", ")
    ))
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
