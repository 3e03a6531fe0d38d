//! The checked graph, which needs no further checks: names resolve, inputs exist, there is no cycle.

use std::collections::BTreeSet;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_analytics::Privacy;
use weir_analytics::transforms::{TimeZone, TransformSpec};
use weir_config::Diagnostic;
use weir_flow::{Settings, StreamNames, Tiling, is_of_single_pictures};
use weir_planner::Plan;
use weir_policy::gears::{Fallback, Settle};
use weir_policy::lengths::LengthNets;
use weir_policy::{AutoscaleRule, Mailboxes, Policy};
use weir_types::Span;

use crate::device::{DeviceClass, DeviceNode};
use crate::gpu_settings::GpuSettings;
use crate::model_servers::ModelServers;
use crate::python_node::PythonNode;
use crate::queue_node::QueueNode;
use crate::source_node::SourceNode;
use crate::stream_defaults::StreamDefaults;
use crate::stream_places::StreamPlaces;
use weir_policy::gears::Gears;

/// Operator that needs no entry in the catalog and no head: it takes frames or boxes, and its models are on
/// emulated devices only.
pub const EMULATE: &str = "emulate";

/// The head that is found by the file of a model.
pub(crate) const AUTO: &str = "auto";

/// The head of models that generate.
pub(crate) const GENERATE: &str = "generate";

/// The flag of a sink for what it writes of each frame. Where it is absent, a sink whose inputs name transforms alone takes their incidents
/// and no frames.
pub(crate) const FRAMES: &str = "frames";

/// The operator of trackers, which have no model.
pub const TRACK: &str = "track";

/// An input of a module or a sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vertex {
    /// A source, by its index.
    Source(usize),
    /// A module, by its index.
    Module(usize),
}

/// A partition worker: a process at an address, or threads of this one.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerNode {
    /// Name, unique among workers.
    pub name: String,
    /// The device class that it has or emulates, as plans name it.
    pub class: String,
    /// `HOST:PORT` of a `weir worker`, or `node:NAME` of one that is a node of the fleet; `None` for a worker in this process.
    pub address: Option<String>,
    /// The server it is on: workers of one server share its links. Its own name where none is given.
    pub server: String,
    /// Bandwidth of its server's link in each direction, in bits a second.
    pub bandwidth_bps: u64,
    /// Whether it emulates a device of its class: each batch then takes as long as in the plan's profile, or longer.
    pub emulated: bool,
    /// Factor by which a worker in this process is slowed down to emulate a slower device; at least 1.
    pub slowdown: f64,
    /// Core that a worker in this process is pinned to.
    pub core: Option<u32>,
}

impl WorkerNode {
    /// Prefix of the address of a worker that is a node of the fleet.
    pub const NODE: &str = "node:";

    /// Returns the name of its fleet node, if its address names one.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        self.address.as_deref()?.strip_prefix(Self::NODE)
    }
}

/// The origin of a model.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelOrigin {
    /// A file, made absolute.
    File(PathBuf),
    /// An entry of the zoo.
    Zoo(String),
    /// A model that ships with the program, by its name.
    Embedded(String),
    /// No model: the device is emulated.
    Emulated,
    /// The model runs on model servers.
    Server(ModelServers),
    /// A function in Python, which worker processes run.
    Python(PythonNode),
}

/// Predictor of the lengths of texts that a model generates, in tokens.
#[derive(Debug, Clone, PartialEq)]
pub enum LengthPredictor {
    /// Small neural networks, which predict a length from the tokens of the prompt.
    Nets(Arc<LengthNets>),
    /// On an emulated device, a prediction is the length that was drawn, with a random error.
    Emulated {
        /// Standard deviation of the error, in the natural logarithm of the length; 0 to 2.
        error: f64,
    },
}

