//! Which share of which worker each share of a plan is, and how a module sees its pipelines.

use weir_graph::{Graph, WorkerNode};
use weir_partition::WorkerId;
use weir_planner::{ModelPlan, Plan, Problem, place};
use weir_types::{ClusterSpec, ModuleId, PipelineSpec, Profile, ServerId, ServerSpec, Span};

/// Slots that a module has at most for its pipelines: slot ids are kept apart by so many a module.
pub(crate) const MAX_PIPELINE_SLOTS: u32 = 4_096;

/// The cluster of a plan with each share on a worker.
#[derive(Debug, Clone)]
pub(crate) struct ShareAssignment {
    pub(crate) cluster: ClusterSpec,
    /// By share: the worker, and the number of the share there.
    pub(crate) owners: Vec<(WorkerId, u32)>,
}

impl ShareAssignment {
    /// Assigns the workers of `graph` as `plan` says; `modules` names the planned model of each module.
    ///
    /// # Errors
    /// What does not fit, and what to do about it.
    pub(crate) fn new(graph: &Graph, plan: &Plan, modules: &[(ModuleId, String)]) -> Result<Self, String> {
        let workers = graph.workers();
        let mut problem: Problem = plan.problem.clone();
        let mut order: Vec<usize> = Vec::new();
        for class in &mut problem.classes {
            let of_class = |(_, worker): &(usize, &WorkerNode)| worker.class == class.name;
            let members: Vec<usize> = workers
                .iter()
                .enumerate()
                .filter(of_class)
                .map(|(at, _)| at)
                .collect();
            (class.count, class.per_server) = (members.len() as u32, 1);
            order.extend(members);
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
        let mut used = vec![0_u32; workers.len()];
        let mut owners = Vec::with_capacity(cluster.shares.len());
        for share in &cluster.shares {
            let worker = order[share.device as usize];
            owners.push((WorkerId(worker as u32), used[worker]));
            used[worker] += 1;
        }
        let mut servers: Vec<(&str, u64)> = Vec::new();
        for (share, (worker, _)) in cluster.shares.iter_mut().zip(&owners) {
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
        Ok(Self { cluster, owners })
    }

    /// Shares of a worker that are in use.
    pub(crate) fn share_count(&self, worker: WorkerId) -> u32 {
        self.owners.iter().filter(|(owner, _)| *owner == worker).count() as u32
    }

    /// The pipelines of a module, by index.
    pub(crate) fn pipelines(&self, module: ModuleId) -> impl Iterator<Item = (usize, &PipelineSpec)> {
        let all = self.cluster.pipelines.iter().enumerate();
        all.filter(move |(_, pipeline)| pipeline.module == module)
    }
}

/// The pipelines of a module as its policy sees them: slots that each take one batch from end to end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PipelineSlots {
    /// From end to end, transfers included.
    pub(crate) profile: Profile,
    /// The planned batch size.
    pub(crate) batch: u32,
    pub(crate) count: u32,
    /// Planned throughput over that of all these slots, at most 1.
    pub(crate) share: f64,
}

/// The slots of a plan; durations are those of the pipeline with the largest throughput.
pub(crate) fn pipeline_slots(
    assignment: &ShareAssignment,
    module: ModuleId,
    plan: &ModelPlan,
) -> Option<PipelineSlots> {
    let mut best: Option<(f64, &PipelineSpec)> = None;
    for ((_, pipeline), planned) in assignment.pipelines(module).zip(&plan.pipelines) {
        if best.is_none_or(|(max, _)| planned.throughput > max) {
            best = Some((planned.throughput, pipeline));
        }
    }
    let (_, pipeline) = best?;
    let bandwidth = assignment
        .cluster
        .servers
        .iter()
        .map(|server| server.bandwidth_bps)
        .min()
        .unwrap_or(1);
    let batch_time = |size: u32| {
        let stages = pipeline.stages.iter().map(|stage| {
            let bits = stage.received_bytes as f64 * 8.0 * f64::from(size);
            stage.profile.duration(size) + Span::from_secs_f64(bits / bandwidth.max(1) as f64)
        });
        stages.sum::<Span>()
    };
    let profile = Profile::new(
        (1..=pipeline.batch)
            .map(|size| (size, batch_time(size)))
            .collect(),
    )?;
    let per_slot = profile.throughput(pipeline.batch);
    let exact = (plan.throughput / per_slot.max(1e-9)).max(1e-3);
    let count = exact.ceil().clamp(1.0, f64::from(MAX_PIPELINE_SLOTS)) as u32;
    Some(PipelineSlots {
        profile,
        batch: pipeline.batch,
        count,
        share: (exact / f64::from(count)).min(1.0),
    })
}
