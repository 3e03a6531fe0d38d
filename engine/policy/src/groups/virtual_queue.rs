//! Virtual queues (QLM, section 4): placement of new groups, and planning of the orders.

use weir_types::{GroupId, InstanceId, ModelId, Timestamp};

use super::api::QueueEffect;
use super::exact::solve_exactly;
use super::group::{Group, Share};
use super::orders::VirtualQueues;
use super::plan::{GroupCost, PlanGroup, PlanInstance, PlanProblem, Progress};
use super::queues::{Queues, Waiting, can_hold};
use super::rule::Planning;
use super::search::search;
use crate::residency::ResidencyEvent;

/// Maximum number of models, after the one that is served, that are read into host memory ahead.
const MAX_PREFETCHED: usize = 2;
/// Number of groups above which a new one always goes to the end of a queue, not beside groups of its model.
const MAX_LOOKED_AT: usize = 512;
/// Seconds of work that mark an instance as not allowed for a group.
const NOT_HERE_S: f64 = 1e7;
/// Increase of expected late requests, against the last plan, that counts as a violation.
const VIOLATION: f64 = 0.5;

/// A possible position of a new group.
#[derive(Debug, Clone, Copy)]
struct Choice {
    start: Timestamp,
    end: Timestamp,
    instance: InstanceId,
    at: usize,
}

impl Queues {
    fn group_cost(&self, group: &Group, instance: InstanceId) -> GroupCost {
        let rates = &self.rates[instance.index()][group.key.model.index()];
        let count = group.requests.len().max(1) as f64;
        let lengths = self.lengths(group.key.model, group.key.tier);
        let service_s = rates.service_s(group.prompt / count, group.output / count, rates.batch);
        GroupCost {
            work_s: rates.work_s(group.prompt, group.output),
            variance: count * lengths.variance() * rates.output_token_s.powi(2),
            service_s: service_s * self.eps[instance.index()].factor(),
        }
    }

    /// Expected time of the last token of a group's last request.
    pub(super) fn group_end(&self, queues: &VirtualQueues, id: GroupId, instance: InstanceId) -> Timestamp {
        let Some(group) = queues.groups.get(id) else {
            return self.now;
        };
        let cost = self.group_cost(group, instance);
        group.start.max(self.now) + weir_types::Span::from_secs_f64(cost.work_s + cost.service_s)
    }

    /// Seconds of work of the first group in an instance's queue.
    pub(super) fn head_group_work_s(&self, instance: InstanceId) -> f64 {
        match &self.waiting {
            Waiting::Virtual(queues) => match queues.head_group(instance) {
                Some(group) => self.group_cost(group, instance).work_s,
                None => 0.0,
            },
            _ => 0.0,
        }
    }

    /// Called when a request joined a group: puts a new group into a queue, and plans if a violation is
    /// predicted.
    pub(super) fn place_group(
        &mut self,
        id: GroupId,
        is_new: bool,
        share: Share,
        effects: &mut Vec<QueueEffect>,
    ) {
        let Waiting::Virtual(queues) = &self.waiting else {
            return;
        };
        let (instance, is_first) = if is_new {
            let Some(choice) = self.choose(queues, id) else {
                return;
            };
            let Waiting::Virtual(queues) = &mut self.waiting else {
                return;
            };
            queues.put(id, choice.instance, choice.at);
            if let Some(group) = queues.groups.get_mut(id) {
                group.start = choice.start;
                let end = &mut queues.ends[choice.instance.index()];
                *end = (choice.end.max(end.0), Some(group.key.model));
            }
            (choice.instance, choice.at == 0)
        } else {
            let Some(instance) = queues.instance_of(id) else {
                return;
            };
            let Some(group) = queues.groups.get(id) else {
                return;
            };
            let rates = &self.rates[instance.index()][group.key.model.index()];
            let work = weir_types::Span::from_secs_f64(rates.work_s(share.prompt, share.output));
            let is_first = queues.orders[instance.index()].first() == Some(&id);
            let Waiting::Virtual(queues) = &mut self.waiting else {
                return;
            };
            queues.ends[instance.index()].0 = queues.ends[instance.index()].0 + work;
            (instance, is_first)
        };
        let Waiting::Virtual(queues) = &self.waiting else {
            return;
        };
        let end = self.group_end(queues, id, instance);
        // A request whose deadline has passed cannot be saved by another plan.
        let can_be_met = share.deadline > self.now;
        if end > share.deadline && can_be_met {
            self.stats.violations_predicted += 1;
            let Waiting::Virtual(queues) = &mut self.waiting else {
                return;
            };
            queues.is_violated = true;
            self.plan_if_due(effects);
        }
        if is_first {
            self.dispatch(instance, effects);
        }
    }

