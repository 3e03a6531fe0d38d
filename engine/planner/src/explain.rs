//! Explanation of a plan: its pipelines and cuts, its optimality gap, and the sensitivity of its objective to resources.

use crate::problem::{Objective, Problem};
use crate::solution::{PipelinePlan, Solution};
use crate::solve::solve;

/// A resource that is increased in order to see whether it is binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
    /// A tenth more devices of the class, at least one.
    Devices(String),
    /// A tenth more SLO for the model.
    Slo(String),
    /// Twice the bandwidth for all classes.
    Links,
}

/// The objective with more of a resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Sensitivity {
    /// The increased resource.
    pub resource: Resource,
    /// The objective with it.
    pub objective: f64,
}

/// Solves the problem again with more of each resource in turn. A resource that leaves the objective unchanged is not
/// binding.
#[must_use]
pub fn sensitivity(problem: &Problem) -> Vec<Sensitivity> {
    let mut more = Vec::new();
    for (at, class) in problem.classes.iter().enumerate() {
        let mut with = problem.clone();
        with.classes[at].count += (class.count / 10).max(1);
        more.push((Resource::Devices(class.name.clone()), with));
    }
    for (at, model) in problem.models.iter().enumerate() {
        let mut with = problem.clone();
        with.models[at].slo = model.slo.scale(1.1);
        more.push((Resource::Slo(model.name.clone()), with));
    }
    let mut with = problem.clone();
    with.classes
        .iter_mut()
        .for_each(|class| class.bandwidth_bps = class.bandwidth_bps.saturating_mul(2));
    more.push((Resource::Links, with));
    let result_of = |(resource, with)| {
        solve(&with).ok().map(|solution| Sensitivity {
            resource,
            objective: solution.objective,
        })
    };
    more.into_iter().filter_map(result_of).collect()
}

/// A pipeline in one line: its stages with their percentages of the latency, and the bytes that cross each cut.
#[must_use]
pub fn describe(pipeline: &PipelinePlan, boundary_bytes: &[u64]) -> String {
    let whole = pipeline.latency.micros().max(1) as f64;
    let percent = |us: u64| 100.0 * us as f64 / whole;
    let stage = |(at, stage): (usize, &crate::solution::StagePlan)| {
        let share = if stage.shares == 1 {
            String::new()
        } else {
            format!("/{}", stage.shares)
        };
        let cut = match (
            at,
            stage
                .from
                .checked_sub(1)
                .and_then(|cut| boundary_bytes.get(cut as usize)),
        ) {
            (1.., Some(bytes)) => format!(
                "--{:.2} MB an item, {} ({:.0} %)--> ",
                *bytes as f64 / 1e6,
                stage.transfer,
                percent(stage.transfer.micros())
            ),
            _ => String::new(),
        };
        let (from, last, us) = (stage.from, stage.to.saturating_sub(1), stage.duration);
        format!(
            "{cut}blocks {from}-{last} on {} x {}{share} {us} ({:.0} %)",
            stage.pool,
            stage.class,
            percent(us.micros())
        )
    };
    let stages: Vec<String> = pipeline.stages.iter().enumerate().map(stage).collect();
    stages.join(" ")
}

/// Optimality gap: the distance from the objective to the bound, as a fraction of the objective.
#[must_use]
pub fn gap(problem: &Problem, solution: &Solution) -> f64 {
    match problem.objective {
        Objective::Throughput => (solution.bound / solution.objective - 1.0).max(0.0),
        Objective::Cost { .. } => (1.0 - solution.bound / solution.objective.max(f64::MIN_POSITIVE)).max(0.0),
    }
}
