//! Published block latencies of PPipe, with the published plans and simulations, read in place from the asset
//! pack (`WEIR_ASSETS`). The project contains none of these data; without the pack it uses the synthetic
//! profiles of `config/profiles`.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use thiserror::Error;
use weir_planner::{BlockTimes, Blocks, Class, Objective, Problem, Scheme, ServedModel};
use weir_types::Span;

/// Fraction of the SLO that a plan must leave unused (PPipe 7.1).
pub const MARGIN: f64 = 0.4;
/// Charge for gathering a batch in the published plans.
pub const BUILDING: f64 = 1.3;
/// Weights of a group's three models on the trace of 2019 ("Poisson").
pub const WEIGHTS_2019: [f64; 3] = [0.30, 0.33, 0.37];
/// Weights of a group's three models on the trace of 2021 ("Bursty").
pub const WEIGHTS_2021: [f64; 3] = [0.39, 0.26, 0.35];

/// Error in the published files.
#[derive(Debug, Error)]
pub enum PublishedError {
    /// A file or folder cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A file has unexpected contents.
    #[error("{}: line {line}: {what}", path.display())]
    Content {
        /// Path of the file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// Problem with that line.
        what: String,
    },
}

/// The four clusters of the evaluation (Table 1): 25 devices of the high class, 75 of the low one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cluster {
    /// The high class.
    pub high: &'static str,
    /// The low class.
    pub low: &'static str,
    /// Number of devices per server: high class, low class.
    pub per_server: (u32, u32),
    /// Usable capacity of links in bits per second.
    pub bandwidth_bps: u64,
}

impl Cluster {
    /// Clusters in the order of the paper: HC1 to HC4. Links carry 10 Gb/s in practice, 6 Gb/s with P4
    /// devices.
    pub const ALL: [Self; 4] = [
        Self {
            high: "L4",
            low: "P4",
            per_server: (1, 1),
            bandwidth_bps: 6_000_000_000,
        },
        Self {
            high: "L4",
            low: "T4",
            per_server: (4, 2),
            bandwidth_bps: 10_000_000_000,
        },
        Self {
            high: "V100",
            low: "P4",
            per_server: (2, 1),
            bandwidth_bps: 6_000_000_000,
        },
        Self {
            high: "V100",
            low: "T4",
            per_server: (4, 2),
            bandwidth_bps: 10_000_000_000,
        },
    ];

    /// Name of the cluster in published files, such as `L4-P4`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}-{}", self.high, self.low)
    }

    /// Device classes of the cluster, high class first, with these numbers of devices.
    #[must_use]
    pub fn classes(&self, high: u32, low: u32) -> Vec<Class> {
        let class = |name: &str, count, per_server| Class {
            name: name.to_owned(),
            count,
            per_server,
            bandwidth_bps: self.bandwidth_bps,
            cost: 1.0,
        };
        vec![
            class(self.high, high, self.per_server.0),
            class(self.low, low, self.per_server.1),
        ]
    }
}

/// Line of the published objectives.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedPlan {
    /// `bl` (no partitioning), `dart-r` or `v4` (PPipe).
    pub algorithm: String,
    /// The models of the group.
    pub models: Vec<String>,
    /// Weight of each model.
    pub weights: Vec<f64>,
    /// Throughput of each model in items per second.
    pub throughputs: Vec<f64>,
    /// Least throughput divided by weight.
    pub objective: f64,
}

impl PublishedPlan {
    /// Scheme of its algorithm; `None` if the name is unknown.
    #[must_use]
    pub fn scheme(&self) -> Option<Scheme> {
        match self.algorithm.as_str() {
            "bl" => Some(Scheme::Np),
            "dart-r" => Some(Scheme::DartR),
            "v4" => Some(Scheme::Pooled { partitions: 2 }),
            _ => None,
        }
    }
}

