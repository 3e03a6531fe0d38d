//! Bisection on the least throughput over weight with integral pools, between the best plan found and the proved bound.
//!
//! At a target throughput the total reduced cost of a plan is bounded (see [`crate::duals`]). Each model has a least reduced
//! cost; the remaining slack bounds the reduced cost of each model beyond it, so that few bundles are left to combine. If
//! no combination fits the cluster, the target is infeasible; otherwise the combination is a plan.

use crate::column::Column;
use crate::device_bundle::{DeviceBundle, Search, SearchGoal, Steps};
use crate::duals::Duals;
use crate::error::PlanError;
use crate::pool_options::{MAX_STAGES, OptionRequirement, PoolOptions};
use crate::pools::{ModelPools, Pools};
use crate::problem::Problem;

/// Steps of all searches for one plan, and of one target: counted rather than timed, so that results are the same on every
/// machine.
const MAX_STEPS: u64 = 300_000_000;
const MAX_STEPS_PER_ATTEMPT: u64 = 60_000_000;
/// Steps of a search for the cheapest bundle of one model.
const MAX_STEPS_CHEAPEST: u64 = 1_000_000;
/// Rounds of cutting planes by which prices are improved.
const MAX_ROUNDS: usize = 10;
/// Pool options of one model at most.
const MAX_OPTIONS: usize = 400_000;

/// The best pools and the bound.
pub(super) struct Range {
    /// Best pools found so far.
    pub(super) best: Option<Pools>,
    /// Upper bound of the objective.
    pub(super) bound: f64,
}

/// Result of the search at one target.
enum AttemptResult {
    Found(Pools),
    Infeasible,
    Unknown,
}

/// Narrows the range until it is within the gap of the problem or the steps are used up.
pub(super) fn narrow(
    problem: &Problem,
    columns: &[Vec<Column>],
    mut range: Range,
) -> Result<Range, PlanError> {
    let limit: Vec<u32> = problem.classes.iter().map(|class| class.count).collect();
    let mut duals = Duals::solve(problem, columns)?;
    range.bound = range.bound.min(duals.cluster_price);
    let mut steps = Steps { remaining: MAX_STEPS };
    // Either no plan above this is possible, or none was found.
    let mut ceiling = range.bound;
    let mut unknown = false;
    let mut stride = 0.005;
    // Values within the solver's tolerance are equal.
    let gap = problem.gap.max(2e-6);
    while steps.remaining > 0 {
        let reached = range.best.as_ref().map_or(0.0, |pools| pools.objective(problem));
        if ceiling <= reached * (1.0 + gap) {
            break;
        }
        let target = if reached > 0.0 {
            (ceiling - (ceiling - reached) / 3.0).max(reached * (1.0 + gap * 0.9))
        } else {
            stride *= 2.0;
            ceiling * (1.0 - stride)
        };
        let target = target.min(ceiling);
        let attempt = Attempt {
            problem,
            columns,
            target,
            limit: &limit,
        };
        let mut once = Steps {
            remaining: steps.remaining.min(MAX_STEPS_PER_ATTEMPT),
        };
        let given = once.remaining;
        let result = attempt.find_pools(&mut duals, &mut once);
        steps.remaining -= given - once.remaining;
        match result {
            AttemptResult::Found(pools) => range.best = Some(pools),
            AttemptResult::Infeasible => {
                ceiling = target;
                if !unknown {
                    range.bound = target;
                }
            }
            AttemptResult::Unknown => {
                ceiling = target;
                unknown = true;
            }
        }
        if target <= 0.0 {
            break;
        }
    }
    Ok(range)
}

/// A search at one target of the least throughput over weight.
struct Attempt<'a> {
    problem: &'a Problem,
    columns: &'a [Vec<Column>],
    target: f64,
    limit: &'a [u32],
}

