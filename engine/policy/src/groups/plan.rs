//! The planning problem: groups and instances, and the cost of an order of groups (QLM, section 7).
//!
//! ```text
//! ct(g, j) = sum before j of W + sum of changes of model up to j of S + C(i)        (9, 10)
//! p(g, j)  = ct - slo                                                                (11)
//! P(p <= 0) > quantile for every group                                               (12)
//! min sum E[p]                                                                       (13)
//! ```
//!
//! If (12) cannot hold for all groups, [`PlanObjective::Penalty`] minimises the number of requests in groups
//! for which it does not. [`PlanObjective::Late`] minimises the expected number of missed deadlines, by the
//! probability of each; a group that is half in time counts half. Among orders that are equal in this, (13)
//! decides.
//!
//! `S` is charged for each change of model, also for a change back: the first opening costs what it costs now
//! (`open_s`, 0 for a model that is open), each later one what opening the closed model again costs
//! (`again_s`).

use serde::{Deserialize, Serialize};
use weir_types::ModelId;

use super::estimator::normal_below;

/// Objective of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlanObjective {
    /// Fewest requests in groups that miss equation 12, then equation 13.
    Penalty,
    /// Fewest expected missed deadlines.
    Late,
}

/// A group as seen by the planner. Times are seconds from now.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanGroup {
    /// Model that the group's requests are for.
    pub model: ModelId,
    /// Number of requests.
    pub requests: f64,
    /// Deadline of the group's first request, which is the earliest.
    pub first_deadline_s: f64,
    /// Deadline of the group's last request.
    pub last_deadline_s: f64,
    /// Cost on each instance, by instance id.
    pub cost: Vec<GroupCost>,
}

/// Cost of a group on one instance, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct GroupCost {
    /// Mean time that the instance works for the group.
    pub work_s: f64,
    /// Variance of that time, in square seconds.
    pub variance: f64,
    /// Time from the start of the group's last request to its end.
    pub service_s: f64,
}

/// An instance as seen by the planner. Times are seconds from now.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanInstance {
    /// Time at which it could start a group of the model that it serves.
    pub free_s: f64,
    /// Time at which the instance can begin to open another model: all that runs there has ended, or has
    /// returned to the queue.
    pub drained_s: f64,
    /// Model that the instance serves; `None` if none is open.
    pub model: Option<ModelId>,
    /// Duration of opening each model there, by model id.
    pub open_s: Vec<f64>,
    /// Duration of opening each model there after it was closed for another one, by model id; 0 if all models
    /// stay open.
    pub again_s: Vec<f64>,
    /// Whether the instance can be used.
    pub is_up: bool,
}

/// Input of the planner.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanProblem {
    /// Groups to be ordered; plans refer to them by index.
    pub groups: Vec<PlanGroup>,
    /// Instances that groups are assigned to; plans refer to them by index.
    pub instances: Vec<PlanInstance>,
    /// Objective that the plan minimises.
    pub objective: PlanObjective,
    /// Probability with which a group must be in time (`Delta` of equation 12).
    pub quantile: f64,
}

/// Cost of an order, compared field by field: first late requests, then the sum of completion times.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PlanCost {
    /// Number of requests that are late, or that are in groups which miss equation 12; depends on the
    /// objective.
    pub late: f64,
    /// Sum of expected completion times, `sum E[ct]`, in seconds; `sum E[p]` is less by a constant.
    pub completion_s: f64,
}

impl PlanCost {
    /// Cost above that of any order; the start value of a search for the minimum.
    pub const WORST: Self = Self {
        late: f64::INFINITY,
        completion_s: f64::INFINITY,
    };
    /// Difference in late requests below which two costs count as equal.
    const TOLERANCE: f64 = 1e-6;

    /// Whether this cost is lower than the other.
    #[must_use]
    pub fn is_below(&self, other: &Self) -> bool {
        if (self.late - other.late).abs() > Self::TOLERANCE {
            return self.late < other.late;
        }
        self.completion_s < other.completion_s - 1e-9
    }

    /// Returns the sum of both costs, field by field.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            late: self.late + other.late,
            completion_s: self.completion_s + other.completion_s,
        }
    }

    /// Returns the difference of both costs, field by field.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            late: self.late - other.late,
            completion_s: self.completion_s - other.completion_s,
        }
    }
}

/// Position of an instance within its order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Expected end of the groups so far, in seconds from now.
    pub at_s: f64,
    /// Variance of `at_s`, in square seconds.
    pub variance: f64,
    /// Model of the last group.
    pub model: Option<ModelId>,
    /// Whether a model was opened before, so that models which are open now may be closed.
    pub has_opened: bool,
}

impl Progress {
    /// State of an instance before its first group.
    #[must_use]
    pub fn new(instance: &PlanInstance) -> Self {
        Self {
            at_s: instance.free_s,
            variance: 0.0,
            model: instance.model,
            has_opened: false,
        }
    }

    /// Changes to the model of the next group, if it is another one; returns the time at which the group's
    /// first request starts.
    #[inline]
    pub(super) fn change_to(&mut self, model: ModelId, instance: &PlanInstance) -> f64 {
        if self.model != Some(model) {
            let durations = if self.has_opened {
                &instance.again_s
            } else {
                &instance.open_s
            };
            let opening_s = durations[model.index()];
            self.has_opened |= opening_s > 0.0;
            self.at_s = instance.drained_s.max(self.at_s) + opening_s;
            self.model = Some(model);
        }
        self.at_s
    }
}

