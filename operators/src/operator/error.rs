//! Why an operator cannot be made.

use thiserror::Error;
use weir_flow::SessionError;

/// An operator cannot be made.
#[derive(Debug, Error)]
pub enum OperatorError {
    /// There is none of that name.
    #[error("there is no operator {name}; there are {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The gallery cannot be read.
    #[error("gallery {folder}: {reason}")]
    Gallery {
        /// Which.
        folder: String,
        /// Why, and what to do.
        reason: String,
    },
    /// A class that is to be kept is none of the model's.
    #[error("labels: the model has no class \"{label}\"; it has {known}")]
    Label {
        /// What was asked for.
        label: String,
        /// What there is.
        known: String,
    },
    /// A model that the operator needs cannot be loaded or run.
    #[error(transparent)]
    Model(#[from] SessionError),
}
