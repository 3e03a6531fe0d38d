//! The device of each model, and whether it has enough slots.

use std::collections::BTreeMap;

use weir_config::{Diagnostics, Spanned, spelling};
use weir_policy::Mailboxes;
use weir_types::Span;

use crate::device::{DeviceClass, DeviceNode, MemoryLimit, PrepareMode};
use crate::graph::{ModelOrigin, WorkerNode};
use crate::raw::{RawDevice, RawGraph, RawModel};

/// Device of a model that names none.
const DEFAULT: &str = "cpu";
/// Device of a model with a plan.
const WORKERS: &str = "workers";
/// Prefix of a device name that stands for all partition workers of a class.
const OF_CLASS: &str = "workers:";
/// Prefix of a device name that stands for one partition worker.
const ONE_WORKER: &str = "worker:";

/// The devices that models are placed on.
pub(super) struct Devices {
    /// Devices without repetition, in the order of the text.
    pub(super) nodes: Vec<DeviceNode>,
    /// Placements of each model, by its index; at least one.
    pub(super) of_model: Vec<Vec<PlacedEnd>>,
}

/// One of the devices of a model.
pub(super) struct PlacedEnd {
    /// Its index; `None` where it was reported.
    pub(super) device: Option<usize>,
    /// Durations by batch size that the graph declares for this device; empty: measured.
    pub(super) profile: Vec<(u32, Span)>,
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
                prepare_threads: None,
                memory: None,
                slowdown: 1.0,
            });
            devices.of_model.push(vec![PlacedEnd {
                device: Some(devices.nodes.len() - 1),
                profile: model.profile.clone(),
            }]);
            continue;
        }
        let default = if model.plan.is_some() { WORKERS } else { DEFAULT };
        let fallback = Spanned::new(default.to_owned(), model.name.at);
        let first = model.device.given().unwrap_or(&fallback);
        let named = match &model.ends.devices[..] {
            [] => std::slice::from_ref(first),
            ends => ends,
        };
        let mut ends = Vec::new();
        for name in named {
            let declared = |device: &str| {
                let own = model.ends.profile_of(device);
                own.or_else(|| model.ends.profile_of(&name.value))
                    .unwrap_or(&model.profile)
                    .to_vec()
            };
            match workers_of_class(name, raw, diagnostics) {
                Some(workers) => ends.extend(workers.iter().map(|worker| PlacedEnd {
                    profile: declared(&worker.value),
                    device: devices.place(worker, raw, diagnostics),
                })),
                None => ends.push(PlacedEnd {
                    profile: declared(&name.value),
                    device: devices.place(name, raw, diagnostics),
                }),
            }
        }
        for end in &ends {
            if let Some(node) = end.device.and_then(|index| devices.nodes.get(index)) {
                check_workers(model, node, diagnostics);
                check_generates(model, node, diagnostics);
                check_python(model, node, diagnostics);
            }
        }
        devices.of_model.push(ends);
    }
    devices
}

/// The workers that a device `workers:CLASS` stands for, as devices; `None` for another device.
fn workers_of_class(
    name: &Spanned<String>,
    raw: &RawGraph,
    diagnostics: &mut Diagnostics,
) -> Option<Vec<Spanned<String>>> {
    let class = name.value.strip_prefix(OF_CLASS)?;
    let own = raw.workers.iter().filter(|(_, worker)| worker.class == class);
    let own: Vec<Spanned<String>> = own
        .map(|(worker, _)| Spanned::new(format!("{ONE_WORKER}{}", worker.value), name.at))
        .collect();
    if own.is_empty() {
        let classes = raw.workers.iter().map(|(_, worker)| worker.class.as_str());
        let hint = spelling::hint(class, "classes", classes)
            .or_else(|| Some("add [workers.NAME] with class and address".to_owned()));
        let message = format!("there is no worker of class \"{}\"", class.escape_debug());
        diagnostics.add_if_parsed(name.at, message, hint);
    }
    Some(own)
}

