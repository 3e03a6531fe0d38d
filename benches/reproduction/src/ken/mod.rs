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

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// There is no asset pack.
    #[error("KEN's published profiles are in the asset pack: set WEIR_ASSETS to its folder")]
    NoAssets,
    /// A published file.
    #[error("{}: {what}; fetch the asset pack again", path.display())]
    Published {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// There is no plan.
    #[error(transparent)]
    Gears(#[from] GearError),
    /// There is no trace.
    #[error(transparent)]
    Trace(#[from] RecordingError),
    /// The document cannot be written.
    #[error(transparent)]
    Document(#[from] DocumentError),
}
