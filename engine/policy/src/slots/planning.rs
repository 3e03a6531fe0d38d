//! Planning of the order of work on slots (QLM, sections 4 and 7, for batches).
//!
//! The queued work of a module is divided into a few *groups* of at most `delta` batches. Slots are the
//! instances, and a switch between groups of different models costs an opening. A new group goes to the slot
//! on which most groups stay in time, then to the one that finishes it first. If more items are expected to
//! be late than by the last plan, the order is planned again: exactly for few groups, by the local search of
//! [`groups`](crate::groups) for more. An item counts once for each step of the graph that it has reached.
//! SHEPHERD plans in the same way, but takes durations as certain and openings as free.

use weir_types::{ModelId, ModuleId, SlotId, Span, Timestamp};

use super::order::{SlotPlan, UNPLANNED};
use super::{Bid, QueuesReport, SlotEffect, Slots, Tenant, WaitingWork};
use crate::groups::{
    GroupCost, PlanGroup, PlanInstance, PlanObjective, PlanProblem, Progress, complete, plan,
};
use crate::strategy::SlotQueues;

/// Maximum number of groups of one module in the order; later work has no place in it yet.
const MAX_GROUPS: u64 = 16;
/// Minimum time between two plans.
const INTERVAL: Span = Span::from_millis(50);
/// Maximum number of groups that are planned exactly.
const EXACT_GROUPS: usize = 5;
/// Maximum number of orders that the search for a plan of more groups visits.
const MAX_VISITS: usize = 20_000;
/// Least increase of items expected to be late, against the last plan, that starts another plan.
const LATE_ITEMS: f64 = 0.5;
/// Standard deviation of a group's work, relative to its mean.
const DEVIATION: f64 = 0.1;
/// Seconds of work that mark a slot as not allowed for a group.
const NEVER_S: f64 = 1e6;

impl Slots {
    /// Rank of a bid on a slot by the rule of its queues; smaller goes first.
    pub(super) fn queue_place(&self, (module, _): (ModuleId, &Tenant), bid: Bid, slot: SlotId) -> u64 {
        match (self.spec.queues, &self.plan) {
            (Some(SlotQueues::Fcfs), _) => bid.since.micros(),
            (_, Some(plan)) => plan.place(module, slot),
            _ => bid.latest_start.micros(),
        }
    }

    /// Whether the planned order has work of the module on the slot; always true if nothing is planned.
    pub(super) fn is_planned(&self, module: ModuleId, slot: SlotId) -> bool {
        let plan = self.plan.as_ref();
        plan.is_none_or(|plan| plan.place(module, slot) != UNPLANNED)
    }

    /// Adds new work to the order, and plans again if more items are expected to be late than by the last
    /// plan.
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

    /// Returns the queued work as groups on slots, with the module of each group.
    fn plan_problem(&self, planned: &SlotPlan, now: Timestamp) -> (PlanProblem, Vec<ModuleId>) {
        let knows_all = planned.rule == SlotQueues::Shepherd;
        let mut models: Vec<ModelId> = self.tenants.values().filter_map(|tenant| tenant.model).collect();
        models.sort_unstable();
        models.dedup();
        let after_s = |at: Timestamp| at.since(now).as_secs_f64() - now.since(at).as_secs_f64();
        // A late item wastes the work done for it before, so an item counts once for each step of the graph
        // that it has reached.
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
            // Work that no slot can run for now is left out: in an order, everything behind it would be late.
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
            // The last request has as much more time as the first has waited. Groups of one module are equal:
            // several slots serve them in turns, and one slot serves them in order of arrival.
            let waited_s = now.since(bid.since).as_secs_f64();
            for group in 0..count {
                let part = (batches - group * delta).min(delta) as f64 / batches as f64;
                let work_s = part * time.as_secs_f64();
                // Without balance, groups go to the slots in turn.
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
            let memory = self.memory.as_ref().filter(|_| !knows_all);
            let open_s = |model: &ModelId| {
                memory.map_or(0.0, |memory| memory.opening_time(*slot, *model).as_secs_f64())
            };
            let again_s = |model: &ModelId| {
                memory.map_or(0.0, |memory| memory.reopening_time(*slot, *model).as_secs_f64())
            };
            PlanInstance {
                free_s,
                drained_s: free_s,
                model: None,
                open_s: models.iter().map(open_s).collect(),
                again_s: models.iter().map(again_s).collect(),
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

    /// A module's batch has its slot: its estimated end will be compared with its actual one.
    pub(super) fn expect_end(&mut self, module: ModuleId, slot: SlotId) {
        if let Some(plan) = &mut self.plan {
            match plan.expected.remove(&module) {
                Some(expected) => plan.running.insert(slot, expected),
                None => plan.running.remove(&slot),
            };
        }
    }

    /// A module withdrew its bid, and its estimate with it.
    pub(super) fn expect_nothing(&mut self, module: ModuleId) {
        if let Some(plan) = &mut self.plan {
            plan.expected.remove(&module);
        }
    }

    /// A batch ended on a slot, or the slot was declined; a declined slot says nothing about the estimate.
    pub(super) fn compare_end(&mut self, slot: SlotId, ended: bool, now: Timestamp) {
        if let Some(plan) = &mut self.plan
            && let Some((asked, estimated_s)) = plan.running.remove(&slot)
            && ended
        {
            plan.fit.add(estimated_s, now.since(asked).as_secs_f64());
        }
    }

    /// Statistics of planning so far; `None` if the slots have no queues.
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