/// Outcome of a group at its place in an order. Times are seconds from now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Completion {
    /// Time at which the first request starts.
    pub start_s: f64,
    /// Time at which the last request is expected to end.
    pub end_s: f64,
    /// Cost that the group adds to the order.
    pub cost: PlanCost,
    /// Whether equation 12 holds for it.
    pub is_met: bool,
}

impl PlanProblem {
    /// Appends a group to the order of an instance, and returns its outcome there.
    #[inline]
    pub fn append(&self, instance: usize, progress: &mut Progress, group: usize) -> Completion {
        let (at, group) = (&self.instances[instance], &self.groups[group]);
        let cost = &group.cost[instance];
        let start_s = progress.change_to(group.model, at);
        progress.at_s += cost.work_s;
        progress.variance += cost.variance;
        // The last request starts before the group's work is done, and the first may end long before that.
        let last_start_s =
            start_s + cost.work_s * ((group.requests - 1.0) / group.requests.max(1.0)).max(0.0);
        let end_s = last_start_s + cost.service_s;
        let deviation = progress.variance.sqrt().max(0.02 * end_s.abs()).max(0.05);
        let first_margin = group.first_deadline_s - (start_s + cost.service_s);
        let last_margin = group.last_deadline_s - end_s;
        let tight = first_margin.min(last_margin);
        let is_met = normal_below(tight / deviation) > self.quantile;
        let late = match self.objective {
            PlanObjective::Penalty => {
                if is_met {
                    0.0
                } else {
                    group.requests
                }
            }
            PlanObjective::Late => group.requests * late_part(first_margin, last_margin, deviation),
        };
        let weight = match self.objective {
            PlanObjective::Penalty => 1.0,
            PlanObjective::Late => group.requests,
        };
        let cost = PlanCost {
            late,
            completion_s: weight * end_s,
        };
        Completion {
            start_s,
            end_s,
            cost,
            is_met,
        }
    }

    /// Total cost of an order of groups on one instance.
    #[must_use]
    pub fn order_cost(&self, instance: usize, order: &[usize]) -> PlanCost {
        let mut progress = Progress::new(&self.instances[instance]);
        let mut sum = PlanCost::default();
        for group in order {
            sum = sum.plus(self.append(instance, &mut progress, *group).cost);
        }
        sum
    }

    /// Total cost of the orders of all instances.
    #[must_use]
    pub fn cost(&self, orders: &[Vec<usize>]) -> PlanCost {
        let all = orders.iter().enumerate();
        all.map(|(instance, order)| self.order_cost(instance, order))
            .fold(PlanCost::default(), PlanCost::plus)
    }

    /// Instances that can be used.
    pub(super) fn up(&self) -> impl Iterator<Item = usize> {
        let all = self.instances.iter().enumerate();
        all.filter(|(_, instance)| instance.is_up).map(|(index, _)| index)
    }

    /// On each instance, moves groups that miss equation 12 behind the others, the earliest deadline first,
    /// if that is cheaper.
    pub(super) fn late_last(&self, orders: &mut [Vec<usize>]) {
        for (instance, order) in orders.iter_mut().enumerate() {
            let mut progress = Progress::new(&self.instances[instance]);
            let (mut met, mut late) = (Vec::new(), Vec::new());
            for group in order.iter() {
                if self.append(instance, &mut progress, *group).is_met {
                    met.push(*group);
                } else {
                    late.push(*group);
                }
            }
            if late.is_empty() || met.is_empty() {
                continue;
            }
            late.sort_by(|a, b| {
                let (a_s, b_s) = (self.groups[*a].first_deadline_s, self.groups[*b].first_deadline_s);
                a_s.total_cmp(&b_s).then(a.cmp(b))
            });
            met.append(&mut late);
            if self
                .order_cost(instance, &met)
                .is_below(&self.order_cost(instance, order))
            {
                *order = met;
            }
        }
    }

    /// Estimated number of additional instances needed for groups that miss equation 12: their work divided
    /// by the time until their deadlines.
    #[must_use]
    pub fn missing(&self, orders: &[Vec<usize>]) -> f64 {
        let mut missing = 0.0;
        for (instance, order) in orders.iter().enumerate() {
            let mut progress = Progress::new(&self.instances[instance]);
            for group in order {
                let done = self.append(instance, &mut progress, *group);
                if !done.is_met {
                    let until_s = self.groups[*group].last_deadline_s.max(1.0);
                    missing += self.groups[*group].cost[instance].work_s / until_s;
                }
            }
        }
        missing
    }
}

/// Fraction of a group's requests that is late. Their margins range from the first's to the last's; the mean
/// of the probability at five points between these.
fn late_part(first_s: f64, last_s: f64, deviation_s: f64) -> f64 {
    let steep = 1.0 / deviation_s;
    if first_s.min(last_s) * steep > 6.0 {
        return 0.0;
    }
    if first_s.max(last_s) * steep < -6.0 {
        return 1.0;
    }
    let at = |part: f64| 1.0 - normal_below((first_s + part * (last_s - first_s)) * steep);
    (at(0.1) + at(0.3) + at(0.5) + at(0.7) + at(0.9)) / 5.0
}
