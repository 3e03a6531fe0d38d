//! The mixed integer program over columns (PPipe A.2): the rate of each pipeline in items a second, and the devices of each
//! model by position and class.
//!
//! At most one pipeline per model and sequence of classes is used, as in A.2. Devices are integral per model, position and
//! class. Integral pools are optional (`integer_pools`): they rarely matter, and the program is much smaller without.

use std::collections::BTreeMap;

use microlp::{ComparisonOp, OptimizationDirection, SolveOptions, SolveOutcome, Variable};

use crate::column::Column;
use crate::error::PlanError;
use crate::problem::{Objective, Problem};

/// Branch-and-bound nodes after which the best solution is returned with its gap: counted rather than timed, so that the
/// result is the same on every machine. With integral pools the best is found early and proved late.
const MAX_NODES: u64 = 20_000;
const MAX_NODES_INTEGER: u64 = 20_000;

/// The input of the program.
pub(super) struct Mip<'a> {
    pub(super) problem: &'a Problem,
    /// Columns by model.
    pub(super) columns: &'a [Vec<Column>],
    /// True if pools must be whole numbers of shares.
    pub(super) integer_pools: bool,
    /// Devices reserved for each model, by model and class; `None`: no reservations.
    pub(super) allotment: Option<&'a [Vec<u32>]>,
}

/// Solution of the relaxed program.
pub(super) struct Flows {
    /// Throughput in items per second, by model and column.
    pub(super) flows: Vec<Vec<f64>>,
    /// Upper bound of the objective.
    pub(super) bound: f64,
}

/// Variables of one model.
#[derive(Default)]
struct ModelVariables {
    /// Rate of a column over its `max_rate`, by column.
    fractions: Vec<Variable>,
    /// Devices by position and class.
    devices: BTreeMap<(usize, usize), Variable>,
}

