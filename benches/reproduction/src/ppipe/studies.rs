//! All parts of the evaluation, run.

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

/// What came out of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Studies {
    /// Published figures beside ours; `None` without the asset pack.
    pub acceptance: Option<Acceptance>,
    /// Planning time.
    pub scaling: Vec<scaling::Point>,
    /// All groups and clusters, Poisson arrivals, weights of 2019.
    pub poisson: Clusters,
    /// The same with bursts and weights of 2021.
    pub bursty: Clusters,
    /// In time by load factor.
    pub attainment: Attainment,
    /// Reservation and reaction.
    pub ablation: Vec<AtMargin>,
    /// The second cluster's name.
    pub ablation_cluster: String,
    /// One model's plan and reservations.
    pub microscopic: Option<Microscopic>,
    /// SLO, ratio, margin.
    pub sensitivity: Vec<Vec<sensitivity::Point>>,
    /// The first cluster's name.
    pub sensitivity_cluster: String,
    /// Whether latencies are the published ones.
    pub is_published: bool,
}

impl Studies {
    /// Runs all of them on so many threads. What is timed goes first and alone.
    ///
    /// # Errors
    /// When a profile cannot be read, or a plan not made or laid out.
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
