//! Latency and accuracy of plans beside single models, fixed cascades and single models by load (Figure 8),
//! and work by accuracy of cascades (Figure 1).

use weir_planner::gears::{
    Evaluated, GearProblem, Overload, Scoring, fixed, frontier, pareto, single_models,
};

use super::ReproduceError;
use super::published::Published;
use super::setting::{Load, evaluate, problem, shifts};
use crate::plot::{Axis, Figure, Kind, Line, Panel, markdown};

/// The least accuracy at which plans are compared.
pub const ACCURACY: f64 = 0.848;
/// Ranges of load.
pub const RANGES: usize = 10;

/// Plans in a table, at most.
const MAX_ROWS: usize = 16;

/// Frontiers of latency and accuracy on a number of devices.
#[derive(Debug, Clone, PartialEq)]
pub struct TradeOff {
    /// Number of V100 devices.
    pub slots: usize,
    /// Gear plans, by ascending latency.
    pub gears: Vec<Evaluated>,
    /// Gear shifts per minute of each of these plans.
    pub shifts: Vec<u64>,
    /// Gear plans by the score as printed in the paper.
    pub ratio: Vec<Evaluated>,
    /// Gear plans, where plans that do not sustain a range are discarded.
    pub pruned: Vec<Evaluated>,
    /// Single models, the same at every load.
    pub single: Vec<Evaluated>,
    /// Fixed cascades, chosen with knowledge of the trace.
    pub fixed: Vec<Evaluated>,
    /// Single models by load.
    pub switching: Vec<Evaluated>,
}

impl TradeOff {
    /// Plans for a load on `slots` V100 devices.
    ///
    /// # Errors
    /// As [`frontier`].
    pub fn run(published: &Published, slots: usize, load: &Load) -> Result<Self, ReproduceError> {
        let problem = problem(published, slots, RANGES, load);
        let plan = |problem: &GearProblem| {
            frontier(problem, &mut |plan, assignment| {
                evaluate(problem, plan, assignment, load)
            })
        };
        let gears = plan(&problem)?;
        let singles = single_models(&problem);
        let fixed_of = |problem: &GearProblem| {
            fixed(problem, &mut |plan, assignment| {
                evaluate(problem, plan, assignment, load)
            })
        };
        let shifts = |plan: &Evaluated| shifts(&problem, &plan.plan, &plan.assignment, load);
        Ok(Self {
            slots,
            shifts: gears.iter().map(shifts).collect(),
            gears,
            ratio: plan(&GearProblem {
                scoring: Scoring::Ratio,
                ..problem.clone()
            })?,
            pruned: plan(&GearProblem {
                overload: Overload::Prune,
                ..problem.clone()
            })?,
            single: fixed_of(&singles)?,
            fixed: pareto(fixed_of(&problem)?),
            switching: plan(&singles)?,
        })
    }

    /// Lowest p95 in seconds at an accuracy of at least [`ACCURACY`].
    #[must_use]
    pub fn best(plans: &[Evaluated]) -> f64 {
        let accurate = plans.iter().filter(|plan| plan.evaluation.accuracy >= ACCURACY);
        accurate
            .map(|plan| plan.evaluation.latency)
            .fold(f64::INFINITY, f64::min)
    }

    /// Plans of the frontier that a fixed cascade, or single models by load, beat in both.
    #[must_use]
    pub fn beaten(&self) -> usize {
        let others = || self.fixed.iter().chain(&self.switching);
        let beaten = |plan: &&Evaluated| others().any(|other| other.evaluation.beats(&plan.evaluation));
        self.gears.iter().filter(beaten).count()
    }

