//! The integer program over pools (PPipe A.2, by columns): how many items a second each pipeline takes, and how many
//! devices each model has of each class at each position.
//!
//! Of the pipelines of one model that pass the same classes in the same order, one is used at most, as in A.2. Devices are
//! whole per model, position and class. Whether pools are whole numbers of shares is left open at first (`whole`): it
//! rarely matters, and the program is much smaller without.

use std::collections::BTreeMap;

use microlp::{ComparisonOp, OptimizationDirection, SolveOptions, SolveOutcome, Variable};

use crate::column::Column;
use crate::error::PlanError;
use crate::problem::{Objective, Problem};

/// Nodes after which the search gives its best solution, with its gap: counts, so that they are the same everywhere. With
/// whole pools it finds the best soon and then proves it for long.
const NODES_MAX: u64 = 20_000;
const NODES_MAX_WHOLE: u64 = 20_000;

/// What a program is made of.
pub(super) struct Mip<'a> {
    pub(super) problem: &'a Problem,
    /// The pipelines of each model.
    pub(super) columns: &'a [Vec<Column>],
    /// Pools are whole numbers of shares.
    pub(super) whole: bool,
    /// Devices by model and class that nobody else may have; none where all are free for all.
    pub(super) allotted: Option<&'a [Vec<u32>]>,
}

/// A solved program.
pub(super) struct Flows {
    /// Items a second, by model and column.
    pub(super) by_column: Vec<Vec<f64>>,
    /// What no solution of the program can beat.
    pub(super) bound: f64,
}

/// Variables of one model.
#[derive(Default)]
struct Chosen {
    /// Part of `most` that a column takes, by column.
    parts: Vec<Variable>,
    /// Devices by position and class.
    devices: BTreeMap<(usize, usize), Variable>,
}