/// A model and its device.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelNode {
    /// Name, unique among models.
    pub name: String,
    /// The file or the catalog entry of the model.
    pub origin: ModelOrigin,
    /// Its head, from the graph or the zoo; `None` on emulated devices only.
    pub head: Option<String>,
    /// Index of its device; of several the first.
    pub device: usize,
    /// Placements of a model on several devices, each with slots that only this model uses; empty if it is on
    /// one device.
    pub ends: Vec<EndNode>,
    /// Batch sizes it may run, ascending, at least one.
    pub batch: Vec<u32>,
    /// Number of the device's slots that it runs on, of each where it is on several; `None`: all.
    pub workers: Option<u32>,
    /// Rule of the number of its workers, if that follows the load; its device has no other model then.
    pub scaling: Option<AutoscaleRule>,
    /// Declared durations by batch size (`profile = { "1" = "8ms", "4" = "30ms" }` or a file); empty: measured.
    pub profile: Vec<(u32, Span)>,
    /// Preparation times of a batch by its size, on an emulated device; empty: no time.
    pub preparation: Vec<(u32, Span)>,
    /// Interval between batches that fail in a live run, on an emulated device: with 100, one in a hundred
    /// fails. `None`: none fails.
    pub fail_every: Option<u32>,
    /// Bytes that one session takes, declared; `None`: measured where its device needs it.
    pub memory: Option<u64>,
    /// Loading time from the file of the model, on an emulated device; `None`: no time.
    pub open_cold: Option<Span>,
    /// Loading time from host memory, on an emulated device; `None`: as `open_cold`.
    pub open_warm: Option<Span>,
    /// Execution provider and precision; used only if the device is a GPU.
    pub gpu: GpuSettings,
    /// File of the plan that partitions it over workers.
    pub plan: Option<PathBuf>,
    /// Predictor of the lengths of its texts, if the model generates.
    pub predictor: Option<LengthPredictor>,
    /// Settings of the head.
    pub settings: Settings,
}

/// One of the devices that a model is on.
#[derive(Debug, Clone, PartialEq)]
pub struct EndNode {
    /// Index of the device.
    pub device: usize,
    /// Declared durations there; empty: measured.
    pub profile: Vec<(u32, Span)>,
}

impl ModelNode {
    /// Returns the loading times from the file and from host memory; they are used on emulated devices.
    #[must_use]
    pub fn opening_times(&self) -> [Span; 2] {
        let cold = self.open_cold.unwrap_or(Span::ZERO);
        [cold, self.open_warm.unwrap_or(cold)]
    }

    /// Its device, or all of them, with what is declared for each.
    pub fn ends(&self) -> impl Iterator<Item = (usize, &[(u32, Span)])> {
        let one = self.ends.is_empty().then_some((self.device, &self.profile[..]));
        let several = self.ends.iter().map(|end| (end.device, &end.profile[..]));
        one.into_iter().chain(several)
    }

    /// Whether it generates text token by token: on slots of its own, in steps.
    #[must_use]
    pub fn generates(&self) -> bool {
        self.head.as_deref() == Some(GENERATE)
    }
}

/// Behaviour if a later stage of a cascade would miss the deadline of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnLate {
    /// The frame is dropped, as in a module outside cascades.
    #[default]
    Drop,
    /// The answers of the stages before it are accepted.
    Accept,
}

/// Unit that the first stage of a detector cascade passes to the next stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Escalate {
    /// The whole frame.
    #[default]
    Frames,
    /// Crops around uncertain detections; the objects found in a crop replace the uncertain ones.
    Regions,
}

/// Position and settings of a module in a cascade (KEN). The stages of a cascade are modules in a row; each
/// stage answers the items that the stages before it were not certain of.
#[derive(Debug, Clone, PartialEq)]
pub struct StageNode {
    /// Name of the cascade: that of the module in the text, which sinks and events have.
    pub cascade: String,
    /// Index of the stage, from 0.
    pub index: u32,
    /// Stages of the cascade, at least two.
    pub count: u32,
    /// Lowest certainty, 0 to 1, of an answer that is accepted. It has no effect at the last stage, whose
    /// answers are all accepted.
    pub certainty: f32,
    /// Rule that chooses the answer if several stages gave one.
    pub settle: Settle,
    /// Behaviour if this stage would miss the deadline of a request.
    pub on_late: OnLate,
    /// Unit that is passed to the next stage: whole frames or regions.
    pub escalate: Escalate,
}

impl StageNode {
    /// Returns whether it is the last stage, which accepts all of its answers.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.index + 1 == self.count
    }

    /// Returns the condition under which a request continues with the answers of earlier stages, instead of
    /// being dropped.
    #[must_use]
    pub fn fallback(&self) -> Fallback {
        match (self.index, self.on_late) {
            (0, _) => Fallback::Never,
            (_, OnLate::Drop) => Fallback::WhenFailed,
            (_, OnLate::Accept) => Fallback::WhenLate,
        }
    }
}

/// Schedule of a module that runs for a track now and then, and not for each of its objects.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PerTrackNode {
    /// Index of the tracker.
    pub tracker: usize,
    /// Interval between two runs for one track, in media time.
    pub every: Span,
    /// Certainty, 0 to 1, of the settled result from which on the module does not run again for a track;
    /// `None`: it always runs again.
    pub until: Option<f32>,
    /// Whether it runs exactly one time per track.
    pub once: bool,
}

