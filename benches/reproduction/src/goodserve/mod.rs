//! The evaluation of GoodServe (sections 2.2 and 4), run again with published step times of language models.

pub mod figures;
pub mod lengths;
pub mod mixed;
pub mod moving;
pub mod setting;
pub mod studies;
pub mod verdicts;
mod write;

pub use write::write;

use std::path::PathBuf;

use weir_sim::generate::{GenerateClusterError, PublishedError};

use crate::document::DocumentError;

/// Error of the reproduction.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// The asset pack is not available.
    #[error("published step times are in the asset pack: set WEIR_ASSETS to its folder")]
    NoAssets,
    /// A published file cannot be used.
    #[error(transparent)]
    Published(#[from] PublishedError),
    /// A recorded trace cannot be used.
    #[error("{}: {what}; fetch the asset pack again", path.display())]
    Trace {
        /// File of the trace.
        path: PathBuf,
        /// Problem with its contents.
        what: String,
    },
    /// The simulated cluster is invalid.
    #[error(transparent)]
    Cluster(#[from] GenerateClusterError),
    /// The document cannot be written.
    #[error(transparent)]
    Document(#[from] DocumentError),
}
