//! What a run on partition workers begins with.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_flow::StopFlag;
use weir_graph::Graph;

use super::active_plan::ActivePlan;
use super::event_relay::EventRelay;
use super::start::Fleet;
use crate::assembly::{Partitioning, RunError};
use crate::clock::Clock;

/// Partition workers, the plan by which they are used, and the source of further plans.
pub(crate) struct PartitionSetup {
    pub(crate) active: ActivePlan,
    pub(crate) fleet: Fleet,
    pub(crate) relay: EventRelay,
    pub(crate) next_plan: Option<Box<dyn FnMut() -> Option<weir_planner::Plan> + Send>>,
}

impl PartitionSetup {
    /// Lays out the first plan and starts the workers.
    ///
    /// # Errors
    /// [`RunError`] where the plan does not fit the graph, or the workers are not ready in time.
    pub(crate) fn start(
        graph: &Graph,
        partitioning: Partitioning,
        clock: Clock,
        stop: &StopFlag,
    ) -> Result<Self, RunError> {
        let Partitioning {
            plan,
            models: by_model,
            loader,
            carrier,
            next_plan,
        } = partitioning;
        let modules = graph.partitioned_modules().map_err(RunError::Workers)?;
        let mut models = BTreeMap::new();
        for (id, name) in &modules {
            let model = by_model.get(graph.modules()[id.index()].model);
            let model = model.and_then(Option::as_ref).ok_or_else(|| {
                RunError::Workers(format!("the model \"{name}\" has a plan and was not cut"))
            })?;
            models.insert(*id, Arc::clone(model));
        }
        let active = ActivePlan::new(graph, plan, modules, models, (1, 0)).map_err(RunError::Workers)?;
        let relay = EventRelay::default();
        let fleet = Fleet::start(graph, &active, (loader.as_ref(), carrier), clock, &relay, stop)?;
        Ok(Self {
            active,
            fleet,
            relay,
            next_plan,
        })
    }
}
