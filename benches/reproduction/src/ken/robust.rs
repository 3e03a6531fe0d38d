//! Plans that were made for another load (Figure 11): half the mean, and twice the burstiness. Figure 12, other lengths of
//! inputs, is not reproduced.

use weir_graph::{ArrivalProcess, Trace};
use weir_planner::gears::{Evaluated, frontier, pareto};
use weir_sim::traces::{TraceKind, generate, with_cv};

use super::ReproduceError;
use super::published::Published;
use super::setting::{Load, MEAN, MINUTE, evaluate, problem, times};
use super::trade_off::RANGES;
use crate::plot::{Axis, Figure, Kind, Line, Panel, markdown};

/// Plans of one load, run on another.
#[derive(Debug, Clone, PartialEq)]
pub struct Robust {
    /// Difference between the two loads.
    pub name: &'static str,
    /// Plans made for the load on which they run.
    pub own: Vec<Evaluated>,
    /// Plans made for the other load, evaluated on this one.
    pub other: Vec<Evaluated>,
}

/// Plans for the trace `tweet`, run on one of half the mean and on one of twice its coefficient of variation.
///
/// # Errors
/// As [`frontier`].
pub fn run(published: &Published, planned_for: &Load, seeds: &[u64]) -> Result<Vec<Robust>, ReproduceError> {
    let planning = problem(published, 1, RANGES, planned_for);
    let plans = frontier(&planning, &mut |plan, assignment| {
        evaluate(&planning, plan, assignment, planned_for)
    })?;
    let half = Load::tweet(MEAN / 2.0, MINUTE, seeds)?;
    let bursty: Result<Vec<_>, ReproduceError> = seeds.iter().map(|seed| bursty(*seed)).collect();
    let mut out = Vec::new();
    for (name, load) in [
        ("half the mean", half),
        ("twice the burstiness", Load::of(bursty?)),
    ] {
        let problem = problem(published, 1, RANGES, &load);
        let own = frontier(&problem, &mut |plan, assignment| {
            evaluate(&problem, plan, assignment, &load)
        })?;
        let again = |plan: &Evaluated| Evaluated {
            evaluation: evaluate(&planning, &plan.plan, &plan.assignment, &load),
            ..plan.clone()
        };
        out.push(Robust {
            name,
            own,
            other: plans.iter().map(again).collect(),
        });
    }
    Ok(out)
}

/// Arrivals of the trace `tweet` with twice its coefficient of variation.
fn bursty(seed: u64) -> Result<Vec<weir_types::Timestamp>, ReproduceError> {
    let trace = generate(TraceKind::Tweet, seed, MINUTE, MEAN)?;
    // A minute cannot vary by more than its one large burst: what is reached counts.
    let wanted = [2.0, 1.8, 1.6, 1.4];
    let more = wanted
        .iter()
        .find_map(|cv| with_cv(&trace, cv * TraceKind::Tweet.cv()).ok());
    let trace: Trace = more.map_or(trace, |(trace, _)| trace);
    let trace = trace
        .scale_to(MEAN)
        .map_err(weir_sim::traces::RecordingError::from)?;
    Ok(times(&trace, ArrivalProcess::Poisson, seed, MINUTE))
}

impl Robust {
    /// For each plan made for this load: the p95 of the best other plan within a percentage point of its
    /// accuracy, relative to its own. Infinite if there is none.
    #[must_use]
    pub fn slower(&self) -> Vec<f64> {
        let at = |own: &Evaluated| {
            let near = (self.other.iter())
                .filter(|other| other.evaluation.accuracy >= own.evaluation.accuracy - 0.01)
                .map(|other| other.evaluation.latency)
                .fold(f64::INFINITY, f64::min);
            near / own.evaluation.latency
        };
        self.own.iter().map(at).collect()
    }
}

/// Table that compares plans made for the other load with plans made for this one.
#[must_use]
pub fn table(found: &[Robust]) -> String {
    let row = |robust: &Robust| {
        let slower = robust.slower();
        let within = slower.iter().filter(|times| **times <= 1.2).count();
        let mut sorted = slower.clone();
        sorted.sort_by(f64::total_cmp);
        let median = sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN);
        vec![
            robust.name.to_owned(),
            robust.own.len().to_string(),
            format!("{within}"),
            format!("{median:.2}"),
            format!("{:.2}", sorted.last().copied().unwrap_or(f64::NAN)),
        ]
    };
    let rows: Vec<Vec<String>> = found.iter().map(row).collect();
    let head = [
        "the load has",
        "plans made for it",
        "matched within a point and 20 % of p95",
        "median p95 over theirs",
        "worst",
    ];
    markdown(&head, &rows)
}

/// Both frontiers by load.
#[must_use]
pub fn figure_11(found: &[Robust]) -> Figure {
    let line = |name: &str, plans: &[Evaluated]| {
        let point = |plan: Evaluated| (1e3 * plan.evaluation.latency, 100.0 * plan.evaluation.accuracy);
        Line {
            name: name.to_owned(),
            points: pareto(plans.to_vec()).into_iter().map(point).collect(),
            step: true,
            ..Line::default()
        }
    };
    let panel = |robust: &Robust| Panel {
        title: robust.name.to_owned(),
        x: Axis::new("p95 (ms)").log(),
        y: Axis::new("accuracy (%)"),
        kind: Kind::Lines(vec![
            line("planned for this load", &robust.own),
            line("planned for another", &robust.other),
        ]),
        ..Panel::default()
    };
    Figure {
        title: "Plans that were made for another load (after Figure 11)".to_owned(),
        panels: found.iter().map(panel).collect(),
        columns: 2,
        width: 1_000,
        height: 400,
    }
}
