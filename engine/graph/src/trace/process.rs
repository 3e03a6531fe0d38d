//! The arrival process: the gaps between requests at a given mean rate.

use rand::{Rng, RngExt};
use rand_distr::{Distribution, Gamma};
use serde::{Deserialize, Deserializer, Serialize};

/// Greatest coefficient of variation of gaps. Beyond it nearly all gaps are zero, and a mean over thousands of them is
/// still far from the rate.
pub const MAX_CV: f64 = 10.0;
/// Below this, gamma gaps are equal to a tenth of a percent, and the sampler's parameters lose their digits.
const MIN_CV: f64 = 1e-3;

/// A stationary process of unit rate. In a trace its time runs at the current rate, so that gaps across slots and across
/// silent slots are right.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArrivalProcess {
    /// Independent arrivals, as of many users: exponential gaps, whose coefficient of variation is 1.
    #[default]
    Poisson,
    /// Independent gamma-distributed gaps: more regular than Poisson below a coefficient of variation of 1, burstier above.
    Gamma {
        /// Coefficient of variation of the gaps, from 0 (equal gaps) to [`MAX_CV`].
        #[serde(deserialize_with = "checked_cv")]
        cv: f64,
    },
    /// Equal gaps, as of a camera.
    Uniform,
}

fn checked_cv<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let cv = f64::deserialize(deserializer)?;
    if (0.0..=MAX_CV).contains(&cv) {
        return Ok(cv);
    }
    let message = format!("`cv` of gaps must lie between 0 and {MAX_CV}, not {cv}");
    Err(serde::de::Error::custom(message))
}

/// Draws the gaps of a process.
#[derive(Debug, Clone, Copy)]
pub(super) enum GapSampler {
    Exponential,
    Gamma { gaps: Gamma<f64>, biased: Gamma<f64> },
    Equal,
}

impl GapSampler {
    pub(super) fn new(process: ArrivalProcess) -> Self {
        match process {
            ArrivalProcess::Poisson => Self::Exponential,
            ArrivalProcess::Gamma { cv } if cv > MIN_CV => {
                let spread = cv.min(MAX_CV).powi(2);
                let gamma = |shape| Gamma::new(shape, spread);
                match (gamma(1.0 / spread), gamma(1.0 / spread + 1.0)) {
                    (Ok(gaps), Ok(biased)) => Self::Gamma { gaps, biased },
                    _ => Self::Equal,
                }
            }
            ArrivalProcess::Gamma { .. } | ArrivalProcess::Uniform => Self::Equal,
        }
    }

    /// A gap between two arrivals; 1 in the mean.
    pub(super) fn gap(&self, random: &mut impl Rng) -> f64 {
        match self {
            Self::Exponential => exponential(random),
            Self::Gamma { gaps, .. } => gaps.sample(random),
            Self::Equal => 1.0,
        }
    }

    /// The residual gap: from a time chosen independently of arrivals to the next of them. Such a time falls into long gaps
    /// more often, in proportion to their length, and uniformly within them: a uniform fraction of a length-biased gap,
    /// which for a gamma distribution is one of a shape greater by 1. So counts match the integral of the rate from the
    /// start.
    pub(super) fn residual(&self, random: &mut impl Rng) -> f64 {
        match self {
            Self::Exponential => exponential(random),
            Self::Gamma { biased, .. } => random.random::<f64>() * biased.sample(random),
            Self::Equal => random.random(),
        }
    }
}

fn exponential(random: &mut impl Rng) -> f64 {
    -(1.0 - random.random::<f64>()).ln()
}
