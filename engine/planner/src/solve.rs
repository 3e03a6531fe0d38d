//! Solves a problem: feasible columns, the program over them, and integral pools from its flows.

use weir_types::Span;

use crate::check::check;
use crate::column::{Column, ColumnStage, Limit, columns, least_latency, undominated};
use crate::error::PlanError;
use crate::mip::Mip;
use crate::pools::{ModelPools, Pools, throughput};
use crate::problem::{Objective, Problem, Scheme};
use crate::search::{self, Range};
use crate::solution::{ModelPlan, PipelinePlan, Solution, StagePlan};

/// Solves a problem: maximises the least throughput over weight, or minimises the cost at a rate.
///
/// Deterministic: the search stops by gap or by a count of nodes or steps, never by a clock.
///
/// # Errors
/// If a number is out of its range, a profile is incomplete, there are too few devices, or no pipeline of a model meets
/// its SLO.
pub fn solve(problem: &Problem) -> Result<Solution, PlanError> {
    check(problem)?;
    let estimate = estimate(problem)?;
    let columns = feasible_columns(problem, problem.scheme, estimate.as_deref())?;
    let allotment = match problem.scheme {
        Scheme::DartR => allotment(problem, estimate.as_deref())?,
        Scheme::Pooled { .. } | Scheme::Np => None,
    };
    let best =
        find_pools(problem, &columns, allotment.as_deref())?.ok_or_else(|| too_small_error(problem))?;
    if problem.objective == Objective::Throughput
        && best.pools.0.iter().any(|model| model.pipelines.is_empty())
    {
        return Err(too_small_error(problem));
    }
    Ok(best.solution(problem))
}

/// Items a second of each model, by which gathering a batch is charged: the rates of the plan without partitions and
/// without the charge, or the required rates. `None` if nothing is charged.
fn estimate(problem: &Problem) -> Result<Option<Vec<f64>>, PlanError> {
    if problem.building == 0.0 {
        return Ok(None);
    }
    let by_weight = |rate: f64| Some(problem.models.iter().map(|model| rate * model.weight).collect());
    if let Objective::Cost { rate } = problem.objective {
        return Ok(by_weight(rate));
    }
    for scheme in [Scheme::Np, problem.scheme] {
        // If a model is feasible only when partitioned, the plan with partitions is used.
        let Ok(columns) = feasible_columns(problem, scheme, None) else {
            continue;
        };
        if let Some(best) = find_pools(problem, &columns, None)? {
            let objective = best.pools.objective(problem);
            if objective > 0.0 {
                return Ok(by_weight(objective));
            }
        }
    }
    Ok(None)
}

/// Devices by model and class in the plan without partitions: DART-r chains these with idle ones. `None` if there is no such
/// plan.
fn allotment(problem: &Problem, estimate: Option<&[f64]>) -> Result<Option<Vec<Vec<u32>>>, PlanError> {
    let Ok(columns) = feasible_columns(problem, Scheme::Np, estimate) else {
        return Ok(None);
    };
    let classes = problem.classes.len();
    let pools = find_pools(problem, &columns, None)?;
    Ok(pools.map(|pools| pools.pools.0.iter().map(|model| model.devices(classes)).collect()))
}

/// The feasible columns of every model under a scheme.
fn feasible_columns(
    problem: &Problem,
    scheme: Scheme,
    estimate: Option<&[f64]>,
) -> Result<Vec<Vec<Column>>, PlanError> {
    let mut all = Vec::new();
    for (at, model) in problem.models.iter().enumerate() {
        let limit = Limit {
            budget_us: model.slo.micros() as f64 * (1.0 - problem.margin),
            gather_us: estimate.map_or(0.0, |estimate| problem.building * 1e6 / estimate[at]),
            classes: &problem.classes,
            scheme,
        };
        let columns = columns(model, &limit);
        if columns.is_empty() {
            let least_us = least_latency(model, &limit).unwrap_or(f64::INFINITY).ceil();
            return Err(PlanError::Infeasible {
                model: model.name.clone(),
                slo: model.slo,
                budget: Span::from_micros(limit.budget_us as u64),
                least: Span::from_micros(least_us as u64),
                needed: Span::from_micros((least_us / (1.0 - problem.margin)).ceil() as u64),
            });
        }
        all.push(columns);
    }
    Ok(all)
}

/// Fractions of the gap by which rates are reduced if the rounded pools do not fit.
const RATE_REDUCTIONS: [f64; 3] = [0.25, 0.6, 0.95];

/// Pools, and the bound of the objective.
struct BoundedPools {
    pools: Pools,
    bound: f64,
}

