//! Load factors at which 99 % of the items are in time (PPipe 7.2), simulated, beside those published for L4
//! and P4.
//!
//! Each group of three models has one plan. Each model is then served alone on its share of the plan, with
//! Poisson arrivals at a rate of the load factor times the throughput that PPipe's plan gives it.

use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use thiserror::Error;
use weir_planner::PlacementError;
use weir_planner::{PlanError, Problem, Solution, assign_leftover, solve};
use weir_sim::poisson;
use weir_types::{ClusterSpec, ModuleId, Span, Timestamp};

use super::data_plane::{DataPlane, Served, ServedRun};
use super::published::{Cluster, Published, PublishedError, PublishedLoad, PublishedPlan};

/// Error in the computation of a load factor.
#[derive(Debug, Error)]
pub enum LoadFactorError {
    /// A published file cannot be used.
    #[error(transparent)]
    Published(#[from] PublishedError),
    /// No plan can be made.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A plan cannot be placed on the cluster.
    #[error(transparent)]
    LayOut(#[from] PlacementError),
    /// A load factor is published for which there is no published plan.
    #[error(
        "no published plan of \"{algorithm}\" has the model \"{model}\"; the two files do not belong together"
    )]
    NoPlan {
        /// Name of the algorithm.
        algorithm: String,
        /// Name of the model.
        model: String,
    },
}

/// Time for which each run sends items (PPipe 7.1).
pub const SENDING: Span = Span::from_secs(30);

/// Plan for a group of models, placed on a cluster.
#[derive(Debug, Clone)]
pub struct Placed {
    /// Problem that was solved.
    pub problem: Problem,
    /// Plan that solves it.
    pub solution: Solution,
    /// Placement of the plan on devices and links.
    pub cluster: ClusterSpec,
}

impl Placed {
    /// Plans and lays out; model `i` is module `i`.
    ///
    /// # Errors
    /// When there is no plan, or no room for it.
    pub fn new(problem: Problem) -> Result<Self, LoadFactorError> {
        let solution = assign_leftover(&problem, &solve(&problem)?)?;
        let modules: Vec<ModuleId> = (0..).map(ModuleId).take(problem.models.len()).collect();
        let cluster = weir_planner::place(&problem, &solution, &modules)?;
        Ok(Self {
            problem,
            solution,
            cluster,
        })
    }

    /// Serves one model alone at `rate` items per second.
    #[must_use]
    pub fn serve(&self, model: usize, rate: f64, plane: DataPlane, seed: u64) -> ServedRun {
        self.replay(model, &poisson(rate, SENDING, seed), plane, false)
    }

    /// Serves one model alone with these arrivals; with `trace`, all uses of resources are recorded.
    #[must_use]
    pub fn replay(&self, model: usize, arrivals: &[Timestamp], plane: DataPlane, trace: bool) -> ServedRun {
        let served = Served {
            cluster: &self.cluster,
            module: ModuleId(u32::try_from(model).unwrap_or(u32::MAX)),
            plan: &self.solution.models[model],
            slo: self.problem.models[model].slo,
        };
        served.serve(arrivals, plane, trace)
    }

    /// The greatest part of `rate` at which 99 % are in time.
    #[must_use]
    pub fn load_factor(&self, model: usize, rate: f64, plane: DataPlane, seed: u64) -> f64 {
        load_factor(|factor| self.serve(model, rate * factor, plane, seed).miss_rate())
    }
}

/// Largest load factor, from 1.00 down in steps of 0.05, at which at most 1 % of the items miss the SLO; 0 if
/// there is none. `missed(load_factor)` returns the fraction that misses it.
pub fn load_factor(mut missed: impl FnMut(f64) -> f64) -> f64 {
    (1..=20_u32)
        .rev()
        .map(|step| f64::from(step) * 0.05)
        .find(|&factor| missed(factor) <= 0.01)
        .unwrap_or(0.0)
}

/// Load factors of one model under one scheme.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Load factors as published.
    pub published: PublishedLoad,
    /// Throughput of our plan in items per second.
    pub throughput: f64,
    /// Our load factors, by seed.
    pub load_factors: Vec<f64>,
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

impl Case {
    /// Published and ours, over seeds.
    #[must_use]
    pub fn means(&self) -> (f64, f64) {
        (mean(&self.published.load_factors), mean(&self.load_factors))
    }