    /// Position at which a new group is done first: at the end of a queue, or behind groups of its model.
    fn choose(&self, queues: &VirtualQueues, id: GroupId) -> Option<Choice> {
        let group = queues.groups.get(id)?;
        let model = group.key.model;
        let up = (0..self.at.len() as u32).map(InstanceId);
        let up = up.filter(|id| can_hold(&self.spec, *id, model));
        let mut up: Vec<InstanceId> = up.collect();
        // If no allowed instance can be used, the group waits for one of them.
        if up.iter().any(|id| self.at[id.index()].is_up) {
            up.retain(|id| self.at[id.index()].is_up);
        }
        if up.is_empty() {
            return None;
        }
        let allowed: Vec<InstanceId> = if self.spec.operations.balance {
            up
        } else {
            vec![up[id.0 as usize % up.len()]]
        };
        let beside = self.planning().is_some_and(|planning| planning.beside_own)
            && queues.groups.len() <= MAX_LOOKED_AT;
        let mut choices = Vec::new();
        for instance in allowed {
            let work = weir_types::Span::from_secs_f64(self.group_cost(group, instance).work_s);
            let order = &queues.orders[instance.index()];
            let (end, last) = queues.ends[instance.index()];
            let last = if order.is_empty() {
                self.at[instance.index()].model
            } else {
                last
            };
            let mut start = end.max(self.now);
            if last != Some(model) {
                if order.is_empty() {
                    start = start.max(self.after_s(self.drained_s(instance)));
                }
                start = start + weir_types::Span::from_secs_f64(self.open_s(instance, model));
            }
            choices.push(Choice {
                start,
                end: start + work,
                instance,
                at: order.len(),
            });
            if beside {
                let own = order.iter().rposition(|other| {
                    queues
                        .groups
                        .get(*other)
                        .is_some_and(|other| other.key.model == model)
                });
                if let Some(at) = own {
                    let start = self.group_end(queues, order[at], instance);
                    choices.push(Choice {
                        start,
                        end: start + work,
                        instance,
                        at: at + 1,
                    });
                } else if self.at[instance.index()].model == Some(model) {
                    choices.push(Choice {
                        start: self.now,
                        end: self.now + work,
                        instance,
                        at: 0,
                    });
                }
            }
        }
        choices
            .into_iter()
            .min_by_key(|choice| (choice.end, choice.instance, choice.at))
    }

    fn planning(&self) -> Option<Planning> {
        self.spec.rule.planning().filter(|_| self.spec.operations.reorder)
    }

    fn plan_if_due(&mut self, effects: &mut Vec<QueueEffect>) {
        let (Some(planning), Waiting::Virtual(queues)) = (self.planning(), &self.waiting) else {
            return;
        };
        let is_due = queues
            .planned
            .is_none_or(|at| self.now.since(at).as_secs_f64() >= planning.interval_s);
        if queues.is_violated && is_due {
            self.plan(effects);
        }
    }

    /// Called when an instance is idle: plans again, so that groups of other instances may move to it.
    pub(super) fn plan_for_idle(&mut self, instance: InstanceId, effects: &mut Vec<QueueEffect>) {
        let (Some(planning), Waiting::Virtual(queues)) = (self.planning(), &mut self.waiting) else {
            return;
        };
        let others_wait = queues.orders.iter().any(|order| order.len() > 1);
        if planning.when_idle
            && others_wait
            && self.spec.operations.balance
            && self.at[instance.index()].running.is_empty()
        {
            queues.is_violated = true;
            self.plan_if_due(effects);
        }
    }

    /// Called as time passes: plans again if more requests are expected to be late than by the last plan.
    pub(super) fn check(&mut self, effects: &mut Vec<QueueEffect>) {
        let Some(planning) = self.planning() else { return };
        let (problem, ids) = self.problem(planning);
        let Waiting::Virtual(queues) = &self.waiting else {
            return;
        };
        let late = problem.cost(&numbered(&queues.orders, &ids)).late;
        let is_violated = late > queues.known_late + VIOLATION;
        self.stats.violations_predicted += u64::from(is_violated);
        let Waiting::Virtual(queues) = &mut self.waiting else {
            return;
        };
        queues.is_violated |= is_violated;
        self.plan_if_due(effects);
    }

    /// Returns the present planning problem, with the ids of its groups by index.
    fn problem(&self, planning: Planning) -> (PlanProblem, Vec<GroupId>) {
        let mut problem = PlanProblem {
            groups: Vec::new(),
            instances: Vec::new(),
            objective: planning.objective,
            quantile: planning.quantile,
        };
        let mut ids = Vec::new();
        if let Waiting::Virtual(queues) = &self.waiting {
            for (id, group) in queues.groups.iter() {
                ids.push(id);
                problem.groups.push(self.plan_group(queues, id, group));
            }
        }
        let all = (0..self.at.len() as u32).map(InstanceId);
        problem.instances = all.map(|instance| self.plan_instance(instance)).collect();
        (problem, ids)
    }

