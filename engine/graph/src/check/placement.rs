//! The device of each model, and whether it has enough slots.

use weir_config::{Diagnostics, Spanned, spelling};
use weir_policy::Mailboxes;

use crate::graph::{DeviceClass, DeviceNode, ModelOrigin, PrepareMode, WorkerNode};
use crate::raw::{RawDevice, RawGraph};

/// Device of a model that names none.
const DEFAULT: &str = "cpu";
/// Device of a model with a plan.
const WORKERS: &str = "workers";

/// The devices that models are placed on.
pub(super) struct Devices {
    /// Each once, in the order of the text.
    pub(super) nodes: Vec<DeviceNode>,
    /// The device of each model, by index; `None` where it was reported.
    pub(super) of_model: Vec<Option<usize>>,
}

pub(super) fn place(raw: &RawGraph, diagnostics: &mut Diagnostics) -> Devices {
    for device in &raw.devices {
        class(&device.name, &[], diagnostics);
    }
    let mut devices = Devices {
        nodes: Vec::new(),
        of_model: Vec::with_capacity(raw.models.len()),
    };
    for model in &raw.models {
        if let (Some(ModelOrigin::Server(servers)), Some(slots)) = (&model.origin, model.server_slots) {
            devices.nodes.push(DeviceNode {
                name: format!("kserve:{}", model.name.value),
                class: DeviceClass::Servers(servers.urls.len() as u32),
                slots: Some(slots),
                prepare: PrepareMode::Inline,
            });
            devices.of_model.push(Some(devices.nodes.len() - 1));
            continue;
        }
        let default = if model.plan.is_some() { WORKERS } else { DEFAULT };
        let fallback = Spanned::new(default.to_owned(), model.name.at);
        let spanned = model.device.given().unwrap_or(&fallback);
        let known = devices.nodes.iter().position(|node| node.name == spanned.value);
        let declared = raw
            .devices
            .iter()
            .find(|device| device.name.value == spanned.value);
        let index = known.or_else(|| {
            // A declared device with a bad name was reported where it is declared.
            let class = match declared {
                Some(device) => parse(&device.name.value)?,
                None => class(spanned, &raw.devices, diagnostics)?,
            };
            let slots = declared.and_then(|device| device.slots);
            let prepare = declared.and_then(|device| device.prepare);
            devices.nodes.push(DeviceNode {
                prepare: prepare.unwrap_or(PrepareMode::default_for(&class)),
                name: spanned.value.clone(),
                class,
                slots,
            });
            Some(devices.nodes.len() - 1)
        });
        devices.of_model.push(index);
        let (Some(index), Some(workers)) = (index, &model.workers) else {
            continue;
        };
        let node = &devices.nodes[index];
        // Only the runtime knows the number of cores: a graph is for more than one machine.
        let slots = node.slots.or((node.class != DeviceClass::Cpu).then_some(1));
        if slots.is_some_and(|slots| workers.value > slots) {
            let slots = slots.unwrap_or(1);
            let message = format!(
                "{} workers do not fit on device \"{}\" with {slots} slots",
                workers.value, node.name
            );
            let hint = format!("lower `workers`, or set slots under [devices.\"{}\"]", node.name);
            diagnostics.add(workers.at, message, Some(hint));
        }
    }
    devices
}

/// A model has a plan exactly where it is on partition workers.
pub(super) fn check_plans(raw: &RawGraph, diagnostics: &mut Diagnostics) {
    for model in &raw.models {
        let on_workers = model.device.given().is_some_and(|device| device.value == WORKERS);
        match (&model.plan, model.device.given()) {
            (Some(_), Some(device)) if !on_workers => {
                let hint = Some("leave `device` out: the plan says where its partitions run".to_owned());
                let message = format!("model \"{}\" has a plan and a device", model.name.value);
                diagnostics.add(device.at, message, hint);
            }
            (None, Some(device)) if on_workers => {
                let hint = Some("make one by weir plan, and name it: plan = \"FILE\"".to_owned());
                let message = format!(
                    "model \"{}\" is on partition workers and has no `plan`",
                    model.name.value
                );
                diagnostics.add_if_parsed(device.at, message, hint);
            }
            (Some(plan), _) if raw.workers.is_empty() => {
                let hint = Some("add [workers.NAME] with class and address".to_owned());
                let message = format!(
                    "model \"{}\" has a plan, but there are no workers",
                    model.name.value
                );
                diagnostics.add_if_parsed(plan.at, message, hint);
            }
            (Some(plan), _) if model.origin == Some(ModelOrigin::Emulated) => {
                check_emulating(raw, &model.name.value, plan.at, diagnostics);
            }
            _ => {}
        }
    }
}

