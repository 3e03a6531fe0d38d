//! What a run on partition workers begins with.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_flow::StopFlag;
use weir_graph::Graph;
use weir_types::ModuleId;

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
    pub(crate) next_plan: Option<Box<dyn FnMut() -> Option<weir_planner::Plan>>>,
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
            next_plan,
        } = partitioning;
        let mut modules: Vec<(ModuleId, String)> = Vec::new();
        let mut models = BTreeMap::new();
        for (id, node) in (0..).map(ModuleId).zip(graph.modules()) {
            let Some(model) = by_model.get(node.model).and_then(Option::as_ref) else {
                continue;
            };
            let name = graph.models()[node.model].name.clone();
            if let Some((other, _)) = modules.iter().find(|(_, used)| *used == name) {
                let other = &graph.modules()[other.index()].name;
                return Err(RunError::Workers(format!(
                    "modules \"{other}\" and \"{}\" both use the model \"{name}\", which a plan gives to one; declare it twice",
                    node.name
                )));
            }
            modules.push((id, name));
            models.insert(id, Arc::clone(model));
        }
        let active = ActivePlan::new(graph, plan, modules, models, (1, 0)).map_err(RunError::Workers)?;
        let relay = EventRelay::default();
        let fleet = Fleet::start(graph, &active, loader.as_ref(), clock, &relay, stop)?;
        Ok(Self {
            active,
            fleet,
            relay,
            next_plan,
        })
    }
}