impl Mip<'_> {
    /// Solves to within the gap of the problem. `None`: infeasible.
    pub(super) fn solve(&self) -> Result<Option<Flows>, PlanError> {
        let scale = self.scale();
        let (mut lp, min_rate) = self.new_program();
        let models: Vec<ModelVariables> = (0..self.columns.len())
            .map(|model| self.add_variables(&mut lp, model))
            .collect();
        for (model, variables) in models.iter().enumerate() {
            self.add_demand(&mut lp, model, variables, min_rate, scale);
        }
        self.add_device_limits(&mut lp, &models);

        let mut options = SolveOptions::default();
        options.mip_gap = self.problem.gap;
        options.node_limit = Some(if self.integer_pools {
            MAX_NODES_INTEGER
        } else {
            MAX_NODES
        });
        let solution = match lp.solve_with(options) {
            Ok(SolveOutcome::Solution(solution)) => solution,
            // With integral pools the caller falls back to the pools of the relaxation.
            Ok(SolveOutcome::Interrupted(_)) if self.integer_pools => return Ok(None),
            Ok(SolveOutcome::Interrupted(_)) => {
                return Err(PlanError::Solver(format!("no solution after {MAX_NODES} nodes")));
            }
            Err(microlp::Error::Infeasible) => return Ok(None),
            Err(error) => return Err(PlanError::Solver(error.to_string())),
        };
        let unit = if min_rate.is_some() { scale } else { 1.0 };
        let flows = |(variables, columns): (&ModelVariables, &Vec<Column>)| -> Vec<f64> {
            let flow = |(&fraction, column): (&Variable, &Column)| {
                let fraction = solution.var_value(fraction);
                // A value below the solver's tolerance is zero.
                if fraction > 2e-6 {
                    fraction * self.max_rate(column)
                } else {
                    0.0
                }
            };
            variables.fractions.iter().zip(columns).map(flow).collect()
        };
        Ok(Some(Flows {
            flows: models.iter().zip(self.columns).map(flows).collect(),
            bound: solution.stats().best_bound.unwrap_or(solution.objective()) * unit,
        }))
    }

    /// The program without constraints, and the variable of the least throughput over weight if that is the objective.
    fn new_program(&self) -> (microlp::Problem, Option<Variable>) {
        match self.problem.objective {
            Objective::Throughput => {
                let mut lp = microlp::Problem::new(OptimizationDirection::Maximize);
                let min_rate = lp.add_var(1.0, (0.0, f64::INFINITY));
                (lp, Some(min_rate))
            }
            Objective::Cost { .. } => (microlp::Problem::new(OptimizationDirection::Minimize), None),
        }
    }

    /// Unit of throughputs over weight, so that coefficients are near 1.
    fn scale(&self) -> f64 {
        let max_rate = |columns: &Vec<Column>| {
            columns
                .iter()
                .map(|column| self.max_rate(column))
                .fold(0.0, f64::max)
        };
        self.problem
            .models
            .iter()
            .zip(self.columns)
            .map(|(model, columns)| max_rate(columns) / model.weight)
            .fold(f64::INFINITY, f64::min)
    }

    /// Items a second of a column on the whole cluster.
    fn max_rate(&self, column: &Column) -> f64 {
        column
            .stages
            .iter()
            .map(|stage| f64::from(self.problem.classes[stage.class].count) / stage.cost())
            .fold(f64::INFINITY, f64::min)
    }

    fn add_variables(&self, lp: &mut microlp::Problem, model: usize) -> ModelVariables {
        let mut variables = ModelVariables::default();
        let mut by_classes: BTreeMap<Vec<usize>, Vec<(Variable, f64)>> = BTreeMap::new();
        let mut needs: BTreeMap<(usize, usize), Vec<(Variable, f64)>> = BTreeMap::new();
        for column in &self.columns[model] {
            let max_rate = self.max_rate(column);
            let fraction = lp.add_var(0.0, (0.0, 1.0));
            let used = lp.add_binary_var(0.0);
            lp.add_constraint([(fraction, 1.0), (used, -1.0)], ComparisonOp::Le, 0.0);
            by_classes.entry(column.classes()).or_default().push((used, 1.0));
            for (position, stage) in column.stages.iter().enumerate() {
                let need = needs.entry((position, stage.class)).or_default();
                if self.integer_pools {
                    let shares = u64::from(self.problem.classes[stage.class].count) * u64::from(stage.shares);
                    let pool = lp.add_integer_var(0.0, (0, bounded_i32(shares)));
                    lp.add_constraint(
                        [(fraction, max_rate / stage.rate), (pool, -1.0)],
                        ComparisonOp::Le,
                        0.0,
                    );
                    need.push((pool, 1.0 / f64::from(stage.shares)));
                } else {
                    need.push((fraction, max_rate * stage.cost()));
                }
            }
            variables.fractions.push(fraction);
        }
        for used in by_classes.into_values().filter(|used| used.len() > 1) {
            lp.add_constraint(used, ComparisonOp::Le, 1.0);
        }
        for ((position, class), mut need) in needs {
            let of = &self.problem.classes[class];
            let cost = match self.problem.objective {
                Objective::Throughput => 0.0,
                Objective::Cost { .. } => of.cost,
            };
            let devices = lp.add_integer_var(cost, (0, bounded_i32(u64::from(of.count))));
            need.push((devices, -1.0));
            lp.add_constraint(need, ComparisonOp::Le, 0.0);
            variables.devices.insert((position, class), devices);
        }
        variables
    }

    /// The throughput of a model is at least its weight times the least throughput over weight, or times the required rate.
    fn add_demand(
        &self,
        lp: &mut microlp::Problem,
        model: usize,
        variables: &ModelVariables,
        min_rate: Option<Variable>,
        scale: f64,
    ) {
        let unit = self.problem.models[model].weight * scale;
        let mut sum: Vec<(Variable, f64)> = variables
            .fractions
            .iter()
            .zip(&self.columns[model])
            .map(|(&fraction, column)| (fraction, self.max_rate(column) / unit))
            .collect();
        sum.extend(min_rate.map(|min_rate| (min_rate, -1.0)));
        let rate = match self.problem.objective {
            Objective::Throughput => 0.0,
            Objective::Cost { rate } => rate / scale,
        };
        lp.add_constraint(sum, ComparisonOp::Ge, rate);
    }

    fn add_device_limits(&self, lp: &mut microlp::Problem, models: &[ModelVariables]) {
        for (class, of) in self.problem.classes.iter().enumerate() {
            let mut all = Vec::new();
            let mut borrowed_devices = Vec::new();
            for (model, variables) in models.iter().enumerate() {
                let mut own: Vec<(Variable, f64)> = variables
                    .devices
                    .iter()
                    .filter(|((_, at), _)| *at == class)
                    .map(|(_, &devices)| (devices, 1.0))
                    .collect();
                all.extend(own.iter().copied());
                if let Some(allotment) = self.allotment {
                    let more = lp.add_var(0.0, (0.0, f64::from(of.count)));
                    own.push((more, -1.0));
                    lp.add_constraint(own, ComparisonOp::Le, f64::from(allotment[model][class]));
                    borrowed_devices.push((more, 1.0));
                }
            }
            lp.add_constraint(all, ComparisonOp::Le, f64::from(of.count));
            if let Some(allotment) = self.allotment {
                let taken: u32 = allotment.iter().map(|own| own[class]).sum();
                lp.add_constraint(
                    borrowed_devices,
                    ComparisonOp::Le,
                    f64::from(of.count.saturating_sub(taken)),
                );
            }
        }
    }
}

fn bounded_i32(count: u64) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
