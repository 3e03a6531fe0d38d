//! The evaluation of QLM (section 8, appendix A.1), run again with recorded token lengths and published step times.

pub mod figures;
pub mod returning;
pub mod setting;
pub mod studies;
pub mod verdicts;
mod write;

pub use write::write;

use weir_sim::generate::PublishedError;
use weir_sim::queues::QueueWorldError;
use weir_sim::traces::RecordingError;

use crate::document::DocumentError;

/// Error of the reproduction.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// The asset pack is not available.
    #[error("recorded lengths and step times are in the asset pack: set WEIR_ASSETS to its folder")]
    NoAssets,
    /// A published profile cannot be used.
    #[error(transparent)]
    Published(#[from] PublishedError),
    /// The recorded lengths cannot be used.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The simulated world is invalid.
    #[error(transparent)]
    World(#[from] QueueWorldError),
    /// The document cannot be written.
    #[error(transparent)]
    Document(#[from] DocumentError),
}
