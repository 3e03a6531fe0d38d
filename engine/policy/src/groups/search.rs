//! A good plan for many groups: the best of three constructed orders, improved by a local search.
//! Deterministic, and bounded by the number of groups visited.
//!
//! The constructed orders are: the order in force, with each new group on the instance that finishes it
//! first; earliest deadline first; and each model until none of its groups waits. Moves are of single groups,
//! the latest first, and of runs of groups of one model: to the front or end of an instance's order, and
//! beside groups of their model.

use weir_types::ModelId;

use super::exact::solve_exactly;
use super::plan::{PlanCost, PlanProblem, Progress};

/// Maximum number of groups that one round tries to move.
const MAX_MOVED: usize = 48;

/// Indices of groups, in order, for each instance.
pub(super) type Orders = Vec<Vec<usize>>;

/// Consecutive groups of one model in an order: positions `from..to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    from: usize,
    to: usize,
    model: ModelId,
}

/// Searches for a plan from the `current` orders, visiting at most `max_visits` groups.
pub(super) fn search(problem: &PlanProblem, current: &Orders, max_visits: usize) -> Orders {
    let up: Vec<usize> = problem.up().collect();
    if up.is_empty() {
        return vec![Vec::new(); problem.instances.len()];
    }
    let mut best = completed(problem, current, &up);
    let mut best_cost = problem.cost(&best);
    for orders in [by_deadline(problem, &up), by_model(problem, &up)] {
        let cost = problem.cost(&orders);
        if cost.is_below(&best_cost) {
            (best, best_cost) = (orders, cost);
        }
    }
    let mut search = Search {
        problem,
        up,
        costs: (0..best.len())
            .map(|at| problem.order_cost(at, &best[at]))
            .collect(),
        orders: best,
        visits: 5 * problem.groups.len(),
        max_visits,
    };
    while search.visits < search.max_visits && search.improve() {}
    let mut orders = search.orders;
    problem.late_last(&mut orders);
    orders
}

/// Adds missing groups to the current orders. A group goes to the instance on which most groups stay in time,
/// then to the one that finishes it first. Positions tried: the end, behind the last group of its model,
/// which saves an opening, and before the first group with a later deadline.
pub(crate) fn complete(problem: &PlanProblem, current: &Orders) -> Orders {
    let up: Vec<usize> = problem.up().collect();
    if up.is_empty() {
        return vec![Vec::new(); problem.instances.len()];
    }
    let (mut orders, mut rest) = kept(problem, current);
    sort_by_deadline(problem, &mut rest);
    for group in rest {
        let mut best: Option<(Place, usize, usize)> = None;
        for &instance in &up {
            let order = &orders[instance];
            let before = problem.order_cost(instance, order).late;
            let of_instance = open_positions(problem, order, group).into_iter().map(|at| {
                let place = place(problem, (instance, before), order, (at, group));
                (place, instance, at)
            });
            // On one instance, the position after which the whole order ends first.
            let first = of_instance.reduce(|a, b| if b.0.ends_before(&a.0) { b } else { a });
            best = match (best, first) {
                (Some(best), Some(first)) if !first.0.is_done_before(&best.0) => Some(best),
                (best, first) => first.or(best),
            };
        }
        if let Some((_, instance, at)) = best {
            orders[instance].insert(at, group);
        }
    }
    orders
}

/// Effect of putting a group at one position.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// Number of requests on the instance that the group makes late.
    late: f64,
    /// End of the instance's whole order, in seconds from now.
    all_end_s: f64,
    end_s: f64,
}

impl Place {
    fn is_later(&self, other: &Self) -> Option<bool> {
        ((self.late - other.late).abs() > 1e-3).then_some(self.late > other.late)
    }

    fn ends_before(&self, other: &Self) -> bool {
        self.is_later(other).map_or_else(
            || (self.all_end_s, self.end_s) < (other.all_end_s, other.end_s),
            |later| !later,
        )
    }

    fn is_done_before(&self, other: &Self) -> bool {
        self.is_later(other)
            .map_or_else(|| self.end_s < other.end_s, |later| !later)
    }
}

fn open_positions(problem: &PlanProblem, order: &[usize], group: usize) -> Vec<usize> {
    let of = |other: &usize| &problem.groups[*other];
    let own = &problem.groups[group];
    let mut positions = vec![order.len()];
    positions.extend(
        order
            .iter()
            .rposition(|other| of(other).model == own.model)
            .map(|at| at + 1),
    );
    positions.extend(
        order
            .iter()
            .position(|other| of(other).first_deadline_s > own.first_deadline_s),
    );
    positions.dedup();
    positions
}