/// Least reduced costs of all models at some prices.
struct CostFloor {
    duals: Duals,
    options_by_model: Vec<PoolOptions>,
    cheapest: Vec<DeviceBundle>,
    /// Total reduced cost that remains beyond them.
    slack: f64,
    /// True if the searches were complete, so that no bundle is cheaper.
    is_proved: bool,
}

impl Attempt<'_> {
    /// Pools that reach the target. `duals` are replaced by the improved prices.
    fn find_pools(&self, duals: &mut Duals, steps: &mut Steps) -> AttemptResult {
        let floor = match self.best_floor(duals, steps) {
            Ok(floor) => floor,
            Err(result) => return result,
        };
        *duals = floor.duals.clone();
        // Bundles of slightly more than the least cost mostly combine to a plan; all are needed only to prove that none do.
        let mut complete = false;
        for fraction in [0.02, 0.1, 0.3, 1.0] {
            let mut bundles = Vec::new();
            complete = floor.is_proved;
            for model in 0..self.columns.len() {
                let max_reduced_cost = floor.cheapest[model].reduced_cost + floor.slack * fraction;
                let share = steps.remaining / (self.columns.len() - model) as u64;
                let mut own = Steps { remaining: share };
                let (found, all) = self
                    .search(
                        &floor.options_by_model[model],
                        model,
                        SearchGoal::All,
                        max_reduced_cost,
                    )
                    .run(&mut own);
                steps.remaining -= share - own.remaining;
                complete &= all;
                bundles.push(found);
            }
            let mut combination = Combination {
                bundles: &bundles,
                cheapest: &floor.cheapest,
                chosen: Vec::new(),
            };
            match combination.choose(&mut self.limit.to_vec(), floor.slack, steps) {
                Some(true) => {
                    return AttemptResult::Found(pools(self.columns, &bundles, &combination.chosen));
                }
                Some(false) => {}
                None => return AttemptResult::Unknown,
            }
        }
        if complete {
            AttemptResult::Infeasible
        } else {
            AttemptResult::Unknown
        }
    }

    fn search<'b>(
        &'b self,
        options: &'b PoolOptions,
        model: usize,
        goal: SearchGoal,
        max_reduced_cost: f64,
    ) -> Search<'b> {
        let rate = self.target * self.problem.models[model].weight;
        Search::new(
            options,
            &self.columns[model],
            rate,
            self.limit,
            goal,
            max_reduced_cost,
        )
    }

    /// The floor at the prices of least slack. Prices are improved by cutting planes: each known bundle bounds the least
    /// reduced cost of its model at any prices.
    fn best_floor(&self, start: &Duals, steps: &mut Steps) -> Result<CostFloor, AttemptResult> {
        let mut seen: Vec<Vec<Vec<u32>>> = vec![Vec::new(); self.columns.len()];
        let mut duals = start.clone();
        let mut best: Option<CostFloor> = None;
        for _ in 0..MAX_ROUNDS {
            let floor = match self.floor(duals, steps) {
                Ok(floor) => floor,
                Err(AttemptResult::Unknown) if best.is_some() => break,
                Err(result) => return Err(result),
            };
            for (seen, cheapest) in seen.iter_mut().zip(&floor.cheapest) {
                seen.push(cheapest.devices.clone());
            }
            let slack = floor.slack / floor.duals.cluster_price;
            if best
                .as_ref()
                .is_none_or(|best| slack < best.slack / best.duals.cluster_price)
            {
                best = Some(floor);
            }
            let Some(found) = best.as_ref() else { break };
            let Some((device, expected_slack)) = Duals::cutting_plane_prices(self.problem, &seen) else {
                break;
            };
            // Other prices give no less slack.
            if expected_slack > found.slack / found.duals.cluster_price - 1e-4 {
                break;
            }
            // Half a step: known bundles say little about distant prices.
            let between = |(new, old): (&f64, &f64)| (new + old / found.duals.cluster_price) / 2.0;
            let device: Vec<f64> = device
                .iter()
                .zip(&found.duals.device_prices)
                .map(between)
                .collect();
            let Some(next) = Duals::from_prices(self.problem, self.columns, &device) else {
                break;
            };
            duals = next;
        }
        best.ok_or(AttemptResult::Unknown)
    }

    fn floor(&self, duals: Duals, steps: &mut Steps) -> Result<CostFloor, AttemptResult> {
        // The reduced cost of a plan on the whole cluster equals the allowance up to rounding.
        let mut slack = duals.cluster_price * (1.0 + 1e-9) - self.target;
        if slack < 0.0 {
            return Err(AttemptResult::Infeasible);
        }
        let (mut options_by_model, mut cheapest, mut is_proved) = (Vec::new(), Vec::new(), true);
        for (model, columns) in self.columns.iter().enumerate() {
            let rate = self.target * self.problem.models[model].weight;
            let allowance = duals.cluster_price * (1.0 + 1e-9) - self.target;
            let requirement = OptionRequirement {
                duals: &duals,
                model,
                rate,
                max_reduced_cost: allowance,
                max_options: MAX_OPTIONS,
            };
            let options = PoolOptions::new(columns, &requirement).ok_or(AttemptResult::Unknown)?;
            let share = MAX_STEPS_CHEAPEST.min(steps.remaining);
            let mut own = Steps { remaining: share };
            let (found, all) = self
                .search(&options, model, SearchGoal::Cheapest, slack)
                .run(&mut own);
            steps.remaining -= share - own.remaining;
            is_proved &= all;
            let Some(found) = found.into_iter().next() else {
                return Err(if is_proved {
                    AttemptResult::Infeasible
                } else {
                    AttemptResult::Unknown
                });
            };
            slack -= found.reduced_cost;
            cheapest.push(found);
            options_by_model.push(options);
        }
        Ok(CostFloor {
            duals,
            options_by_model,
            cheapest,
            slack,
            is_proved,
        })
    }
}

