//! Runs all parts of the evaluation.

use super::ReproduceError;
use super::ablation::{self, AtMargin};
use super::acceptance::Acceptance;
use super::attainment::Attainment;
use super::clusters::Clusters;
use super::microscopic::{self, Microscopic};
use super::published::{WEIGHTS_2019, WEIGHTS_2021};
use super::scaling;
use super::sensitivity;
use super::setting::Arrivals;
use super::source::Source;

/// The coefficient of variation of the gaps of bursty arrivals.
pub const BURSTY_CV: f64 = 2.0;

/// Results of all studies.
#[derive(Debug, Clone, PartialEq)]
pub struct Studies {
    /// Published figures beside ours; `None` without the asset pack.
    pub acceptance: Option<Acceptance>,
    /// Planning times by problem size.
    pub scaling: Vec<scaling::Point>,
    /// All groups and clusters with Poisson arrivals and the weights of 2019.
    pub poisson: Clusters,
    /// All groups and clusters with bursty arrivals and the weights of 2021.
    pub bursty: Clusters,
    /// SLO attainment by load factor.
    pub attainment: Attainment,
    /// Comparison of reservation and reactive dispatch.
    pub ablation: Vec<AtMargin>,
    /// Name of the cluster of that comparison.
    pub ablation_cluster: String,
    /// Plan and timeline of one model.
    pub microscopic: Option<Microscopic>,
    /// SLO, ratio, margin.
    pub sensitivity: Vec<Vec<sensitivity::Point>>,
    /// Name of the cluster of the sensitivity study.
    pub sensitivity_cluster: String,
    /// True if the published latencies were used.
    pub is_published: bool,
}

impl Studies {
    /// Runs all studies on `threads` threads. Timed studies run first, one at a time.
    ///
    /// # Errors
    /// [`ReproduceError`] if a profile cannot be read, or a plan cannot be made or placed.
    pub fn run(source: &Source, threads: usize) -> Result<Self, ReproduceError> {
        let scaling = scaling::run(source)?;
        let acceptance = source
            .published()
            .map(|published| Acceptance::run(published, threads));
        let bursts = Arrivals::Bursty { cv: BURSTY_CV };
        let seeds = [1, 2, 3];
        let poisson = Clusters::run(
            "figure 6",
            source,
            &WEIGHTS_2019,
            Arrivals::Poisson,
            &seeds,
            threads,
        )?;
        let bursty = Clusters::run("figure 6, bursts", source, &WEIGHTS_2021, bursts, &[1], threads)?;
        let [first, second, ..] = source.clusters();
        Ok(Self {
            acceptance: acceptance.transpose()?,
            scaling,
            poisson,
            bursty,
            attainment: Attainment::run(source, &[1], threads)?,
            ablation: ablation::run(source, &[1, 2], threads)?,
            ablation_cluster: second.name(),
            microscopic: microscopic::run(source)?,
            sensitivity: sensitivity::run(source, threads)?,
            sensitivity_cluster: first.name(),
            is_published: source.published().is_some(),
        })
    }
}