/// Behaviour if a module cannot serve a request in time, or if the request's batch failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnDrop {
    /// The request is dropped.
    #[default]
    Drop,
    /// The request continues without the result of the module, and its delivery names the module in
    /// `without`.
    Degrade,
}

/// A module: an operator with its model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModuleNode {
    /// Name, unique among sources, modules and sinks.
    pub name: String,
    /// Name of its operator in the catalog.
    pub operator: String,
    /// Index of its model.
    pub model: usize,
    /// Its inputs, without repetition: it waits for any of its sources, and for all of its modules that the frame passes.
    pub inputs: Vec<Vertex>,
    /// Classes of objects whose crops are its items; empty: whole frames, or the operator's own choice.
    pub regions: Vec<String>,
    /// Schedule per track; `None`: it runs for each object.
    pub per_track: Option<PerTrackNode>,
    /// The streams that it runs for: frames of others pass it.
    pub streams: StreamNames,
    /// Whether it may find objects, and not only attributes of those of others.
    pub finds_objects: bool,
    /// Its weight under the arbitration `weighted`; 1 by default.
    pub weight: f64,
    /// Position in a cascade, if the module is a stage of one.
    pub stage: Option<StageNode>,
    /// Behaviour for requests that it cannot serve; used only outside cascades.
    pub on_drop: OnDrop,
    /// Settings of the operator.
    pub settings: Settings,
}

impl ModuleNode {
    /// The tiles in which it reads frames where no gear sets others; `None`: it reads none.
    #[must_use]
    pub fn tiling(&self) -> Option<Tiling> {
        Tiling::of(&self.settings)
    }

    /// The name that events and sinks know: the stages of a cascade are one module there.
    #[must_use]
    pub fn label(&self) -> &str {
        self.stage.as_ref().map_or(&self.name, |stage| &stage.cascade)
    }

    /// Returns the condition under which a request continues without the result of this module, instead of
    /// being dropped.
    #[must_use]
    pub fn fallback(&self) -> Fallback {
        match (&self.stage, self.on_drop) {
            (Some(stage), _) => stage.fallback(),
            (None, OnDrop::Degrade) => Fallback::WhenLate,
            (None, OnDrop::Drop) => Fallback::Never,
        }
    }
}

/// A tracker, which follows objects from frame to frame of each stream at the output of the graph. No request
/// waits for it, and the policy does not know it: a consumer that names it as an input depends on the modules
/// that it follows.
#[derive(Debug, Clone, PartialEq)]
pub struct TrackerNode {
    /// Name, unique among sources, modules and sinks.
    pub name: String,
    /// Modules whose objects it follows, by index.
    pub modules: Vec<usize>,
    /// The streams whose objects it follows.
    pub streams: StreamNames,
    /// Settings of the tracker.
    pub settings: Settings,
}

/// A transform, which derives incidents and attributes from the objects and tracks of each stream at the
/// output of the graph. No request waits for it.
#[derive(Debug, Clone, PartialEq)]
pub struct TransformNode {
    /// Name, unique among sources, modules, transforms and sinks.
    pub name: String,
    /// Type and settings of the transform.
    pub spec: TransformSpec,
    /// Modules whose objects it takes, by index: its inputs, and those that its trackers follow.
    pub modules: Vec<usize>,
    /// Its trackers, by index.
    pub trackers: Vec<usize>,
    /// The streams that it is for.
    pub streams: StreamNames,
}

/// Behaviour if a sink is slower than the deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenSlow {
    /// Backpressure: the run waits for the sink.
    #[default]
    Wait,
    /// The newest delivery is skipped and counted.
    Skip,
}

/// A sink, which receives deliveries and incidents.
#[derive(Debug, Clone, PartialEq)]
pub struct SinkNode {
    /// Name, unique among sources, modules, transforms and sinks.
    pub name: String,
    /// Type of the sink in the catalog.
    pub kind: String,
    /// Its inputs, without repetition; in the place of a tracker those of the tracker.
    pub inputs: Vec<Vertex>,
    /// The trackers whose tracks it is shown, by index: its inputs, and those before its inputs.
    pub trackers: Vec<usize>,
    /// The transforms whose incidents it is given, by index.
    pub transforms: Vec<usize>,
    /// The streams that it is given, of those that its inputs have.
    pub streams: StreamNames,
    /// Behaviour if the sink is slower than its deliveries.
    pub when_slow: WhenSlow,
    /// Settings of the sink; paths are absolute.
    pub settings: Settings,
}

