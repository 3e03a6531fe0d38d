//! A run on partition workers: what it begins with, and the plans that it changes to.

use weir_flow::StopFlag;
use weir_graph::Graph;
use weir_planner::Plan;

use super::active_plan::{ActivePlan, by_module};
use super::event_relay::EventRelay;
use super::replanner::Replanner;
use super::start::Fleet;
use crate::assembly::{NextPlan, Partitioning, RunError};
use crate::clock::Clock;

/// Partition workers, the plan by which they are used, and the source of further plans.
pub(crate) struct PartitionSetup {
    /// The last plan that was offered to the graph in force.
    pub(crate) active: ActivePlan,
    pub(crate) fleet: Fleet,
    pub(crate) relay: EventRelay,
    next: NextPlans,
    /// Solves the plan in force again for measured conditions.
    pub(crate) replanner: Replanner,
    /// The number of the next plan, and of its first partition.
    numbers: (u64, u32),
}

/// Further plans of a graph.
pub(crate) struct NextPlans {
    /// The plan that its file had as the graph was read.
    read: Option<Plan>,
    poll: Option<NextPlan>,
}

/// The plan in force as another graph uses it.
pub(crate) struct PreparedPlan {
    pub(crate) active: ActivePlan,
    next: NextPlans,
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
            models,
            loader,
            carrier,
            next_plan,
        } = partitioning;
        let modules = graph.partitioned_modules().map_err(RunError::Workers)?;
        let models = by_module(graph, &modules, &models).map_err(RunError::Workers)?;
        let active = ActivePlan::new(graph, plan, modules, models, (1, 0)).map_err(RunError::Workers)?;
        let relay = EventRelay::new();
        let fleet = Fleet::start(graph, &active, (loader.as_ref(), carrier), clock, &relay, stop)?;
        Ok(Self {
            numbers: active.next_numbers(),
            active,
            fleet,
            relay,
            next: NextPlans {
                read: None,
                poll: next_plan,
            },
            replanner: Replanner::default(),
        })
    }

    /// Gives another plan for the graph in force, where there is one: of its file, or solved again.
    pub(crate) fn poll(&mut self, graph: &Graph) -> Option<ActivePlan> {
        let NextPlans { read, poll } = &mut self.next;
        let given = read.take().or_else(|| poll.as_mut().and_then(|poll| poll()));
        let (plan, origin) = match given {
            Some(plan) => (plan, None),
            None => {
                let (plan, origin) = self.replanner.poll()?;
                (plan, Some(origin))
            }
        };
        let ActivePlan { modules, models, .. } = &self.active;
        match ActivePlan::new(graph, plan, modules.clone(), models.clone(), self.numbers) {
            Ok(mut active) => {
                active.origin = origin;
                self.numbers = active.next_numbers();
                // One that was solved again may be declined.
                if origin.is_none() {
                    self.active = active.clone();
                }
                Some(active)
            }
            Err(reason) => {
                tracing::error!("the new plan cannot be used, the current plan stays active: {reason}");
                None
            }
        }
    }

    /// Another graph uses the plan in force; gives what the graph before uses.
    pub(crate) fn change_graph(&mut self, prepared: PreparedPlan) -> PreparedPlan {
        PreparedPlan {
            active: std::mem::replace(&mut self.active, prepared.active),
            next: std::mem::replace(&mut self.next, prepared.next),
        }
    }
}

impl PreparedPlan {
    /// Checks that a graph can use the plan in force. A plan of its own that differs is switched to once the graph is in force.
    ///
    /// # Errors
    /// [`RunError::Workers`] where it cannot.
    pub(crate) fn new(
        in_force: &ActivePlan,
        graphs: (&Graph, &Graph),
        partitioning: Partitioning,
    ) -> Result<Self, RunError> {
        let Partitioning {
            plan,
            models,
            next_plan,
            ..
        } = partitioning;
        let active = in_force.for_graph(graphs, &models).map_err(RunError::Workers)?;
        // One that was solved again goes on while the problem in the file is the same.
        let goes_on =
            active.origin.is_some() && graphs.1.policy().replan && plan.problem == active.plan.problem;
        let read = (plan != active.plan && !goes_on).then_some(plan);
        Ok(Self {
            active,
            next: NextPlans {
                read,
                poll: next_plan,
            },
        })
    }
}