impl Mip<'_> {
    /// Solves it to within the problem's gap. `None`: there is no solution.
    pub(super) fn solve(&self) -> Result<Option<Flows>, PlanError> {
        let scale = self.scale();
        let (mut lp, least) = self.begin();
        let models: Vec<Chosen> = (0..self.columns.len())
            .map(|model| self.add_model(&mut lp, model))
            .collect();
        for (model, chosen) in models.iter().enumerate() {
            self.demand(&mut lp, model, chosen, least, scale);
        }
        self.limit_devices(&mut lp, &models);

        let mut options = SolveOptions::default();
        options.mip_gap = self.problem.gap;
        options.node_limit = Some(if self.whole { NODES_MAX_WHOLE } else { NODES_MAX });
        let solution = match lp.solve_with(options) {
            Ok(SolveOutcome::Solution(solution)) => solution,
            // With whole pools there may be another way.
            Ok(SolveOutcome::Interrupted(_)) if self.whole => return Ok(None),
            Ok(SolveOutcome::Interrupted(_)) => {
                return Err(PlanError::Solver(format!("no solution after {NODES_MAX} nodes")));
            }
            Err(microlp::Error::Infeasible) => return Ok(None),
            Err(error) => return Err(PlanError::Solver(error.to_string())),
        };
        let unit = if least.is_some() { scale } else { 1.0 };
        let flows = |(chosen, columns): (&Chosen, &Vec<Column>)| -> Vec<f64> {
            let flow = |(&part, column): (&Variable, &Column)| {
                let part = solution.var_value(part);
                // Less than the solver's tolerance is nothing.
                if part > 2e-6 {
                    part * self.most(column)
                } else {
                    0.0
                }
            };
            chosen.parts.iter().zip(columns).map(flow).collect()
        };
        Ok(Some(Flows {
            by_column: models.iter().zip(self.columns).map(flows).collect(),
            bound: solution.stats().best_bound.unwrap_or(solution.objective()) * unit,
        }))
    }

    /// The program without constraints, and the variable of the least throughput over weight where that is sought.
    fn begin(&self) -> (microlp::Problem, Option<Variable>) {
        match self.problem.objective {
            Objective::Throughput => {
                let mut lp = microlp::Problem::new(OptimizationDirection::Maximize);
                let least = lp.add_var(1.0, (0.0, f64::INFINITY));
                (lp, Some(least))
            }
            Objective::Cost { .. } => (microlp::Problem::new(OptimizationDirection::Minimize), None),
        }
    }

    /// Throughputs over weight are in this unit, so that numbers are near 1.
    fn scale(&self) -> f64 {
        let most = |columns: &Vec<Column>| columns.iter().map(|column| self.most(column)).fold(0.0, f64::max);
        self.problem
            .models
            .iter()
            .zip(self.columns)
            .map(|(model, columns)| most(columns) / model.weight)
            .fold(f64::INFINITY, f64::min)
    }

    /// Items a second that a column takes when it has the whole cluster.
    fn most(&self, column: &Column) -> f64 {
        column
            .legs
            .iter()
            .map(|leg| f64::from(self.problem.classes[leg.class].count) / leg.cost())
            .fold(f64::INFINITY, f64::min)
    }

    fn add_model(&self, lp: &mut microlp::Problem, model: usize) -> Chosen {
        let mut chosen = Chosen::default();
        let mut of_kind: BTreeMap<Vec<usize>, Vec<(Variable, f64)>> = BTreeMap::new();
        let mut needs: BTreeMap<(usize, usize), Vec<(Variable, f64)>> = BTreeMap::new();
        for column in &self.columns[model] {
            let most = self.most(column);
            let part = lp.add_var(0.0, (0.0, 1.0));
            let used = lp.add_binary_var(0.0);
            lp.add_constraint([(part, 1.0), (used, -1.0)], ComparisonOp::Le, 0.0);
            of_kind.entry(column.classes()).or_default().push((used, 1.0));
            for (position, leg) in column.legs.iter().enumerate() {
                let need = needs.entry((position, leg.class)).or_default();
                if self.whole {
                    let shares = u64::from(self.problem.classes[leg.class].count) * u64::from(leg.shares);
                    let pool = lp.add_integer_var(0.0, (0, bounded(shares)));
                    lp.add_constraint([(part, most / leg.rate), (pool, -1.0)], ComparisonOp::Le, 0.0);
                    need.push((pool, 1.0 / f64::from(leg.shares)));
                } else {
                    need.push((part, most * leg.cost()));
                }
            }
            chosen.parts.push(part);
        }
        for used in of_kind.into_values().filter(|used| used.len() > 1) {
            lp.add_constraint(used, ComparisonOp::Le, 1.0);
        }
        for ((position, class), mut need) in needs {
            let of = &self.problem.classes[class];
            let cost = match self.problem.objective {
                Objective::Throughput => 0.0,
                Objective::Cost { .. } => of.cost,
            };
            let devices = lp.add_integer_var(cost, (0, bounded(u64::from(of.count))));
            need.push((devices, -1.0));
            lp.add_constraint(need, ComparisonOp::Le, 0.0);
            chosen.devices.insert((position, class), devices);
        }
        chosen
    }

    /// A model's throughput is at least its weight times the least one, or times the rate that is asked for.
    fn demand(
        &self,
        lp: &mut microlp::Problem,
        model: usize,
        chosen: &Chosen,
        least: Option<Variable>,
        scale: f64,
    ) {
        let unit = self.problem.models[model].weight * scale;
        let mut sum: Vec<(Variable, f64)> = chosen
            .parts
            .iter()
            .zip(&self.columns[model])
            .map(|(&part, column)| (part, self.most(column) / unit))
            .collect();
        sum.extend(least.map(|least| (least, -1.0)));
        let rate = match self.problem.objective {
            Objective::Throughput => 0.0,
            Objective::Cost { rate } => rate / scale,
        };
        lp.add_constraint(sum, ComparisonOp::Ge, rate);
    }

    fn limit_devices(&self, lp: &mut microlp::Problem, models: &[Chosen]) {
        for (class, of) in self.problem.classes.iter().enumerate() {
            let mut all = Vec::new();
            let mut borrowed = Vec::new();
            for (model, chosen) in models.iter().enumerate() {
                let mut own: Vec<(Variable, f64)> = chosen
                    .devices
                    .iter()
                    .filter(|((_, at), _)| *at == class)
                    .map(|(_, &devices)| (devices, 1.0))
                    .collect();
                all.extend(own.iter().copied());
                if let Some(allotted) = self.allotted {
                    let more = lp.add_var(0.0, (0.0, f64::from(of.count)));
                    own.push((more, -1.0));
                    lp.add_constraint(own, ComparisonOp::Le, f64::from(allotted[model][class]));
                    borrowed.push((more, 1.0));
                }
            }
            lp.add_constraint(all, ComparisonOp::Le, f64::from(of.count));
            if let Some(allotted) = self.allotted {
                let taken: u32 = allotted.iter().map(|own| own[class]).sum();
                lp.add_constraint(
                    borrowed,
                    ComparisonOp::Le,
                    f64::from(of.count.saturating_sub(taken)),
                );
            }
        }
    }
}

fn bounded(count: u64) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