    fn plan_group(&self, queues: &VirtualQueues, id: GroupId, group: &Group) -> PlanGroup {
        let [first, last] = group.deadlines().map(|deadline| self.seconds_until(deadline));
        let here = queues.instance_of(id);
        let cost = (0..self.at.len() as u32).map(InstanceId).map(|instance| {
            let cost = self.group_cost(group, instance);
            let is_here = self.spec.operations.balance || here.is_none_or(|here| here == instance);
            let is_here = is_here && can_hold(&self.spec, instance, group.key.model);
            GroupCost {
                work_s: if is_here { cost.work_s } else { NOT_HERE_S },
                ..cost
            }
        });
        PlanGroup {
            model: group.key.model,
            requests: group.requests.len() as f64,
            first_deadline_s: first,
            last_deadline_s: last,
            cost: cost.collect(),
        }
    }

    fn plan_instance(&self, instance: InstanceId) -> PlanInstance {
        let at = &self.at[instance.index()];
        let opening_s = at
            .opening
            .map_or(0.0, |(_, until)| self.seconds_until(until).max(0.0));
        let models = (0..self.spec.models.len() as u32).map(ModelId);
        let has_fixed = self.spec.rule.has_fixed_batches();
        // Fixed batches are planned as if models were open (SHEPHERD).
        let open_s = models.map(|model| {
            if has_fixed {
                0.0
            } else {
                self.open_s(instance, model)
            }
        });
        let drained_s = self.drained_s(instance);
        let free_s = if has_fixed {
            drained_s
        } else if at.room[0] == 0 || at.room[1] < self.mean_prompt(at.model) {
            self.next_end(instance)
        } else {
            0.0
        };
        PlanInstance {
            free_s: free_s.max(opening_s),
            drained_s: drained_s.max(opening_s),
            model: at.model,
            open_s: open_s.collect(),
            is_up: at.is_up,
        }
    }

    fn mean_prompt(&self, model: Option<ModelId>) -> u32 {
        model.map_or(0, |model| self.spec.models[model.index()].prompt as u32)
    }

    /// Plans all groups and puts the result into the queues.
    pub(super) fn plan(&mut self, effects: &mut Vec<QueueEffect>) {
        let Some(planning) = self.planning() else { return };
        let (problem, ids) = self.problem(planning);
        let Waiting::Virtual(queues) = &mut self.waiting else {
            return;
        };
        queues.planned = Some(self.now);
        queues.is_violated = false;
        if !problem.instances.iter().any(|instance| instance.is_up) {
            return;
        }
        let current = numbered(&queues.orders, &ids);
        let orders = if ids.len() <= planning.exact_groups {
            solve_exactly(&problem)
        } else {
            search(&problem, &current, planning.max_visits)
        };
        self.stats.replans += 1;
        self.stats.missing = problem.missing(&orders);
        queues.known_late = problem.cost(&orders).late;
        queues.instance_of.clear();
        for (instance, order) in orders.iter().enumerate() {
            let mut progress = Progress::new(&problem.instances[instance]);
            for group in order {
                let done = problem.append(instance, &mut progress, *group);
                queues
                    .instance_of
                    .insert(ids[*group], InstanceId(instance as u32));
                if let Some(group) = queues.groups.get_mut(ids[*group]) {
                    group.start = self.now + weir_types::Span::from_secs_f64(done.start_s);
                }
            }
            queues.ends[instance] = (
                self.now + weir_types::Span::from_secs_f64(progress.at_s),
                progress.model,
            );
            queues.orders[instance] = order.iter().map(|group| ids[*group]).collect();
        }
        for instance in (0..self.at.len() as u32).map(InstanceId) {
            self.announce(instance, effects);
        }
        self.touch_all();
    }

    /// Sets the value of each model on an instance by its place in the queue, and reads the next models into
    /// host memory.
    pub(super) fn announce(&mut self, instance: InstanceId, effects: &mut Vec<QueueEffect>) {
        let Waiting::Virtual(queues) = &self.waiting else {
            return;
        };
        if self.spec.rule.has_fixed_batches() {
            return;
        }
        let mut next: Vec<ModelId> = self.at[instance.index()].model.into_iter().collect();
        for group in &queues.orders[instance.index()] {
            if let Some(group) = queues.groups.get(*group)
                && !next.contains(&group.key.model)
            {
                next.push(group.key.model);
            }
        }
        let count = self.spec.models.len();
        for model in (0..count as u32).map(ModelId) {
            let place = next.iter().position(|other| *other == model).unwrap_or(count);
            let value = (count - place.min(count)) as f64;
            self.reside(instance, ResidencyEvent::Valued(model, value), effects);
        }
        if self.spec.operations.warm_start {
            for model in next.into_iter().skip(1).take(MAX_PREFETCHED) {
                self.reside(instance, ResidencyEvent::Expected(model), effects);
            }
        }
    }
}

/// Converts orders of group ids into orders of indices of a problem.
fn numbered(orders: &[Vec<GroupId>], ids: &[GroupId]) -> Vec<Vec<usize>> {
    let number = |group: &GroupId| ids.binary_search(group).ok();
    orders
        .iter()
        .map(|order| order.iter().filter_map(number).collect())
        .collect()
}