fn place(
    problem: &PlanProblem,
    (instance, before): (usize, f64),
    order: &[usize],
    (at, group): (usize, usize),
) -> Place {
    let mut progress = Progress::new(&problem.instances[instance]);
    let mut place = Place {
        late: -before,
        all_end_s: 0.0,
        end_s: 0.0,
    };
    for next in order[..at].iter().chain([&group]).chain(&order[at..]) {
        let done = problem.append(instance, &mut progress, *next);
        place.late += done.cost.late;
        if *next == group {
            place.end_s = done.end_s;
        }
    }
    place.all_end_s = progress.at_s;
    place
}

/// Makes a plan: exactly for at most `exact_groups` groups, else by a search from `current` that visits at
/// most `max_visits` groups.
pub(crate) fn plan(
    problem: &PlanProblem,
    current: &Orders,
    (exact_groups, max_visits): (usize, usize),
) -> Orders {
    if problem.groups.len() <= exact_groups {
        solve_exactly(problem)
    } else {
        search(problem, current, max_visits)
    }
}

/// The current orders of usable instances, and the groups that are in none.
fn kept(problem: &PlanProblem, current: &Orders) -> (Orders, Vec<usize>) {
    let mut orders = current.clone();
    let mut is_placed = vec![false; problem.groups.len()];
    for (instance, order) in orders.iter_mut().enumerate() {
        if !problem.instances[instance].is_up {
            order.clear();
        }
        for group in order.iter() {
            is_placed[*group] = true;
        }
    }
    let rest = (0..problem.groups.len())
        .filter(|group| !is_placed[*group])
        .collect();
    (orders, rest)
}

/// Adds missing groups to the current orders, each at the end of the instance that finishes it first.
fn completed(problem: &PlanProblem, current: &Orders, up: &[usize]) -> Orders {
    let (mut orders, mut rest) = kept(problem, current);
    let mut progress: Vec<Progress> = (0..orders.len())
        .map(|instance| {
            let mut progress = Progress::new(&problem.instances[instance]);
            for group in &orders[instance] {
                problem.append(instance, &mut progress, *group);
            }
            progress
        })
        .collect();
    sort_by_deadline(problem, &mut rest);
    for group in rest {
        put_first(problem, up, &mut orders, &mut progress, group);
    }
    orders
}

fn sort_by_deadline(problem: &PlanProblem, groups: &mut [usize]) {
    groups.sort_by(|a, b| {
        let (a_s, b_s) = (
            problem.groups[*a].first_deadline_s,
            problem.groups[*b].first_deadline_s,
        );
        a_s.total_cmp(&b_s).then(a.cmp(b))
    });
}

/// Puts a group at the end of the instance that finishes it first.
fn put_first(
    problem: &PlanProblem,
    up: &[usize],
    orders: &mut Orders,
    progress: &mut [Progress],
    group: usize,
) {
    let ends = up.iter().map(|&instance| {
        let mut next = progress[instance];
        let end_s = problem.append(instance, &mut next, group).end_s;
        (end_s, instance, next)
    });
    if let Some((_, instance, next)) = ends.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))) {
        orders[instance].push(group);
        progress[instance] = next;
    }
}

fn by_deadline(problem: &PlanProblem, up: &[usize]) -> Orders {
    let mut orders = vec![Vec::new(); problem.instances.len()];
    let mut progress: Vec<Progress> = problem.instances.iter().map(Progress::new).collect();
    let mut all: Vec<usize> = (0..problem.groups.len()).collect();
    sort_by_deadline(problem, &mut all);
    for group in all {
        put_first(problem, up, &mut orders, &mut progress, group);
    }
    orders
}

/// Orders by model: the instance that is free first serves its model until none of its groups waits. Then it
/// serves the model with the most urgent group among models that no other instance serves, else the most
/// urgent one.
fn by_model(problem: &PlanProblem, up: &[usize]) -> Orders {
    let models = problem.instances[0].open_s.len();
    let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); models];
    let mut all: Vec<usize> = (0..problem.groups.len()).collect();
    sort_by_deadline(problem, &mut all);
    for group in all.into_iter().rev() {
        waiting[problem.groups[group].model.index()].push(group);
    }
    let mut orders = vec![Vec::new(); problem.instances.len()];
    let mut progress: Vec<Progress> = problem.instances.iter().map(Progress::new).collect();
    for _ in 0..problem.groups.len() {
        let first = up.iter().copied().min_by(|a, b| {
            let (a_s, b_s) = (progress[*a].at_s, progress[*b].at_s);
            a_s.total_cmp(&b_s).then(a.cmp(b))
        });
        let Some(instance) = first else { break };
        let own = progress[instance]
            .model
            .filter(|model| !waiting[model.index()].is_empty());
        let model = own.or_else(|| {
            let is_served = |model: usize| {
                let served = up.iter().map(|other| progress[*other].model);
                served.flatten().any(|served| served.index() == model)
            };
            let urgent = (0..models).filter_map(|model| {
                let group = *waiting[model].last()?;
                Some((is_served(model), problem.groups[group].first_deadline_s, model))
            });
            let first = urgent.min_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
            first.map(|(_, _, model)| ModelId(model as u32))
        });
        let Some(group) = model.and_then(|model| waiting[model.index()].pop()) else {
            break;
        };
        problem.append(instance, &mut progress[instance], group);
        orders[instance].push(group);
    }
    orders
}

