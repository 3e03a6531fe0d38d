//! Gear plans in virtual time (KEN 4.3.4): the decisions of `weir_policy::gears` over a trace of arrivals,
//! for the planner and for comparisons.
//!
//! Each request brings its items to every operator at once. An item passes the stages of the cascade that was
//! in force when it arrived, until one accepts its answer; the request is done with its last item. A single
//! draw per item, uniform from 0 to 1, decides which stages it reaches: those whose share of items is above
//! it. An item that is difficult for one model is thus difficult for all.

mod choices;
mod curve;
mod outcome;
mod planned;
mod samples;
mod world;

pub use choices::{SampledCascade, sampled_cascades};
pub use curve::{CurvePoint, SampledItem, curve, pareto};
pub use outcome::{GearOutcome, StageCounts};
pub use planned::{PlannedOutcome, PlannedWorld};
pub use samples::{SAMPLES_VERSION, SampleLine, SamplesHeader, read_samples, samples_text};

use serde::{Deserialize, Serialize};
use weir_planner::gears::{Assignment, Evaluation, GearProblem};
use weir_policy::gears::ShiftRule;
use weir_types::{GearPlan, Span, Timestamp};

/// Latency metric by which a plan is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Latency quantile in seconds; the value is the quantile, from 0 to 1.
    Quantile(f64),
    /// Share of requests that take longer than this time.
    DropRate(Span),
}

/// Runs a plan over arrivals.
#[must_use]
pub fn run_gears(
    problem: &GearProblem,
    plan: &GearPlan,
    assignment: &Assignment,
    arrivals: &[Timestamp],
    rule: ShiftRule,
    seed: u64,
) -> GearOutcome {
    world::World::new(problem, plan, assignment, rule, seed).run(arrivals)
}

/// Evaluates a gear plan by simulation: mean latency metric and mean accuracy over the seeds.
#[must_use]
pub fn evaluate_gears(
    problem: &GearProblem,
    plan: &GearPlan,
    assignment: &Assignment,
    arrivals: &[Timestamp],
    rule: ShiftRule,
    measure: Measure,
    seeds: &[u64],
) -> Evaluation {
    let (mut latency, mut accuracy) = (0.0, 0.0);
    for &seed in seeds {
        let outcome = run_gears(problem, plan, assignment, arrivals, rule, seed);
        latency += match measure {
            Measure::Quantile(quantile) => outcome.latency(quantile),
            Measure::DropRate(slo) => outcome.late(slo),
        };
        accuracy += outcome.accuracy;
    }
    let count = seeds.len().max(1) as f64;
    Evaluation {
        latency: latency / count,
        accuracy: accuracy / count,
    }
}

#[cfg(test)]
mod tests;