/// Other processes run models that generate, step by step; of other models they run the partitions of a plan.
fn check_generates(model: &RawModel, node: &DeviceNode, diagnostics: &mut Diagnostics) {
    if matches!(node.class, DeviceClass::Worker(_)) && !model.generates() {
        let message = format!(
            "model \"{}\" is not generative, and worker devices run generative models only",
            model.name.value
        );
        let hint = "to spread it over workers, make a plan with weir plan and set plan = \"FILE\"";
        diagnostics.add_if_parsed(model.name.at, message, Some(hint.to_owned()));
    }
}

/// Functions in Python run on slots of the CPU; what they compute elsewhere is their own affair.
fn check_python(model: &RawModel, node: &DeviceNode, diagnostics: &mut Diagnostics) {
    if !matches!(model.origin, Some(ModelOrigin::Python(_))) || node.class == DeviceClass::Cpu {
        return;
    }
    let message = format!("operators in Python run on \"cpu\", and not on \"{}\"", node.name);
    let hint = "name \"cpu\" or a part of it as \"cpu:NAME\"; a function may use a GPU by itself";
    let at = model.device.given().map_or(model.name.at, |device| device.at);
    diagnostics.add(at, message, Some(hint.to_owned()));
}

impl Devices {
    /// The device of a model that is on one alone: of several, none has to do it by itself.
    pub(super) fn only_of(&self, model: usize) -> Option<usize> {
        match self.of_model.get(model)?.as_slice() {
            [end] => end.device,
            _ => None,
        }
    }

    /// The index of a device that a model names; `None`, reported, where there is none.
    fn place(
        &mut self,
        spanned: &Spanned<String>,
        raw: &RawGraph,
        diagnostics: &mut Diagnostics,
    ) -> Option<usize> {
        let known = self.nodes.iter().position(|node| node.name == spanned.value);
        let declared = raw
            .devices
            .iter()
            .find(|device| device.name.value == spanned.value);
        known.or_else(|| {
            // A declared device with a bad name was reported where it is declared.
            let class = match declared {
                Some(device) => parse(&device.name.value)?,
                None => class(spanned, &raw.devices, diagnostics)?,
            };
            if let DeviceClass::Worker(name) = &class {
                check_worker(spanned, name, raw, diagnostics)?;
            }
            let slots = declared.and_then(|device| device.slots);
            let prepare = declared.and_then(|device| device.prepare);
            // A part of a CPU is one slot of it.
            let is_part = class == DeviceClass::Cpu && spanned.value != DEFAULT;
            self.nodes.push(DeviceNode {
                prepare: prepare.unwrap_or(PrepareMode::default_for(&class)),
                prepare_threads: declared.and_then(|device| device.prepare_threads),
                name: spanned.value.clone(),
                class,
                memory: declared.and_then(memory),
                slots: slots.or(is_part.then_some(1)),
                slowdown: declared.map_or(1.0, |device| device.slowdown),
            });
            Some(self.nodes.len() - 1)
        })
    }
}

/// A worker that is a device is there, in another process.
fn check_worker(
    spanned: &Spanned<String>,
    name: &str,
    raw: &RawGraph,
    diagnostics: &mut Diagnostics,
) -> Option<()> {
    let names = || raw.workers.iter().map(|(worker, _)| worker.value.as_str());
    let Some((_, worker)) = raw.workers.iter().find(|(worker, _)| worker.value == name) else {
        let hint = spelling::hint(name, "workers", names())
            .or_else(|| Some("add [workers.NAME] with class and address".to_owned()));
        let message = format!("there is no worker \"{}\"", name.escape_debug());
        diagnostics.add_if_parsed(spanned.at, message, hint);
        return None;
    };
    if worker.address.is_none() {
        let message =
            format!("worker \"{name}\" runs in this process, and a device needs a worker with an `address`");
        let hint = "start weir worker --listen HOST:PORT, and name it as `address`; or use a part of the CPU, \"cpu:NAME\"";
        diagnostics.add(spanned.at, message, Some(hint.to_owned()));
        return None;
    }
    Some(())
}

