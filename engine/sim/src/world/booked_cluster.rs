//! The cluster of a world, and what is on it.

use std::collections::BTreeMap;

use weir_graph::WorkerCluster;
use weir_planner::Plan;
use weir_policy::reservations::{BookingId, PlanSpec, ReplanOrigin, ReserveSpec, ResourceUse};
use weir_types::{BatchId, ClusterSpec, Conditions, ModuleId, Span, WorkerId};

use super::cluster_run::ClusterRun;
use crate::cluster_usage::{ClusterUsage, ResourceUsage};
use crate::spec::{LaterPlan, Replanner, WorldCluster};

/// A batch on its path.
#[derive(Debug)]
pub(super) struct InFlightBatch {
    pub(super) module: ModuleId,
    pub(super) batch: BatchId,
    pub(super) items: u32,
    /// Time on shares so far.
    pub(super) busy: Span,
}

/// The cluster of a world.
#[derive(Debug)]
pub(super) struct BookedCluster<'a> {
    pub(super) spec: &'a WorldCluster,
    /// Plan in force.
    pub(super) plan: PlanSpec,
    /// Plans that were offered or will be: those of the world, then those that were solved.
    pub(super) later: Vec<LaterPlan>,
    /// Solutions that were offered, by the numbers of their plans.
    solved: BTreeMap<u64, Plan>,
    /// The solution in force, where the planner made it.
    in_force: Option<Plan>,
    pub(super) cluster: ClusterRun,
    pub(super) in_flight: BTreeMap<BookingId, InFlightBatch>,
    device_parts: Vec<f64>,
    pub(super) usage: ClusterUsage,
}

impl<'a> BookedCluster<'a> {
    pub(super) fn new(spec: &'a WorldCluster) -> Self {
        let plan = &spec.plan;
        Self {
            cluster: ClusterRun::new(&plan.reserve.cluster),
            in_flight: BTreeMap::new(),
            device_parts: device_parts(&plan.reserve.cluster),
            usage: ClusterUsage::default(),
            plan: plan.clone(),
            later: spec.later.clone(),
            solved: BTreeMap::new(),
            in_force: spec.replanner.as_ref().map(|replanner| replanner.plan.clone()),
            spec,
        }
    }

    /// Solves the plan in force for measured conditions; gives the index of the plan to offer, and the time that the solution
    /// takes. `None`: there is no other plan.
    pub(super) fn replan(&mut self, conditions: &Conditions) -> Option<(usize, Span)> {
        let replanner = self.spec.replanner.as_ref()?;
        let in_force = self.in_force.as_ref()?;
        let solved = weir_planner::replan(in_force, &replanner.modules, conditions);
        let solved = solved.ok().flatten()?;
        let numbers = self.later.iter().map(|later| later.plan.number);
        let number = numbers.chain([self.plan.number]).max()? + 1;
        let later = lay_out(replanner, &solved.plan, (number, &self.plan))?;
        self.later.push(LaterPlan {
            origin: Some(ReplanOrigin {
                plan: self.plan.number,
                gain: solved.gain,
            }),
            ..later
        });
        self.solved.insert(number, solved.plan);
        Some((self.later.len() - 1, replanner.solve_time))
    }

    /// A plan is in force: everything of the one before has ended.
    pub(super) fn switch(&mut self, plan: PlanSpec) {
        self.in_force = self.solved.remove(&plan.number);
        let link_factors = std::mem::take(&mut self.cluster.link_factors);
        self.cluster = ClusterRun::new(&plan.reserve.cluster);
        self.cluster.link_factors = link_factors;
        self.device_parts = device_parts(&plan.reserve.cluster);
        self.plan = plan;
    }

    pub(super) fn record(&mut self, usage: ResourceUsage) {
        if usage.used == ResourceUse::Run {
            let share = usage.share.index();
            let class = &self.plan.reserve.cluster.shares[share].class;
            let busy = (usage.to - usage.from).as_secs_f64() * self.device_parts[share];
            match self.usage.busy_s.get_mut(class) {
                Some(total) => *total += busy,
                None => _ = self.usage.busy_s.insert(class.clone(), busy),
            }
        }
        if self.spec.trace {
            self.usage.uses.push(usage);
        }
    }
}

/// A solution on the workers of a world, as the plan of that number after `before`.
fn lay_out(replanner: &Replanner, plan: &Plan, (number, before): (u64, &PlanSpec)) -> Option<LaterPlan> {
    let Replanner { modules, workers, .. } = replanner;
    let laid_out = WorkerCluster::on(workers, plan, modules).ok()?;
    let slots = |(module, model): &(ModuleId, String)| {
        let slots = laid_out.pipeline_slots(plan, *module, model)?;
        Some((module.index(), slots))
    };
    let owners = laid_out.owners.iter();
    Some(LaterPlan {
        at: Span::ZERO,
        load_time: replanner.load_time,
        modules: modules.iter().filter_map(slots).collect(),
        plan: PlanSpec {
            number,
            owners: owners.map(|(worker, _)| WorkerId(*worker as u32)).collect(),
            reserve: ReserveSpec {
                cluster: laid_out.cluster.clone(),
                ..before.reserve.clone()
            },
            replan: before.replan.clone(),
        },
        origin: None,
    })
}

/// Part of a device that each share is.
fn device_parts(cluster: &ClusterSpec) -> Vec<f64> {
    let mut on_device: BTreeMap<u32, u32> = BTreeMap::new();
    for share in &cluster.shares {
        *on_device.entry(share.device).or_default() += 1;
    }
    let part = |device: u32| 1.0 / f64::from(on_device.get(&device).copied().unwrap_or(1));
    cluster.shares.iter().map(|share| part(share.device)).collect()
}
