//! How the order of work on slots is planned.
//!
//! What waits at a module is a few *groups*, of `delta` batches at most; slots are the instances, and openings stand between
//! groups of different models. New groups go where most are in time, then where they are done first. Where more items are
//! expected to be late than by the last plan, another one is made, exactly for few groups and by the local search of
//! [`groups`](crate::groups) for more. An item counts there once for each step of the graph that it has come to. SHEPHERD plans
//! alike, with durations taken for known and openings for nothing.

use weir_types::{ModelId, ModuleId, SlotId, Span, Timestamp};

use super::order::{SlotPlan, UNPLANNED};
use super::{Bid, QueuesReport, SlotEffect, Slots, Tenant, WaitingWork};
use crate::groups::{
    GroupCost, PlanGroup, PlanInstance, PlanObjective, PlanProblem, Progress, complete, plan,
};
use crate::strategy::SlotQueues;

/// Groups of one module that have a place in the order, at most; what is behind them has none yet.
const MAX_GROUPS: u64 = 16;
/// Least time between two plans.
const INTERVAL: Span = Span::from_millis(50);
/// Groups that are planned exactly, at most.
const EXACT_GROUPS: usize = 5;
/// Groups that the search for a plan of more looks at, at most.
const MAX_VISITS: usize = 20_000;
/// Items late beyond what the last plan expected that call for another one.
const LATE_ITEMS: f64 = 0.5;
/// Standard deviation of a group's work, as a part of it.
const DEVIATION: f64 = 0.1;
/// Seconds that stand for never.
const NEVER_S: f64 = 1e6;

impl Slots {
    /// Where a bid stands on a slot by the rule of its queues.
    pub(super) fn queue_place(&self, (module, _): (ModuleId, &Tenant), bid: Bid, slot: SlotId) -> u64 {
        match (self.spec.queues, &self.plan) {
            (Some(SlotQueues::Fcfs), _) => bid.since.micros(),
            (_, Some(plan)) => plan.place(module, slot),
            _ => bid.latest_start.micros(),
        }
    }

    /// Whether the order of work has a module on a slot; whatever it has where nothing is planned.
    pub(super) fn is_planned(&self, module: ModuleId, slot: SlotId) -> bool {
        let plan = self.plan.as_ref();
        plan.is_none_or(|plan| plan.place(module, slot) != UNPLANNED)
    }

    /// Takes new work into the order, and plans anew where more is expected to be late than by the last plan.
    pub(super) fn plan_order(&mut self, now: Timestamp, effects: &mut Vec<SlotEffect>) {
        let Some(mut planned) = self.plan.take() else {
            return;
        };
        let (problem, modules) = self.plan_problem(&planned, now);
        let can_run = |group: usize, instance: usize| problem.groups[group].cost[instance].work_s < NEVER_S;
        let current = planned.current(&modules, can_run);
        let mut orders = complete(&problem, &current);
        let late = problem.cost(&orders).late;
        let is_due = planned.planned_at.is_none_or(|at| now.since(at) >= INTERVAL);
        let report = &mut planned.report;
        report.groups = report.groups.max(problem.groups.len() as u64);
        let may_plan = self.spec.planning.operations.reorder;
        if may_plan && late > planned.late + LATE_ITEMS && is_due {
            report.violations_predicted += 1;
            report.replans += 1;
            orders = plan(&problem, &orders, (EXACT_GROUPS, MAX_VISITS));
            planned.late = problem.cost(&orders).late;
            planned.planned_at = Some(now);
            effects.push(SlotEffect::Planned {
                groups: problem.groups.len() as u32,
                late: planned.late,
            });
        } else {
            planned.late = planned.late.min(late);
        }
        for (instance, order) in orders.iter().enumerate() {
            let mut progress = Progress::new(&problem.instances[instance]);
            for &group in order {
                let start_s = problem.append(instance, &mut progress, group).start_s;
                let ends_s = start_s + problem.groups[group].cost[instance].service_s;
                planned.expected.entry(modules[group]).or_insert((now, ends_s));
            }
        }
        let modules_of = |order: &Vec<usize>| order.iter().map(|group| modules[*group]).collect();
        planned.orders = orders.iter().map(modules_of).collect();
        self.plan = Some(planned);
    }

