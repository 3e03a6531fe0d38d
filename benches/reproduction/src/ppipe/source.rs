//! Source of models: the published block latencies of the asset pack, or the synthetic profiles that ship
//! with the project.

use std::path::{Path, PathBuf};

use weir_planner::{Blocks, Class, Objective, Problem, Scheme, ServedModel};

use super::ReproduceError;
use super::published::{BUILDING, Cluster, MARGIN, Published};
use super::synthetic::{self, MODELS};

/// Models by name, with their clusters and groups.
#[derive(Debug, Clone)]
pub enum Source {
    /// Published latencies, read in place from the asset pack.
    Published(Published),
    /// Shipped profiles in this folder.
    Synthetic(PathBuf),
}

/// Plans that are simulated are within this part of the best.
pub const GAP: f64 = 1e-4;

/// Models, cluster and options of a planning problem.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanningCase {
    /// Device classes of the cluster.
    pub classes: Vec<Class>,
    /// Names of the models.
    pub models: Vec<String>,
    /// Weight of each model.
    pub weights: Vec<f64>,
    /// Rules for partitioning models.
    pub scheme: Scheme,
    /// Fraction of the SLO that plans leave unused.
    pub margin: f64,
    /// SLO of each model relative to its latency on the fastest class.
    pub slo_scale: f64,
    /// Relative optimality gap at which planning stops.
    pub gap: f64,
}

impl PlanningCase {
    /// Planning case of the evaluation: margin 0.4, SLOs of 5 times the latency.
    #[must_use]
    pub fn paper(classes: Vec<Class>, models: &[String], weights: &[f64], scheme: Scheme) -> Self {
        Self {
            classes,
            models: models.to_vec(),
            weights: weights.to_vec(),
            scheme,
            margin: MARGIN,
            slo_scale: 5.0,
            gap: GAP,
        }
    }
}

impl Source {
    /// Published latencies if `WEIR_ASSETS` names an asset pack, else what is in `profiles`.
    #[must_use]
    pub fn from_env(profiles: &Path) -> Self {
        Published::from_env().map_or_else(|| Self::Synthetic(profiles.to_owned()), Self::Published)
    }

    /// The published files, if these are they.
    #[must_use]
    pub fn published(&self) -> Option<&Published> {
        match self {
            Self::Published(published) => Some(published),
            Self::Synthetic(_) => None,
        }
    }

    /// Clusters HC1 to HC4, or their synthetic counterparts.
    #[must_use]
    pub fn clusters(&self) -> [Cluster; 4] {
        match self {
            Self::Published(_) => Cluster::ALL,
            Self::Synthetic(_) => synthetic::CLUSTERS,
        }
    }

    /// Groups of three models, G1 first.
    ///
    /// # Errors
    /// When the published lists cannot be read.
    pub fn groups(&self) -> Result<Vec<Vec<String>>, ReproduceError> {
        let published = match self {
            Self::Published(published) => published,
            Self::Synthetic(_) => {
                let names: Vec<String> = MODELS.iter().map(|model| model.name.to_owned()).collect();
                return Ok(names.chunks(3).map(<[String]>::to_vec).collect());
            }
        };
        let mut groups: Vec<Vec<String>> = Vec::new();
        for load in published.loads()? {
            let at = load.group as usize;
            groups.resize(groups.len().max(at + 1), Vec::new());
            if !groups[at].contains(&load.model) {
                groups[at].push(load.model);
            }
        }
        Ok(groups)
    }

    /// The model of the microscopic analysis.
    ///
    /// # Errors
    /// When the published lists cannot be read.
    pub fn microscopic(&self) -> Result<String, ReproduceError> {
        let models: Vec<String> = self.groups()?.concat();
        let fcn = models.iter().find(|model| model.starts_with("fcn"));
        Ok(fcn.or(models.first()).cloned().unwrap_or_default())
    }

    /// A planning problem.
    ///
    /// # Errors
    /// When a profile cannot be read.
    pub fn problem(&self, case: &PlanningCase) -> Result<Problem, ReproduceError> {
        let PlanningCase {
            classes,
            models,
            weights,
            scheme,
            ..
        } = case;
        let mut problem = match self {
            Self::Published(published) => published.problem(models, weights, classes.clone(), *scheme)?,
            Self::Synthetic(folder) => Problem {
                classes: classes.clone(),
                models: models
                    .iter()
                    .zip(weights)
                    .map(|(name, weight)| shipped(folder, name, *weight))
                    .collect::<Result<_, _>>()?,
                objective: Objective::Throughput,
                scheme: *scheme,
                margin: MARGIN,
                building: BUILDING,
                gap: case.gap,
            },
        };
        (problem.margin, problem.gap) = (case.margin, case.gap);
        for model in &mut problem.models {
            model.slo = model.slo.scale(case.slo_scale / 5.0);
        }
        Ok(problem)
    }
}

fn shipped(folder: &Path, name: &str, weight: f64) -> Result<ServedModel, ReproduceError> {
    let path = folder.join(format!("ppipe-{name}.toml"));
    let failed = |what: String| ReproduceError::Profile {
        path: path.clone(),
        what,
    };
    let text = std::fs::read_to_string(&path).map_err(|error| failed(error.to_string()))?;
    let blocks: Blocks = toml::from_str(&text).map_err(|error| failed(error.message().to_owned()))?;
    Ok(ServedModel {
        name: name.to_owned(),
        slo: synthetic::slo(&blocks),
        weight,
        blocks,
    })
}
