//! Virtual queues (QLM, section 4): placement of new groups, and planning of the orders.

use weir_types::{GroupId, InstanceId, ModelId, SequenceId, Span, Timestamp};

use super::api::QueueEffect;
use super::exact::solve_exactly;
use super::group::{Group, Wanted};
use super::orders::{Queued, VirtualQueues};
use super::plan::{GroupCost, PlanGroup, PlanInstance, PlanObjective, PlanProblem, Progress};
use super::queues::{Queues, Waiting, can_hold};
use super::rule::Planning;
use super::search::search;
use crate::residency::ResidencyEvent;

/// Maximum number of models, after the one that is served, that are read into host memory ahead.
const MAX_PREFETCHED: usize = 2;
/// Seconds of work that mark an instance as not allowed for a group.
const NOT_HERE_S: f64 = 1e7;
/// Increase of expected late requests, against the last plan, that counts as a violation.
const VIOLATION: f64 = 0.5;

/// A possible place for requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice {
    /// Whether the requests are expected to be late there.
    is_late: bool,
    /// Whether a busy instance opens their model for them, which delays the groups of other models.
    opens: bool,
    /// Expected end of the requests, in seconds from now.
    end_s: f64,
    pub(super) instance: InstanceId,
    pub(super) at: usize,
    /// Group at that place which the requests join; `None`: they are a group of their own.
    pub(super) joins: Option<GroupId>,
}

