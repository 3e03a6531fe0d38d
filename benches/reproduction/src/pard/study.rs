//! Experiments: read, run on all cores, and what remains of their runs.

use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;

use weir_graph::Catalog;
use weir_sim::experiment::{self, Estimate, Run};

use super::ReproduceError;
use super::outcome::{Keep, Outcome};

/// Outcomes of all runs of one experiment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Study {
    /// Combinations in the order of the file, seeds within them.
    pub outcomes: Vec<Outcome>,
}

impl Study {
    /// Reads the experiment at `path` and simulates its `wanted` runs on `threads` threads. `keep` selects
    /// the data that is kept of each run.
    ///
    /// # Errors
    /// [`ReproduceError::Experiment`] if the file, or a file that it names, is not valid.
    pub fn run(
        path: &Path,
        threads: usize,
        wanted: &dyn Fn(&Run) -> bool,
        keep: &(dyn Fn(&Run) -> Keep + Sync),
    ) -> Result<Self, ReproduceError> {
        let environment = |name: &str| std::env::var(name).ok();
        let experiment = experiment::load(path, &Catalog::default(), &environment, None)
            .map_err(|problems| ReproduceError::Experiment(problems.to_string()))?;
        let runs: Vec<Run> = experiment
            .runs()
            .iter()
            .filter(|run| wanted(run))
            .cloned()
            .collect();
        let rows = Mutex::new(0);
        let progress = |done: usize| {
            let percent = 100 * done / runs.len().max(1);
            if let Ok(mut rows) = rows.lock()
                && percent / 10 > *rows
            {
                *rows = percent / 10;
                // Standard error may be closed.
                let _ = writeln!(std::io::stderr(), "{}: {percent} %", experiment.name());
            }
        };
        let reduce = |run: &Run, ran| Outcome::new(run, &ran, keep(run));
        Ok(Self {
            outcomes: experiment::run_all(&runs, threads, &reduce, &progress),
        })
    }

    /// Outcomes for which `wanted` is true.
    #[must_use]
    pub fn filter(&self, wanted: impl Fn(&Outcome) -> bool) -> Vec<&Outcome> {
        self.outcomes.iter().filter(|outcome| wanted(outcome)).collect()
    }

    /// Names of the policies, in the order of the file.
    #[must_use]
    pub fn policies(&self) -> Vec<String> {
        self.names(|outcome| outcome.policy.clone())
    }

    /// World and trace of all runs, in the order of the file.
    #[must_use]
    pub fn workloads(&self) -> Vec<(String, String)> {
        self.names(|outcome| (outcome.world.clone(), outcome.trace.clone()))
    }

    /// Different values of `of` over the outcomes, in the order of the file.
    #[must_use]
    pub fn names<T: PartialEq>(&self, of: impl Fn(&Outcome) -> T) -> Vec<T> {
        let mut names = Vec::new();
        for outcome in &self.outcomes {
            let name = of(outcome);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

/// The mean of `of` over outcomes, with its confidence.
#[must_use]
pub fn mean_of(outcomes: &[&Outcome], of: impl Fn(&Outcome) -> f64) -> Estimate {
    let values: Vec<f64> = outcomes
        .iter()
        .map(|outcome| of(outcome))
        .filter(|value| value.is_finite())
        .collect();
    Estimate::from_values(&values)
}
