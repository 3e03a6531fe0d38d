//! Specification of a world: modules, pools, links, demand, faults. Plain values, and quantities derived from
//! them.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_graph::{SourceMode, SourceNode, WorkerNode};
use weir_planner::{PipelineSlots, Plan};
use weir_policy::generate::{Prefix, emulated_length};
use weir_policy::reservations::{PlanSpec, ReplanOrigin, ReserveSpec};
use weir_policy::{
    AutoscaleRule, DeviceMemory, GOLDEN_GAMMA, GenerateSpec, Mailboxes, OverlapSpec, Policy, StreamShare,
    uniform_hash, worker_throughput,
};
use weir_types::{ModelId, ModuleId, Profile, Span, StreamId, Topology};

use crate::cascades::CascadeSpec;
use crate::demand::Demand;
use crate::interference::Interference;
use crate::scheduled::{ChangeKind, ScheduledChange};

/// A world before its time begins.
#[derive(Debug, Clone, PartialEq)]
pub struct WorldSpec {
    /// SLO of all requests whose stream does not set its own.
    pub slo: Span,
    /// The policy of every module.
    pub policy: Policy,
    /// The modules in topological order: edges lead forward.
    pub modules: Vec<WorldModule>,
    /// Slots that an arbiter grants, for modules in shared pools.
    pub shared_slots: u32,
    /// Devices whose memory cannot hold all their models.
    pub memory: WorldMemory,
    /// Cluster on which modules over pipelines book their batches.
    pub cluster: Option<WorldCluster>,
    /// Time that a message takes from one actor to the next; transfer times of links are added.
    pub hop: Span,
    /// Time that a batch, a step or a session is on its way to the thread of its slot and back, during which the
    /// slot is idle.
    pub handover: Span,
    /// Time by which timers of machines fire late.
    pub timer_delay: Span,
    /// Links that requests cross, by index in [`Edge::link`].
    pub links: Vec<Link>,
    /// Number of streams from which requests come in turn; at least one.
    pub streams: u32,
    /// Settings of single streams, by number; streams beyond the end use the defaults.
    pub own: Vec<StreamSpec>,
    /// Maximum number of requests in flight per live stream; `None`: unlimited. The limit of a lossless stream
    /// follows its latencies.
    pub max_in_flight: Option<u32>,
    /// Time at which sources stop: frames of lossless streams that wait then are never sent. `None`: all are.
    pub stops_at: Option<Span>,
    /// Items that each request brings to each module.
    pub demand: Demand,
    /// Modules that are stages of cascades, and the gears that set them.
    pub cascades: CascadeSpec,
    /// Cost of decoding the frames of streams; `None`: decoding is free.
    pub decoding: Option<DecodingSpec>,
    /// Standard deviation of the logarithm of durations around their profile; 0: durations follow the
    /// profile.
    pub noise: f64,
    /// Other programs on the processors of the workers; `None`: none.
    pub interference: Option<Interference>,
    /// Workers that fail and return.
    pub failures: Vec<WorkerFailure>,
    /// Shared slots with faults, under which batches fail.
    pub faults: Vec<SlotFault>,
    /// Changes of streams, in order of time.
    pub changes: Vec<ScheduledChange>,
    /// Maximum number of workers of all scaled pools together; `None`: unlimited.
    pub max_workers: Option<u32>,
    /// Seed of all random draws.
    pub seed: u64,
}

impl WorldSpec {
    /// A world of these modules with defaults: one stream, no shared slots, no noise, no failures.
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
            handover: Span::ZERO,
            timer_delay: Span::ZERO,
            links: Vec::new(),
            streams: 1,
            own: Vec::new(),
            max_in_flight: None,
            stops_at: None,
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

/// Devices whose memory cannot hold all their models.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WorldMemory {
    /// The devices; what opening takes there is what it does take.
    pub devices: Vec<DeviceMemory>,
    /// Devices whose models generate and take turns. The slots of a model are the instances of its module.
    pub generating: Vec<DeviceMemory>,
    /// Names of models, by their ids.
    pub names: Vec<String>,
}

impl WorldMemory {
    /// Whether sessions open and close on a device.
    pub(crate) fn is_limited(&self) -> bool {
        !self.devices.is_empty() || !self.generating.is_empty()
    }
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
    /// True if frames that cannot be used are left out; false: all frames are decoded.
    pub as_needed: bool,
    /// Motion in front of cameras with a motion gate; `None`: cameras have no gate.
    pub scene: Option<SceneSpec>,
}

/// Scene in front of a camera, in a cycle: motion for some time, then stillness.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SceneSpec {
    /// Time with motion in each cycle.
    pub moves: Span,
    /// Time without motion in each cycle.
    pub rests: Span,
}

