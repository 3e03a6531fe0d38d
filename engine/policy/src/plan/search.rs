//! The greatest least throughput over weight with whole pools, between what is known to be possible and what is not.
//!
//! For a throughput there is so much that a plan may waste (see [`super::price`]). Every model wastes its least at any
//! rate; what is then left of the allowance limits what each model may waste beyond that, and few holdings are left to
//! combine. If none fit the cluster, the throughput is out of reach; if some do, they are a plan.

use super::column::Column;
use super::error::PlanError;
use super::holding::{Holding, Search, Sought, Steps};
use super::menu::{Menu, Wanted};
use super::pools::{ModelPools, Pools};
use super::price::Prices;
use super::problem::Problem;

/// Steps of all searches for one plan together, and of one of them: counts, so that they end the same everywhere.
const STEPS_MAX: u64 = 200_000_000;
const STEPS_MAX_ONCE: u64 = 40_000_000;
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
pub(super) fn narrow(problem: &Problem, columns: &[Vec<Column>], mut range: Range) -> Result<Range, PlanError> {
    let prices = Prices::of(problem, columns)?;
    range.bound = range.bound.min(prices.worth);
    let mut steps = Steps { left: STEPS_MAX };
    // Above this there is nothing, or nothing that can be found.
    let mut ceiling = range.bound;
    let mut unknown = false;
    let mut stride = 0.005;
    while steps.left > 0 {
        let reached = range.least.as_ref().map_or(0.0, |pools| pools.objective(problem));
        if ceiling <= reached * (1.0 + problem.gap) {
            break;
        }
        let target = if reached > 0.0 {
            (ceiling - (ceiling - reached) / 3.0).max(reached * (1.0 + problem.gap * 0.9))
        } else {
            stride *= 2.0;
            ceiling * (1.0 - stride)
        };
        let target = target.min(ceiling);
        let before = steps.left;
        let mut once = Steps { left: steps.left.min(STEPS_MAX_ONCE) };
        let given = once.left;
        let verdict = reach(problem, columns, &prices, target, &mut once);
        steps.left -= given - once.left;
        let _ = before;
        if std::env::var_os("WEIR_TRACE").is_some() {
            let v = match &verdict { Verdict::Reached(p) => format!("reached {}", p.objective(problem)), Verdict::OutOfReach => "out".into(), Verdict::Unknown => "unknown".into() };
            eprintln!("  target {target:.4} of [{reached:.4}, {ceiling:.4}] worth {:.4}: {v}, steps {}", prices.worth, given - once.left);
        }
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

/// Pools that reach a least throughput over weight.
fn reach(problem: &Problem, columns: &[Vec<Column>], prices: &Prices, target: f64, steps: &mut Steps) -> Verdict {
    // A plan that uses the whole cluster wastes exactly the allowance, but for rounding.
    let allowance = prices.worth - target + prices.worth * 1e-9;
    if allowance < 0.0 {
        return Verdict::OutOfReach;
    }
    let limit: Vec<u32> = problem.classes.iter().map(|class| class.count).collect();
    let mut menus = Vec::new();
    let (mut least, mut complete) = (Vec::new(), true);
    for (model, columns) in columns.iter().enumerate() {
        let rate = target * problem.models[model].weight;
        let wanted = Wanted { prices, model, rate, waste_max: allowance, choices_max: CHOICES_MAX };
        let Some(menu) = Menu::new(columns, &wanted) else { return Verdict::Unknown };
        let search = Search::new(&menu, columns, rate, &limit, Sought::Least, allowance - least.iter().sum::<f64>());
        let (found, all) = search.run(steps);
        complete &= all;
        match found.first() {
            Some(found) => least.push(if all { found.waste } else { 0.0 }),
            None if complete => return Verdict::OutOfReach,
            None => return Verdict::Unknown,
        }
        menus.push(menu);
    }
    let spare = allowance - least.iter().sum::<f64>();
    let mut holdings = Vec::new();
    for (model, columns) in columns.iter().enumerate() {
        let rate = target * problem.models[model].weight;
        let search = Search::new(&menus[model], columns, rate, &limit, Sought::All, least[model] + spare);
        let (found, all) = search.run(steps);
        if std::env::var_os("WEIR_TRACE").is_some() {
            eprintln!("    model {model}: least waste {:.4}, spare {spare:.4}, holdings {}, columns {}, left {} {all}", least[model], found.len(), columns.len(), steps.left);
        }
        complete &= all;
        holdings.push(found);
    }
    let mut fit = Fit { holdings: &holdings, least: &least, chosen: Vec::new() };
    let all = fit.choose(&mut limit.clone(), spare, steps);
    match all {
        Some(true) => Verdict::Reached(pools(columns, &holdings, &fit.chosen)),
        Some(false) if complete => Verdict::OutOfReach,
        _ => Verdict::Unknown,
    }
}

/// The search for a holding of every model that fit the cluster together.
struct Fit<'a> {
    holdings: &'a [Vec<Holding>],
    /// By model, what it wastes at least.
    least: &'a [f64],
    /// By model, the index of its holding.
    chosen: Vec<usize>,
}

impl Fit<'_> {
    /// Whether the next models' holdings fit in what is left. `None`: the steps were used up.
    fn choose(&mut self, left: &mut [u32], spare: f64, steps: &mut Steps) -> Option<bool> {
        let model = self.chosen.len();
        let Some(holdings) = self.holdings.get(model) else { return Some(true) };
        for (at, holding) in holdings.iter().enumerate() {
            let more = holding.waste - self.least[model];
            if more > spare + 1e-9 {
                break;
            }
            if !steps.take(1) {
                return None;
            }
            if holding.devices.iter().zip(&*left).any(|(have, left)| have > left) {
                continue;
            }
            left.iter_mut().zip(&holding.devices).for_each(|(left, have)| *left -= have);
            self.chosen.push(at);
            let found = self.choose(left, spare - more, steps);
            if found != Some(false) {
                return found;
            }
            self.chosen.pop();
            left.iter_mut().zip(&holding.devices).for_each(|(left, have)| *left += have);
        }
        Some(false)
    }
}

fn pools(columns: &[Vec<Column>], holdings: &[Vec<Holding>], chosen: &[usize]) -> Pools {
    let model = |((columns, holdings), &at): ((&Vec<Column>, &Vec<Holding>), &usize)| {
        let pipeline = |(column, pools): &(usize, [u32; 3])| {
            let column = columns[*column].clone();
            let pools = pools[..column.legs.len()].to_vec();
            (column, pools)
        };
        ModelPools::grown(holdings[at].pipelines.iter().map(pipeline).collect())
    };
    Pools(columns.iter().zip(holdings).zip(chosen).map(model).collect())
}
