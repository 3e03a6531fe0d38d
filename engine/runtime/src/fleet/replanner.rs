//! Plans that are solved again for measured conditions, on a thread of their own: a solution may take minutes, during which the
//! plan in force goes on.

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use weir_planner::Plan;
use weir_policy::reservations::ReplanOrigin;
use weir_types::{Conditions, ModuleId};

use crate::lock::lock;

/// A plan that is to be solved again.
#[derive(Debug)]
pub(crate) struct ReplanRequest {
    /// Number of the plan in force.
    pub(crate) number: u64,
    /// The plan in force.
    pub(crate) plan: Plan,
    /// Modules that it is for, each with the name of its model.
    pub(crate) modules: Vec<(ModuleId, String)>,
    pub(crate) conditions: Conditions,
}

/// The latest request of a graph, for the engine.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReplanRequests(Arc<Mutex<Option<ReplanRequest>>>);

impl ReplanRequests {
    /// Asks for a solution, in place of a request that was not taken yet.
    pub(crate) fn ask(&self, request: ReplanRequest) {
        *lock(&self.0) = Some(request);
    }

    fn take(&self) -> Option<ReplanRequest> {
        lock(&self.0).take()
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Replanner {
    requests: ReplanRequests,
    solving: Option<JoinHandle<Option<(Plan, ReplanOrigin)>>>,
}

impl Replanner {
    /// Requests of graphs come by these.
    pub(crate) fn requests(&self) -> ReplanRequests {
        self.requests.clone()
    }

    /// Begins to solve what was asked for, one plan at a time; gives a plan that was solved.
    pub(crate) fn poll(&mut self) -> Option<(Plan, ReplanOrigin)> {
        if let Some(solving) = self.solving.take_if(|solving| solving.is_finished()) {
            let solved = solving.join().unwrap_or_else(|_| {
                tracing::error!("the planner panicked; the current plan stays active");
                None
            });
            if solved.is_some() {
                return solved;
            }
        }
        if self.solving.is_none()
            && let Some(request) = self.requests.take()
        {
            let spawned = std::thread::Builder::new()
                .name("weir-replan".to_owned())
                .spawn(move || solve(&request));
            match spawned {
                Ok(solving) => self.solving = Some(solving),
                Err(error) => tracing::error!("no thread to solve the plan again: {error}"),
            }
        }
        None
    }
}

/// Solves a plan; `None` if the plan in force is the best, or nothing meets the objectives.
fn solve(request: &ReplanRequest) -> Option<(Plan, ReplanOrigin)> {
    tracing::info!(conditions = ?request.conditions, "conditions differ from those of the plan; it is solved again");
    match weir_planner::replan(&request.plan, &request.modules, &request.conditions) {
        Ok(Some(solved)) => {
            let origin = ReplanOrigin {
                plan: request.number,
                gain: solved.gain,
            };
            Some((solved.plan, origin))
        }
        Ok(None) => {
            tracing::info!("the current plan is the best for these conditions as well");
            None
        }
        Err(error) => {
            tracing::warn!("no plan fits the measured conditions, the current plan stays active: {error}");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_planner::{BlockTimes, Blocks, Class, Objective, Problem, Scheme, ServedModel};
    use weir_types::{LinkSpeed, PlanGain, Span};

    use super::*;

    /// A model that is best cut between two slow devices and a fast one, if their links are fast.
    fn plan() -> Plan {
        let class = |name: &str, count| Class {
            name: name.to_owned(),
            count,
            per_server: 1,
            bandwidth_bps: 1_000_000_000,
            cost: 1.0,
        };
        let times = |class: &str, us: [u64; 2]| BlockTimes {
            class: class.to_owned(),
            shares: 1,
            batch: vec![1],
            us: us.map(|us| vec![us]).to_vec(),
            whole_us: Vec::new(),
        };
        let problem = Problem {
            classes: vec![class("fast", 1), class("slow", 2)],
            models: vec![ServedModel {
                name: "detector".to_owned(),
                slo: Span::from_millis(25),
                weight: 1.0,
                blocks: Blocks {
                    model: "detector".to_owned(),
                    boundary_bytes: vec![500_000],
                    times: vec![times("fast", [4_000, 4_000]), times("slow", [6_000, 12_000])],
                    ..Blocks::default()
                },
            }],
            objective: Objective::Throughput,
            scheme: Scheme::Pooled { partitions: 2 },
            margin: 0.4,
            building: 0.0,
            gap: 1e-6,
        };
        let solution = weir_planner::solve(&problem).unwrap();
        Plan { solution, problem }
    }

    /// Asks for a solution for that bandwidth, and waits until it is there.
    fn solved_for(replanner: &mut Replanner, bandwidth_bps: u64) -> Option<(Plan, ReplanOrigin)> {
        replanner.requests().ask(ReplanRequest {
            number: 7,
            plan: plan(),
            modules: vec![(ModuleId(0), "detector".to_owned())],
            conditions: Conditions {
                links: vec![LinkSpeed {
                    from: "slow".to_owned(),
                    to: "fast".to_owned(),
                    bandwidth_bps,
                }],
                ..Conditions::default()
            },
        });
        assert_eq!(replanner.poll(), None, "it is only begun");
        while !replanner.solving.as_ref().unwrap().is_finished() {
            std::thread::yield_now();
        }
        replanner.poll()
    }

    #[test]
    fn request_is_solved_in_the_background_and_answered_by_another_plan() {
        let mut replanner = Replanner::default();
        assert_eq!(replanner.poll(), None, "nothing was asked");
        let (_, origin) = solved_for(&mut replanner, 250_000_000).unwrap();
        let gain = PlanGain {
            current: 0,
            next: 125_000,
        };
        assert_eq!(origin, ReplanOrigin { plan: 7, gain });
        assert_eq!(solved_for(&mut replanner, 1_000_000_000), None, "no other plan");
        assert_eq!(replanner.poll(), None, "each request is answered once");
    }
}
