//! Common setting of the studies: the device, the trace, and the evaluation of plans.

use weir_graph::{ArrivalProcess, Arrivals, Trace};
use weir_planner::gears::{
    Assignment, Beam, Evaluation, GearModel, GearProblem, LoadOrder, OperatorChoices, Operators, Overload,
    Scoring,
};
use weir_policy::gears::ShiftRule;
use weir_sim::gears::{Measure, evaluate_gears, run_gears};
use weir_sim::traces::{TraceKind, generate};
use weir_types::{GearPlan, Span, Timestamp};

use super::ReproduceError;
use super::published::Published;

/// Memory of a V100 in bytes.
pub const MEMORY: u64 = 16 << 30;
/// Latency metric to minimise: the 95th percentile.
pub const P95: Measure = Measure::Quantile(0.95);
/// Mean rate in requests per second.
pub const MEAN: f64 = 500.0;
/// Number of plans that are evaluated beside those of the paper's walk.
pub const REFINE: usize = 300;
/// Length of a trace.
pub const MINUTE: Span = Span::from_secs(60);

/// A load: one list of arrivals a seed.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// Arrival times, one list per seed.
    pub arrivals: Vec<Vec<Timestamp>>,
    /// The most requests of any second.
    pub peak: f64,
}

impl Load {
    /// The trace `tweet` of this mean for these seeds: another stretch and other arrivals for each.
    ///
    /// # Errors
    /// As [`generate`].
    pub fn tweet(mean: f64, length: Span, seeds: &[u64]) -> Result<Self, ReproduceError> {
        let trace = |seed: &u64| generate(TraceKind::Tweet, *seed, MINUTE, mean);
        let traces = seeds.iter().map(trace).collect::<Result<Vec<Trace>, _>>()?;
        let traces = traces.iter().zip(seeds);
        Ok(Self::of(
            traces
                .map(|(trace, seed)| times(trace, ArrivalProcess::Poisson, *seed, length))
                .collect(),
        ))
    }

    /// Builds a load from arrival times and determines its peak.
    #[must_use]
    pub fn of(arrivals: Vec<Vec<Timestamp>>) -> Self {
        let peak = arrivals.iter().map(|times| peak(times)).fold(1.0, f64::max);
        Self { arrivals, peak }
    }
}

/// Arrivals of a trace before `length` is over.
#[must_use]
pub fn times(trace: &Trace, process: ArrivalProcess, seed: u64, length: Span) -> Vec<Timestamp> {
    let times = Arrivals::new(trace, process, seed).take_while(|at| *at < length);
    times.map(|at| Timestamp::ZERO + at).collect()
}

/// The most arrivals within any second.
fn peak(times: &[Timestamp]) -> f64 {
    let mut first = 0;
    let mut most = 0;
    for (last, at) in times.iter().enumerate() {
        while at.since(times[first]) >= Span::from_secs(1) {
            first += 1;
        }
        most = most.max(last + 1 - first);
    }
    most as f64
}

/// The problem of one operator with the published cascades on `slots` V100, by `ranges` even ranges up to the load's peak.
#[must_use]
pub fn problem(published: &Published, slots: usize, ranges: usize, load: &Load) -> GearProblem {
    GearProblem {
        models: published
            .models
            .iter()
            .map(|model| GearModel {
                slots: 0..slots,
                ..model.clone()
            })
            .collect(),
        operators: vec![OperatorChoices {
            name: "sentiment".to_owned(),
            items: 1.0,
            cascades: published.cascades.clone(),
        }],
        slots,
        memory: MEMORY,
        ranges: (1..=ranges)
            .map(|range| load.peak * range as f64 / ranges as f64)
            .collect(),
        scoring: Scoring::Trade,
        together: Operators::Together,
        overload: Overload::Evaluate,
        order: LoadOrder::Falling,
        refine: REFINE,
        beam: Beam::default(),
        seed: 1,
    }
}

/// Mean p95 and accuracy of a plan over the seeds of a load.
#[must_use]
pub fn evaluate(problem: &GearProblem, plan: &GearPlan, assignment: &Assignment, load: &Load) -> Evaluation {
    let (mut latency, mut accuracy) = (0.0, 0.0);
    for (seed, arrivals) in (1..).zip(&load.arrivals) {
        let came_to = evaluate_gears(
            problem,
            plan,
            assignment,
            arrivals,
            ShiftRule::default(),
            P95,
            &[seed],
        );
        latency += came_to.latency;
        accuracy += came_to.accuracy;
    }
    let seeds = load.arrivals.len().max(1) as f64;
    Evaluation {
        latency: latency / seeds,
        accuracy: accuracy / seeds,
    }
}

/// Shifts a minute of a plan on the first seed of a load.
#[must_use]
pub fn shifts(problem: &GearProblem, plan: &GearPlan, assignment: &Assignment, load: &Load) -> u64 {
    let arrivals = load.arrivals.first().map_or(&[][..], Vec::as_slice);
    run_gears(problem, plan, assignment, arrivals, ShiftRule::default(), 1).shifts
}