/// Slots that a model asks for are there.
fn check_workers(model: &RawModel, node: &DeviceNode, diagnostics: &mut Diagnostics) {
    let Some(workers) = &model.workers else { return };
    // Only the runtime knows the number of cores: a graph is for more than one machine.
    let slots = node.slots.or((node.class != DeviceClass::Cpu).then_some(1));
    if slots.is_some_and(|slots| workers.value > slots) {
        let slots = slots.unwrap_or(1);
        let message = format!(
            "{} workers do not fit on device \"{}\" with {slots} slots",
            workers.value, node.name
        );
        let key = match model.scaling {
            Some(_) => "most",
            None => "workers",
        };
        let hint = format!("lower `{key}`, or set slots under [devices.\"{}\"]", node.name);
        diagnostics.add(workers.at, message, Some(hint));
    }
}

/// Returns the memory limit of a device, if the graph sets one.
fn memory(device: &RawDevice) -> Option<MemoryLimit> {
    let memory = device.memory.as_ref()?;
    Some(MemoryLimit {
        bytes: memory.value,
        host_bytes: device.host_memory.unwrap_or(MemoryLimit::HOST_BYTES),
    })
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
                let hint = Some("make one with weir plan, and set plan = \"FILE\"".to_owned());
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

/// Reports a worker that does not emulate, for a model that has a plan and no `model`: only emulated workers
/// can run it.
fn check_emulating(raw: &RawGraph, model: &str, at: usize, diagnostics: &mut Diagnostics) {
    let real = |(_, worker): &&(Spanned<String>, WorkerNode)| !worker.emulated;
    if let Some((_, worker)) = raw.workers.iter().find(real) {
        let hint = "add `model`, or give all workers `emulated = true`".to_owned();
        let message = format!(
            "\"{model}\" has a plan and no `model`, and worker \"{}\" does not emulate",
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
    if raw.policy.mailbox != Some(Mailboxes::Worker) {
        return;
    }
    let shared_devices = |model: &Option<usize>| -> Vec<usize> {
        // Models that generate have slots of their own.
        let placed = model.filter(|model| !raw.models[*model].generates());
        let ends = placed.and_then(|model| devices.of_model.get(model));
        let own = ends.into_iter().flatten().filter_map(|end| end.device);
        own.filter(|device| devices.nodes[*device].class != DeviceClass::Workers)
            .collect()
    };
    let mut first_on: BTreeMap<usize, usize> = BTreeMap::new();
    for (place, (module, model)) in raw.modules.iter().zip(models).enumerate() {
        for device in shared_devices(model) {
            let first = *first_on.entry(device).or_insert(place);
            if first == place {
                continue;
            }
            let message = format!(
                "module \"{}\" shares \"{}\" with \"{}\", but `mailbox` is \"worker\"",
                module.name.value, devices.nodes[device].name, raw.modules[first].name.value
            );
            let hint = "give each module a model and a device of its own, or set mailbox = \"pool\"";
            diagnostics.add_if_parsed(module.name.at, message, Some(hint.to_owned()));
        }
    }
}

fn parse(name: &str) -> Option<DeviceClass> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_plain = |name: &str| !name.is_empty() && name.chars().all(plain);
    // Parts of a CPU have names.
    if name == DEFAULT || name.strip_prefix("cpu:").is_some_and(is_plain) {
        return Some(DeviceClass::Cpu);
    }
    if name == WORKERS {
        return Some(DeviceClass::Workers);
    }
    if let Some(worker) = name.strip_prefix(ONE_WORKER) {
        return (!worker.is_empty()).then(|| DeviceClass::Worker(worker.to_owned()));
    }
    if let Some(ordinal) = name.strip_prefix("cuda:") {
        return ordinal.parse().ok().map(DeviceClass::Cuda);
    }
    let class = name.strip_prefix("emulated:")?;
    is_plain(class).then(|| DeviceClass::Emulated(class.to_owned()))
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
                || "devices are \"cpu\", parts of it as \"cpu:NAME\", \"cuda:0\", \"cuda:1\" and so on, or \"emulated:CLASS\"".to_owned(),
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
