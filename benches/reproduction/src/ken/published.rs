//! KEN's published files: durations of BERT classifiers on a V100 by batch size, and cascades of them with their accuracy
//! on Sentiment-140 and their mean duration at batch size 1.
//!
//! Of cascades only what is published is known: of a single model all, of two models the part that is handed on, which
//! follows from the mean duration, `(mean - d1) / d2`. What longer ones hand on cannot be found, and they are left out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use weir_planner::gears::{CascadeChoice, GearModel};
use weir_types::{Profile, Span, StageGear};

use super::ReproduceError;

/// Published models and cascades.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// The classifiers; `tiny1` to `tiny4` are four trainings of one net.
    pub models: Vec<GearModel>,
    /// Pareto-optimal cascades of one or two models, the most expensive first.
    pub cascades: Vec<CascadeChoice>,
    /// Number of published cascades, without repetition.
    pub published: usize,
}

impl Published {
    /// Reads the published files from the asset pack that `WEIR_ASSETS` names.
    ///
    /// # Errors
    /// [`ReproduceError`] if the asset pack is missing or a file is not valid.
    pub fn from_env() -> Result<Self, ReproduceError> {
        let assets = std::env::var_os("WEIR_ASSETS").ok_or(ReproduceError::NoAssets)?;
        Self::read(&PathBuf::from(assets).join("profiles/ken"))
    }

    /// Reads the published files from a folder.
    ///
    /// # Errors
    /// [`ReproduceError`] if a file is not valid.
    pub fn read(folder: &Path) -> Result<Self, ReproduceError> {
        let profiles = Document::read(&folder.join("bert.json"))?;
        let cascades = Document::read(&folder.join("bert_cascades.json"))?;
        let names: Vec<Vec<String>> = cascades.list("ensembles")?;
        let accuracies: Vec<f64> = cascades.list("accs")?;
        let means: Vec<f64> = cascades.list("runtime")?;
        let mut models: Vec<GearModel> = Vec::new();
        let mut index = |name: &String| -> Result<usize, ReproduceError> {
            if let Some(known) = models.iter().position(|model| model.name == *name) {
                return Ok(known);
            }
            models.push(profiles.model(name)?);
            Ok(models.len() - 1)
        };
        let mut stages = Vec::new();
        for cascade in names.iter().filter(|cascade| cascade.len() <= 2) {
            stages.push(
                cascade
                    .iter()
                    .map(&mut index)
                    .collect::<Result<Vec<usize>, _>>()?,
            );
        }
        // Figure 6 has a model that occurs in no cascade of two.
        index(&"mini".to_owned())?;
        let singles = single_durations(&names, &means);
        let facts = names
            .iter()
            .zip(&accuracies)
            .zip(&means)
            .filter(|((names, _), _)| names.len() <= 2);
        let mut choices: Vec<CascadeChoice> = Vec::new();
        for (((names, accuracy), mean), stages) in facts.zip(stages) {
            let own = |name: &String| {
                let kind = name.trim_end_matches(char::is_numeric);
                singles.get(kind).copied().unwrap_or(f64::NAN)
            };
            let reach = match names.as_slice() {
                [_] => vec![1.0],
                [first, second] => vec![1.0, ((mean - own(first)) / own(second)).clamp(0.0, 1.0)],
                _ => continue,
            };
            let stage = |model: usize| StageGear {
                model,
                certainty: 0.5,
            };
            let choice = CascadeChoice {
                stages: stages.into_iter().map(stage).collect(),
                reach,
                accuracy: *accuracy,
            };
            if !choices.contains(&choice) {
                choices.push(choice);
            }
        }
        let published = names
            .iter()
            .zip(&accuracies)
            .map(|(names, accuracy)| (names, accuracy.to_bits()));
        let published = published.collect::<std::collections::BTreeSet<_>>().len();
        Ok(Self {
            cascades: undominated(choices, &models),
            models,
            published,
        })
    }
}

/// Durations at batch size 1, from the file of cascades: that of the single model. Models that are never
/// single there have the duration of others of their kind.
fn single_durations(names: &[Vec<String>], means: &[f64]) -> BTreeMap<String, f64> {
    let mut durations = BTreeMap::new();
    // Medium is never published as a single model; its duration is that of the profile.
    durations.insert("medium".to_owned(), 0.005_065_8);
    for (names, mean) in names.iter().zip(means) {
        if let [only] = names.as_slice() {
            durations.insert(only.trim_end_matches(char::is_numeric).to_owned(), *mean);
        }
    }
    durations
}

/// Pareto-optimal choices, the most expensive first.
fn undominated(mut choices: Vec<CascadeChoice>, models: &[GearModel]) -> Vec<CascadeChoice> {
    choices.sort_by(|a, b| {
        let work = a.work(models).total_cmp(&b.work(models));
        work.then(b.accuracy.total_cmp(&a.accuracy))
    });
    let mut best = f64::NEG_INFINITY;
    choices.retain(|choice| {
        let better = choice.accuracy > best;
        best = best.max(choice.accuracy);
        better
    });
    choices.reverse();
    choices
}

/// A published JSON file.
struct Document {
    path: PathBuf,
    value: Value,
}

impl Document {
    fn read(path: &Path) -> Result<Self, ReproduceError> {
        let failed = |what: String| ReproduceError::Published {
            path: path.to_owned(),
            what,
        };
        let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        let value = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
        Ok(Self {
            path: path.to_owned(),
            value,
        })
    }

    fn failed(&self, what: impl Into<String>) -> ReproduceError {
        ReproduceError::Published {
            path: self.path.clone(),
            what: what.into(),
        }
    }

    fn list<T: serde::de::DeserializeOwned>(&self, key: &str) -> Result<Vec<T>, ReproduceError> {
        let list = self.value.get(key).cloned().unwrap_or_default();
        serde_json::from_value(list).map_err(|error| self.failed(format!("`{key}`: {error}")))
    }

    /// A model by the name that cascades have it by: `tiny3` is of the kind `tiny`.
    fn model(&self, name: &str) -> Result<GearModel, ReproduceError> {
        let kind = name.trim_end_matches(char::is_numeric);
        let published = self
            .value
            .get(kind)
            .ok_or_else(|| self.failed(format!("no model `{kind}`")))?;
        let runtime = published.get("runtime").and_then(Value::as_object);
        let mut points = Vec::new();
        for (size, seconds) in runtime.into_iter().flatten() {
            // "default" repeats one of the sizes.
            if let (Ok(size), Some(seconds)) = (size.parse::<u32>(), seconds.as_f64()) {
                points.push((size, Span::from_secs_f64(seconds)));
            }
        }
        points.sort_unstable();
        let batch: Vec<u32> = points.iter().map(|(size, _)| *size).collect();
        let memory = published.pointer("/memory/0/0").and_then(Value::as_u64);
        let (Some(profile), Some(memory)) = (Profile::new(points), memory) else {
            return Err(self.failed(format!("`{kind}` has no durations or no memory")));
        };
        Ok(GearModel {
            name: name.to_owned(),
            memory,
            profile,
            batch,
            slots: 0..1,
        })
    }
}
