//! A plan solved again for measured conditions, beside what the plan in force can do under them.
//!
//! The new solution is for the corrected problem, and is kept with the problem as it was declared: later measurements are
//! relative to that one too.

use std::collections::BTreeMap;

use weir_types::{AS_PLANNED, Conditions, MixShare, ModuleId, PlanGain};

use crate::error::PlanError;
use crate::partition_times::PartitionTimes;
use crate::plan_file::Plan;
use crate::problem::{BlockTimes, Class, Problem, ServedModel};
use crate::solution::{PipelinePlan, Solution, StagePlan};
use crate::solve::solve;

/// Longest duration of a block that a problem may have, in microseconds.
const MAX_BLOCK_US: f64 = 3.6e9;

/// A plan that was solved again.
#[derive(Debug, Clone, PartialEq)]
pub struct Replanned {
    /// The solution for the measured conditions, with the problem as it was declared.
    pub plan: Plan,
    /// Predicted throughput of both plans under these conditions.
    pub gain: PlanGain,
}

/// Solves the problem of `plan` for measured conditions. `modules` names the planned model of each module. `None`: the plan in
/// force is the best for them as well.
///
/// # Errors
/// If no plan meets the objectives under these conditions.
pub fn replan(
    plan: &Plan,
    modules: &[(ModuleId, String)],
    conditions: &Conditions,
) -> Result<Option<Replanned>, PlanError> {
    let problem = corrected(&plan.problem, modules, conditions);
    let solution = solve(&problem)?;
    if has_same_pipelines(&plan.solution, &solution) {
        return Ok(None);
    }
    let gain = PlanGain {
        current: thousandths(total_throughput(&problem, &plan.solution)),
        next: thousandths(total_throughput(&problem, &solution)),
    };
    let plan = Plan {
        solution,
        problem: plan.problem.clone(),
    };
    Ok(Some(Replanned { plan, gain }))
}

/// The problem with weights, durations and bandwidths as measured.
#[must_use]
pub fn corrected(problem: &Problem, modules: &[(ModuleId, String)], conditions: &Conditions) -> Problem {
    let mut problem = problem.clone();
    let ratios = duration_ratios(modules, conditions);
    let total: f64 = problem.models.iter().map(|model| model.weight).sum();
    for model in &mut problem.models {
        let module = modules.iter().find(|(_, name)| *name == model.name);
        let share = module.and_then(|(id, _)| conditions.mix.iter().find(|share| share.module == *id));
        if let Some(share) = share {
            model.weight = total * part(share.per_mille.max(1));
        }
        for times in &mut model.blocks.times {
            if let Some(ratio) = ratios.of(&model.name, &times.class) {
                scale(times, ratio);
            }
        }
    }
    let measured: Vec<Option<u64>> = problem
        .classes
        .iter()
        .map(|class| measured_bandwidth(class, conditions))
        .collect();
    for (class, measured) in problem.classes.iter_mut().zip(measured) {
        class.bandwidth_bps = measured.unwrap_or(class.bandwidth_bps);
    }
    problem
}

/// Bandwidth of a class: that of its fastest measured link. A transfer is bounded by the slower of its two ends, so with this
/// bandwidth for each class every measured transfer takes what it took, if ends are all that bounds it.
fn measured_bandwidth(class: &Class, conditions: &Conditions) -> Option<u64> {
    let links = conditions.links.iter();
    let own = links.filter(|link| link.from == class.name || link.to == class.name);
    own.map(|link| link.bandwidth_bps.max(1)).max()
}

/// Measured over profiled durations.
struct DurationRatios<'a> {
    by_model: BTreeMap<(&'a str, &'a str), f64>,
    /// Means over all models, for those that were not measured on a class.
    by_class: BTreeMap<&'a str, f64>,
}

impl DurationRatios<'_> {
    fn of(&self, model: &str, class: &str) -> Option<f64> {
        let by_model = self.by_model.get(&(model, class));
        by_model.or_else(|| self.by_class.get(class)).copied()
    }
}

