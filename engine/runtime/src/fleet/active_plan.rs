//! A plan laid out on the workers of this run.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_flow::PartitionedModel;
use weir_graph::Graph;
use weir_partition::wire::LoadPartition;
use weir_partition::{WorkerId, WorkerInfo};
use weir_planner::{ModelPlan, PipelineSlots, Plan};
use weir_policy::Policy;
use weir_policy::reservations::{PartitionLoad, PlanSpec};
use weir_types::{ModuleId, ShareId};

use super::partitions::PlanPartitions;
use super::share_assignment::ShareAssignment;

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
        })
    }

    /// The same models by another plan.
    ///
    /// # Errors
    /// As [`ActivePlan::new`].
    pub(crate) fn replan(&self, graph: &Graph, plan: Plan) -> Result<Self, String> {
        let next = (self.number + 1, self.partitions.next_id());
        Self::new(graph, plan, self.modules.clone(), self.models.clone(), next)
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

    /// What its reservations are made from.
    pub(crate) fn spec(&self, policy: &Policy) -> PlanSpec {
        PlanSpec {
            number: self.number,
            reserve: policy.reserve_spec(self.assignment.cluster.clone()),
            owners: self.assignment.owners.iter().map(|(worker, _)| *worker).collect(),
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
