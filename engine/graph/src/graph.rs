//! The checked graph. Whoever holds one need not check it again: names resolve, inputs exist, there is no cycle.

use std::path::{Path, PathBuf};

use weir_config::Diagnostic;
use weir_flow::Settings;
use weir_planner::Plan;
use weir_policy::Policy;
use weir_types::Span;

/// The operator that is known without a catalog: it needs no head, takes frames or boxes, and runs models on emulated
/// devices only.
pub const EMULATE: &str = "emulate";

/// What a module or sink takes its input from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vertex {
    /// A source, by its index.
    Source(usize),
    /// A module, by its index.
    Module(usize),
}

/// How a source treats frames that the graph has no room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SourceMode {
    /// What would be late is let go.
    #[default]
    Live,
    /// The source is held back; nothing is let go.
    Lossless,
}

impl SourceMode {
    /// How a source at `uri` is treated where its graph does not say: a folder of images, or an image, is an archive,
    /// which is to be seen whole; anything else is taken for a camera.
    #[must_use]
    pub fn default_for(uri: &str) -> Self {
        if uri.contains("://") {
            return Self::Live;
        }
        let path = Path::new(uri.strip_prefix("file:").unwrap_or(uri));
        if path.is_dir() || weir_flow::is_image(path) {
            Self::Lossless
        } else {
            Self::Live
        }
    }
}

/// A stream.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceNode {
    /// Its name.
    pub name: String,
    /// File (made absolute), URL, device, folder, or `emulated:...`.
    pub uri: String,
    /// What happens under overload.
    pub mode: SourceMode,
    /// Whether the graph says the mode, or it is [`SourceMode::default_for`] the address.
    pub mode_given: bool,
    /// Frames a second for sources that do not say; `None` where not given.
    pub fps: Option<f64>,
    /// Frames a second of media time that are taken, evenly; `None`: all.
    pub sample: Option<f64>,
    /// Whether it starts again at its end.
    pub repeat: bool,
}

/// What a device is.
#[derive(Debug, Clone, PartialEq)]
pub enum DeviceClass {
    /// CPU cores.
    Cpu,
    /// A CUDA GPU by ordinal.
    Cuda(u32),
    /// A device that exists as a profile only; the word is its class.
    Emulated(String),
    /// Partition workers: a plan says which of them run which part of a model.
    Workers,
}

/// A device with its slots.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceNode {
    /// Its name: `cpu`, `cuda:0`, `emulated:t4`.
    pub name: String,
    /// What it is.
    pub class: DeviceClass,
    /// Slots on it; `None` for a CPU means one a core, for others one.
    pub slots: Option<u32>,
}

impl DeviceNode {
    /// How many slots of this process it has on a machine of `cores` cores; at least one, but none where the work is
    /// done by partition workers.
    #[must_use]
    pub fn slot_count(&self, cores: u32) -> u32 {
        match self.class {
            DeviceClass::Workers => 0,
            DeviceClass::Cpu => self.slots.unwrap_or(cores).max(1),
            DeviceClass::Cuda(_) | DeviceClass::Emulated(_) => self.slots.unwrap_or(1).max(1),
        }
    }
}

/// What runs partitions of models: a process at an address, or threads of this one.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerNode {
    /// Its name.
    pub name: String,
    /// The class of device that it is or stands for, as plans name it.
    pub class: String,
    /// `HOST:PORT` of a `weir worker`; `None` for a worker in this process.
    pub address: Option<String>,
    /// The server it is on: workers of one server share its links. Its own name where it does not say.
    pub server: String,
    /// What its server's link carries each way, in bits a second.
    pub bandwidth_bps: u64,
    /// It stands for a device of its class: it keeps each batch as long as the plan's profile says, or longer.
    pub emulated: bool,
    /// A worker in this process that stands for a slower device takes so many times as long; 1 where it does not.
    pub slowdown: f64,
    /// The core that a worker in this process is pinned to.
    pub core: Option<u32>,
}

/// Where a model comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelOrigin {
    /// A file, made absolute.
    File(PathBuf),
    /// An entry of the zoo.
    Zoo(String),
    /// Ships with the program.
    Embedded(String),
    /// None: the device is emulated.
    Emulated,
}