/// Settings of a single stream.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StreamSpec {
    /// Its SLO; `None`: that of the world.
    pub slo: Option<Span>,
    /// Its share under overload.
    pub share: StreamShare,
    /// True if its frames wait at the source while the stream is at its limit, and are never dropped.
    pub is_lossless: bool,
}

impl StreamSpec {
    /// Settings of the stream of a graph's source.
    pub(crate) fn of(source: &SourceNode) -> Self {
        Self {
            slo: source.slo,
            share: source.share,
            is_lossless: source.mode == SourceMode::Lossless,
        }
    }
}

/// One module of a world.
#[derive(Debug, Clone, PartialEq)]
pub struct WorldModule {
    /// Name in reports.
    pub name: String,
    /// Batch durations by batch size.
    pub profile: Profile,
    /// Batch durations by slot of its pool, if slots differ in speed; `profile` then describes them together.
    pub ends: Vec<Profile>,
    /// Batch sizes that it may run, ascending, at least one.
    pub batch: Vec<u32>,
    /// Resources on which it runs.
    pub pool: WorldPool,
    /// Edges to the modules that its requests visit next, all of them; empty: requests are done.
    pub next: Vec<Edge>,
    /// Weight under the arbitration rule `weighted`.
    pub weight: f64,
    /// Set if the next batch can be prepared while one runs; without effect over pipelines.
    pub overlap: Option<OverlapSpec>,
    /// Model that it runs, by which [`WorldSpec::memory`] finds it; without effect elsewhere.
    pub model: Option<ModelId>,
}

/// Resources on which a module runs.
#[derive(Debug, Clone, PartialEq)]
pub enum WorldPool {
    /// Dedicated workers, always present.
    Fixed(u32),
    /// Dedicated workers that are added and removed with the load.
    Scaled(Scaling),
    /// Slots that an arbiter grants, by index.
    Shared(Vec<u32>),
    /// Pipelines of [`WorldSpec::cluster`]; each batch runs where it is booked.
    Pipelines(PipelineSlots),
    /// Dedicated instances of a generative model.
    Generating(Box<WorldGenerate>),
}

/// Generator of a module: its instances and the tokens of its requests.
#[derive(Debug, Clone, PartialEq)]
pub struct WorldGenerate {
    /// Instances, routing of sequences, and the answer of a request.
    pub spec: GenerateSpec,
    /// Tokens of prompts.
    pub prompt: Tokens,
    /// Beginning that all prompts share; `None`: they share none.
    pub prefix: Option<Prefix>,
    /// Number of tokens that are generated.
    pub output: Tokens,
    /// Error of the length that comes with a request: standard deviation of its logarithm; 0: exact. `None`:
    /// requests come without a predicted length.
    pub length_error: Option<f64>,
    /// Sequences per second of all instances together; `None`: the module's profile describes one instance.
    pub capacity: Option<f64>,
}

impl WorldGenerate {
    /// Routes sequences and expects lengths as the policy has it. Requests bring predicted lengths only if
    /// its source of lengths is a predictor.
    pub(crate) fn follow(&mut self, policy: &Policy, seed: u64) {
        self.spec.router = policy.router(seed, self.spec.router.transfer);
        self.spec.length = policy.length;
        self.length_error = self.length_error.filter(|_| policy.length.is_predicted());
    }
}

/// Numbers of tokens.
#[derive(Debug, Clone, PartialEq)]
pub enum Tokens {
    /// Their logarithms are normally distributed.
    LogNormal {
        /// Mean number of tokens.
        mean: f64,
        /// Standard deviation of the logarithm.
        spread: f64,
        /// Upper limit in tokens.
        max: u32,
    },
    /// The same number for every request.
    Fixed(u32),
    /// Uniformly distributed up to `max`, as an emulated model of the live engine draws them.
    Even {
        /// Upper limit in tokens.
        max: u32,
    },
    /// Number of each request, in the order of arrival, as in a trace.
    Listed(Arc<[u32]>),
}

impl Tokens {
    /// Number of tokens of a request; random numbers follow from `seed`.
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
    /// Plans that are solved while the world runs; `None`: none are.
    pub replanner: Option<Replanner>,
    /// Links that become slower or faster than they are configured.
    pub link_changes: Vec<LinkChange>,
    /// True if the result records every use of a resource.
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
                replan: None,
            },
            later: Vec::new(),
            replanner: None,
            link_changes: Vec::new(),
            trace: false,
        }
    }
}

