//! The least that a request costs several modules together: long batches are cheap an item, and the SLO is spent once.
//!
//! Of a request that is delivered in time, let `D_i` be how long it is in module `i`. No batch with its items was longer,
//! so that its items cost at least `share_i(D_i)` each; and along every path the `D_i` and the hops sum to at most the SLO.
//! The least weighted cost under these constraints is bounded from below by its Lagrangian dual, which holds for any
//! multipliers that are not negative; good ones are searched for, and the rest is rounding in favour of the bound.

use super::cost::Costs;

/// Paths beyond these are not looked at, which only loosens the bound.
const MAX_PATHS: usize = 16;

/// Bisection steps in the search for one multiplier; each halves its interval.
const STEPS: usize = 32;

/// Passes over all multipliers, if there are several.
const ROUNDS: usize = 3;

/// A module that the request visits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Visit<'a> {
    pub(super) module: usize,
    /// Weight times items; zero for a module that costs the request only time.
    pub(super) weight: f64,
    /// Least time that the request spends in it, in microseconds.
    pub(super) least: u64,
    pub(super) costs: &'a Costs,
}

/// Modules that follow each other, and what time they have together, in microseconds.
#[derive(Debug, Clone)]
pub(super) struct Path {
    pub(super) modules: Vec<usize>,
    pub(super) room: u64,
}

/// The least weighted slot time, in parts of a microsecond, that a request needs in these modules in all.
pub(super) fn min_work(visits: &[Visit<'_>], paths: &[Path]) -> u128 {
    let paths = &paths[..paths.len().min(MAX_PATHS)];
    // Multipliers are in parts of slot time a microsecond: no more than the dearest item over the least time matters.
    let steepest: f64 = visits
        .iter()
        .map(|visit| visit.weight * visit.costs.max_item_cost() as f64 / visit.least.max(1) as f64)
        .sum();
    let mut prices = vec![0.0; paths.len()];
    let mut best = dual(visits, paths, &prices, 0).0;
    for _ in 0..if paths.len() > 1 { ROUNDS } else { 1 } {
        for path in 0..paths.len() {
            best = best.max(maximize_price(visits, paths, &mut prices, path, steepest));
        }
    }
    // A double holds what is counted here to one part in 10^15.
    (best * (1.0 - 1e-9)).max(0.0) as u128
}

/// Finds the best multiplier of one path (the dual is concave), leaves it in place and gives the value.
fn maximize_price(visits: &[Visit<'_>], paths: &[Path], prices: &mut [f64], path: usize, most: f64) -> f64 {
    let (mut low, mut high) = (0.0, most);
    for _ in 0..STEPS {
        prices[path] = f64::midpoint(low, high);
        let (_, slope) = dual(visits, paths, prices, path);
        *(if slope > 0.0 { &mut low } else { &mut high }) = prices[path];
    }
    prices[path] = low;
    dual(visits, paths, prices, path).0
}

/// The dual at these prices of time, and how it rises with the price of one path: by the time that is spent beyond what
/// there is.
fn dual(visits: &[Visit<'_>], paths: &[Path], prices: &[f64], rising: usize) -> (f64, f64) {
    let (mut sum, mut slope) = (0.0, 0.0);
    for visit in visits {
        let on = paths
            .iter()
            .zip(prices)
            .filter(|(path, _)| path.modules.contains(&visit.module));
        let price: f64 = on.map(|(_, price)| price).sum();
        let (least, time) = visit.costs.min_weighted(visit.weight, price, visit.least);
        sum += least;
        if paths
            .get(rising)
            .is_some_and(|path| path.modules.contains(&visit.module))
        {
            slope += time as f64;
        }
    }
    let spent = paths
        .iter()
        .zip(prices)
        .map(|(path, price)| price * path.room as f64);
    let room = paths.get(rising).map_or(0, |path| path.room);
    (sum - spent.sum::<f64>(), slope - room as f64)
}
