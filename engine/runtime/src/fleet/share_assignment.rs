//! Assignment of the shares of a plan to the shares of workers.

use weir_graph::{Graph, WorkerCluster};
use weir_partition::WorkerId;
use weir_planner::Plan;
use weir_types::{ClusterSpec, ModuleId};

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
        let WorkerCluster { cluster, owners } = WorkerCluster::new(graph, plan, modules)?;
        let owner = |(worker, share)| (WorkerId(worker as u32), share);
        Ok(Self {
            cluster,
            owners: owners.into_iter().map(owner).collect(),
        })
    }

    /// Shares of a worker that are in use.
    pub(crate) fn share_count(&self, worker: WorkerId) -> u32 {
        self.owners.iter().filter(|(owner, _)| *owner == worker).count() as u32
    }
}