struct Search<'a> {
    problem: &'a PlanProblem,
    up: Vec<usize>,
    orders: Orders,
    costs: Vec<PlanCost>,
    visits: usize,
    max_visits: usize,
}

impl Search<'_> {
    /// Runs one round of moves; returns whether the plan got better.
    fn improve(&mut self) -> bool {
        let mut better = false;
        for (instance, at) in self.latest() {
            if self.visits >= self.max_visits {
                return better;
            }
            // The group may have been moved by an earlier move of this round.
            if at < self.orders[instance].len() {
                better |= self.move_part(instance, at, at + 1);
            }
        }
        for index in 0..self.up.len() {
            let instance = self.up[index];
            let mut number = 0;
            loop {
                let runs = self.runs(instance);
                if number >= runs.len().min(MAX_MOVED) || self.visits >= self.max_visits {
                    break;
                }
                let run = runs[number];
                better |= self.move_part(instance, run.from, run.to);
                number += 1;
            }
        }
        better
    }

    /// Positions of the groups with the most late requests, the most first.
    fn latest(&mut self) -> Vec<(usize, usize)> {
        let mut late = Vec::new();
        for &instance in &self.up {
            let mut progress = Progress::new(&self.problem.instances[instance]);
            for (at, group) in self.orders[instance].iter().enumerate() {
                let done = self.problem.append(instance, &mut progress, *group);
                late.push((done.cost.late, instance, at));
            }
        }
        self.visits += self.problem.groups.len();
        late.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        late.truncate(MAX_MOVED);
        late.into_iter().map(|(_, instance, at)| (instance, at)).collect()
    }

    fn runs(&self, instance: usize) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for (at, group) in self.orders[instance].iter().enumerate() {
            let model = self.problem.groups[*group].model;
            match runs.last_mut() {
                Some(run) if run.model == model => run.to = at + 1,
                _ => runs.push(Run {
                    from: at,
                    to: at + 1,
                    model,
                }),
            }
        }
        runs
    }

    /// Positions to try for groups of a model: both ends of the order, and the ends of runs of that model.
    fn positions(&self, order: &[usize], model: ModelId) -> Vec<usize> {
        let mut positions = vec![0, order.len()];
        let is_own = |at: usize| self.problem.groups[order[at]].model == model;
        for at in 1..order.len() {
            if is_own(at - 1) != is_own(at) || (is_own(at) && positions.len() < 8) {
                positions.push(at);
            }
            if positions.len() >= 10 {
                break;
            }
        }
        // Also between the first runs of any models.
        for at in 1..order.len().min(6) {
            let (before, here) = (
                self.problem.groups[order[at - 1]].model,
                self.problem.groups[order[at]].model,
            );
            if before != here {
                positions.push(at);
            }
        }
        positions.sort_unstable();
        positions.dedup();
        positions
    }

    /// Moves groups `from..to` of an order to their cheapest position; returns whether that is a different
    /// one.
    fn move_part(&mut self, instance: usize, from: usize, to: usize) -> bool {
        let part: Vec<usize> = self.orders[instance][from..to].to_vec();
        let model = self.problem.groups[part[0]].model;
        let mut without = self.orders[instance].clone();
        without.drain(from..to);
        let without_cost = self.problem.order_cost(instance, &without);
        self.visits += without.len();
        let mut best: Option<(PlanCost, usize, Vec<usize>)> = None;
        for index in 0..self.up.len() {
            let other = self.up[index];
            let (rest, before) = if other == instance {
                (without.clone(), self.costs[instance])
            } else {
                (
                    self.orders[other].clone(),
                    self.costs[other].plus(self.costs[instance]),
                )
            };
            for at in self.positions(&rest, model) {
                if self.visits >= self.max_visits {
                    break;
                }
                let mut order = rest.clone();
                order.splice(at..at, part.iter().copied());
                let mut cost = self.problem.order_cost(other, &order);
                self.visits += order.len();
                if other != instance {
                    cost = cost.plus(without_cost);
                }
                let gain = cost.minus(before);
                let than = best.as_ref().map_or(PlanCost::default(), |(gain, ..)| *gain);
                if gain.is_below(&than) {
                    best = Some((gain, other, order));
                }
            }
        }
        let Some((_, other, order)) = best else {
            return false;
        };
        if other != instance {
            self.orders[instance] = without;
            self.costs[instance] = without_cost;
        }
        self.costs[other] = self.problem.order_cost(other, &order);
        self.orders[other] = order;
        true
    }
}