/// Line of the published load factors at which 99 % were in time.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedLoad {
    /// The group, 0 for the paper's G1.
    pub group: u32,
    /// Name of the model.
    pub model: String,
    /// `v4`, `bl` or `dart-r`.
    pub algorithm: String,
    /// Rate in items per second that corresponds to load factor 1.
    pub rate: f64,
    /// The load factor, by seed.
    pub load_factors: Vec<f64>,
}

/// The published files of PPipe.
#[derive(Debug, Clone)]
pub struct Published {
    folder: PathBuf,
}

impl Published {
    /// Published files of the asset pack at `assets`.
    #[must_use]
    pub fn in_assets(assets: &Path) -> Self {
        Self {
            folder: assets.join("profiles/ppipe"),
        }
    }

    /// Reads the asset pack that `WEIR_ASSETS` names; `None` if it is unset or the pack lacks the files.
    #[must_use]
    pub fn from_env() -> Option<Self> {
        let published = Self::in_assets(Path::new(&std::env::var_os("WEIR_ASSETS")?));
        published.folder.is_dir().then_some(published)
    }

    /// The 18 models that are evaluated.
    ///
    /// # Errors
    /// When the list cannot be read.
    pub fn models(&self) -> Result<Vec<String>, PublishedError> {
        let list = Lines::read(self.folder.join("model_list.txt"))?;
        Ok(list.text.split_whitespace().map(str::to_owned).collect())
    }

    /// A model's SLO: five times its mean time on an L4, rounded down to a microsecond.
    ///
    /// # Errors
    /// When the summary cannot be read or does not have the model.
    pub fn slo(&self, model: &str) -> Result<Span, PublishedError> {
        let lines = Lines::read(self.folder.join("dnn_summary.csv"))?;
        for (number, fields) in lines.rows(',').skip(1) {
            if fields[0] == model {
                return Ok(Span::from_micros(lines.field::<f64>(number, &fields, 2)? as u64));
            }
        }
        Err(lines.wrong(1, format!("no model \"{model}\"")))
    }

    /// A model's blocks with their times on the classes named.
    ///
    /// # Errors
    /// When one of its files is missing or does not fit the others.
    pub fn blocks(&self, model: &str, classes: &[&str]) -> Result<Blocks, PublishedError> {
        let mut times = Vec::new();
        for &class in classes {
            for shares in 1..=4 {
                let path = self
                    .folder
                    .join(format!("block-timing/{model}-{class}-{shares}.csv"));
                // P4 has the whole device only.
                if shares == 1 || path.exists() {
                    times.push(block_times(path, class, shares)?);
                }
            }
        }
        Ok(Blocks {
            layers: Vec::new(),
            model: model.to_owned(),
            boundary_bytes: self.boundaries(model)?,
            times,
        })
    }

