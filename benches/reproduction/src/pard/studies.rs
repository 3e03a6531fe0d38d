//! All experiments of the reproduction, and the data that is kept of their runs.

use std::path::Path;

use weir_sim::experiment::Run;

use super::ReproduceError;
use super::naming;
use super::outcome::Keep;
use super::study::Study;

/// Results of all experiments.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Studies {
    /// Twelve workloads in the paper's setting.
    pub paper: Study,
    /// The same workloads on fixed workers.
    pub fixed: Study,
    /// Fixed workers, one module the bottleneck.
    pub bottleneck: Study,
    /// Dynamic paths and fan-out.
    pub dynamic: Study,
    /// The eleven of Table 1.
    pub ablation: Study,
    /// The same variants in another regime.
    pub regime: Study,
    /// Goodput over load.
    pub load: Study,
    /// Sweep of the SLO.
    pub slo: Study,
    /// Sweep of the quantile.
    pub quantile: Study,
    /// Sweep of the window.
    pub window: Study,
    /// Weir without each of its parts, by setting.
    pub parts: Parts,
}

/// Weir without each of its parts in turn. The whole of weir, on the same arrivals, is in the studies of [`Studies`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Parts {
    /// The twelve on fixed workers.
    pub fixed: Study,
    /// The twelve in the paper's setting.
    pub paper: Study,
    /// Dynamic paths and fan-out.
    pub dynamic: Study,
}

impl Studies {
    /// Runs all studies on `threads` threads; their files are in `folder`.
    ///
    /// # Errors
    /// [`ReproduceError::Experiment`] if a file is not valid.
    pub fn run(folder: &Path, threads: usize) -> Result<Self, ReproduceError> {
        let run = |name: &str, keep: &(dyn Fn(&Run) -> Keep + Sync)| {
            Study::run(&folder.join(format!("{name}.toml")), threads, &|_| true, keep)
        };
        let departing = |name: &str| {
            let departs = |run: &Run| !run.world.policy.departures().is_empty();
            let wanted = |run: &Run| run.world.policy.drop.name() == naming::WEIR && departs(run);
            let path = folder.join(format!("{name}.toml"));
            Study::run(&path, threads, &wanted, &|_| Keep::default())
        };
        let nothing = |_: &Run| Keep::default();
        // The bound is that of arrivals and workers, not of the policy, where workers are fixed.
        let bound = |run: &Run| Keep {
            bound: is_pard(run),
            timeline: false,
        };
        let timeline = |run: &Run| Keep {
            bound: false,
            timeline: run.seed == 1 && run.world.policy.drop.name() == naming::PARD,
        };
        Ok(Self {
            paper: run("pard-paper", &bound)?,
            fixed: run("pard-fixed", &bound)?,
            bottleneck: run("pard-bottleneck", &bound)?,
            dynamic: run("pard-dynamic", &bound)?,
            ablation: run("pard-ablation", &timeline)?,
            regime: run("pard-ablation-tight", &nothing)?,
            load: run("pard-load", &bound)?,
            slo: run("pard-slo", &nothing)?,
            quantile: run("pard-quantile", &nothing)?,
            window: run("pard-window", &nothing)?,
            parts: Parts {
                fixed: departing("weir-ablation")?,
                paper: departing("weir-ablation-paper")?,
                dynamic: departing("weir-ablation-dynamic")?,
            },
        })
    }
}

fn is_pard(run: &Run) -> bool {
    naming::policy(&run.world.policy) == naming::PARD
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use weir_graph::Catalog;
    use weir_sim::experiment::load;

    /// Without recordings: traces are generated.
    #[test]
    fn all_experiments_can_be_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/experiments");
        let mut read = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let experiment = load(&path, &Catalog::default(), &|_| None, Some(&[1]));
            assert!(!experiment.unwrap().runs().is_empty(), "{}", path.display());
            read += 1;
        }
        assert!(read >= 10);
    }
}
