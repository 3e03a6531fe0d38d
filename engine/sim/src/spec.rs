//! What a world is made of: modules, pools, links, demand, faults. Plain values, and what follows from them alone.

use std::sync::Arc;

use weir_planner::PipelineSlots;
use weir_policy::generate::emulated_length;
use weir_policy::reservations::{PlanSpec, ReserveSpec};
use weir_policy::{
    AutoscaleRule, DeviceMemory, GOLDEN_GAMMA, GenerateSpec, ModuleState, OverlapSpec, Policy, StatePlanner,
    StreamShare, uniform_hash,
};
use weir_types::{ModelId, ModuleId, Profile, Span, StreamId, Topology};

use crate::cascades::CascadeSpec;
use crate::demand::Demand;
use crate::interference::Interference;
use crate::scheduled::{ChangeKind, ScheduledChange};

/// A world before its time begins.
#[derive(Debug, Clone, PartialEq)]
pub struct WorldSpec {
    /// The latency objective of every request whose stream has none of its own.
    pub slo: Span,
    /// The policy of every module.
    pub policy: Policy,
    /// The modules in topological order: edges lead forward.
    pub modules: Vec<WorldModule>,
    /// Slots that an arbiter grants, for modules in shared pools.
    pub shared_slots: u32,
    /// Devices among them whose memory does not hold all their models.
    pub memory: WorldMemory,
    /// What modules over pipelines book.
    pub cluster: Option<WorldCluster>,
    /// How long a message takes from one actor to the next; links come on top.
    pub hop: Span,
    /// Links that requests cross, by index in [`Edge::link`].
    pub links: Vec<Link>,
    /// How many streams the requests come from, in turn; at least one.
    pub streams: u32,
    /// What streams have of their own, by their number; one that is not here has nothing.
    pub own: Vec<StreamSpec>,
    /// How many requests of a stream may be in flight; `None`: any number.
    pub max_in_flight: Option<u32>,
    /// What each request brings to each module.
    pub demand: Demand,
    /// Which of its modules are stages of cascades, and what sets them.
    pub cascades: CascadeSpec,
    /// What decoding of the streams' frames costs; `None`: nothing.
    pub decoding: Option<DecodingSpec>,
    /// Standard deviation of the logarithm of durations around their profile; 0: as the profile says.
    pub noise: f64,
    /// Other programs on the processors of the workers; `None`: none.
    pub interference: Option<Interference>,
    /// Workers that fail and return.
    pub failures: Vec<WorkerFailure>,
    /// Shared slots whose batches fail.
    pub faults: Vec<SlotFault>,
    /// What happens to streams, in order of time.
    pub changes: Vec<ScheduledChange>,
    /// Workers that all pools of their own may have together while they scale; `None`: any number.
    pub max_workers: Option<u32>,
    /// Where random draws begin.
    pub seed: u64,
}

impl WorldSpec {
    /// These modules and nothing else: one stream, no slots that are shared, nothing that deviates or fails.
    #[must_use]
    pub fn new(slo: Span, policy: Policy, modules: Vec<WorldModule>) -> Self {
        Self {
            slo,
            policy,
            modules,
            shared_slots: 0,
            memory: WorldMemory::default(),
            cluster: None,
            hop: Span::ZERO,
            links: Vec::new(),
            streams: 1,
            own: Vec::new(),
            max_in_flight: None,
            demand: Demand::default(),
            cascades: CascadeSpec::default(),
            decoding: None,
            noise: 0.0,
            interference: None,
            failures: Vec::new(),
            faults: Vec::new(),
            changes: Vec::new(),
            max_workers: None,
            seed: 1,
        }
    }
}

/// Devices whose memory does not hold all their models.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WorldMemory {
    /// The devices; what opening takes there is what it does take.
    pub devices: Vec<DeviceMemory>,
    /// Names of models, by their ids.
    pub names: Vec<String>,
}

/// Decoding on the cores that run batches. Streams are alike, and send each frame of their groups of pictures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DecodingSpec {
    /// Cores of the machine.
    pub cores: u32,
    /// Processor time of one picture.
    pub picture: Span,
    /// Frames of a group: a key frame and those up to the next.
    pub group: u32,
    /// Share of frames that no other refers to.
    pub non_reference: f64,
    /// Whether frames that cannot be used are left out; else all are decoded.
    pub as_needed: bool,
    /// What the cameras see, of those with a motion gate; `None`: they have none.
    pub scene: Option<SceneSpec>,
}