    /// The greatest distance of one of our seeds from the nearest of theirs.
    #[must_use]
    pub fn off(&self) -> f64 {
        let nearest = |ours: f64| {
            let distances = self
                .published
                .load_factors
                .iter()
                .map(|theirs| (ours - theirs).abs());
            distances.fold(f64::INFINITY, f64::min)
        };
        self.load_factors
            .iter()
            .map(|ours| nearest(*ours))
            .fold(0.0, f64::max)
    }
}

/// Simulates every published case with these seeds, on `threads` threads.
///
/// # Errors
/// When something cannot be read, planned or laid out.
pub fn compare(
    published: &Published,
    plane: DataPlane,
    seeds: &[u64],
    threads: usize,
) -> Result<Vec<Case>, LoadFactorError> {
    let loads = published.loads()?;
    let plans = published.plans()?;
    let placed = parallel_map(&plans, threads, |plan| place(published, plan));
    let placed: Vec<Placed> = placed.into_iter().collect::<Result<_, _>>()?;
    let cases = parallel_map(&loads, threads, |load| {
        let of_it =
            |plan: &PublishedPlan| plan.algorithm == load.algorithm && plan.models.contains(&load.model);
        let found = plans.iter().position(of_it).and_then(|at| {
            let model = plans[at].models.iter().position(|model| *model == load.model)?;
            Some((&placed[at], model))
        });
        let (placed, model) = found.ok_or_else(|| LoadFactorError::NoPlan {
            algorithm: load.algorithm.clone(),
            model: load.model.clone(),
        })?;
        let factor = |&seed: &u64| placed.load_factor(model, load.rate, plane, seed);
        Ok(Case {
            published: load.clone(),
            throughput: placed.solution.models[model].throughput,
            load_factors: seeds.iter().map(factor).collect(),
        })
    });
    cases.into_iter().collect()
}

fn place(published: &Published, plan: &PublishedPlan) -> Result<Placed, LoadFactorError> {
    let scheme = plan.scheme().ok_or_else(|| LoadFactorError::NoPlan {
        algorithm: plan.algorithm.clone(),
        model: plan.models.join(", "),
    })?;
    let classes = Cluster::ALL[0].classes(25, 75);
    Placed::new(published.problem(&plan.models, &plan.weights, classes, scheme)?)
}

/// Applies `work` to every item on `threads` threads; results are in the order of the items.
pub fn parallel_map<T: Sync, R: Send>(items: &[T], threads: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::with_capacity(items.len()));
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while let Some((at, item)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    items.get(at).map(|item| (at, item))
                } {
                    let result = work(item);
                    // A thread that panicked has not left the list half written.
                    done.lock()
                        .unwrap_or_else(|poisoned| poisoned.into_inner())
                        .push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Text table of our load factors beside the published ones: a line for each case, then the means by scheme.
#[must_use]
pub fn table(cases: &[Case]) -> String {
    let mut text = String::new();
    let list = |values: &[f64]| {
        values
            .iter()
            .map(|value| format!("{value:.2}"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    for case in cases {
        let Case {
            published,
            throughput,
            load_factors,
        } = case;
        // Writing to a string cannot fail.
        _ = writeln!(
            text,
            "{:60} {:7} {:5} of {:5}/s  published {}  ours {}  off {:.2}",
            published.model,
            published.algorithm,
            throughput.round(),
            published.rate,
            list(&published.load_factors),
            list(load_factors),
            case.off(),
        );
    }
    for algorithm in ["v4", "bl", "dart-r"] {
        let of_it = || cases.iter().filter(|case| case.published.algorithm == algorithm);
        let theirs: Vec<f64> = of_it().map(|case| case.means().0).collect();
        let ours: Vec<f64> = of_it().map(|case| case.means().1).collect();
        let (theirs, ours) = (mean(&theirs), mean(&ours));
        _ = writeln!(
            text,
            "mean {algorithm:7} published {theirs:.4}  ours {ours:.4}  {:+.4}",
            ours - theirs
        );
    }
    let most = cases.iter().map(Case::off).fold(0.0, f64::max);
    _ = writeln!(text, "farthest off in one case: {most:.2}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_factor_is_the_greatest_that_misses_at_most_a_hundredth() {
        let check = |most: f64, expected: f64| {
            let found = load_factor(|factor| if factor > most + 1e-9 { 0.011 } else { 0.01 });
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        };
        check(1.0, 1.0);
        check(0.66, 0.65);
        check(0.05, 0.05);
        check(0.0, 0.0);
    }
}