/// A checked graph. Modules are in topological order: the inputs of a module precede it.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    pub(crate) name: String,
    pub(crate) slo: Span,
    pub(crate) timezone: Option<TimeZone>,
    pub(crate) stream_places: StreamPlaces,
    pub(crate) privacy: Privacy,
    pub(crate) stream_defaults: StreamDefaults,
    /// The file with a password that `[defaults]` names.
    pub(crate) default_password_file: Option<PathBuf>,
    pub(crate) policy: Policy,
    pub(crate) sources: Vec<SourceNode>,
    pub(crate) templates: Vec<String>,
    pub(crate) queues: Vec<QueueNode>,
    pub(crate) devices: Vec<DeviceNode>,
    pub(crate) workers: Vec<WorkerNode>,
    pub(crate) models: Vec<ModelNode>,
    pub(crate) modules: Vec<ModuleNode>,
    pub(crate) trackers: Vec<TrackerNode>,
    pub(crate) transforms: Vec<TransformNode>,
    pub(crate) sinks: Vec<SinkNode>,
    pub(crate) plan: Option<Plan>,
    pub(crate) gears: Option<Gears>,
    pub(crate) warnings: Vec<Diagnostic>,
    pub(crate) files: Vec<PathBuf>,
}

impl Graph {
    /// Name of the application.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The fewest items that a frame brings to a module, which its model must run whatever the gear: the number of its tiles.
    /// 1 for modules whose number of items depends on the pictures, as behind a motion gate.
    #[must_use]
    pub fn least_items(&self, module: usize) -> u32 {
        let tiling = self.modules.get(module).and_then(ModuleNode::tiling);
        let Some(tiling) = tiling.filter(|_| self.sources.iter().all(|source| source.gate.is_none())) else {
            return 1;
        };
        let gears = self.gears.iter().flat_map(|gears| &gears.gears);
        let of_gear = gears.map(|gear| {
            let setting = gear.stages.get(&module);
            let grid = setting.and_then(|setting| setting.tiles).unwrap_or(tiling.grid);
            Tiling { grid, ..tiling }.items()
        });
        of_gear.min().unwrap_or_else(|| tiling.items())
    }

    /// The latency objective (SLO) of every request whose source has none of its own, from its sending time to its
    /// completion.
    #[must_use]
    pub fn slo(&self) -> Span {
        self.slo
    }

    /// Time zone of streams that have none of their own.
    #[must_use]
    pub fn timezone(&self) -> Option<&TimeZone> {
        self.timezone.as_ref()
    }

    /// Places that `[app]` names for streams that clients of the API add.
    #[must_use]
    pub fn stream_places(&self) -> &StreamPlaces {
        &self.stream_places
    }

    /// Files with passwords that the graph names for its sources and in `[defaults]`: absolute paths.
    #[must_use]
    pub fn password_files(&self) -> BTreeSet<&Path> {
        let own = self
            .sources
            .iter()
            .filter_map(|source| source.connection.login.as_ref());
        let files = own.filter_map(|login| login.password_file.as_deref());
        files.chain(self.default_password_file.as_deref()).collect()
    }

    /// Privacy of a stream that runs on the graph: its own, that of the source that it is `like`, or that of `[defaults]`.
    /// Regions belong to the picture of the source, and so to single pictures that are like it, but to no other stream.
    #[must_use]
    pub fn privacy_of(&self, node: &SourceNode, like: Option<&str>) -> Privacy {
        let own = |name: &str| {
            let source = self.sources.iter().find(|source| source.name == name);
            source.and_then(|source| source.privacy.clone())
        };
        let of_like = || {
            let mut privacy = own(like?)?;
            if !is_of_single_pictures(&node.name) {
                privacy.regions.clear();
            }
            Some(privacy)
        };
        let given = node.privacy.clone().or_else(of_like);
        given.unwrap_or_else(|| self.privacy.clone())
    }

    /// Policy that the graph configures; [`Graph::with_policy`] replaces it.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Streams of the graph, without the streams that are added while it runs.
    #[must_use]
    pub fn sources(&self) -> &[SourceNode] {
        &self.sources
    }

    /// Names of templates: they stand where streams enter that are added while the graph runs. Inputs number them behind the
    /// sources.
    #[must_use]
    pub fn templates(&self) -> &[String] {
        &self.templates
    }

