//! The greatest least throughput over weight with whole pools, between what is known to be possible and what is not.
//!
//! For a throughput there is so much that a plan may waste (see [`crate::duals`]). Every model wastes its least at any
//! rate; what is then left of the allowance limits what each model may waste beyond that, and few holdings are left to
//! combine. If none fit the cluster, the throughput is out of reach; if some do, they are a plan.

use crate::column::Column;
use crate::device_bundle::{DeviceBundle, Search, Sought, Steps};
use crate::duals::Duals;
use crate::error::PlanError;
use crate::pool_options::{PoolOptions, STAGES_MAX, Wanted};
use crate::pools::{ModelPools, Pools};
use crate::problem::Problem;

/// Steps of all searches for one plan together, and of one of them: counts, so that they end the same everywhere.
const STEPS_MAX: u64 = 300_000_000;
const STEPS_MAX_ONCE: u64 = 60_000_000;
/// Steps of a search for what one model wastes least.
const STEPS_MAX_LEAST: u64 = 1_000_000;
/// So often prices are improved.
const ROUNDS_MAX: usize = 10;
/// The most choices of one model.
const CHOICES_MAX: usize = 400_000;

/// What is known of the greatest least throughput over weight.
pub(super) struct Range {
    /// The best pools so far.
    pub(super) least: Option<Pools>,
    /// What no plan can beat.
    pub(super) bound: f64,
}

/// What a search for a throughput came to.
enum Verdict {
    Reached(Pools),
    OutOfReach,
    Unknown,
}