fn duration_ratios<'a>(modules: &'a [(ModuleId, String)], conditions: &'a Conditions) -> DurationRatios<'a> {
    let mut by_model = BTreeMap::new();
    let mut sums: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for measured in &conditions.durations {
        let ratio = part(measured.per_mille.max(1));
        let sum = sums.entry(&measured.class).or_default();
        *sum = (sum.0 + ratio, sum.1 + 1.0);
        if let Some((_, model)) = modules.iter().find(|(id, _)| *id == measured.module) {
            by_model.insert((model.as_str(), measured.class.as_str()), ratio);
        }
    }
    let mean = |(class, (sum, count)): (&'a str, (f64, f64))| (class, sum / count);
    DurationRatios {
        by_model,
        by_class: sums.into_iter().map(mean).collect(),
    }
}

fn part(per_mille: u32) -> f64 {
    f64::from(per_mille) / f64::from(AS_PLANNED)
}

fn scale(times: &mut BlockTimes, ratio: f64) {
    let scaled = |us: &mut u64| *us = (*us as f64 * ratio).round().clamp(1.0, MAX_BLOCK_US) as u64;
    times.us.iter_mut().flatten().for_each(scaled);
    times.whole_us.iter_mut().for_each(scaled);
}

fn has_same_pipelines(one: &Solution, other: &Solution) -> bool {
    let key = |stage: &StagePlan| {
        (
            stage.from,
            stage.to,
            stage.class.clone(),
            stage.shares,
            stage.pool,
        )
    };
    let pipelines = |solution: &Solution| -> Vec<_> {
        let models = solution.models.iter();
        let all = models.flat_map(|plan| plan.pipelines.iter().map(move |pipeline| (&plan.model, pipeline)));
        all.map(|(model, pipeline)| {
            let stages: Vec<_> = pipeline.stages.iter().map(key).collect();
            (model.clone(), pipeline.batch, stages)
        })
        .collect()
    };
    pipelines(one) == pipelines(other)
}

/// Items a second of all models together, at the mix of their weights, that a solution can serve within the objectives.
#[must_use]
pub fn total_throughput(problem: &Problem, solution: &Solution) -> f64 {
    let weights: f64 = problem.models.iter().map(|model| model.weight).sum();
    let throughput = |model: &ServedModel| {
        let plan = solution.models.iter().find(|plan| plan.model == model.name);
        let pipelines = plan.map_or(&[][..], |plan| plan.pipelines.as_slice());
        let served: f64 = pipelines
            .iter()
            .map(|pipeline| pipeline_throughput(problem, model, pipeline))
            .sum();
        served / model.weight
    };
    weights
        * problem
            .models
            .iter()
            .map(throughput)
            .fold(f64::INFINITY, f64::min)
}

/// Items a second of a pipeline in the batch size that serves most within the objective; a batch may be smaller than planned.
fn pipeline_throughput(problem: &Problem, model: &ServedModel, pipeline: &PipelinePlan) -> f64 {
    let sizes = model.blocks.times.iter().flat_map(|times| &times.batch);
    let sizes = sizes.filter(|size| **size <= pipeline.batch);
    let rates = sizes.filter_map(|size| throughput_in(problem, model, pipeline, *size));
    rates.fold(0.0, f64::max)
}

/// The same in batches of `size`; `None` where they would be late, or a stage has no times for them.
fn throughput_in(problem: &Problem, model: &ServedModel, pipeline: &PipelinePlan, size: u32) -> Option<f64> {
    let blocks = &model.blocks;
    let count = blocks.boundary_bytes.len() + 1;
    let bits = |boundary: usize| Some(*blocks.boundary_bytes.get(boundary.checked_sub(1)?)? as f64 * 8.0);
    let mut latency_us = 0.0;
    let mut throughput = f64::INFINITY;
    let mut sender: Option<&Class> = None;
    for stage in &pipeline.stages {
        let class = problem.classes.iter().find(|class| class.name == stage.class)?;
        let of_stage = |times: &&BlockTimes| times.class == stage.class && times.shares == stage.shares;
        let times = blocks.times.iter().find(of_stage)?;
        let place = times.batch.binary_search(&size).ok()?;
        let (from, to) = (stage.from as usize, stage.to as usize);
        let us = PartitionTimes::new(blocks, times, place)?.us(from, to)? as f64;
        if let Some(sender) = sender {
            let bandwidth = sender.bandwidth_bps.min(class.bandwidth_bps);
            latency_us += bits(from)? * f64::from(size) * 1e6 / bandwidth as f64;
        }
        latency_us += us;
        // As in a column: a share has its part of the links of its server.
        let share_of_links = f64::from(stage.shares) * f64::from(class.per_server);
        let carried = [from, to]
            .into_iter()
            .filter(|boundary| (1..count).contains(boundary))
            .filter_map(|boundary| Some(class.bandwidth_bps as f64 / bits(boundary)? / share_of_links));
        let of_share = carried.fold(f64::from(size) * 1e6 / us.max(1.0), f64::min);
        throughput = throughput.min(of_share * f64::from(stage.pool));
        sender = Some(class);
    }
    let budget_us = model.slo.micros() as f64 * (1.0 - problem.margin);
    // A plan that takes all of the budget is not late by rounding.
    (latency_us <= budget_us * (1.0 + 1e-9) && throughput.is_finite()).then_some(throughput)
}

fn thousandths(rate: f64) -> u64 {
    (rate.max(0.0) * 1e3).round() as u64
}

impl Plan {
    /// The mix of its models' weights, by the modules that they are the models of, as thousandths.
    #[must_use]
    pub fn mix(&self, modules: &[(ModuleId, String)]) -> Vec<MixShare> {
        let weight = |name: &str| self.problem.model(name).map_or(0.0, |model| model.weight);
        let total: f64 = modules.iter().map(|(_, name)| weight(name)).sum();
        let share = |(module, name): &(ModuleId, String)| MixShare {
            module: *module,
            per_mille: (weight(name) / total.max(1e-9) * f64::from(AS_PLANNED)).round() as u32,
        };
        modules.iter().map(share).collect()
    }
}