/// The scene of a camera: something moves for a time, and then nothing for another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SceneSpec {
    /// Time for which something moves.
    pub moves: Span,
    /// Time for which nothing does.
    pub rests: Span,
}

/// What a stream has of its own.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StreamSpec {
    /// Its latency objective; `None`: the world's.
    pub slo: Option<Span>,
    /// What it is to have under overload.
    pub share: StreamShare,
}

/// One module.
#[derive(Debug, Clone, PartialEq)]
pub struct WorldModule {
    /// Its name.
    pub name: String,
    /// How long batches take.
    pub profile: Profile,
    /// By slot of its pool, how long batches take there, where slots are not alike; `profile` is what they come to together.
    pub ends: Vec<Profile>,
    /// Batch sizes that it may run, ascending, at least one.
    pub batch: Vec<u32>,
    /// What it runs on.
    pub pool: WorldPool,
    /// Where its requests go on to: all of these. None: they are done.
    pub next: Vec<Edge>,
    /// Its weight under the arbitration `weighted`.
    pub weight: f64,
    /// Set where what it runs on prepares the next batch while one runs; of no effect over pipelines.
    pub overlap: Option<OverlapSpec>,
    /// The model that it runs, by which [`WorldSpec::memory`] knows it; of no effect elsewhere.
    pub model: Option<ModelId>,
}

/// What a module runs on.
#[derive(Debug, Clone, PartialEq)]
pub enum WorldPool {
    /// Workers of its own, always there.
    Fixed(u32),
    /// Workers of its own that come and go with the load.
    Scaled(Scaling),
    /// Some of the slots that an arbiter grants.
    Shared(Vec<u32>),
    /// Pipelines of [`WorldSpec::cluster`]: each batch goes where it is booked.
    Pipelines(PipelineSlots),
    /// Instances of its own, as its model generates.
    Generating(Box<WorldGenerate>),
}

/// A module whose model generates, and what it is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct WorldGenerate {
    /// Its instances, where sequences go, and what answers a request.
    pub spec: GenerateSpec,
    /// Tokens of prompts.
    pub prompt: Tokens,
    /// Tokens that are generated.
    pub output: Tokens,
    /// Where their number comes with a request: the standard deviation of the logarithm that it is off by; 0: as it will be.
    pub length_error: Option<f64>,
    /// Sequences a second that all instances can do together; `None`: as the module's profile says of one instance.
    pub capacity: Option<f64>,
}

/// Numbers of tokens.
#[derive(Debug, Clone, PartialEq)]
pub enum Tokens {
    /// Their logarithms are normally distributed.
    LogNormal {
        /// Their mean.
        mean: f64,
        /// Standard deviation of the logarithm.
        spread: f64,
        /// The most.
        max: u32,
    },
    /// Always so many.
    Fixed(u32),
    /// As an emulated model of the live engine generates them: drawn evenly, up to so many.
    Even {
        /// The most.
        max: u32,
    },
    /// Those of each request, in the order in which they come: as a trace has them.
    Listed(Arc<[u32]>),
}

impl Tokens {
    /// Those of a request, by its number; where they are drawn, by a draw that follows from `seed`.
    pub(crate) fn of(&self, request: usize, seed: u64) -> u32 {
        let (mean, spread, max) = match *self {
            Self::LogNormal { mean, spread, max } => (mean, spread, max),
            Self::Fixed(tokens) => return tokens,
            Self::Even { max } => return emulated_length(seed, max),
            Self::Listed(ref tokens) => return tokens.get(request).copied().unwrap_or(1),
        };
        let (u, v) = (uniform_hash(seed), uniform_hash(seed ^ GOLDEN_GAMMA));
        let normal = (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos();
        let tokens = mean * (spread * normal - 0.5 * spread * spread).exp();
        (tokens.round() as u32).clamp(1, max.max(1))
    }
}

/// Shares and links that are booked.
#[derive(Debug, Clone, PartialEq)]
pub struct WorldCluster {
    /// The plan that is in force first.
    pub plan: PlanSpec,
    /// Plans that come later, by time.
    pub later: Vec<LaterPlan>,
    /// Whether every use of a resource is wanted in the result.
    pub trace: bool,
}

impl WorldCluster {
    /// A cluster with one plan, on workers that are never lost.
    #[must_use]
    pub fn new(reserve: ReserveSpec) -> Self {
        Self {
            plan: PlanSpec {
                number: 1,
                reserve,
                owners: Vec::new(),
            },
            later: Vec::new(),
            trace: false,
        }
    }
}

/// A plan that is offered while another is in force.
#[derive(Debug, Clone, PartialEq)]
pub struct LaterPlan {
    /// When it is offered.
    pub at: Span,
    /// How long its partitions take to load.
    pub load_time: Span,
    /// The plan.
    pub plan: PlanSpec,
    /// Each module over pipelines, by index, and its slots by the plan.
    pub modules: Vec<(usize, PipelineSlots)>,
}

/// A shared slot whose batches fail as they start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotFault {
    /// The slot.
    pub slot: u32,
    /// When it begins.
    pub at: Span,
    /// How long it lasts.
    pub lasts: Span,
}