/// Narrows the range until it is within the problem's gap or the steps are used up.
pub(super) fn narrow(
    problem: &Problem,
    columns: &[Vec<Column>],
    mut range: Range,
) -> Result<Range, PlanError> {
    let limit: Vec<u32> = problem.classes.iter().map(|class| class.count).collect();
    let mut duals = Duals::of(problem, columns)?;
    range.bound = range.bound.min(duals.worth);
    let mut steps = Steps { left: STEPS_MAX };
    // Above this there is nothing, or nothing that can be found.
    let mut ceiling = range.bound;
    let mut unknown = false;
    let mut stride = 0.005;
    // Less than the solver's tolerance cannot be told apart.
    let gap = problem.gap.max(2e-6);
    while steps.left > 0 {
        let reached = range.least.as_ref().map_or(0.0, |pools| pools.objective(problem));
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
            left: steps.left.min(STEPS_MAX_ONCE),
        };
        let given = once.left;
        let verdict = attempt.reach(&mut duals, &mut once);
        steps.left -= given - once.left;
        match verdict {
            Verdict::Reached(pools) => range.least = Some(pools),
            Verdict::OutOfReach => {
                ceiling = target;
                if !unknown {
                    range.bound = target;
                }
            }
            Verdict::Unknown => {
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

/// A search for a least throughput over weight.
struct Attempt<'a> {
    problem: &'a Problem,
    columns: &'a [Vec<Column>],
    target: f64,
    limit: &'a [u32],
}

/// What every model wastes at least at some prices.
struct Floor {
    duals: Duals,
    menus: Vec<PoolOptions>,
    least: Vec<DeviceBundle>,
    /// What may be wasted beyond that.
    spare: f64,
    /// Nothing wastes less.
    proved: bool,
}

impl Attempt<'_> {
    /// Pools that reach the target. The prices become better ones.
    fn reach(&self, duals: &mut Duals, steps: &mut Steps) -> Verdict {
        let floor = match self.best_floor(duals, steps) {
            Ok(floor) => floor,
            Err(verdict) => return verdict,
        };
        *duals = floor.duals.clone();
        // Mostly holdings that waste a little more than the least fit together; all of them have to be tried only to prove
        // that none do.
        let mut complete = false;
        for part in [0.02, 0.1, 0.3, 1.0] {
            let mut holdings = Vec::new();
            complete = floor.proved;
            for model in 0..self.columns.len() {
                let waste_max = floor.least[model].reduced_cost + floor.spare * part;
                let share = steps.left / (self.columns.len() - model) as u64;
                let mut own = Steps { left: share };
                let (found, all) = self
                    .search(&floor.menus[model], model, Sought::All, waste_max)
                    .run(&mut own);
                steps.left -= share - own.left;
                complete &= all;
                holdings.push(found);
            }
            let mut fit = Fit {
                holdings: &holdings,
                least: &floor.least,
                chosen: Vec::new(),
            };
            match fit.choose(&mut self.limit.to_vec(), floor.spare, steps) {
                Some(true) => return Verdict::Reached(pools(self.columns, &holdings, &fit.chosen)),
                Some(false) => {}
                None => return Verdict::Unknown,
            }
        }
        if complete {
            Verdict::OutOfReach
        } else {
            Verdict::Unknown
        }
    }

    fn search<'b>(
        &'b self,
        options: &'b PoolOptions,
        model: usize,
        sought: Sought,
        waste_max: f64,
    ) -> Search<'b> {
        let rate = self.target * self.problem.models[model].weight;
        Search::new(options, &self.columns[model], rate, self.limit, sought, waste_max)
    }

    /// The floor at the prices that leave least to spare: prices are improved by cutting planes, since every holding says
    /// what its model wastes at most at any prices.
    fn best_floor(&self, start: &Duals, steps: &mut Steps) -> Result<Floor, Verdict> {
        let mut seen: Vec<Vec<Vec<u32>>> = vec![Vec::new(); self.columns.len()];
        let mut duals = start.clone();
        let mut best: Option<Floor> = None;
        for _ in 0..ROUNDS_MAX {
            let floor = match self.floor(duals, steps) {
                Ok(floor) => floor,
                Err(Verdict::Unknown) if best.is_some() => break,
                Err(verdict) => return Err(verdict),
            };
            for (seen, least) in seen.iter_mut().zip(&floor.least) {
                seen.push(least.devices.clone());
            }
            let spare = floor.spare / floor.duals.worth;
            if best
                .as_ref()
                .is_none_or(|best| spare < best.spare / best.duals.worth)
            {
                best = Some(floor);
            }
            let Some(found) = best.as_ref() else { break };
            let Some((device, hoped)) = Duals::against(self.problem, &seen) else {
                break;
            };
            // Other prices leave no less to spare.
            if hoped > found.spare / found.duals.worth - 1e-4 {
                break;
            }
            // Half way there: what has been seen says little of prices that are far off.
            let between = |(new, old): (&f64, &f64)| (new + old / found.duals.worth) / 2.0;
            let device: Vec<f64> = device.iter().zip(&found.duals.device).map(between).collect();
            let Some(next) = Duals::at(self.problem, self.columns, &device) else {
                break;
            };
            duals = next;
        }
        best.ok_or(Verdict::Unknown)
    }

    fn floor(&self, duals: Duals, steps: &mut Steps) -> Result<Floor, Verdict> {
        // A plan that uses the whole cluster wastes exactly the allowance, but for rounding.
        let mut spare = duals.worth * (1.0 + 1e-9) - self.target;
        if spare < 0.0 {
            return Err(Verdict::OutOfReach);
        }
        let (mut menus, mut least, mut proved) = (Vec::new(), Vec::new(), true);
        for (model, columns) in self.columns.iter().enumerate() {
            let rate = self.target * self.problem.models[model].weight;
            let allowance = duals.worth * (1.0 + 1e-9) - self.target;
            let wanted = Wanted {
                duals: &duals,
                model,
                rate,
                waste_max: allowance,
                choices_max: CHOICES_MAX,
            };
            let options = PoolOptions::new(columns, &wanted).ok_or(Verdict::Unknown)?;
            let share = STEPS_MAX_LEAST.min(steps.left);
            let mut own = Steps { left: share };
            let (found, all) = self.search(&options, model, Sought::Least, spare).run(&mut own);
            steps.left -= share - own.left;
            proved &= all;
            let Some(found) = found.into_iter().next() else {
                return Err(if proved {
                    Verdict::OutOfReach
                } else {
                    Verdict::Unknown
                });
            };
            spare -= found.reduced_cost;
            least.push(found);
            menus.push(options);
        }
        Ok(Floor {
            duals,
            menus,
            least,
            spare,
            proved,
        })
    }
}

/// The search for a holding of every model that fit the cluster together.
struct Fit<'a> {
    holdings: &'a [Vec<DeviceBundle>],
    /// By model, what it wastes at least.
    least: &'a [DeviceBundle],
    /// By model, the index of its holding.
    chosen: Vec<usize>,
}

impl Fit<'_> {
    /// Whether the next models' holdings fit in what is left. `None`: the steps were used up.
    fn choose(&mut self, left: &mut [u32], spare: f64, steps: &mut Steps) -> Option<bool> {
        let model = self.chosen.len();
        let Some(holdings) = self.holdings.get(model) else {
            return Some(true);
        };
        for (at, bundle) in holdings.iter().enumerate() {
            let more = bundle.reduced_cost - self.least[model].reduced_cost;
            if more > spare + 1e-9 {
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
            let found = self.choose(left, spare - more, steps);
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

fn pools(columns: &[Vec<Column>], holdings: &[Vec<DeviceBundle>], chosen: &[usize]) -> Pools {
    let model = |((columns, holdings), &at): ((&Vec<Column>, &Vec<DeviceBundle>), &usize)| {
        let pipeline = |(column, pools): &(usize, [u32; STAGES_MAX])| {
            let column = columns[*column].clone();
            let pools = pools[..column.legs.len()].to_vec();
            (column, pools)
        };
        ModelPools::grown(holdings[at].pipelines.iter().map(pipeline).collect())
    };
    Pools(columns.iter().zip(holdings).zip(chosen).map(model).collect())
}