    /// The kinds of plans with their names.
    fn kinds(&self) -> [(&'static str, &[Evaluated]); 6] {
        [
            ("gears", &self.gears),
            ("gears, score as printed", &self.ratio),
            ("gears, infeasible pruned", &self.pruned),
            ("static cascade (AlpaServe+)", &self.fixed),
            ("switching (MS+)", &self.switching),
            ("single model", &self.single),
        ]
    }

    /// Table of the best p95 by kind of plan, beside that of the best single model.
    #[must_use]
    pub fn table(&self) -> String {
        let single = Self::best(&self.single);
        let row = |(name, plans): (&str, &[Evaluated])| {
            let best = Self::best(plans);
            let times = if best.is_finite() {
                format!("{:.2}", single / best)
            } else {
                "-".to_owned()
            };
            let ms = if best.is_finite() {
                format!("{:.1}", 1e3 * best)
            } else {
                "-".to_owned()
            };
            vec![name.to_owned(), plans.len().to_string(), ms, times]
        };
        let rows: Vec<Vec<String>> = self.kinds().map(row).into();
        let head = [
            "plans",
            "on the frontier",
            "lowest p95 (ms)",
            "times below the best single model",
        ];
        markdown(&head, &rows)
    }

    /// Plans of the frontier, evenly chosen, the most accurate first.
    #[must_use]
    pub fn plans_table(&self, published: &Published) -> String {
        let row = |(plan, shifts): (&Evaluated, &u64)| {
            let cascades: Vec<String> = (plan.plan.gears.iter())
                .map(|gear| {
                    let stages = &gear.cascades[0].stages;
                    let names = stages
                        .iter()
                        .map(|stage| published.models[stage.model].name.as_str());
                    names.collect::<Vec<&str>>().join("→")
                })
                .collect();
            let mut runs: Vec<(String, usize)> = Vec::new();
            for cascade in cascades {
                match runs.last_mut() {
                    Some((last, count)) if *last == cascade => *count += 1,
                    _ => runs.push((cascade, 1)),
                }
            }
            let ranges: Vec<String> = runs
                .iter()
                .map(|(name, count)| format!("{count} x {name}"))
                .collect();
            vec![
                format!("{:.1}", 1e3 * plan.evaluation.latency),
                format!("{:.2}", 100.0 * plan.evaluation.accuracy),
                shifts.to_string(),
                ranges.join(", "),
            ]
        };
        let step = self.gears.len().div_ceil(MAX_ROWS).max(1);
        let shown = self.gears.iter().zip(&self.shifts).rev().step_by(step);
        let rows: Vec<Vec<String>> = shown.map(row).collect();
        markdown(
            &[
                "p95 (ms)",
                "accuracy (%)",
                "shifts a minute",
                "cascades from the lowest load",
            ],
            &rows,
        )
    }
}

/// Accuracy over p95.
#[must_use]
pub fn figure_8(all: &[TradeOff]) -> Figure {
    let panel = |found: &TradeOff| Panel {
        title: format!("{} V100", found.slots),
        x: Axis::new("p95 (ms)").log(),
        y: Axis::new("accuracy (%)"),
        kind: Kind::Lines(found.kinds().map(|(name, plans)| line(name, plans)).into()),
        ..Panel::default()
    };
    Figure {
        title: "Accuracy by latency (after Figure 8)".to_owned(),
        panels: all.iter().map(panel).collect(),
        columns: all.len().max(1),
        width: 1_000,
        height: 420,
    }
}

fn line(name: &str, plans: &[Evaluated]) -> Line {
    let mut points: Vec<(f64, f64)> = (plans.iter())
        .map(|plan| (1e3 * plan.evaluation.latency, 100.0 * plan.evaluation.accuracy))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    Line {
        name: name.to_owned(),
        points,
        dashed: name.starts_with("gears,"),
        step: true,
        ..Line::default()
    }
}

/// Accuracy over the mean duration at batch size 1.
#[must_use]
pub fn figure_1(published: &Published) -> Figure {
    let of = |single: bool| {
        let mut points: Vec<(f64, f64)> = (published.cascades.iter())
            .filter(|choice| (choice.stages.len() == 1) == single)
            .map(|choice| (1e3 * choice.work(&published.models), 100.0 * choice.accuracy))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    };
    let line = |name: &str, points| Line {
        name: name.to_owned(),
        points,
        ..Line::default()
    };
    Figure {
        title: "Accuracy by work (after Figure 1, left)".to_owned(),
        panels: vec![Panel {
            x: Axis::new("mean duration at batch size 1 (ms)"),
            y: Axis::new("accuracy (%)"),
            kind: Kind::Lines(vec![
                line("cascades of two", of(false)),
                line("single models", of(true)),
            ]),
            ..Panel::default()
        }],
        columns: 1,
        width: 560,
        height: 380,
    }
}