/// Search for one bundle of each model that fit the cluster together.
struct Combination<'a> {
    bundles: &'a [Vec<DeviceBundle>],
    /// Cheapest bundle by model.
    cheapest: &'a [DeviceBundle],
    /// Index of the chosen bundle, by model.
    chosen: Vec<usize>,
}

impl Combination<'_> {
    /// Whether bundles of the next models fit the remaining devices. `None`: the steps are used up.
    fn choose(&mut self, left: &mut [u32], slack: f64, steps: &mut Steps) -> Option<bool> {
        let model = self.chosen.len();
        let Some(bundles) = self.bundles.get(model) else {
            return Some(true);
        };
        for (at, bundle) in bundles.iter().enumerate() {
            let more = bundle.reduced_cost - self.cheapest[model].reduced_cost;
            if more > slack + 1e-9 {
                break;
            }
            if !steps.take(1) {
                return None;
            }
            if bundle.devices.iter().zip(&*left).any(|(have, left)| have > left) {
                continue;
            }
            left.iter_mut()
                .zip(&bundle.devices)
                .for_each(|(left, have)| *left -= have);
            self.chosen.push(at);
            let found = self.choose(left, slack - more, steps);
            if found != Some(false) {
                return found;
            }
            self.chosen.pop();
            left.iter_mut()
                .zip(&bundle.devices)
                .for_each(|(left, have)| *left += have);
        }
        Some(false)
    }
}

fn pools(columns: &[Vec<Column>], bundles: &[Vec<DeviceBundle>], chosen: &[usize]) -> Pools {
    let model = |((columns, bundles), &at): ((&Vec<Column>, &Vec<DeviceBundle>), &usize)| {
        let pipeline = |(column, pools): &(usize, [u32; MAX_STAGES])| {
            let column = columns[*column].clone();
            let pools = pools[..column.stages.len()].to_vec();
            (column, pools)
        };
        ModelPools::with_grown_pools(bundles[at].pipelines.iter().map(pipeline).collect())
    };
    Pools(columns.iter().zip(bundles).zip(chosen).map(model).collect())
}
