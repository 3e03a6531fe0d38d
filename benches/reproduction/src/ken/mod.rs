//! The evaluation of KEN (PVLDB 19(5), section 5), run again with published profiles and cascades of BERT classifiers.

pub mod ablation;
pub mod placement;
pub mod planner;
pub mod published;
pub mod robust;
pub mod setting;
pub mod studies;
pub mod trade_off;
mod write;

pub use write::write;

use std::path::PathBuf;

use weir_planner::gears::GearError;
use weir_sim::traces::RecordingError;

use crate::document::DocumentError;

/// Error of the reproduction.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// The asset pack is not available.
    #[error("KEN's published profiles are in the asset pack: set WEIR_ASSETS to its folder")]
    NoAssets,
    /// A published file cannot be used.
    #[error("{}: {what}; fetch the asset pack again", path.display())]
    Published {
        /// Path of the file.
        path: PathBuf,
        /// Problem with its contents.
        what: String,
    },
    /// No gear plan was found.
    #[error(transparent)]
    Gears(#[from] GearError),
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] RecordingError),
    /// The document cannot be written.
    #[error(transparent)]
    Document(#[from] DocumentError),
}
