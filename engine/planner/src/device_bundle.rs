//! Device bundles: the device counts with which one model reaches a rate. Enumerates the sets of pipelines with whole pools
//! whose reduced cost is low, without those that are dominated in every class.
//!
//! A set has at most one pipeline of each pipeline class (PPipe A.2). Pipeline classes that share no devices with others
//! have whole devices in every stage and so few options; there are many only where several use one device class at the
//! same position. Branch and bound: the reduced cost of what is chosen plus a lower bound for what remains must not exceed
//! the limit.

use crate::column::Column;
use crate::pool_options::{MAX_STAGES, PoolOption, PoolOptions};

/// Sets of pipeline classes that are searched at most, smaller ones first.
const MAX_SETS: usize = 6_000;
/// Steps charged for a set before anything is chosen.
const STEPS_PER_SET: u64 = 100;
/// Steps for one set of pipeline classes.
const MAX_STEPS_PER_SET: u64 = 2_000_000;

/// Device counts that are sufficient for one model, and pipelines over them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DeviceBundle {
    /// Devices by class.
    pub(super) devices: Vec<u32>,
    /// Price of the devices above the cost of the required rate at the duals.
    pub(super) reduced_cost: f64,
    /// A pipeline each: its column, and the pool of each stage in shares.
    pub(super) pipelines: Vec<(usize, [u32; MAX_STAGES])>,
}

/// The remaining steps of a search: counted rather than timed, so that it ends identically on every machine.
#[derive(Debug)]
pub(super) struct Steps {
    pub(super) remaining: u64,
}

impl Steps {
    /// Uses up `steps`; whether that many remained.
    pub(super) fn take(&mut self, steps: u64) -> bool {
        let enough = self.remaining >= steps;
        self.remaining = self.remaining.saturating_sub(steps);
        enough
    }
}

/// Goal of a search over bundles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SearchGoal {
    /// The bundle with the least reduced cost.
    Cheapest,
    /// All undominated bundles up to the maximum reduced cost.
    All,
}

/// A search over the pool options of one model.
pub(super) struct Search<'a> {
    pub(super) options: &'a PoolOptions,
    pub(super) columns: &'a [Column],
    /// Required items a second.
    pub(super) rate: f64,
    /// Available devices by class.
    pub(super) limit: &'a [u32],
    pub(super) goal: SearchGoal,
    pub(super) max_reduced_cost: f64,
    found: Vec<DeviceBundle>,
}

/// A set of pipeline classes.
struct ClassSet<'a> {
    pipeline_classes: Vec<SetMember<'a>>,
    /// Bounds by level, over the pipeline classes from that one on.
    remaining: Vec<RemainingBound>,
}

/// Bounds over the pipeline classes for which no option is chosen yet.
#[derive(Debug, Clone, Copy)]
struct RemainingBound {
    /// Least reduced cost.
    reduced_cost: f64,
    /// Least reduced cost per item a second.
    cost_per_rate: f64,
    /// Greatest rate in items a second.
    rate: f64,
}

impl RemainingBound {
    const NONE: Self = Self {
        reduced_cost: 0.0,
        cost_per_rate: f64::INFINITY,
        rate: 0.0,
    };

    fn adding(self, options: &[PoolOption]) -> Self {
        let cost_per_rate = options.iter().map(|option| option.reduced_cost / option.rate);
        Self {
            reduced_cost: self.reduced_cost + min_reduced_cost(options),
            cost_per_rate: cost_per_rate.fold(self.cost_per_rate, f64::min),
            rate: self.rate + options.last().map_or(0.0, |option| option.rate),
        }
    }

    /// Least reduced cost at which they reach a rate.
    fn min_cost(&self, rate: f64) -> f64 {
        if rate > 0.0 && self.cost_per_rate.is_finite() {
            self.reduced_cost.max(self.cost_per_rate * rate)
        } else {
            self.reduced_cost
        }
    }
}

