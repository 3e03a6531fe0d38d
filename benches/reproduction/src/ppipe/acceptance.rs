//! Acceptance: published objectives and load factors beside ours.

use super::ReproduceError;
use super::data_plane::DataPlane;
use super::load_factor::{Case, compare};
use super::published::{Cluster, Published};
use super::setting::{mean, solve_timed};
use crate::plot::markdown;

/// Published objective, beside ours.
#[derive(Debug, Clone, PartialEq)]
pub struct Objective {
    /// `bl`, `dart-r` or `v4`.
    pub algorithm: String,
    /// First model of its group.
    pub group: String,
    /// Relative difference between our objective and the published one; NaN without a solution.
    pub difference: f64,
    /// Planning time in seconds.
    pub seconds: f64,
}

/// Comparisons with the published objectives and load factors.
#[derive(Debug, Clone, PartialEq)]
pub struct Acceptance {
    /// Comparison of all published objectives.
    pub objectives: Vec<Objective>,
    /// Comparison of all published load factors.
    pub loads: Vec<Case>,
}

impl Acceptance {
    /// Solves the published problems one at a time, then simulates the published load factors with three seeds.
    ///
    /// # Errors
    /// When something cannot be read, planned or laid out.
    pub fn run(published: &Published, threads: usize) -> Result<Self, ReproduceError> {
        let mut objectives = Vec::new();
        for plan in published.plans()? {
            let Some(scheme) = plan.scheme() else { continue };
            let classes = Cluster::ALL[0].classes(25, 75);
            let problem = published.problem(&plan.models, &plan.weights, classes, scheme)?;
            let (solution, seconds) = solve_timed(&problem);
            objectives.push(Objective {
                difference: solution.map_or(f64::NAN, |found| found.objective / plan.objective - 1.0),
                group: plan.models.first().cloned().unwrap_or_default(),
                algorithm: plan.algorithm,
                seconds,
            });
        }
        Ok(Self {
            objectives,
            loads: compare(published, DataPlane::PUBLISHED, &[1, 2, 3], threads)?,
        })
    }

    /// Largest relative difference of an objective; infinite if there is no solution.
    #[must_use]
    pub fn worst(&self) -> f64 {
        let off = |objective: &Objective| match objective.difference.abs() {
            off if off.is_nan() => f64::INFINITY,
            off => off,
        };
        self.objectives.iter().map(off).fold(0.0, f64::max)
    }

    /// Seconds for each of PPipe's problems.
    #[must_use]
    pub fn pooled_seconds(&self) -> Vec<f64> {
        let pooled = self
            .objectives
            .iter()
            .filter(|objective| objective.algorithm == "v4");
        pooled.map(|objective| objective.seconds).collect()
    }

    /// The greatest distance of one of our load factors from the nearest published seed of its case.
    #[must_use]
    pub fn farthest(&self) -> f64 {
        self.loads.iter().map(Case::off).fold(0.0, f64::max)
    }

    /// Published and our mean load factor of an algorithm.
    #[must_use]
    pub fn means(&self, algorithm: &str) -> (f64, f64) {
        let of_it = || {
            self.loads
                .iter()
                .filter(|case| case.published.algorithm == algorithm)
        };
        (
            mean(of_it().map(|case| case.means().0)),
            mean(of_it().map(|case| case.means().1)),
        )
    }

    /// The objectives, a row each.
    #[must_use]
    pub fn objectives_table(&self) -> String {
        let rows: Vec<Vec<String>> = self
            .objectives
            .iter()
            .map(|objective| {
                vec![
                    objective.algorithm.clone(),
                    objective.group.clone(),
                    format!("{:.1e}", objective.difference.abs()),
                    format!("{:.3}", objective.seconds),
                ]
            })
            .collect();
        let head = ["algorithm", "group of", "relative difference", "solved in (s)"];
        markdown(&head, &rows)
    }

    /// The load factors, a row each.
    #[must_use]
    pub fn loads_table(&self) -> String {
        let rows: Vec<Vec<String>> = self
            .loads
            .iter()
            .map(|case| {
                let (_, ours) = case.means();
                vec![
                    case.published.algorithm.clone(),
                    case.published.model.clone(),
                    format!("{ours:.3}"),
                    format!("{:.2}", case.off()),
                ]
            })
            .collect();
        let head = ["algorithm", "model", "here", "farthest seed off by"];
        markdown(&head, &rows)
    }
}