/// Workers that come and go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scaling {
    /// How many there are in the beginning.
    pub initial: u32,
    /// When how many are wanted.
    pub rule: AutoscaleRule,
    /// How long one takes to start.
    pub cold_start: Span,
}

/// A way from one module to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The module that it leads to.
    pub to: usize,
    /// The link that it crosses; `None`: none.
    pub link: Option<usize>,
}

/// A link between machines: one transfer at a time, in order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Time that every transfer takes, however small.
    pub latency: Span,
    /// Bits a second.
    pub bandwidth_bps: f64,
    /// Bytes of one request.
    pub bytes: f64,
}

/// A worker of a module's own pool, a shared slot or a share of its pipelines that fails and returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerFailure {
    /// Whose worker, by index; of a shared slot any module that is on it.
    pub module: usize,
    /// Which of its workers.
    pub worker: u32,
    /// When it fails; what runs on it is lost.
    pub at: Span,
    /// How long it is away.
    pub lasts: Span,
}

impl WorldSpec {
    /// The latency objective of the requests of a stream, where it is its own.
    pub(crate) fn own_slo(&self, stream: StreamId) -> Option<Span> {
        self.own.get(stream.index()).and_then(|own| own.slo)
    }

    /// What the streams are to have under overload; empty where they are alike.
    pub(crate) fn shares(&self) -> Vec<StreamShare> {
        let shares: Vec<StreamShare> = self.own.iter().map(|own| own.share).collect();
        if StreamShare::are_alike(&shares) {
            return Vec::new();
        }
        shares
    }

    /// The longest latency objective of any stream.
    pub(crate) fn longest_slo(&self) -> Span {
        let of = |stream: u32| self.own_slo(StreamId(stream)).unwrap_or(self.slo);
        let later = self.changes.iter().filter_map(|change| match change.kind {
            ChangeKind::Slo(slo) => Some(slo.unwrap_or(self.slo)),
            _ => None,
        });
        let all = (0..self.streams.max(1)).map(of).chain(later);
        all.max().unwrap_or(self.slo)
    }

    /// Whether it matters which stream a request is of: which items are handed on follows from the number of the frame in
    /// its stream.
    pub(crate) fn is_by_stream(&self) -> bool {
        !self.cascades.stages.is_empty()
            || self.own.iter().any(|own| *own != StreamSpec::default())
            || !self.changes.is_empty()
    }

    /// The graph's shape as the policy wants it.
    pub(crate) fn topology(&self) -> Topology {
        let next = |module: &WorldModule| module.next.iter().map(|edge| ModuleId(edge.to as u32)).collect();
        Topology::new(self.modules.iter().map(next).collect())
    }

    /// Items a second of one worker, by module, at the batch size of its fair share of the SLO: a property of the world,
    /// whatever the policy.
    pub(crate) fn worker_throughput(&self) -> Vec<f64> {
        let topology = self.topology();
        let alone =
            |(id, node): (u32, &WorldModule)| ModuleState::initial(ModuleId(id), node.profile.duration(1));
        let states: Vec<ModuleState> = (0..).zip(&self.modules).map(alone).collect();
        let of = |(id, node): (u32, &WorldModule)| {
            let planner = StatePlanner::new(
                ModuleId(id),
                self.slo,
                Policy::default().estimation(),
                &topology,
                states.clone(),
            );
            node.profile
                .throughput(node.profile.batch_size(&node.batch, planner.fair_share()))
        };
        (0..).zip(&self.modules).map(of).collect()
    }
}
