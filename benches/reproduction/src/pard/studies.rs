//! All experiments of the reproduction, and what is kept of their runs.

use std::path::Path;

use weir_policy::{DropRule, Order};
use weir_sim::experiment::Run;

use super::ReproduceError;
use super::outcome::Keep;
use super::study::Study;

/// All of them, run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Studies {
    /// Twelve workloads in the paper's setting.
    pub paper: Study,
    /// The same on fixed workers.
    pub fixed: Study,
    /// Fixed workers, one module the bottleneck.
    pub bottleneck: Study,
    /// Dynamic paths and fan-out.
    pub dynamic: Study,
    /// The eleven of Table 1.
    pub ablation: Study,
    /// The same in another regime.
    pub regime: Study,
    /// Goodput over load.
    pub load: Study,
    /// SLOs.
    pub slo: Study,
    /// Quantiles.
    pub quantile: Study,
    /// Windows.
    pub window: Study,
}

impl Studies {
    /// Runs them on `threads` threads; their files are in `folder`.
    ///
    /// # Errors
    /// [`ReproduceError::Experiment`] where a file is not as it should be.
    pub fn run(folder: &Path, threads: usize) -> Result<Self, ReproduceError> {
        let run = |name: &str, keep: &(dyn Fn(&Run) -> Keep + Sync)| {
            Study::run(&folder.join(format!("{name}.toml")), threads, keep)
        };
        let nothing = |_: &Run| Keep::default();
        // The bound is that of arrivals and workers, not of the policy, where workers are fixed.
        let bound = |run: &Run| Keep {
            bound: is_pard(run),
            timeline: false,
        };
        let timeline = |run: &Run| Keep {
            bound: false,
            timeline: run.seed == 1 && matches!(run.world.policy.drop, DropRule::Pard(_)),
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
        })
    }
}

fn is_pard(run: &Run) -> bool {
    let policy = &run.world.policy;
    super::naming::policy(policy) == "pard" && policy.order == Order::Adaptive
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
