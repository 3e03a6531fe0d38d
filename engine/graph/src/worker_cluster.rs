//! A plan on the workers of a graph: which share of which worker each share of the plan is.

use weir_planner::{PipelineSlots, Plan, Problem, place};
use weir_types::{ClusterSpec, ModuleId, ServerId, ServerSpec};

use crate::{Graph, WorkerNode};

/// The cluster of a plan with each share on a worker.
#[derive(Debug, Clone)]
pub struct WorkerCluster {
    /// Shares, links and pipelines. A server is one that workers of the graph name.
    pub cluster: ClusterSpec,
    /// By share: the index of its worker in the graph, and the number of the share there.
    pub owners: Vec<(usize, u32)>,
}

impl WorkerCluster {
    /// Assigns the workers of `graph` as `plan` says; `modules` names the planned model of each module.
    ///
    /// # Errors
    /// What does not fit, and what to do about it.
    pub fn new(graph: &Graph, plan: &Plan, modules: &[(ModuleId, String)]) -> Result<Self, String> {
        Self::on(graph.workers(), plan, modules)
    }

    /// The same for these workers.
    ///
    /// # Errors
    /// What does not fit, and what to do about it.
    pub fn on(workers: &[WorkerNode], plan: &Plan, modules: &[(ModuleId, String)]) -> Result<Self, String> {
        let mut problem: Problem = plan.problem.clone();
        let mut order: Vec<usize> = Vec::new();
        for class in &mut problem.classes {
            let of_class = |(_, worker): &(usize, &WorkerNode)| worker.class == class.name;
            let members = workers.iter().enumerate().filter(of_class);
            let members: Vec<usize> = members.map(|(at, _)| at).collect();
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
            owners.push((worker, used[worker]));
            used[worker] += 1;
        }
        let mut servers: Vec<(&str, u64)> = Vec::new();
        for (share, &(worker, _)) in cluster.shares.iter_mut().zip(&owners) {
            let node = &workers[worker];
            let known = servers.iter().position(|(name, _)| *name == node.server);
            let at = known.unwrap_or_else(|| {
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

    /// The pipelines of the `model` of `module` as its policy sees them; `None` where `plan` has none.
    #[must_use]
    pub fn pipeline_slots(&self, plan: &Plan, module: ModuleId, model: &str) -> Option<PipelineSlots> {
        let planned = &plan.solution.models;
        let planned = planned.iter().find(|planned| planned.model == model)?;
        PipelineSlots::new(&self.cluster, module, planned)
    }
}

impl Graph {
    /// Modules whose model a plan partitions over workers, each with the name of the model.
    ///
    /// # Errors
    /// Two modules that use one such model: a plan gives it to one.
    pub fn partitioned_modules(&self) -> Result<Vec<(ModuleId, String)>, String> {
        let mut modules: Vec<(ModuleId, String)> = Vec::new();
        for (id, node) in (0..).map(ModuleId).zip(self.modules()) {
            let model = &self.models()[node.model];
            if model.plan.is_none() {
                continue;
            }
            let name = &model.name;
            if let Some((other, _)) = modules.iter().find(|(_, used)| used == name) {
                let other = &self.modules()[other.index()].name;
                return Err(format!(
                    "modules \"{other}\" and \"{}\" both use the model \"{name}\", which a plan gives to one; declare it twice",
                    node.name
                ));
            }
            modules.push((id, name.clone()));
        }
        Ok(modules)
    }
}