struct SetMember<'a> {
    options: &'a [PoolOption],
    /// By stage: the (stage, class) position whose devices it shares with other members; `None` if it shares none.
    shared_positions: [Option<usize>; MAX_STAGES],
    /// Shared positions, with their classes, that no later member uses: their devices are known at this level.
    completed_positions: Vec<(usize, usize)>,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        options: &'a PoolOptions,
        columns: &'a [Column],
        rate: f64,
        limit: &'a [u32],
        goal: SearchGoal,
        max_reduced_cost: f64,
    ) -> Self {
        Self {
            options,
            columns,
            rate,
            limit,
            goal,
            max_reduced_cost,
            found: Vec::new(),
        }
    }

    /// The bundles found, and whether the search was complete.
    pub(super) fn run(mut self, steps: &mut Steps) -> (Vec<DeviceBundle>, bool) {
        let (sets, mut complete) = self.sets(steps);
        let mut ranked = Vec::new();
        for pipeline_classes in &sets {
            let set = self.set(pipeline_classes);
            let min_cost = set.remaining[0].min_cost(self.rate);
            if min_cost <= self.max_reduced_cost && set.remaining[0].rate >= self.rate * (1.0 - 1e-9) {
                ranked.push((min_cost, set));
            }
        }
        ranked.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let positions = self.limit.len() * MAX_STAGES;
        for (min_cost, set) in &ranked {
            if *min_cost <= self.max_reduced_cost {
                let mut partial = PartialSet {
                    rate: self.rate,
                    reduced_cost: 0.0,
                    units: vec![0; positions],
                    chosen: Vec::new(),
                };
                let mut once = Steps {
                    remaining: steps.remaining.min(MAX_STEPS_PER_SET),
                };
                let given = once.remaining;
                complete &= self.extend(set, &mut partial, &mut once);
                steps.remaining -= given - once.remaining;
            }
        }
        self.found.sort_by(|a, b| {
            a.reduced_cost
                .total_cmp(&b.reduced_cost)
                .then(a.devices.cmp(&b.devices))
        });
        (self.found, complete)
    }

    /// All sets of pipeline classes within the maximum reduced cost, smaller ones first, and whether these are all.
    fn sets(&self, steps: &mut Steps) -> (Vec<Vec<usize>>, bool) {
        let min_cost: Vec<f64> = (0..self.options.pipeline_classes.len())
            .map(|pipeline_class| min_reduced_cost(self.options.options(pipeline_class, 0)))
            .collect();
        let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
        let mut at = 0;
        while let Some(set) = sets.get(at).cloned() {
            at += 1;
            let reduced_cost: f64 = set.iter().map(|&pipeline_class| min_cost[pipeline_class]).sum();
            let next = set.last().map_or(0, |pipeline_class| pipeline_class + 1);
            for pipeline_class in (next..min_cost.len())
                .filter(|&pipeline_class| reduced_cost + min_cost[pipeline_class] <= self.max_reduced_cost)
            {
                if sets.len() > MAX_SETS || !steps.take(STEPS_PER_SET) {
                    return (sets.split_off(1), false);
                }
                sets.push(set.iter().copied().chain([pipeline_class]).collect());
            }
        }
        (sets.split_off(1), true)
    }

    fn position(&self, stage: usize, class: usize) -> usize {
        stage * self.limit.len() + class
    }

    fn set(&self, pipeline_classes: &[usize]) -> ClassSet<'a> {
        let mut users = vec![0_u32; self.limit.len() * MAX_STAGES];
        for &pipeline_class in pipeline_classes {
            for (stage, &class) in self.options.pipeline_classes[pipeline_class]
                .classes
                .iter()
                .enumerate()
            {
                users[self.position(stage, class)] += 1;
            }
        }
        let member = |&pipeline_class: &usize| {
            let classes = &self.options.pipeline_classes[pipeline_class].classes;
            let (mut exclusive, mut shared_positions) = (0, [None; MAX_STAGES]);
            for (stage, &class) in classes.iter().enumerate() {
                let position = self.position(stage, class);
                if users[position] == 1 {
                    exclusive |= 1 << stage;
                } else {
                    shared_positions[stage] = Some(position);
                }
            }
            SetMember {
                options: self.options.options(pipeline_class, exclusive),
                shared_positions,
                completed_positions: Vec::new(),
            }
        };
        let mut members: Vec<SetMember> = pipeline_classes.iter().map(member).collect();
        // The last member is looked up by the remaining rate, so the one with most options is last.
        members.sort_by_key(|member| member.options.len());
        for level in 0..members.len() {
            let later: Vec<usize> = members[level + 1..]
                .iter()
                .flat_map(|member| member.shared_positions)
                .flatten()
                .collect();
            let own = members[level]
                .shared_positions
                .into_iter()
                .flatten()
                .filter(|position| !later.contains(position));
            members[level].completed_positions = own
                .map(|position| (position, position % self.limit.len()))
                .collect();
        }
        let mut remaining = vec![RemainingBound::NONE; members.len() + 1];
        for (level, member) in members.iter().enumerate().rev() {
            remaining[level] = remaining[level + 1].adding(member.options);
        }
        ClassSet {
            pipeline_classes: members,
            remaining,
        }
    }

    /// Tries every option of the next member. `false`: the steps are used up.
    fn extend(&mut self, set: &ClassSet, partial: &mut PartialSet, steps: &mut Steps) -> bool {
        let level = partial.chosen.len();
        let member = &set.pipeline_classes[level];
        let remaining = &set.remaining[level + 1];
        let last = level + 1 == set.pipeline_classes.len();
        let needed = (partial.rate - remaining.rate) - 1e-9 * self.rate;
        let from = member.options.partition_point(|option| option.rate < needed);
        let (rate, reduced_cost) = (partial.rate, partial.reduced_cost);
        for (at, option) in member.options.iter().enumerate().skip(from) {
            let excess_rate = (option.rate - rate).max(0.0);
            let room = self.max_reduced_cost - reduced_cost - remaining.min_cost(rate - option.rate);
            if excess_rate * self.options.unit_cost > self.max_reduced_cost - reduced_cost
                || (!last && option.rate >= rate * (1.0 - 1e-9))
            {
                break;
            }
            if !steps.take(1) {
                return false;
            }
            let mut added_cost = option.reduced_cost + excess_rate * self.options.unit_cost;
            if added_cost > room {
                continue;
            }
            for (position, units) in member.shared_positions.iter().zip(option.units) {
                if let Some(position) = position {
                    partial.units[*position] += units;
                }
            }
            added_cost += member
                .completed_positions
                .iter()
                .map(|&(position, class)| self.options.round_up_devices(partial.units[position], class).1)
                .sum::<f64>();
            let mut continues = true;
            if added_cost <= room {
                partial.chosen.push(at);
                partial.reduced_cost = reduced_cost + added_cost;
                partial.rate = rate - option.rate;
                if last {
                    self.record(set, partial);
                } else {
                    continues = self.extend(set, partial, steps);
                }
                partial.chosen.pop();
                (partial.rate, partial.reduced_cost) = (rate, reduced_cost);
            }
            for (position, units) in member.shared_positions.iter().zip(option.units) {
                if let Some(position) = position {
                    partial.units[*position] -= units;
                }
            }
            if !continues {
                return false;
            }
        }
        true
    }

    /// Keeps the chosen bundle unless it is dominated.
    fn record(&mut self, set: &ClassSet, partial: &PartialSet) {
        let classes = self.limit.len();
        let mut devices = vec![0_u32; classes];
        let mut pipelines = Vec::new();
        for (member, &at) in set.pipeline_classes.iter().zip(&partial.chosen) {
            let option = &member.options[at];
            pipelines.push((option.column, option.pools));
            for (at, stage) in self.columns[option.column].stages.iter().enumerate() {
                if member.shared_positions[at].is_none() {
                    devices[stage.class] += (option.units[at] / self.options.units_per_device) as u32;
                }
            }
        }
        for (position, &units) in partial.units.iter().enumerate() {
            devices[position % classes] += units.div_ceil(self.options.units_per_device) as u32;
        }
        if devices.iter().zip(self.limit).any(|(have, limit)| have > limit) {
            return;
        }
        let bundle = DeviceBundle {
            devices,
            reduced_cost: partial.reduced_cost,
            pipelines,
        };
        match self.goal {
            SearchGoal::Cheapest => {
                // From here on, a bundle must be cheaper by more than the rounding error.
                self.max_reduced_cost = bundle.reduced_cost - 1e-9 * self.rate * self.options.unit_cost;
                self.found = vec![bundle];
            }
            SearchGoal::All => {
                let dominates = |a: &DeviceBundle, b: &DeviceBundle| {
                    a.devices.iter().zip(&b.devices).all(|(a, b)| a <= b)
                };
                if !self.found.iter().any(|kept| dominates(kept, &bundle)) {
                    self.found.retain(|kept| !dominates(&bundle, kept));
                    self.found.push(bundle);
                }
            }
        }
    }
}

/// The options chosen for the first members of a set.
struct PartialSet {
    /// Remaining items a second.
    rate: f64,
    reduced_cost: f64,
    /// Units of the devices that several members share, by position.
    units: Vec<u64>,
    /// Index of the chosen option, by level.
    chosen: Vec<usize>,
}

fn min_reduced_cost(options: &[PoolOption]) -> f64 {
    options
        .iter()
        .map(|option| option.reduced_cost)
        .fold(f64::INFINITY, f64::min)
}