/// The best pools over these columns. `None`: infeasible.
fn find_pools(
    problem: &Problem,
    columns: &[Vec<Column>],
    allotment: Option<&[Vec<u32>]>,
) -> Result<Option<BoundedPools>, PlanError> {
    let run = |columns: &[Vec<Column>], integer_pools| {
        let mip = Mip {
            problem,
            columns,
            integer_pools,
            allotment,
        };
        mip.solve()
    };
    // First with fractional shares. The rounded pools mostly fit.
    let cheapest: Vec<Vec<Column>> = columns
        .iter()
        .map(|columns| undominated(columns, false))
        .collect();
    let Some(loose) = run(&cheapest, false)? else {
        return Ok(None);
    };
    let mut bound = loose.bound;
    let mut best: Option<Pools> = None;
    let consider = |best: &mut Option<Pools>, bound: f64, columns: &[Vec<Column>], flows: &[Vec<f64>]| {
        let pools = Pools::from_flows(columns, flows);
        let fits = pools.fits(problem) && pools.respects_allotment(problem, allotment);
        if fits && best.as_ref().is_none_or(|best| is_better(problem, &pools, best)) {
            *best = Some(pools);
        }
        best.as_ref()
            .is_some_and(|best| is_within_gap(problem, best.objective(problem), bound))
    };
    let mut done = consider(&mut best, bound, &cheapest, &loose.flows);
    // Slightly lower rates, within the gap, may need fewer devices.
    for fraction in RATE_REDUCTIONS {
        if done {
            break;
        }
        let factor = 1.0 - fraction * problem.gap;
        let flows: Vec<Vec<f64>> = loose
            .flows
            .iter()
            .map(|flows| flows.iter().map(|flow| flow * factor).collect())
            .collect();
        done = consider(&mut best, bound, &cheapest, &flows);
    }
    let searched = matches!(problem.scheme, Scheme::Pooled { .. })
        && allotment.is_none()
        && problem.objective == Objective::Throughput;
    if !done && searched {
        let range = search::narrow(problem, columns, Range { best, bound })?;
        (best, bound) = (range.best, range.bound);
        let reached = best.as_ref().map(|best| best.objective(problem));
        done = reached.is_some_and(|reached| is_within_gap(problem, reached, bound));
    }
    // If the search does not apply to this problem, or found too little, the program has integral pools: first over the
    // columns in use, then over all.
    done = done || {
        let in_use: Vec<Vec<Column>> = cheapest.iter().zip(&loose.flows).map(columns_in_use).collect();
        run(&in_use, true)?.is_some_and(|flows| consider(&mut best, bound, &in_use, &flows.flows))
    };
    if !done
        && (!searched || best.is_none())
        && let Some(strict) = run(columns, true)?
    {
        consider(&mut best, bound, columns, &strict.flows);
        bound = tighter_bound(problem, bound, strict.bound);
    }
    Ok(best.map(|pools| BoundedPools { pools, bound }))
}

fn is_better(problem: &Problem, a: &Pools, b: &Pools) -> bool {
    let (a, b) = (a.objective(problem), b.objective(problem));
    match problem.objective {
        Objective::Throughput => a > b,
        Objective::Cost { .. } => a < b,
    }
}

/// The columns with positive flow.
fn columns_in_use((columns, flows): (&Vec<Column>, &Vec<f64>)) -> Vec<Column> {
    columns
        .iter()
        .zip(flows)
        .filter(|(_, flow)| **flow > 0.0)
        .map(|(column, _)| column.clone())
        .collect()
}

/// True if the objective is within the gap of the bound.
fn is_within_gap(problem: &Problem, objective: f64, bound: f64) -> bool {
    // Rounding by the solver's tolerance is not counted.
    let gap = problem.gap + 4e-6;
    match problem.objective {
        Objective::Throughput => objective >= bound * (1.0 - gap),
        Objective::Cost { .. } => objective <= bound * (1.0 + gap) + 1e-9,
    }
}

fn tighter_bound(problem: &Problem, a: f64, b: f64) -> f64 {
    match problem.objective {
        Objective::Throughput => a.min(b),
        Objective::Cost { .. } => a.max(b),
    }
}

fn too_small_error(problem: &Problem) -> PlanError {
    match problem.objective {
        Objective::Throughput => PlanError::TooSmall(
            "the cluster is too small to run every model at once; add devices of the classes that meet their SLOs".into(),
        ),
        Objective::Cost { rate } => {
            let most = solve(&Problem { objective: Objective::Throughput, ..problem.clone() });
            let most = most.map_or(0.0, |solution| solution.objective);
            PlanError::TooSmall(format!(
                "the cluster cannot carry {rate} items a second over weight, only {most:.1}; ask for less or add devices"
            ))
        }
    }
}

impl BoundedPools {
    fn solution(&self, problem: &Problem) -> Solution {
        let objective = self.pools.objective(problem);
        let model = |(pools, model): (&ModelPools, &crate::problem::ServedModel)| ModelPlan {
            model: model.name.clone(),
            pipelines: pools
                .pipelines
                .iter()
                .map(|(column, pools)| pipeline(problem, column, pools))
                .collect(),
            throughput: pools.throughput(),
        };
        Solution {
            models: self.pools.0.iter().zip(&problem.models).map(model).collect(),
            objective,
            // The bound is exact only up to the solver's tolerance.
            bound: match problem.objective {
                Objective::Throughput => self.bound.max(objective),
                Objective::Cost { .. } => self.bound.min(objective),
            },
            devices: self.pools.devices(problem.classes.len()),
        }
    }
}

fn pipeline(problem: &Problem, column: &Column, pools: &[u32]) -> PipelinePlan {
    let stage = |(leg, &pool): (&ColumnStage, &u32)| StagePlan {
        from: leg.blocks.0 as u32,
        to: leg.blocks.1 as u32,
        class: problem.classes[leg.class].name.clone(),
        shares: leg.shares,
        pool,
        duration: Span::from_micros(leg.us),
        transfer: Span::from_secs_f64(leg.transfer_us / 1e6),
    };
    PipelinePlan {
        batch: column.batch,
        stages: column.stages.iter().zip(pools).map(stage).collect(),
        throughput: throughput(column, pools),
        latency: Span::from_secs_f64(column.latency_us / 1e6),
    }
}
