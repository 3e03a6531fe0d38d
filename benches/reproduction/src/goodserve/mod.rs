//! The evaluation of GoodServe (sections 2.2 and 4), run again with published step times of language models.

pub mod figures;
pub mod lengths;
pub mod moving;
pub mod setting;
pub mod studies;
pub mod verdicts;
mod write;

pub use write::write;

use std::path::PathBuf;

use weir_sim::generate::{GenerateClusterError, PublishedError};

use crate::document::DocumentError;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// There is no asset pack.
    #[error("published step times are in the asset pack: set WEIR_ASSETS to its folder")]
    NoAssets,
    /// A published file.
    #[error(transparent)]
    Published(#[from] PublishedError),
    /// A recorded trace.
    #[error("{}: {what}; fetch the asset pack again", path.display())]
    Trace {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// There is no such cluster.
    #[error(transparent)]
    Cluster(#[from] GenerateClusterError),
    /// The document cannot be written.
    #[error(transparent)]
    Document(#[from] DocumentError),
}