    /// Sources whose videos come from jobs; their names are among the templates.
    #[must_use]
    pub fn queues(&self) -> &[QueueNode] {
        &self.queues
    }

    /// The number by which inputs name that source or template.
    #[must_use]
    pub fn source_index(&self, name: &str) -> Option<usize> {
        self.source_names().position(|known| known == name)
    }

    /// Names of sources and templates by the numbers that inputs have of them.
    pub fn source_names(&self) -> impl Iterator<Item = &str> {
        let sources = self.sources.iter().map(|source| source.name.as_str());
        sources.chain(self.templates.iter().map(String::as_str))
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

    /// The plan by which models are partitioned over the workers, if any.
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    /// The gears that its cascades are shifted by, if any.
    #[must_use]
    pub fn gears(&self) -> Option<&Gears> {
        self.gears.as_ref()
    }

    /// Whether a model is emulated: it has no file, or is on emulated devices alone. One that is on others too is run on all of
    /// them, and on emulated ones for as long as their profiles say.
    #[must_use]
    pub fn is_emulated(&self, model: &ModelNode) -> bool {
        let is_emulated = |device: usize| {
            let device = self.devices.get(device);
            device.is_some_and(|device| matches!(device.class, DeviceClass::Emulated(_)))
        };
        model.origin == ModelOrigin::Emulated || model.ends().all(|(device, _)| is_emulated(device))
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

    /// The trackers, in the order of the text.
    #[must_use]
    pub fn trackers(&self) -> &[TrackerNode] {
        &self.trackers
    }

    /// The transforms, in the order of the text.
    #[must_use]
    pub fn transforms(&self) -> &[TransformNode] {
        &self.transforms
    }

    /// Sinks, in the order of the text.
    #[must_use]
    pub fn sinks(&self) -> &[SinkNode] {
        &self.sinks
    }

    /// Likely mistakes, by line: unused models, modules whose output nothing takes.
    #[must_use]
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// Every file and folder that it was read from or that it names, except those of its sources: its own file, models,
    /// profiles, plans, traces, labels, galleries.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Returns the graph with another policy. Mailboxes that belong to a drop rule give way to one for all
    /// workers where workers are not a module's own.
    #[must_use]
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.policy = if self.has_own_workers() {
            policy
        } else {
            policy.or_mailboxes(Mailboxes::Pool)
        };
        self
    }

    /// Whether each worker runs one module, with a model that stays open.
    fn has_own_workers(&self) -> bool {
        let mut taken = vec![false; self.devices.len()];
        let mut is_first = |device: usize| !mem::replace(&mut taken[device], true);
        let shared = |device: usize| self.devices[device].class != DeviceClass::Workers;
        let is_own = |model: &ModelNode| {
            model.generates()
                || model
                    .ends()
                    .all(|(device, _)| !shared(device) || is_first(device))
        };
        self.devices.iter().all(|device| device.memory.is_none())
            && self
                .modules
                .iter()
                .map(|module| &self.models[module.model])
                .all(is_own)
    }

    /// Returns the graph without sinks, so that it writes nothing.
    #[must_use]
    pub fn without_sinks(mut self) -> Self {
        self.sinks.clear();
        self
    }

    /// Returns the graph for pictures that do not follow each other: it has no trackers, transforms or sinks,
    /// and modules with a schedule per track run for each object.
    #[must_use]
    pub fn for_pictures(mut self) -> Self {
        self.trackers.clear();
        self.transforms.clear();
        self.modules.iter_mut().for_each(|module| module.per_track = None);
        self.without_sinks()
    }

    /// Returns the graph with an additional sink, which takes the results of all modules on these streams, with
    /// all tracks and incidents. `name` is one that no sink of a graph can have.
    #[must_use]
    pub fn with_observer(
        mut self,
        name: &str,
        kind: &str,
        when_slow: WhenSlow,
        streams: StreamNames,
    ) -> Self {
        let sources = (0..self.source_names().count()).map(Vertex::Source);
        let modules = (0..self.modules.len()).map(Vertex::Module);
        let observer = SinkNode {
            name: name.to_owned(),
            kind: kind.to_owned(),
            inputs: sources.chain(modules).collect(),
            trackers: (0..self.trackers.len()).collect(),
            transforms: (0..self.transforms.len()).collect(),
            streams,
            when_slow,
            settings: Settings::default(),
        };
        self.sinks.push(observer);
        self
    }
}