    fn boundaries(&self, model: &str) -> Result<Vec<u64>, PublishedError> {
        let folder = self.folder.join("block-mappings").join(model);
        let unreadable = |source| PublishedError::File {
            path: folder.clone(),
            source,
        };
        let mut paths = Vec::new();
        for entry in fs::read_dir(&folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let is_sizes = path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("contraction_trans-size"));
            if is_sizes {
                paths.push(path);
            }
        }
        paths.sort();
        let path = paths.into_iter().next().ok_or_else(|| {
            unreadable(std::io::Error::new(
                std::io::ErrorKind::NotFound,
                "no contraction_trans-size*.csv",
            ))
        })?;
        let lines = Lines::read(path)?;
        lines
            .rows(',')
            .map(|(number, fields)| lines.field(number, &fields, 0))
            .collect()
    }

    /// The problem of planning `models` with `weights` on a cluster's classes, as it was published.
    ///
    /// # Errors
    /// When a profile cannot be read.
    pub fn problem(
        &self,
        models: &[String],
        weights: &[f64],
        classes: Vec<Class>,
        scheme: Scheme,
    ) -> Result<Problem, PublishedError> {
        let names: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
        let mut served = Vec::new();
        for (model, &weight) in models.iter().zip(weights) {
            served.push(ServedModel {
                name: model.clone(),
                slo: self.slo(model)?,
                weight,
                blocks: self.blocks(model, &names)?,
            });
        }
        Ok(Problem {
            classes,
            models: served,
            objective: Objective::Throughput,
            scheme,
            margin: MARGIN,
            building: BUILDING,
            gap: 5e-5,
        })
    }

    /// The published objectives, for L4 and P4.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn plans(&self) -> Result<Vec<PublishedPlan>, PublishedError> {
        let lines = Lines::read(self.folder.join("plan_objectives_L4-P4.csv"))?;
        lines
            .rows(',')
            .skip(1)
            .map(|(number, fields)| {
                Ok(PublishedPlan {
                    algorithm: lines.field(number, &fields, 1)?,
                    models: lines.list(number, &fields, 6)?,
                    weights: lines.list(number, &fields, 5)?,
                    throughputs: lines.list(number, &fields, 7)?,
                    objective: lines.field(number, &fields, 8)?,
                })
            })
            .collect()
    }

    /// The published load factors, for L4 and P4.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn loads(&self) -> Result<Vec<PublishedLoad>, PublishedError> {
        let lines = Lines::read(self.folder.join("load_factor_L4-P4.csv"))?;
        lines
            .rows(',')
            .skip(1)
            .map(|(number, fields)| {
                Ok(PublishedLoad {
                    group: lines.field(number, &fields, 2)?,
                    model: lines.field(number, &fields, 3)?,
                    algorithm: lines.field(number, &fields, 4)?,
                    rate: lines.field(number, &fields, 5)?,
                    load_factors: (6..fields.len())
                        .map(|at| lines.field(number, &fields, at))
                        .collect::<Result<_, _>>()?,
                })
            })
            .collect()
    }
}

/// A row a block, a column a batch size from 1 up.
fn block_times(path: PathBuf, class: &str, shares: u32) -> Result<BlockTimes, PublishedError> {
    let lines = Lines::read(path)?;
    let mut us = Vec::new();
    for (number, fields) in lines.rows(',') {
        let row = (0..fields.len())
            .map(|at| lines.field(number, &fields, at))
            .collect::<Result<Vec<u64>, _>>()?;
        us.push(row);
    }
    let sizes = us.first().map_or(0, Vec::len);
    Ok(BlockTimes {
        class: class.to_owned(),
        shares,
        batch: (1..).take(sizes).collect(),
        us,
        whole_us: Vec::new(),
    })
}

/// A file of separated values without quotes.
struct Lines {
    path: PathBuf,
    text: String,
}

impl Lines {
    fn read(path: PathBuf) -> Result<Self, PublishedError> {
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Self { path, text }),
            Err(source) => Err(PublishedError::File { path, source }),
        }
    }

    /// Rows that are not empty, numbered from 1.
    fn rows(&self, separator: char) -> impl Iterator<Item = (usize, Vec<&str>)> {
        self.text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty())
            .map(move |(at, line)| (at + 1, line.split(separator).map(str::trim).collect()))
    }

    fn field<T: FromStr>(&self, line: usize, fields: &[&str], at: usize) -> Result<T, PublishedError> {
        let text = fields
            .get(at)
            .ok_or_else(|| self.wrong(line, format!("has no column {}", at + 1)))?;
        text.parse().map_err(|_| {
            self.wrong(
                line,
                format!("\"{text}\" in column {} is no value of its kind", at + 1),
            )
        })
    }

    /// A column that holds values between bars.
    fn list<T: FromStr>(&self, line: usize, fields: &[&str], at: usize) -> Result<Vec<T>, PublishedError> {
        let text: String = self.field(line, fields, at)?;
        let parts: Vec<&str> = text.split('|').collect();
        (0..parts.len())
            .map(|part| self.field(line, &parts, part))
            .collect()
    }

    fn wrong(&self, line: usize, what: String) -> PublishedError {
        PublishedError::Content {
            path: self.path.clone(),
            line,
            what,
        }
    }
}
