//! Dual prices of the LP relaxation.
//!
//! With fractional devices, maximising the least throughput over weight is a linear program. Its dual prices each device
//! class such that the price of the cluster equals that throughput and no pipeline serves an item a second for less than
//! its model's unit cost. The *reduced cost* of a bundle is the price of its devices less the cost of its rate. A plan
//! of a given throughput has a bounded total reduced cost, by which [`crate::search`] prunes.

use microlp::{ComparisonOp, OptimizationDirection, Variable};

use crate::column::Column;
use crate::error::PlanError;
use crate::problem::Problem;

/// Prices at which no plan, integral or fractional, has a least throughput over weight above `cluster_price`.
#[derive(Debug, Clone)]
pub(super) struct Duals {
    /// Price of a device, by class.
    pub(super) device_prices: Vec<f64>,
    /// Price of an item a second, by model: the least over its pipelines.
    pub(super) unit_costs: Vec<f64>,
    /// Price of all devices: an upper bound of the throughput over weight.
    pub(super) cluster_price: f64,
}

impl Duals {
    /// Optimal prices for these columns, at least one a model.
    pub(super) fn solve(problem: &Problem, columns: &[Vec<Column>]) -> Result<Self, PlanError> {
        let scale = scale(problem, columns);
        let mut lp = microlp::Problem::new(OptimizationDirection::Minimize);
        let classes: Vec<Variable> = problem
            .classes
            .iter()
            .map(|_| lp.add_var(1.0, (0.0, f64::INFINITY)))
            .collect();
        let mut normalisation = Vec::new();
        for (model, columns) in problem.models.iter().zip(columns) {
            let unit_cost = lp.add_var(0.0, (0.0, f64::INFINITY));
            normalisation.push((unit_cost, 1.0));
            for column in columns {
                let mut terms: Vec<(Variable, f64)> = Vec::new();
                for stage in &column.stages {
                    let cost =
                        stage.cost() * model.weight * scale / f64::from(problem.classes[stage.class].count);
                    match terms.iter_mut().find(|(of, _)| *of == classes[stage.class]) {
                        Some((_, sum)) => *sum += cost,
                        None => terms.push((classes[stage.class], cost)),
                    }
                }
                terms.push((unit_cost, -1.0));
                lp.add_constraint(terms, ComparisonOp::Ge, 0.0);
            }
        }
        lp.add_constraint(normalisation, ComparisonOp::Eq, 1.0);
        let solved = lp.solve().map_err(|error| PlanError::Solver(error.to_string()))?;
        let microlp::SolveOutcome::Solution(solution) = solved else {
            return Err(PlanError::Solver("the prices of devices were not found".into()));
        };
        let price = |(class, &of): (&crate::problem::Class, &Variable)| {
            solution.var_value(of).max(0.0) * scale / f64::from(class.count.max(1))
        };
        let device_prices: Vec<f64> = problem.classes.iter().zip(&classes).map(price).collect();
        Self::from_prices(problem, columns, &device_prices)
            .ok_or_else(|| PlanError::Solver("the prices of devices are no numbers".into()))
    }

    /// Duals with these device prices, scaled such that a unit of throughput over weight costs 1. Any prices give a valid
    /// bound, so the solver's tolerance is harmless. `None`: the unit cost of every model is zero.
    pub(super) fn from_prices(
        problem: &Problem,
        columns: &[Vec<Column>],
        device_prices: &[f64],
    ) -> Option<Self> {
        let price = |column: &Column| -> f64 {
            let stages = column.stages.iter();
            stages
                .map(|stage| stage.cost() * device_prices[stage.class])
                .sum()
        };
        let unit_costs: Vec<f64> = columns
            .iter()
            .map(|columns| columns.iter().map(price).fold(f64::INFINITY, f64::min))
            .collect();
        let unit: f64 = unit_costs
            .iter()
            .zip(&problem.models)
            .map(|(unit_cost, model)| unit_cost * model.weight)
            .sum();
        if !(unit > 0.0 && unit.is_finite()) {
            return None;
        }
        let device_prices: Vec<f64> = device_prices.iter().map(|price| price / unit).collect();
        let cluster_price = device_prices
            .iter()
            .zip(&problem.classes)
            .map(|(price, class)| price * f64::from(class.count))
            .sum();
        Some(Self {
            device_prices,
            unit_costs: unit_costs.iter().map(|unit_cost| unit_cost / unit).collect(),
            cluster_price,
        })
    }
}

impl Duals {
    /// Device prices of least slack if each model has the cheapest of its known bundles (devices by class), and that slack
    /// as a fraction of the cluster's price. Each known bundle is a cutting plane. `None`: the solver failed.
    pub(super) fn cutting_plane_prices(problem: &Problem, seen: &[Vec<Vec<u32>>]) -> Option<(Vec<f64>, f64)> {
        let mut lp = microlp::Problem::new(OptimizationDirection::Maximize);
        // Price of all devices of a class together; the cluster costs 1.
        let of_class: Vec<Variable> = problem
            .classes
            .iter()
            .map(|_| lp.add_var(0.0, (0.0, 1.0)))
            .collect();
        let count = |class: usize| f64::from(problem.classes[class].count.max(1));
        for bundles in seen {
            let cheapest = lp.add_var(1.0, (0.0, 2.0));
            for bundle in bundles {
                let price = bundle
                    .iter()
                    .enumerate()
                    .map(|(class, &held)| (of_class[class], -f64::from(held) / count(class)));
                lp.add_constraint(
                    price.chain([(cheapest, 1.0)]).collect::<Vec<_>>(),
                    ComparisonOp::Le,
                    0.0,
                );
            }
        }
        lp.add_constraint(
            of_class.iter().map(|&class| (class, 1.0)).collect::<Vec<_>>(),
            ComparisonOp::Eq,
            1.0,
        );
        let Ok(microlp::SolveOutcome::Solution(solution)) = lp.solve() else {
            return None;
        };
        let device_prices = of_class
            .iter()
            .enumerate()
            .map(|(class, &of)| solution.var_value(of).max(0.0) / count(class));
        Some((device_prices.collect(), 1.0 - solution.objective()))
    }
}

/// About the greatest throughput over weight, so that coefficients of the program are near 1.
fn scale(problem: &Problem, columns: &[Vec<Column>]) -> f64 {
    let max_rate = |column: &Column| {
        let stages = column.stages.iter();
        stages
            .map(|stage| f64::from(problem.classes[stage.class].count) / stage.cost())
            .fold(f64::INFINITY, f64::min)
    };
    let of_model = |columns: &Vec<Column>| columns.iter().map(max_rate).fold(0.0, f64::max);
    columns
        .iter()
        .zip(&problem.models)
        .map(|(columns, model)| of_model(columns) / model.weight)
        .fold(f64::INFINITY, f64::min)
}
