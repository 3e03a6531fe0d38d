//! A plan laid out on the workers of this run.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_flow::PartitionedModel;
use weir_graph::Graph;
use weir_partition::wire::LoadPartition;
use weir_partition::{WorkerId, WorkerInfo};
use weir_planner::{ModelPlan, PipelineSlots, Plan};
use weir_policy::Policy;
use weir_policy::reservations::{PartitionLoad, PlanSpec, ReplanOrigin, ReplanSpec};
use weir_types::{ModuleId, ShareId};

use super::partitions::PlanPartitions;
use super::share_assignment::ShareAssignment;

/// The partitioned models of a graph by their modules.
///
/// # Errors
/// A model that has a plan and was not cut.
pub(crate) fn by_module(
    graph: &Graph,
    modules: &[(ModuleId, String)],
    by_model: &[Option<Arc<dyn PartitionedModel>>],
) -> Result<BTreeMap<ModuleId, Arc<dyn PartitionedModel>>, String> {
    let model = |(id, name): &(ModuleId, String)| {
        let model = by_model.get(graph.modules()[id.index()].model);
        let model = model.and_then(Option::as_ref);
        let model = model.ok_or_else(|| format!("the model \"{name}\" has a plan and was not cut"))?;
        Ok((*id, Arc::clone(model)))
    };
    modules.iter().map(model).collect()
}

/// A plan with its shares on workers and its partitions cut out of the models.
#[derive(Clone)]
pub(crate) struct ActivePlan {
    /// Plans of a run are numbered from 1.
    pub(crate) number: u64,
    pub(crate) plan: Plan,
    /// Modules whose model the plan partitions, each with the name of the model.
    pub(crate) modules: Vec<(ModuleId, String)>,
    pub(crate) models: BTreeMap<ModuleId, Arc<dyn PartitionedModel>>,
    pub(crate) assignment: ShareAssignment,
    pub(crate) partitions: PlanPartitions,
    /// Origin of a plan that was solved again for measured conditions.
    pub(crate) origin: Option<ReplanOrigin>,
}

impl ActivePlan {
    /// Places `plan` on the workers of `graph` and cuts the models; partitions are numbered from `first` on.
    ///
    /// # Errors
    /// What does not fit, and what to do about it.
    pub(crate) fn new(
        graph: &Graph,
        plan: Plan,
        modules: Vec<(ModuleId, String)>,
        models: BTreeMap<ModuleId, Arc<dyn PartitionedModel>>,
        (number, first): (u64, u32),
    ) -> Result<Self, String> {
        let assignment = ShareAssignment::new(graph, &plan, &modules)?;
        let emulated: Vec<bool> = graph.workers().iter().map(|worker| worker.emulated).collect();
        let partitions = PlanPartitions::cut(&assignment, &models, &emulated, (number, first))
            .map_err(|error| error.to_string())?;
        Ok(Self {
            number,
            plan,
            modules,
            models,
            assignment,
            partitions,
            origin: None,
        })
    }

    /// The same plan for another graph, whose partitions are those that the workers have.
    ///
    /// # Errors
    /// What differs, and what to do about it.
    pub(crate) fn for_graph(
        &self,
        (before, graph): (&Graph, &Graph),
        models: &[Option<Arc<dyn PartitionedModel>>],
    ) -> Result<Self, String> {
        let differs = |what: &str| format!("{what}, which is not done while a graph runs: start it again");
        if before.workers() != graph.workers() {
            return Err(differs("partition workers are added, removed or changed"));
        }
        let modules = graph.partitioned_modules()?;
        let names = |modules: &[(ModuleId, String)]| -> Vec<String> {
            modules.iter().map(|(_, model)| model.clone()).collect()
        };
        if names(&modules) != names(&self.modules) {
            return Err(differs("models are added to the plan, or removed from it"));
        }
        let models = by_module(graph, &modules, models)?;
        let numbers = (self.number, self.partitions.first());
        let same = Self::new(graph, self.plan.clone(), modules, models, numbers)?;
        if same.partitions.loads != self.partitions.loads {
            return Err(differs("a partitioned model, or the file of one, is another"));
        }
        // The partitions in force stay, so those that were cut to be compared are not kept.
        let partitions = self.partitions.clone();
        Ok(Self {
            partitions,
            origin: self.origin,
            ..same
        })
    }

    /// The numbers of the plan after it, and of the first partition of that.
    pub(crate) fn next_numbers(&self) -> (u64, u32) {
        (self.number + 1, self.partitions.next_id())
    }

    /// Checks that every stage has an available worker.
    ///
    /// # Errors
    /// The first stage that has none.
    pub(crate) fn check_available(&self, available: &BTreeMap<WorkerId, WorkerInfo>) -> Result<(), String> {
        let is_up = |share: ShareId| available.contains_key(&self.assignment.owners[share.index()].0);
        match self.assignment.cluster.stage_without(is_up) {
            None => Ok(()),
            Some(stage) => Err(format!(
                "the stage of blocks {}..{}",
                stage.blocks.0, stage.blocks.1
            )),
        }
    }

    fn model(&self, module: ModuleId) -> Option<&ModelPlan> {
        let (_, name) = self.modules.iter().find(|(id, _)| *id == module)?;
        self.plan
            .solution
            .models
            .iter()
            .find(|model| model.model == *name)
    }

    /// The pipelines of a module as slots of its policy; `None` for a module whose model is not partitioned.
    pub(crate) fn pipeline_slots(&self, module: ModuleId) -> Option<PipelineSlots> {
        PipelineSlots::new(&self.assignment.cluster, module, self.model(module)?)
    }

    /// Specification of the reservations under this plan.
    pub(crate) fn spec(&self, policy: &Policy) -> PlanSpec {
        PlanSpec {
            number: self.number,
            reserve: policy.reserve_spec(self.assignment.cluster.clone()),
            owners: self.assignment.owners.iter().map(|(worker, _)| *worker).collect(),
            replan: policy
                .replan
                .then(|| ReplanSpec::new(self.plan.mix(&self.modules))),
        }
    }

    /// Its partitions, by worker.
    pub(crate) fn loads(&self) -> Vec<PartitionLoad> {
        let load = |(worker, load): &(WorkerId, LoadPartition)| PartitionLoad {
            worker: *worker,
            partition: load.partition,
        };
        self.partitions.loads.iter().map(load).collect()
    }
}
