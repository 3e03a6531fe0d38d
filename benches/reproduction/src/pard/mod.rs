//! Reproduction of the evaluation of PARD (EuroSys 2026, section 5): the experiments
//! `config/experiments/pard-*.toml` and `weir-*.toml`, their figures and tables, and a document that shows
//! them beside the paper's statements.

pub mod ablation;
pub mod fixed;
pub mod naming;
pub mod outcome;
pub mod over_time;
pub mod paper;
pub mod sensitivity;
pub mod series;
pub mod studies;
pub mod study;
pub mod weir_parts;
pub mod words;
mod write;

pub use write::write;

use crate::document::DocumentError;

/// Error of the reproduction.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// An experiment file is invalid.
    #[error("{0}")]
    Experiment(String),
    /// The document cannot be written.
    #[error(transparent)]
    Document(#[from] DocumentError),
}
