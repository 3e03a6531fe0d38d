//! What is planned: groups over instances, and what an order of them comes to (QLM, section 7).
//!
//! ```text
//! ct(g, j) = sum before j of W + sum of changes of model up to j of S + C(i)        (9, 10)
//! p(g, j)  = ct - slo                                                                (11)
//! P(p <= 0) > quantile for every group                                               (12)
//! min sum E[p]                                                                       (13)
//! ```
//!
//! Where (12) cannot hold for all, [`PlanObjective::Penalty`] has as few requests as possible in groups for which it does
//! not; [`PlanObjective::Late`] has as few requests late as possible, by the probability of each, which gives a group that
//! is half in time its half. Then comes (13).

use serde::{Deserialize, Serialize};
use weir_types::ModelId;

use super::estimator::normal_below;

/// What a plan is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlanObjective {
    /// Equations 12 and 13.
    Penalty,
    /// Expected requests that are late.
    Late,
}

/// A group as the plan has it. Times are seconds from now.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanGroup {
    /// For which model.
    pub model: ModelId,
    /// Requests.
    pub requests: f64,
    /// Deadline of its first request, which is the earliest.
    pub first_deadline_s: f64,
    /// Deadline of its last.
    pub last_deadline_s: f64,
    /// By instance.
    pub cost: Vec<GroupCost>,
}

/// What a group takes on an instance, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct GroupCost {
    /// Mean time of the instance.
    pub work_s: f64,
    /// Its variance.
    pub variance: f64,
    /// From the start of its last request to that one's end.
    pub service_s: f64,
}

/// An instance as the plan has it.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanInstance {
    /// When it could begin with a group of the model that it serves.
    pub free_s: f64,
    /// When what runs there has ended.
    pub drained_s: f64,
    /// What it serves.
    pub model: Option<ModelId>,
    /// Seconds until a model is open there, by model.
    pub open_s: Vec<f64>,
    /// Whether it is there.
    pub is_up: bool,
}

/// What is to be planned.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanProblem {
    /// Groups.
    pub groups: Vec<PlanGroup>,
    /// Instances.
    pub instances: Vec<PlanInstance>,
    /// What it is for.
    pub objective: PlanObjective,
    /// The probability with which a group has to be in time (`Delta` of equation 12).
    pub quantile: f64,
}

/// Costs in the order of their weight: requests that are not in time, then the sum of completion times.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PlanCost {
    /// Requests that are late, or in groups that are.
    pub late: f64,
    /// `sum E[ct]`; `sum E[p]` is less by a constant.
    pub completion_s: f64,
}

impl PlanCost {
    /// No order.
    pub const WORST: Self = Self {
        late: f64::INFINITY,
        completion_s: f64::INFINITY,
    };
    /// Requests that count as none.
    const TOLERANCE: f64 = 1e-6;

    /// Whether it is better.
    #[must_use]
    pub fn is_below(&self, other: &Self) -> bool {
        if (self.late - other.late).abs() > Self::TOLERANCE {
            return self.late < other.late;
        }
        self.completion_s < other.completion_s - 1e-9
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            late: self.late + other.late,
            completion_s: self.completion_s + other.completion_s,
        }
    }

    /// Without the other.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            late: self.late - other.late,
            completion_s: self.completion_s - other.completion_s,
        }
    }
}

/// Where an instance is within its order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Seconds from now.
    pub at_s: f64,
    /// Of `at_s`.
    pub variance: f64,
    /// What is served.
    pub model: Option<ModelId>,
}

impl Progress {
    /// Before the first group.
    #[must_use]
    pub fn new(instance: &PlanInstance) -> Self {
        Self {
            at_s: instance.free_s,
            variance: 0.0,
            model: instance.model,
        }
    }
}

/// What a group comes to where it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Completion {
    /// When its first request starts.
    pub start_s: f64,
    /// When its last request is expected to end.
    pub end_s: f64,
    /// Its cost.
    pub cost: PlanCost,
    /// Whether equation 12 holds for it.
    pub is_met: bool,
}

impl PlanProblem {
    /// Puts a group behind what an instance has.
    #[inline]
    pub fn append(&self, instance: usize, progress: &mut Progress, group: usize) -> Completion {
        let (at, group) = (&self.instances[instance], &self.groups[group]);
        let cost = &group.cost[instance];
        if progress.model != Some(group.model) {
            progress.at_s = at.drained_s.max(progress.at_s) + at.open_s[group.model.index()];
        }
        progress.model = Some(group.model);
        let start_s = progress.at_s;
        progress.at_s += cost.work_s;
        progress.variance += cost.variance;
        // Its last request starts before its work is done, and its first may end long before.
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

    /// What an order of groups on an instance comes to.
    #[must_use]
    pub fn order_cost(&self, instance: usize, order: &[usize]) -> PlanCost {
        let mut progress = Progress::new(&self.instances[instance]);
        let mut sum = PlanCost::default();
        for group in order {
            sum = sum.plus(self.append(instance, &mut progress, *group).cost);
        }
        sum
    }

    /// What orders by instance come to.
    #[must_use]
    pub fn cost(&self, orders: &[Vec<usize>]) -> PlanCost {
        let all = orders.iter().enumerate();
        all.map(|(instance, order)| self.order_cost(instance, order))
            .fold(PlanCost::default(), PlanCost::plus)
    }

    /// Instances that are there.
    pub(super) fn up(&self) -> impl Iterator<Item = usize> {
        let all = self.instances.iter().enumerate();
        all.filter(|(_, instance)| instance.is_up).map(|(index, _)| index)
    }

    /// The rest in the order of deadlines: on each instance the groups for which equation 12 does not hold go behind those
    /// for which it does, the earliest deadline first, where that costs nothing.
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

    /// Instances that would be needed on top, for what is not met: the work of groups that are late over the time until
    /// their deadlines.
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

/// Part of a group's requests that is late, whose margins go from the first's to the last's: the mean probability of five.
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
