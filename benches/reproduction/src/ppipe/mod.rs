//! The evaluation of PPipe (ATC 2025, section 7), run again.

pub mod ablation;
pub mod acceptance;
pub mod attainment;
pub mod clusters;
pub mod data_plane;
pub mod load_factor;
pub mod microscopic;
pub mod progress;
pub mod published;
mod reactive;
pub mod scaling;
pub mod sensitivity;
pub mod setting;
pub mod source;
pub mod studies;
pub mod synthetic;
pub mod verdicts;
mod write;

pub use write::write;

use std::path::PathBuf;

use load_factor::LoadFactorError;
use published::PublishedError;

use crate::document::DocumentError;

/// Error of the reproduction.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// A published file cannot be used.
    #[error(transparent)]
    Published(#[from] PublishedError),
    /// A plan or its placement failed.
    #[error(transparent)]
    LoadFactor(#[from] LoadFactorError),
    /// A shipped profile is invalid.
    #[error("{}: {what}; write it anew with --bin ppipe-profiles", path.display())]
    Profile {
        /// Path of the profile.
        path: PathBuf,
        /// Problem with its contents.
        what: String,
    },
    /// The document cannot be written.
    #[error(transparent)]
    Document(#[from] DocumentError),
}
