//! Published step times of language models (asset pack, `profiles/llm`), as instances.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;
use weir_files::FileError;
use weir_policy::generate::{InstanceSpec, InstanceSpecError};
use weir_types::{StepCurve, StepCurveError, StepProfile};

/// A profile has a few kilobytes.
const MAX_BYTES: u64 = 1 << 20;

/// Reason why a published profile cannot be used.
#[derive(Debug, Error)]
pub enum PublishedError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file does not have the form of the asset pack's profiles.
    #[error("{}: {what}; fetch the asset pack again", path.display())]
    Form {
        /// File of the asset pack.
        path: PathBuf,
        /// Description of the error.
        what: String,
    },
    /// The numbers in the file are not valid step times.
    #[error("{}: {source}", path.display())]
    Curve {
        /// File of the asset pack.
        path: PathBuf,
        /// Reason why the curve is invalid.
        source: StepCurveError,
    },
    /// The bounds in the file contradict each other.
    #[error("{}: {source}", path.display())]
    Spec {
        /// File of the asset pack.
        path: PathBuf,
        /// Contradiction that was found.
        source: InstanceSpecError,
    },
}

#[derive(Deserialize)]
struct Published {
    cuda_profile: Intervals,
    no_cuda_profile: Intervals,
    block_size: u32,
    max_model_len: u32,
    max_num_batched_tokens: u32,
    max_num_seqs: u32,
    num_gpu_blocks: u32,
    num_watermark_blocks: u32,
}

#[derive(Deserialize)]
struct Intervals {
    intervals: BTreeMap<String, Line>,
}

#[derive(Deserialize)]
struct Line {
    intercept: f64,
    slope: f64,
}

impl Intervals {
    /// Step curve from keys such as `(1, 101)`, as measured.
    fn curve(&self, path: &Path) -> Result<StepCurve, PublishedError> {
        let mut intervals = Vec::with_capacity(self.intervals.len());
        for (key, line) in &self.intervals {
            let ends = key.trim_matches(['(', ')']).split_once(',');
            let ends =
                ends.and_then(|(after, last)| Some((after.trim().parse().ok()?, last.trim().parse().ok()?)));
            let Some((after, last)) = ends else {
                return Err(PublishedError::Form {
                    path: path.to_owned(),
                    what: format!("\"{key}\" is no interval of tokens"),
                });
            };
            intervals.push((after, last, line.intercept, line.slope));
        }
        intervals.sort_unstable_by_key(|(after, ..): &(u32, u32, f64, f64)| *after);
        StepCurve::from_intervals(&intervals).map_err(|source| PublishedError::Curve {
            path: path.to_owned(),
            source,
        })
    }
}

/// An instance by a published profile, outliers included: as runs with it are compared. Its steps take `max_step_tokens`
/// at most, or what the profile says.
///
/// # Errors
/// [`PublishedError`]: no file, or one that is no profile.
pub fn published_instance(path: &Path, max_step_tokens: Option<u32>) -> Result<InstanceSpec, PublishedError> {
    let text = weir_files::read_text(path, MAX_BYTES)?;
    let published: Published = serde_json::from_str(&text).map_err(|error| PublishedError::Form {
        path: path.to_owned(),
        what: error.to_string(),
    })?;
    let spec = InstanceSpec {
        steps: StepProfile {
            decode: published.cuda_profile.curve(path)?,
            prompt: published.no_cuda_profile.curve(path)?,
        },
        max_step_tokens: max_step_tokens.unwrap_or(published.max_num_batched_tokens),
        max_sequences: published.max_num_seqs,
        max_sequence_tokens: published.max_model_len,
        blocks: published.num_gpu_blocks,
        block_tokens: published.block_size,
        reserve_blocks: published.num_watermark_blocks,
        // The vLLM that was measured gives the first token a step after the prompt's last chunk.
        prompt_gives_token: false,
        prefix_tokens: 0,
    };
    match spec.check() {
        Ok(()) => Ok(spec),
        Err(source) => Err(PublishedError::Spec {
            path: path.to_owned(),
            source,
        }),
    }
}

/// The same instance with step times that do not fall, which describe the device rather than one measurement
/// of it.
#[must_use]
pub fn smoothed(spec: &InstanceSpec) -> InstanceSpec {
    InstanceSpec {
        steps: StepProfile {
            decode: spec.steps.decode.smoothed(),
            prompt: spec.steps.prompt.smoothed(),
        },
        ..spec.clone()
    }
}