/// What has a plan and no model can only be emulated, and by workers of this process.
fn check_emulating(raw: &RawGraph, model: &str, at: usize, diagnostics: &mut Diagnostics) {
    let real = |(_, worker): &&(Spanned<String>, WorkerNode)| !worker.emulated || worker.address.is_some();
    if let Some((_, worker)) = raw.workers.iter().find(real) {
        let hint = "add `model`, or give all workers `emulated = true` and no `address`".to_owned();
        let message = format!(
            "\"{model}\" has a plan and no `model`, and worker \"{}\" does not emulate in this process",
            worker.name
        );
        diagnostics.add_if_parsed(at, message, Some(hint));
    }
}

/// A mailbox for each worker needs workers that no other module uses.
pub(super) fn check_exclusive_slots(
    raw: &RawGraph,
    models: &[Option<usize>],
    devices: &Devices,
    diagnostics: &mut Diagnostics,
) {
    if raw.policy.mailbox != Mailboxes::Worker {
        return;
    }
    let device = |model: &Option<usize>| {
        let device = devices.of_model.get((*model)?).copied().flatten()?;
        (devices.nodes[device].class != DeviceClass::Workers).then_some(device)
    };
    for (place, module) in raw.modules.iter().enumerate() {
        let Some(own) = models.get(place).and_then(device) else {
            continue;
        };
        let first = models.iter().position(|model| device(model) == Some(own));
        if let Some(first) = first.filter(|&first| first < place) {
            let message = format!(
                "module \"{}\" shares \"{}\" with \"{}\", but `mailbox` is \"worker\"",
                module.name.value, devices.nodes[own].name, raw.modules[first].name.value
            );
            let hint = "give each module a model and a device of its own, or say mailbox = \"pool\"";
            diagnostics.add_if_parsed(module.name.at, message, Some(hint.to_owned()));
        }
    }
}

fn parse(name: &str) -> Option<DeviceClass> {
    if name == "cpu" {
        return Some(DeviceClass::Cpu);
    }
    if name == WORKERS {
        return Some(DeviceClass::Workers);
    }
    if let Some(ordinal) = name.strip_prefix("cuda:") {
        return ordinal.parse().ok().map(DeviceClass::Cuda);
    }
    let class = name.strip_prefix("emulated:")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (!class.is_empty() && class.chars().all(plain)).then(|| DeviceClass::Emulated(class.to_owned()))
}

fn class(
    name: &Spanned<String>,
    declared: &[RawDevice],
    diagnostics: &mut Diagnostics,
) -> Option<DeviceClass> {
    let class = parse(&name.value);
    if class.is_none() {
        let usual = ["cpu", "cuda:0"]
            .into_iter()
            .chain(declared.iter().map(|device| device.name.value.as_str()));
        let hint = match name.value.as_str() {
            "cuda" | "gpu" => "did you mean \"cuda:0\"?".to_owned(),
            other => spelling::nearest(other, usual).map_or_else(
                || "devices are \"cpu\", \"cuda:0\", \"cuda:1\" and so on, or \"emulated:CLASS\"".to_owned(),
                |meant| format!("did you mean \"{meant}\"?"),
            ),
        };
        diagnostics.add(
            name.at,
            format!("there is no device \"{}\"", name.value.escape_debug()),
            Some(hint),
        );
    }
    class
}
