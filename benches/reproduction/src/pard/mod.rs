//! The evaluation of PARD (EuroSys 2026, section 5), run again: the experiments `config/experiments/pard-*.toml`, their
//! figures and tables, and a document that shows them beside what the paper says.

pub mod ablation;
pub mod document;
pub mod fixed;
pub mod naming;
pub mod outcome;
pub mod over_time;
pub mod paper;
pub mod sensitivity;
pub mod series;
pub mod studies;
pub mod study;
pub mod words;
mod write;

pub use write::write;

use std::path::PathBuf;

use crate::plot::PlotError;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// An experiment is not as it should be.
    #[error("{0}")]
    Experiment(String),
    /// The template and what fills it do not fit each other.
    #[error("the template: {0}; see template.md beside the document")]
    Template(String),
    /// A file or folder could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A figure could not be drawn.
    #[error(transparent)]
    Plot(#[from] PlotError),
}