    /// What waits, as groups on slots, and the module of each group.
    fn plan_problem(&self, planned: &SlotPlan, now: Timestamp) -> (PlanProblem, Vec<ModuleId>) {
        let knows_all = planned.rule == SlotQueues::Shepherd;
        let mut models: Vec<ModelId> = self.tenants.values().filter_map(|tenant| tenant.model).collect();
        models.sort_unstable();
        models.dedup();
        let after_s = |at: Timestamp| at.since(now).as_secs_f64() - now.since(at).as_secs_f64();
        // What is late wastes what was done for it: an item counts once for each step of the graph that it has come to.
        let longest = self.tenants.values().map(|tenant| tenant.longest_path_len).max();
        let steps = |tenant: &Tenant| (longest.unwrap_or_default() - tenant.longest_path_len + 1) as f64;
        let (mut groups, mut modules) = (Vec::new(), Vec::new());
        for (&module, tenant) in &self.tenants {
            let (Some(bid), Some(model)) = (tenant.bid, tenant.model) else {
                continue;
            };
            let Ok(model) = models.binary_search(&model) else {
                continue;
            };
            let own: Vec<SlotId> = tenant
                .slots
                .iter()
                .copied()
                .filter(|slot| !self.down.contains(slot) && tenant.may_run_on(*slot, &self.down))
                .collect();
            // What can run nowhere for now has no place in an order, where all behind it would be late.
            if !own.iter().any(|slot| planned.slots.contains(slot)) {
                continue;
            }
            let WaitingWork { items, time } = bid.backlog.unwrap_or(WaitingWork {
                items: 1,
                time: bid.duration,
            });
            let batches = time.micros().div_ceil(bid.duration.micros().max(1)).max(1);
            let delta = u64::from(self.spec.planning.delta.max(1));
            let count = batches.div_ceil(delta).clamp(1, MAX_GROUPS);
            let first_s = after_s(bid.latest_start) + bid.duration.as_secs_f64();
            // What came last has as much more time as the first has waited. Groups of a module are alike: on several slots they are
            // served by turns, and on one the first that came is first.
            let waited_s = now.since(bid.since).as_secs_f64();
            for group in 0..count {
                let part = (batches - group * delta).min(delta) as f64 / batches as f64;
                let work_s = part * time.as_secs_f64();
                // Without balance groups go to one slot after the other.
                let turn = (module.index() + group as usize) % own.len().max(1);
                let may_be_on = |slot: &SlotId| {
                    let is_own = own.contains(slot);
                    is_own && (self.spec.planning.operations.balance || own.get(turn) == Some(slot))
                };
                let cost = |slot: &SlotId| match may_be_on(slot) {
                    true => GroupCost {
                        work_s,
                        variance: if knows_all {
                            0.0
                        } else {
                            (DEVIATION * work_s).powi(2)
                        },
                        service_s: bid.duration.as_secs_f64(),
                    },
                    false => GroupCost {
                        work_s: NEVER_S,
                        variance: 0.0,
                        service_s: NEVER_S,
                    },
                };
                groups.push(PlanGroup {
                    model: ModelId(model as u32),
                    requests: part * f64::from(items) * steps(tenant),
                    first_deadline_s: first_s,
                    last_deadline_s: first_s + waited_s,
                    cost: planned.slots.iter().map(cost).collect(),
                });
                modules.push(module);
            }
        }
        let instance = |slot: &SlotId| {
            let free_s = after_s(self.free_at(*slot, now)).max(0.0);
            let open_s = |model: &ModelId| match &self.memory {
                Some(memory) if !knows_all => memory.opening_time(*slot, *model).as_secs_f64(),
                _ => 0.0,
            };
            PlanInstance {
                free_s,
                drained_s: free_s,
                model: None,
                open_s: models.iter().map(open_s).collect(),
                is_up: !self.down.contains(slot),
            }
        };
        let problem = PlanProblem {
            groups,
            instances: planned.slots.iter().map(instance).collect(),
            objective: PlanObjective::Late,
            quantile: if knows_all { 0.5 } else { 0.9 },
        };
        (problem, modules)
    }

    /// A module's batch has its slot: what was expected of it is held against its end.
    pub(super) fn expect_end(&mut self, module: ModuleId, slot: SlotId) {
        if let Some(plan) = &mut self.plan {
            match plan.expected.remove(&module) {
                Some(expected) => plan.running.insert(slot, expected),
                None => plan.running.remove(&slot),
            };
        }
    }

    /// A module asks no more.
    pub(super) fn expect_nothing(&mut self, module: ModuleId) {
        if let Some(plan) = &mut self.plan {
            plan.expected.remove(&module);
        }
    }

    /// A batch has ended on a slot, or was declined, which no estimate was for.
    pub(super) fn compare_end(&mut self, slot: SlotId, ended: bool, now: Timestamp) {
        if let Some(plan) = &mut self.plan
            && let Some((asked, estimated_s)) = plan.running.remove(&slot)
            && ended
        {
            plan.fit.add(estimated_s, now.since(asked).as_secs_f64());
        }
    }

    /// What planning came to so far; `None` where the rule of queues is none.
    #[must_use]
    pub fn queues_report(&self) -> Option<QueuesReport> {
        self.spec.queues?;
        let plan = self.plan.as_ref();
        Some(plan.map_or_else(QueuesReport::default, |plan| QueuesReport {
            r2: plan.fit.r2(),
            ..plan.report
        }))
    }
}
