//! Results of runs: the JSON report of each, and means over seeds with confidence intervals.

use serde::{Serialize, Serializer};
use weir_policy::Report;

use super::run::Run;
use super::sweep::Label;
use crate::bound_input::BoundCache;
use crate::world::SimulationResult;

/// A run's report with what was swept.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunReport {
    /// The report, as of a live run.
    #[serde(flatten)]
    pub report: Report,
    /// Swept keys with their values.
    #[serde(serialize_with = "in_order")]
    pub labels: Vec<(String, Label)>,
    /// Description of the arrivals.
    pub trace: String,
    /// Upper bound for any policy on these arrivals and workers; `None` if no bound is known.
    pub bound: Option<RunBound>,
}

/// The bound of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RunBound {
    /// The least `(dropped + late) / arrived`.
    pub drop_rate: f64,
    /// The most delivered a second.
    pub goodput_rps: f64,
}

impl RunReport {
    /// Builds the report of a run; `bounds` is shared by all runs of the experiment.
    #[must_use]
    pub fn new(run: &Run, ran: &SimulationResult, bounds: &BoundCache) -> Self {
        let to_run_bound = |bound: crate::bound::DeliveryBound| RunBound {
            drop_rate: bound.min_lost as f64 / (bound.arrived as f64).max(1.0),
            goodput_rps: bound.max_delivered as f64 / ran.report.run.duration_s.max(1e-9),
        };
        Self {
            report: ran.report.clone(),
            trace: run.trace.clone(),
            bound: bounds.bound(ran, &run.world).ok().map(to_run_bound),
            labels: run.labels.clone(),
        }
    }
}

/// Report of an experiment, as `--report` writes it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExperimentReport {
    /// Name of the experiment.
    pub experiment: String,
    /// Reports of the runs: combinations in the order of the file, then seeds.
    pub runs: Vec<RunReport>,
}

fn in_order<S: Serializer>(labels: &[(String, Label)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(labels.iter().map(|(key, label)| (key, label)))
}

/// A mean with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// Mean of the values.
    pub mean: f64,
    /// Half the width of the confidence interval; 0 for a single value, which has no interval.
    pub half: f64,
}

/// Quantiles at 97.5 % of Student's t for 1, 2, ... degrees of freedom.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

impl Estimate {
    /// Estimates the mean of independent values; zero if there are none.
    #[must_use]
    pub fn from_values(values: &[f64]) -> Self {
        let count = values.len() as f64;
        if values.is_empty() {
            return Self { mean: 0.0, half: 0.0 };
        }
        let mean = values.iter().sum::<f64>() / count;
        if values.len() < 2 {
            return Self { mean, half: 0.0 };
        }
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let student = STUDENT.get(values.len() - 2).copied().unwrap_or(1.96);
        let half = student * (squares / (count - 1.0) / count).sqrt();
        Self { mean, half }
    }
}

/// Summary of one combination over its seeds.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Swept keys with their values.
    pub labels: Vec<(String, Label)>,
    /// The policy: its preset with what departs from it.
    pub policy: String,
    /// Number of seeds.
    pub seeds: usize,
    /// `(dropped + late) / arrived`.
    pub drop_rate: Estimate,
    /// Lower bound of the drop rate for any policy; `None` if it is unknown for some run.
    pub bound: Option<Estimate>,
    /// Wasted device time over all device time.
    pub invalid_rate: Estimate,
    /// Delivered a second.
    pub goodput_rps: Estimate,
    /// 99th percentile of the latency of what came out, in milliseconds.
    pub p99_ms: Estimate,
    /// Expected share of right answers among those in time; `None` if it is not declared for every run.
    pub accuracy: Option<Estimate>,
    /// Right answers in time a second, likewise.
    pub right_rps: Option<Estimate>,
}

/// Runs with the same labels as one row, in their order.
#[must_use]
pub fn rows(runs: &[RunReport]) -> Vec<Row> {
    let same = |a: &RunReport, b: &RunReport| a.labels == b.labels;
    let row = |runs: &[RunReport]| {
        let over = |of: &dyn Fn(&Report) -> f64| {
            let values: Vec<f64> = runs.iter().map(|run| of(&run.report)).collect();
            Estimate::from_values(&values)
        };
        let over_known = |of: &dyn Fn(&RunReport) -> Option<f64>| {
            let values: Option<Vec<f64>> = runs.iter().map(of).collect();
            values.map(|values| Estimate::from_values(&values))
        };
        Row {
            labels: runs.first().map(|run| run.labels.clone()).unwrap_or_default(),
            policy: runs
                .first()
                .map(|run| run.report.run.policy_summary())
                .unwrap_or_default(),
            seeds: runs.len(),
            drop_rate: over(&|report| report.drop_rate),
            bound: over_known(&|run| Some(run.bound?.drop_rate)),
            invalid_rate: over(&|report| report.invalid_rate),
            goodput_rps: over(&|report| report.goodput_rps),
            p99_ms: over(&|report| report.latency_ms.p99),
            accuracy: over_known(&|run| run.report.accuracy),
            right_rps: over_known(&|run| run.report.right_rps),
        }
    };
    runs.chunk_by(same).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_student() {
        let check = |values: &[f64], mean: f64, half: f64| {
            let estimate = Estimate::from_values(values);
            assert!((estimate.mean - mean).abs() < 1e-9, "{estimate:?}");
            assert!((estimate.half - half).abs() < 1e-3, "{estimate:?}");
        };
        check(&[], 0.0, 0.0);
        check(&[3.0], 3.0, 0.0);
        check(&[1.0, 2.0, 3.0], 2.0, 4.303 / 3.0_f64.sqrt());
        check(&[2.0; 40], 2.0, 0.0);
    }
}