/// Calls `visit` with the place, the group and the start of each group of an order, in seconds from now.
/// Returns the state after the last group.
fn walk(order: &[Queued], at: &PlanInstance, mut visit: impl FnMut(usize, &Queued, f64)) -> Progress {
    let mut progress = Progress::new(at);
    for (place, queued) in order.iter().enumerate() {
        let start_s = progress.change_to(queued.model, at);
        visit(place, queued, start_s);
        progress.at_s += queued.work_s;
    }
    progress
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

    /// Expected time of the last token of a request: after the groups before its own, the requests before it
    /// in its group, and its time in service.
    pub(super) fn request_end(
        &self,
        queues: &VirtualQueues,
        id: GroupId,
        request: SequenceId,
    ) -> Option<Timestamp> {
        let (group, instance) = (queues.groups.get(id)?, queues.instance_of(id)?);
        let share = group.requests.get(&request)?;
        let rates = &self.rates[instance.index()][group.key.model.index()];
        let mut group_start_s = 0.0;
        let order = &queues.orders[instance.index()];
        walk(order, &self.plan_instance(instance), |_, queued, start_s| {
            if queued.group == id {
                group_start_s = start_s;
            }
        });
        let [prompt, output] = group.before(request);
        let service_s = rates.service_s(share.prompt, share.output, rates.batch);
        let service_s = service_s * self.eps[instance.index()].factor();
        let end_s = group_start_s + rates.work_s(prompt, output) + service_s;
        Some(self.now + Span::from_secs_f64(end_s))
    }

    /// Seconds of work of the first group in an instance's queue.
    pub(super) fn head_group_work_s(&self, instance: InstanceId) -> f64 {
        match &self.waiting {
            Waiting::Virtual(queues) => {
                let first = queues.orders[instance.index()].first();
                first.map_or(0.0, |queued| queued.work_s)
            }
            _ => 0.0,
        }
    }

    /// Called when a request joined a group: if it is predicted to be late, an instance switches to its model,
    /// or all groups are planned again.
    pub(super) fn on_joined(
        &mut self,
        id: GroupId,
        (request, deadline): (SequenceId, Timestamp),
        effects: &mut Vec<QueueEffect>,
    ) {
        let Waiting::Virtual(queues) = &self.waiting else {
            return;
        };
        // A request whose deadline has passed cannot be saved by another plan.
        let end = self.request_end(queues, id, request);
        let is_late = end.is_some_and(|end| end > deadline) && deadline > self.now;
        let is_next = matches!(queues.place_of(id), Some((_, 0)));
        let has_switched = (is_late || is_next) && self.switch_for_urgent(id, deadline);
        self.stats.violations_predicted += u64::from(is_late);
        if is_late
            && !has_switched
            && let Waiting::Virtual(queues) = &mut self.waiting
        {
            queues.is_violated = true;
            self.plan_if_due(effects);
        }
        if let Waiting::Virtual(queues) = &self.waiting
            && let Some((instance, 0)) = queues.place_of(id)
        {
            self.dispatch(instance, effects);
        }
    }

    /// Place of requests: in the latest group of their key on an instance if that has room, at the end of its
    /// order, or behind groups of their model. First come places at which they are in time, then those for which
    /// no busy instance opens a model, then those at which they are done first.
    pub(super) fn choose(&self, queues: &VirtualQueues, wanted: &Wanted) -> Option<Choice> {
        let key = wanted.key;
        let up = (0..self.at.len() as u32).map(InstanceId);
        let up = up.filter(|id| can_hold(&self.spec, *id, key.model));
        let mut up: Vec<InstanceId> = up.collect();
        // If no allowed instance can be used, the requests wait for one of them.
        if up.iter().any(|id| self.at[id.index()].is_up) {
            up.retain(|id| self.at[id.index()].is_up);
        }
        if up.is_empty() {
            return None;
        }
        if !self.spec.operations.balance {
            let latest = queues.latest_anywhere(key).filter(|_| wanted.may_join);
            let latest = latest.filter(|id| self.has_room(queues, *id));
            let there = latest.and_then(|id| queues.instance_of(id));
            let there = there.filter(|instance| up.contains(instance));
            up = vec![there.unwrap_or(up[wanted.turn as usize % up.len()])];
        }
        let choices = up
            .into_iter()
            .flat_map(|instance| self.choices(queues, wanted, instance));
        choices.min_by(|a, b| {
            let by_kind = (a.is_late, a.opens).cmp(&(b.is_late, b.opens));
            let by_end = by_kind.then(a.end_s.total_cmp(&b.end_s));
            by_end.then((a.instance, a.at).cmp(&(b.instance, b.at)))
        })
    }

    /// Whether a further request of its key may join a group.
    fn has_room(&self, queues: &VirtualQueues, id: GroupId) -> bool {
        let group = queues.groups.get(id);
        group.is_some_and(|group| group.has_room(self.max_group(group.key.model)))
    }

    /// Possible places on one instance.
    fn choices(&self, queues: &VirtualQueues, wanted: &Wanted, instance: InstanceId) -> Vec<Choice> {
        let model = wanted.key.model;
        let rates = &self.rates[instance.index()][model.index()];
        let (prompt, output) = (wanted.prompt, wanted.output);
        let each = wanted.requests.max(1.0);
        let service_s =
            self.eps[instance.index()].factor() * rates.service_s(prompt / each, output / each, rates.batch);
        // The last of several requests starts before their work is done.
        let own_s = rates.work_s(prompt, output) * (each - 1.0) / each + service_s;
        let left_s = self.seconds_until(wanted.deadline);
        let choice = |start_s: f64, at: usize, joins: Option<GroupId>| Choice {
            is_late: start_s + own_s > left_s,
            opens: false,
            end_s: start_s + own_s,
            instance,
            at,
            joins,
        };
        let at = self.plan_instance(instance);
        let order = &queues.orders[instance.index()];
        let latest = queues.latest(wanted.key, instance).filter(|_| wanted.may_join);
        let latest = latest.filter(|id| self.has_room(queues, *id));
        let (mut joined, mut behind_own) = (None, None);
        let mut last = walk(order, &at, |place, queued, start_s| {
            let end_s = start_s + queued.work_s;
            if Some(queued.group) == latest {
                joined = Some(choice(end_s, place, latest));
            }
            if queued.model == model {
                behind_own = Some(choice(end_s, place + 1, None));
            }
        });
        if let Some(joined) = joined {
            return vec![joined];
        }
        let is_busy = !order.is_empty() || !self.at[instance.index()].running.is_empty();
        let opens = is_busy && last.model != Some(model) && at.again_s[model.index()] > 0.0;
        let at_end = choice(last.change_to(model, &at), order.len(), None);
        let mut choices = vec![Choice { opens, ..at_end }];
        if self.planning().is_some_and(|planning| planning.beside_own) {
            let at_front = || (at.model == Some(model)).then(|| choice(at.free_s, 0, None));
            choices.extend(behind_own.or_else(at_front));
        }
        choices
    }

    /// Lets an instance switch to the model of a group that no instance serves, if the group would be late in
    /// its queue or is next on a busy instance: the instance with the least loss among those on which the group
    /// is then in time. The loss is the expected number of other requests there, queued or running, that are
    /// late for it, and must be less than the number of requests that are in time by it. Considered once in each
    /// planning interval.
    fn switch_for_urgent(&mut self, id: GroupId, deadline: Timestamp) -> bool {
        let Some(planning) = self.planning().filter(|planning| planning.switch_for_urgent) else {
            return false;
        };
        let now = self.now;
        let Waiting::Virtual(queues) = &mut self.waiting else {
            return false;
        };
        let model = queues.groups.get(id).map(|group| group.key.model);
        let is_served = self.at.iter().any(|at| at.is_up && at.model == model);
        let is_due = queues
            .considered
            .is_none_or(|at| now.since(at).as_secs_f64() >= planning.interval_s);
        if is_served || !is_due {
            return false;
        }
        queues.considered = Some(now);
        let (problem, ids) = self.problem(Planning {
            objective: PlanObjective::Late,
            ..planning
        });
        let (Waiting::Virtual(queues), Ok(group)) = (&self.waiting, ids.binary_search(&id)) else {
            return false;
        };
        let orders = numbered(&queues.orders, &ids);
        let left_s = self.seconds_until(deadline);
        let losses = problem.up().filter_map(|instance| {
            let mut order = orders[instance].clone();
            order.retain(|other| *other != group);
            let before = problem.order_cost(instance, &order).late;
            let mut progress = Progress::new(&problem.instances[instance]);
            let done = problem.append(instance, &mut progress, group);
            order.insert(0, group);
            let others = problem.order_cost(instance, &order).late - done.cost.late;
            let loss =
                others - before + self.late_by_switch(InstanceId(instance as u32), &problem, &progress);
            let gain = problem.groups[group].requests - done.cost.late;
            (done.end_s <= left_s && loss < gain).then_some((loss, done.end_s, instance))
        });
        let least = losses.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)));
        let (Some((_, _, instance)), Waiting::Virtual(queues)) = (least, &mut self.waiting) else {
            return false;
        };
        queues.put_first(id, InstanceId(instance as u32), &self.rates);
        true
    }

    /// Number of running requests of an instance that are in time now, and late if they continue only after
    /// work until `progress` and another opening of their model.
    fn late_by_switch(&self, instance: InstanceId, problem: &PlanProblem, progress: &Progress) -> f64 {
        let (at, planned) = (&self.at[instance.index()], &problem.instances[instance.index()]);
        let again_s = at.model.map_or(0.0, |model| planned.again_s[model.index()]);
        let running = at.running.iter().filter_map(|id| self.requests.get(id));
        let late = running.filter(|request| {
            let margin_s = self.seconds_until(request.deadline) - self.rest_s(request, instance);
            (0.0..progress.at_s + again_s).contains(&margin_s)
        });
        late.count() as f64
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
        let until_open_s = at
            .opening
            .map_or(0.0, |(_, until)| self.seconds_until(until).max(0.0));
        let models = (0..self.spec.models.len() as u32).map(ModelId);
        let has_fixed = self.spec.rule.has_fixed_batches();
        // Fixed batches are planned as if models were open (SHEPHERD).
        let opening_s = |duration_s: f64| if has_fixed { 0.0 } else { duration_s };
        let open_s = models
            .clone()
            .map(|model| opening_s(self.open_s(instance, model)));
        let again_s = models.map(|model| opening_s(self.again_s(instance, model)));
        let drained_s = self.switch_s(instance);
        let free_s = if has_fixed {
            drained_s
        } else if at.room[0] == 0 || at.room[1] < self.mean_prompt(at.model) {
            self.next_end(instance)
        } else {
            0.0
        };
        PlanInstance {
            free_s: free_s.max(until_open_s),
            drained_s: drained_s.max(until_open_s),
            model: at.model,
            open_s: open_s.collect(),
            again_s: again_s.collect(),
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
        let ids_of = |order: &Vec<usize>| order.iter().map(|group| ids[*group]).collect();
        let orders: Vec<Vec<GroupId>> = orders.iter().map(ids_of).collect();
        queues.replace(&orders, &self.rates);
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
        for queued in &queues.orders[instance.index()] {
            if !next.contains(&queued.model) {
                next.push(queued.model);
            }
        }
        let count = self.spec.models.len();
        for model in (0..count as u32).map(ModelId) {
            let place = next.iter().position(|other| *other == model).unwrap_or(count);
            let value = (count - place.min(count)) as f64;
            self.reside(instance, ResidencyEvent::Valued(model, value), effects);
        }
        if self.spec.operations.warm_start && self.prefetches {
            for model in next.into_iter().skip(1).take(MAX_PREFETCHED) {
                self.reside(instance, ResidencyEvent::Expected(model), effects);
            }
        }
    }
}

/// Converts orders of group ids into orders of indices of a problem.
fn numbered(orders: &[Vec<Queued>], ids: &[GroupId]) -> Vec<Vec<usize>> {
    let number = |queued: &Queued| ids.binary_search(&queued.group).ok();
    orders
        .iter()
        .map(|order| order.iter().filter_map(number).collect())
        .collect()
}
