//! From a plan and the workers there are to what can be booked, and who sits where.

use weir_graph::{Graph, WorkerNode};
use weir_partition::WorkerId;
use weir_planner::place;
use weir_planner::{ModelPlan, Plan, Problem};
use weir_types::{ClusterSpec, PipelineSpec, ServerId, ServerSpec};
use weir_types::{ModuleId, Profile, Span};

/// A cluster whose shares are those of workers.
#[derive(Debug, Clone)]
pub(crate) struct Seats {
    pub(crate) cluster: ClusterSpec,
    /// By share: the worker, and which of its shares.
    pub(crate) seats: Vec<(WorkerId, u32)>,
}

impl Seats {
    /// Gives out the workers of `graph` as `plan` says; `modules` names the planned model of each module.
    ///
    /// # Errors
    /// What does not fit, and what to do about it.
    pub(crate) fn of(graph: &Graph, plan: &Plan, modules: &[(ModuleId, String)]) -> Result<Self, String> {
        let workers = graph.workers();
        let mut problem: Problem = plan.problem.clone();
        let mut order: Vec<usize> = Vec::new();
        for class in &mut problem.classes {
            let of_class = |(_, worker): &(usize, &WorkerNode)| worker.class == class.name;
            let here: Vec<usize> = workers
                .iter()
                .enumerate()
                .filter(of_class)
                .map(|(at, _)| at)
                .collect();
            (class.count, class.per_server) = (here.len() as u32, 1);
            order.extend(here);
        }
        let mut solution = plan.solution.clone();
        solution.models = modules
            .iter()
            .map(|(_, name)| {
                let found = plan.solution.models.iter().find(|model| model.model == *name);
                found.cloned().ok_or_else(|| {
                    let names: Vec<&str> = plan.solution.models.iter().map(|model| &*model.model).collect();
                    format!("the plan has no model \"{name}\"; it has {}", names.join(", "))
                })
            })
            .collect::<Result<_, _>>()?;
        let ids: Vec<ModuleId> = modules.iter().map(|(id, _)| *id).collect();
        let mut cluster = place(&problem, &solution, &ids).map_err(|error| error.to_string())?;
        let mut taken = vec![0_u32; workers.len()];
        let mut seats = Vec::with_capacity(cluster.shares.len());
        for share in &cluster.shares {
            let worker = order[share.device as usize];
            seats.push((WorkerId(worker as u32), taken[worker]));
            taken[worker] += 1;
        }
        let mut servers: Vec<(&str, u64)> = Vec::new();
        for (share, (worker, _)) in cluster.shares.iter_mut().zip(&seats) {
            let node = &workers[worker.0 as usize];
            let at = servers
                .iter()
                .position(|(name, _)| *name == node.server)
                .unwrap_or_else(|| {
                    servers.push((&node.server, node.bandwidth_bps));
                    servers.len() - 1
                });
            share.server = ServerId(at as u32);
        }
        cluster.servers = servers
            .iter()
            .map(|&(_, bandwidth_bps)| ServerSpec { bandwidth_bps })
            .collect();
        Ok(Self { cluster, seats })
    }

    /// How many shares of a worker are in use.
    pub(crate) fn shares_of(&self, worker: WorkerId) -> u32 {
        self.seats.iter().filter(|(of, _)| *of == worker).count() as u32
    }

    /// The pipelines of a module, with their numbers.
    pub(crate) fn pipelines_of(&self, module: ModuleId) -> impl Iterator<Item = (usize, &PipelineSpec)> {
        let all = self.cluster.pipelines.iter().enumerate();
        all.filter(move |(_, pipeline)| pipeline.module == module)
    }
}

/// A module's pipelines as a module reckons with them: as so many lanes that take a batch each from end to end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Lanes {
    pub(crate) profile: Profile,
    pub(crate) batch: u32,
    pub(crate) count: u32,
    /// By how much less than the lanes could do the plan is good for.
    pub(crate) share: f64,
}

/// The lanes of a plan; the pipeline that does most says how long a batch takes.
pub(crate) fn lanes(seats: &Seats, module: ModuleId, plan: &ModelPlan) -> Option<Lanes> {
    let mut best: Option<(f64, &PipelineSpec)> = None;
    for ((_, pipeline), planned) in seats.pipelines_of(module).zip(&plan.pipelines) {
        if best.is_none_or(|(most, _)| planned.throughput > most) {
            best = Some((planned.throughput, pipeline));
        }
    }
    let (_, pipeline) = best?;
    let bandwidth = seats
        .cluster
        .servers
        .iter()
        .map(|server| server.bandwidth_bps)
        .min()
        .unwrap_or(1);
    let takes = |size: u32| {
        let stages = pipeline.stages.iter().map(|stage| {
            let bits = stage.received_bytes as f64 * 8.0 * f64::from(size);
            stage.profile.duration(size) + Span::from_secs_f64(bits / bandwidth.max(1) as f64)
        });
        stages.sum::<Span>()
    };
    let profile = Profile::new((1..=pipeline.batch).map(|size| (size, takes(size))).collect())?;
    let a_lane = profile.throughput(pipeline.batch);
    let exact = (plan.throughput / a_lane.max(1e-9)).max(1e-3);
    let count = exact.ceil().clamp(1.0, 4_096.0) as u32;
    Some(Lanes {
        profile,
        batch: pipeline.batch,
        count,
        share: (exact / f64::from(count)).min(1.0),
    })
}
