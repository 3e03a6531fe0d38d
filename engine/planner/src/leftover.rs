//! Assignment of leftover devices: one model binds the least throughput over weight, and the others may gain at no cost.

use crate::problem::{Class, Problem, Scheme};
use crate::solution::{ModelPlan, Solution};
use crate::{PlanError, solve};

/// Assigns unused devices to the models in ascending order of throughput over weight: each is planned again on its own
/// devices and the unused ones, and keeps the better plan. The objective stays, since its binding model keeps its plan.
///
/// # Errors
/// If the problem without partitions cannot be solved (DART-r only).
pub fn assign_leftover(problem: &Problem, solution: &Solution) -> Result<Solution, PlanError> {
    let mut improved = solution.clone();
    let mut order: Vec<usize> = (0..improved.models.len()).collect();
    let normalised = |at: usize| solution.models[at].throughput / problem.models[at].weight;
    order.sort_by(|&one, &other| {
        normalised(one)
            .total_cmp(&normalised(other))
            .then(one.cmp(&other))
    });
    let bounds = match problem.scheme {
        Scheme::DartR => Some(device_limits(problem)?),
        Scheme::Pooled { .. } | Scheme::Np => None,
    };
    for at in order {
        let mut classes = available_classes(&problem.classes, &improved, at);
        if let Some(bounds) = &bounds {
            for (class, bound) in classes.iter_mut().zip(&bounds[at]) {
                class.count = class.count.min(*bound);
            }
        }
        let subproblem = Problem {
            classes,
            models: vec![problem.models[at].clone()],
            ..problem.clone()
        };
        let Ok(alone) = solve(&subproblem) else { continue };
        let Some(plan) = alone.models.into_iter().next() else {
            continue;
        };
        if plan.throughput > improved.models[at].throughput {
            improved.models[at] = plan;
        }
    }
    improved.devices = problem
        .classes
        .iter()
        .map(|class| {
            improved
                .models
                .iter()
                .map(|plan| devices(plan, &class.name))
                .sum()
        })
        .collect();
    Ok(improved)
}

/// Device limits by model and class under DART-r: the devices of the model's plan without partitions, plus all that are
/// idle in that plan.
fn device_limits(problem: &Problem) -> Result<Vec<Vec<u32>>, PlanError> {
    let whole = solve(&Problem {
        scheme: Scheme::Np,
        ..problem.clone()
    })?;
    let idle = |(class, used): (&Class, &u32)| class.count.saturating_sub(*used);
    let idle: Vec<u32> = problem.classes.iter().zip(&whole.devices).map(idle).collect();
    let of_model = |plan: &ModelPlan| {
        let classes = problem.classes.iter().zip(&idle);
        classes
            .map(|(class, idle)| devices(plan, &class.name) + idle)
            .collect()
    };
    Ok(whole.models.iter().map(of_model).collect())
}

/// The classes with the devices that are unused or assigned to model `at`.
fn available_classes(classes: &[Class], solution: &Solution, at: usize) -> Vec<Class> {
    let others = |class: &Class| -> u32 {
        let others = solution
            .models
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != at);
        others.map(|(_, plan)| devices(plan, &class.name)).sum()
    };
    classes
        .iter()
        .map(|class| Class {
            count: class.count.saturating_sub(others(class)),
            ..class.clone()
        })
        .collect()
}

/// Devices of a class that a model uses: shares at the same position are packed onto devices.
fn devices(plan: &ModelPlan, class: &str) -> u32 {
    let positions = plan
        .pipelines
        .iter()
        .map(|pipeline| pipeline.stages.len())
        .max()
        .unwrap_or(0);
    (0..positions)
        .map(|position| {
            let stages = plan
                .pipelines
                .iter()
                .filter_map(|pipeline| pipeline.stages.get(position));
            let used = stages
                .filter(|stage| stage.class == class)
                .map(|stage| f64::from(stage.pool) / f64::from(stage.shares.max(1)));
            (used.sum::<f64>() - 1e-9).ceil().max(0.0) as u32
        })
        .sum()
}