/// A plan that is offered while another is in force.
#[derive(Debug, Clone, PartialEq)]
pub struct LaterPlan {
    /// Time at which the plan is offered.
    pub at: Span,
    /// Time that its partitions take to load.
    pub load_time: Span,
    /// Plan of the pipelines.
    pub plan: PlanSpec,
    /// Each module over pipelines, by index, and its slots by the plan.
    pub modules: Vec<(usize, PipelineSlots)>,
    /// Origin of a plan that was solved again, by which it may be declined; `None`: it is used however good it is.
    pub origin: Option<ReplanOrigin>,
}

/// Solves the plan in force again for measured conditions, and lays the solution out on workers.
#[derive(Debug, Clone, PartialEq)]
pub struct Replanner {
    /// The plan in force first.
    pub plan: Plan,
    /// Each module over pipelines, with the name of its model.
    pub modules: Vec<(ModuleId, String)>,
    /// The workers, by their ids.
    pub workers: Vec<WorkerNode>,
    /// Time that a solution takes.
    pub solve_time: Span,
    /// Time that the partitions of a solution take to load.
    pub load_time: Span,
}

/// A change of all links of a class of devices.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkChange {
    /// Time of the change.
    pub at: Span,
    /// Name of the class.
    pub class: String,
    /// Factor of transfer times from then on, against the configured bandwidth; of two classes the larger factor counts.
    pub factor: f64,
}

/// Fault of a shared slot: its batches fail as they start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotFault {
    /// Index of the shared slot.
    pub slot: u32,
    /// Time at which its batches begin to fail.
    pub at: Span,
    /// Duration of the fault.
    pub lasts: Span,
}

/// Workers that come and go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scaling {
    /// Number of workers at the start.
    pub initial: u32,
    /// Rule that decides how many workers are wanted.
    pub rule: AutoscaleRule,
    /// Time that a worker takes to start.
    pub cold_start: Span,
    /// Whether workers follow the items that requests will bring, which only a simulation knows, and not the requests alone, as
    /// live.
    pub is_foretold: bool,
}

/// A way from one module to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The module that it leads to.
    pub to: usize,
    /// Index of the link that requests cross; `None`: no link.
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
    /// Index of the module whose worker fails; for a shared slot any module that is placed on it.
    pub module: usize,
    /// Index of the worker within the module's pool.
    pub worker: u32,
    /// Time of the failure; the batch that runs on the worker is lost.
    pub at: Span,
    /// Time until the worker returns.
    pub lasts: Span,
}

impl WorldSpec {
    /// SLO of a stream's requests, if the stream sets its own.
    pub(crate) fn own_slo(&self, stream: StreamId) -> Option<Span> {
        self.own.get(stream.index()).and_then(|own| own.slo)
    }

    /// True if each slot has a mailbox of its own, as the policy wants it: no slot is shared, and all models stay
    /// open.
    pub(crate) fn has_own_slots(&self) -> bool {
        let mut taken = BTreeSet::new();
        let pools = self.modules.iter().filter_map(|node| match &node.pool {
            WorldPool::Shared(slots) => Some(slots),
            _ => None,
        });
        self.policy.mailboxes() == Mailboxes::Worker
            && self.memory.devices.is_empty()
            && pools.flatten().all(|slot| taken.insert(slot))
    }

    /// Durations on each slot of a module that assigns requests to slots: its slots differ in speed, or gears give each of its
    /// replicas a queue. Empty for other modules.
    pub(crate) fn slot_profiles(&self, module: usize) -> Vec<Profile> {
        let node = &self.modules[module];
        let gears = self.cascades.gears.as_ref();
        let has_replicas = node.model.is_none()
            && self.policy.mailboxes() == Mailboxes::Pool
            && gears.is_some_and(|gears| gears.has_replicas(module));
        match &node.pool {
            WorldPool::Shared(slots) if node.ends.is_empty() && has_replicas && slots.len() > 1 => {
                vec![node.profile.clone(); slots.len()]
            }
            _ => node.ends.clone(),
        }
    }

    /// True if the frames of the stream wait at their source and are never dropped.
    pub(crate) fn is_lossless(&self, stream: StreamId) -> bool {
        self.own.get(stream.index()).is_some_and(|own| own.is_lossless)
    }

    /// True if a stream is live: frames of it are dropped rather than late.
    pub(crate) fn has_live_streams(&self) -> bool {
        (0..self.streams.max(1)).any(|stream| !self.is_lossless(StreamId(stream)))
    }

    /// Share of each stream under overload; empty if all are equal.
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

    /// True if results depend on the stream of each request: the items that are handed on follow from the
    /// number of the frame in its stream.
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
        let modules = self.modules.iter();
        let modules: Vec<(&Profile, &[u32])> = modules.map(|node| (&node.profile, &node.batch[..])).collect();
        worker_throughput(self.slo, &self.topology(), &modules)
    }
}