/// A model and where it is placed.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelNode {
    /// Its name.
    pub name: String,
    /// Where it comes from.
    pub origin: ModelOrigin,
    /// Its head, from the graph or the zoo; `None` only on emulated devices.
    pub head: Option<String>,
    /// Index of its device.
    pub device: usize,
    /// Batch sizes it may run, ascending, at least one.
    pub batch: Vec<u32>,
    /// On how many of the device's slots it is placed; `None`: all.
    pub workers: Option<u32>,
    /// Declared durations by batch size (`profile = { "1" = "8ms", "4" = "30ms" }` or a file); empty: measured.
    pub profile: Vec<(u32, Span)>,
    /// The plan by which it is spread over partition workers.
    pub plan: Option<PathBuf>,
    /// Keys of the head.
    pub settings: Settings,
}

/// A module.
#[derive(Debug, Clone, PartialEq)]
pub struct ModuleNode {
    /// Its name.
    pub name: String,
    /// Its operator.
    pub operator: String,
    /// Index of its model.
    pub model: usize,
    /// What it waits for, without repetition: of sources any, of modules all that the frame passes.
    pub inputs: Vec<Vertex>,
    /// Classes of objects whose crops are its items; empty: whole frames, or what the operator takes by itself.
    pub regions: Vec<String>,
    /// Its weight under the arbitration `weighted`; 1 by default.
    pub weight: f64,
    /// Keys of the operator.
    pub settings: Settings,
}

/// What happens to deliveries when a sink cannot follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenSlow {
    /// The run waits for it.
    #[default]
    Wait,
    /// The newest delivery is left out and counted.
    Skip,
}

/// A sink.
#[derive(Debug, Clone, PartialEq)]
pub struct SinkNode {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: String,
    /// What it waits for, without repetition.
    pub inputs: Vec<Vertex>,
    /// What happens when it cannot follow.
    pub when_slow: WhenSlow,
    /// Keys of the sink; paths are absolute.
    pub settings: Settings,
}

/// A checked graph. Modules stand in topological order: inputs of a module come before it.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    pub(crate) name: String,
    pub(crate) slo: Span,
    pub(crate) policy: Policy,
    pub(crate) sources: Vec<SourceNode>,
    pub(crate) devices: Vec<DeviceNode>,
    pub(crate) workers: Vec<WorkerNode>,
    pub(crate) models: Vec<ModelNode>,
    pub(crate) modules: Vec<ModuleNode>,
    pub(crate) sinks: Vec<SinkNode>,
    pub(crate) plan: Option<Plan>,
    pub(crate) warnings: Vec<Diagnostic>,
    pub(crate) files: Vec<PathBuf>,
}

impl Graph {
    /// Name of the application.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The latency objective of every request, from sending to coming out.
    #[must_use]
    pub fn slo(&self) -> Span {
        self.slo
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The streams.
    #[must_use]
    pub fn sources(&self) -> &[SourceNode] {
        &self.sources
    }

    /// The devices that models are placed on.
    #[must_use]
    pub fn devices(&self) -> &[DeviceNode] {
        &self.devices
    }

    /// The partition workers, in the order of the text.
    #[must_use]
    pub fn workers(&self) -> &[WorkerNode] {
        &self.workers
    }

    /// The plan by which models are spread over the workers, where any is.
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    /// The models that modules use.
    #[must_use]
    pub fn models(&self) -> &[ModelNode] {
        &self.models
    }

    /// The modules in topological order.
    #[must_use]
    pub fn modules(&self) -> &[ModuleNode] {
        &self.modules
    }

    /// The sinks.
    #[must_use]
    pub fn sinks(&self) -> &[SinkNode] {
        &self.sinks
    }

    /// What works but looks like a slip: unused models, modules that nobody listens to. By line.
    #[must_use]
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// Every file and folder that it was read from or that it names, but for those of its sources: its own file, models,
    /// profiles, plans, traces, labels, galleries.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The same graph under another policy.
    #[must_use]
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// The same graph with one sink more.
    #[must_use]
    pub fn with_sink(mut self, sink: SinkNode) -> Self {
        self.sinks.push(sink);
        self
    }
}
